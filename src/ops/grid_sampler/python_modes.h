// The modes of grid sampling, as Python names them.
#pragma once

#include <string_view>

#include "arguments.h"
#include "ops/grid_sampler/problem.h"

namespace aclgrad::ops::grid_sampler {

inline Interpolation interpolation_of(const python::Arguments& arguments, python::nb::handle object,
                                      bool has_bicubic) {
  const std::string_view mode = arguments.text("mode", object);
  if (mode == "bilinear") return Interpolation::bilinear;
  if (mode == "nearest") return Interpolation::nearest;
  arguments.check(has_bicubic && mode == "bicubic", "mode",
                  has_bicubic ? "'bilinear', 'nearest' or 'bicubic'" : "'bilinear' or 'nearest'", mode);
  return Interpolation::bicubic;
}

inline Padding padding_of(const python::Arguments& arguments, python::nb::handle object) {
  const std::string_view mode = arguments.text("padding_mode", object);
  if (mode == "zeros") return Padding::zeros;
  if (mode == "border") return Padding::border;
  arguments.check(mode == "reflection", "padding_mode", "'zeros', 'border' or 'reflection'", mode);
  return Padding::reflection;
}

}  // namespace aclgrad::ops::grid_sampler
