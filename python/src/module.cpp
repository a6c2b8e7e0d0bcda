// aclgrad._core: the operators over arrays of Python. What a user sees, and its documentation, is in Python.
#include <nanobind/nanobind.h>

#include "aclgrad/types.h"
#include "functions.h"

NB_MODULE(_core, module) {
  using namespace aclgrad;
  module.attr("__version__") = ACLGRAD_VERSION;
  module.def("thread_count", thread_count);
  module.def("set_thread_count", set_thread_count);
  python::add_multi_scale_deformable_attention(module);
  python::add_nsa_compress(module);
  python::add_grid_sampler_2d(module);
  python::add_grouped_bias_add(module);
}
