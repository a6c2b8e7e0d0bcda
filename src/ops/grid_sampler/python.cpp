// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Grid sampling of images (two axes) and volumes (three), and its gradient.
#include <optional>

#include "arguments.h"
#include "binding.h"
#include "operand.h"
#include "ops/grid_sampler/kernel.h"
#include "ops/grid_sampler/reference_3d.h"

namespace aclgrad::python {
namespace {

// What differs between images and volumes.
template <int kAxes>
struct Kind;

template <>
struct Kind<2> {
  using Forward = GridSampler2D;
  using Backward = GridSampler2DBackward;
  static constexpr const char* kForward = "grid_sample";
  static constexpr const char* kBackward = "grid_sample_backward";
  static constexpr const char* kReferenceForward = "reference.grid_sample";
  static constexpr const char* kReferenceBackward = "reference.grid_sample_backward";
  static constexpr const char* kSides = "a height and a width from 1 to 2^30 - 1";
  static constexpr std::initializer_list<const char*> kModes{"bilinear", "nearest", "bicubic"};
};

template <>
struct Kind<3> {
  using Forward = GridSampler3D;
  using Backward = GridSampler3DBackward;
  static constexpr const char* kForward = "grid_sample_3d";
  static constexpr const char* kBackward = "grid_sample_3d_backward";
  static constexpr const char* kReferenceForward = "reference.grid_sample_3d";
  static constexpr const char* kReferenceBackward = "reference.grid_sample_3d_backward";
  static constexpr const char* kSides = "a depth, a height and a width from 1 to 2^30 - 1";
  static constexpr std::initializer_list<const char*> kModes{"bilinear", "nearest"};
};

template <int kAxes>
struct Sampling {
  Array input;  // [N, C, kAxes sides]
  Array grid;   // [N, kAxes sides, kAxes]
  Interpolation interpolation;
  Padding padding;
  bool align_corners;

  int64_t side(int axis) const { return input.size(2 + axis); }
  int64_t output_side(int axis) const { return grid.size(1 + axis); }

  Shape input_shape() const { return Shape(input.view.shape.data(), 2 + kAxes); }
  Shape output_shape() const {
    Shape shape = input_shape();
    for (int axis = 0; axis < kAxes; ++axis) shape[2 + axis] = output_side(axis);
    return shape;
  }
  Shape grid_shape() const {
    Shape shape(grid.view.shape.data(), 2 + kAxes);
    shape[0] = input.size(0);
    shape[1 + kAxes] = kAxes;
    return shape;
  }
};

template <int kAxes>
Sampling<kAxes> read_sampling(const Arguments& arguments, const Argument& input, const Argument& grid,
                              const Argument& mode, const Argument& padding_mode,
                              const Argument& align_corners) {
  constexpr int64_t kMaxSide = int64_t{1} << 30;
  Sampling<kAxes> sampling{
      arguments.floats("input", input), arguments.floats("grid", grid),
      arguments.choice<Interpolation>("mode", mode, Kind<kAxes>::kModes),
      arguments.choice<Padding>("padding_mode", padding_mode, {"zeros", "border", "reflection"}),
      !align_corners.is_none() && arguments.flag("align_corners", align_corners)};
  arguments.check_same_type(sampling.input, {&sampling.grid});
  arguments.check_rank(sampling.input, 2 + kAxes);
  arguments.check_rank(sampling.grid, 2 + kAxes);
  arguments.check_shape(sampling.grid, sampling.grid_shape());
  for (int axis = 0; axis < kAxes; ++axis) {
    const int64_t side = sampling.side(axis);
    arguments.check(side > 0 && side < kMaxSide, "input", Kind<kAxes>::kSides, side);
  }
  return sampling;
}

// Kernels take any strides but negative ones.
template <int kAxes>
constexpr int kNoDenseAxis = 2 + kAxes;

template <int kAxes>
struct SamplingOperands {
  Operand input;
  Operand grid;

  SamplingOperands(const Place& place, const Sampling<kAxes>& sampling)
      : input(Operand::read(place, sampling.input.view, kNoDenseAxis<kAxes>)),
        grid(Operand::read(place, sampling.grid.view, kNoDenseAxis<kAxes>)) {}

  void describe(const Sampling<kAxes>& sampling, GridSampling& problem) const {
    problem.input = input.tensor();
    problem.grid = grid.tensor();
    problem.interpolation = sampling.interpolation;
    problem.padding = sampling.padding;
    problem.align_corners = sampling.align_corners;
  }
};

template <int kAxes>
void compute_forward(const Place& place, const Sampling<kAxes>& sampling, const Array& output) {
  if (output.empty()) return;
  const SamplingOperands<kAxes> operands(place, sampling);
  const Operand output_operand = Operand::write(place, output.view, kNoDenseAxis<kAxes>);
  typename Kind<kAxes>::Forward problem;
  operands.describe(sampling, problem);
  problem.output = output_operand.tensor();
  place.run(problem);
  output_operand.finish();
}

// A gradient that is not wanted is absent.
template <int kAxes>
void compute_backward(const Place& place, const Sampling<kAxes>& sampling, const Array& grad_output,
                      const std::optional<Array>& grad_input, const std::optional<Array>& grad_grid) {
  if (grad_output.empty()) {
    if (grad_input) place.fill_zero(grad_input->view);
    if (grad_grid) place.fill_zero(grad_grid->view);
    return;
  }
  const SamplingOperands<kAxes> operands(place, sampling);
  const Operand grad_output_operand = Operand::read(place, grad_output.view, kNoDenseAxis<kAxes>);
  typename Kind<kAxes>::Backward problem;
  operands.describe(sampling, problem);
  problem.grad_output = grad_output_operand.tensor();
  std::optional<Operand> input_operand, grid_operand;
  if (grad_input) {
    input_operand = Operand::write(place, grad_input->view, kNoDenseAxis<kAxes>);
    problem.grad_input = input_operand->tensor();
  }
  if (grad_grid) {
    grid_operand = Operand::write(place, grad_grid->view, kNoDenseAxis<kAxes>);
    problem.grad_grid = grid_operand->tensor();
  }
  place.run(problem);
  if (input_operand) input_operand->finish();
  if (grid_operand) grid_operand->finish();
}

// What is read or written of it where it is there.
Tensor read_if(std::optional<Operand>& operand, const Place& place, const std::optional<Array>& array) {
  if (!array) return {};
  operand = Operand::read(place, array->view, kNoDenseAxis<2>);
  return operand->tensor();
}
Tensor write_if(std::optional<Operand>& operand, const Place& place, const std::optional<Array>& array) {
  if (!array) return {};
  operand = Operand::write(place, array->view, kNoDenseAxis<2>);
  return operand->tensor();
}

// The arrays of the gradient's gradient; those that are not given or not wanted are absent.
struct DoubleBackwardArrays {
  Array grad_output;
  std::optional<Array> grad_grad_input;
  std::optional<Array> grad_grad_grid;
  Results results = Results(3);  // grad_grad_output, grad_input, grad_grid

  DoubleBackwardArrays(const Arguments& arguments, const Sampling<2>& sampling,
                       const Argument& grad_output_object, const Argument& grad_grad_input_object,
                       const Argument& grad_grad_grid_object)
      : grad_output(arguments.floats("grad_output", grad_output_object)) {
    check(arguments, sampling, grad_output, sampling.output_shape());
    if (!grad_grad_input_object.is_none()) {
      grad_grad_input = arguments.floats("grad_grad_input", grad_grad_input_object);
      check(arguments, sampling, *grad_grad_input, sampling.input_shape());
    }
    if (!grad_grad_grid_object.is_none()) {
      grad_grad_grid = arguments.floats("grad_grad_grid", grad_grad_grid_object);
      check(arguments, sampling, *grad_grad_grid, sampling.grid_shape());
    }
  }

  void make_results(const Arguments& arguments, const Sampling<2>& sampling, const std::vector<bool>& needs,
                    const Argument& out) {
    const char* names[] = {"out[0]", "out[1]", "out[2]"};
    const Shape shapes[] = {sampling.output_shape(), sampling.input_shape(), sampling.grid_shape()};
    for (size_t i = 0; i < 3; ++i) {
      if (!needs[i]) continue;
      results[i] = arguments.result(names[i], sampling.input, shapes[i], arguments.entry("out", out, 3, i));
    }
  }

 private:
  static void check(const Arguments& arguments, const Sampling<2>& sampling, const Array& array,
                    const Shape& shape) {
    arguments.check_same_type(sampling.input, {&array});
    arguments.check_shape(array, shape);
  }
};

void compute_double_backward(const Place& place, const Sampling<2>& sampling,
                             const DoubleBackwardArrays& arrays) {
  if (arrays.grad_output.empty()) {
    for (const auto& result : arrays.results) {
      if (result) place.fill_zero(result->view);
    }
    return;
  }
  const SamplingOperands<2> operands(place, sampling);
  const Operand grad_output = Operand::read(place, arrays.grad_output.view, kNoDenseAxis<2>);
  std::optional<Operand> grad_grad_input, grad_grad_grid, results[3];
  GridSampler2DDoubleBackward problem;
  operands.describe(sampling, problem);
  problem.grad_output = grad_output.tensor();
  problem.grad_grad_input = read_if(grad_grad_input, place, arrays.grad_grad_input);
  problem.grad_grad_grid = read_if(grad_grad_grid, place, arrays.grad_grad_grid);
  problem.grad_grad_output = write_if(results[0], place, arrays.results[0]);
  problem.grad_input = write_if(results[1], place, arrays.results[1]);
  problem.grad_grid = write_if(results[2], place, arrays.results[2]);
  place.run(problem);
  for (const auto& result : results) {
    if (result) result->finish();
  }
}

// The reference takes float64, but finds positions as the type did that the arrays had before they were widened.
template <int kAxes>
reference::GridSampling reference_sampling(const Sampling<kAxes>& sampling, bool positions_in_double) {
  return {.batch = sampling.input.size(0),
          .channels = sampling.input.size(1),
          .height = sampling.side(kAxes - 2),
          .width = sampling.side(kAxes - 1),
          .output_height = sampling.output_side(kAxes - 2),
          .output_width = sampling.output_side(kAxes - 1),
          .mode = static_cast<int>(sampling.interpolation),
          .padding = static_cast<int>(sampling.padding),
          .align_corners = sampling.align_corners,
          .positions_in_double = positions_in_double};
}

using Doubles = std::vector<double>;

Doubles reference_output(const Sampling<2>& s, bool in_double, const Doubles& input, const Doubles& grid) {
  return reference::grid_sampler_2d(reference_sampling(s, in_double), input, grid);
}
Doubles reference_output(const Sampling<3>& s, bool in_double, const Doubles& input, const Doubles& grid) {
  return reference::grid_sampler_3d({reference_sampling(s, in_double), s.side(0), s.output_side(0)}, input,
                                    grid);
}

reference::GridSamplerGradients reference_gradients(const Sampling<2>& s, bool in_double,
                                                    const Doubles& grad_output, const Doubles& input,
                                                    const Doubles& grid) {
  return reference::grid_sampler_2d_backward(reference_sampling(s, in_double), grad_output, input, grid);
}
reference::GridSamplerGradients reference_gradients(const Sampling<3>& s, bool in_double,
                                                    const Doubles& grad_output, const Doubles& input,
                                                    const Doubles& grid) {
  return reference::grid_sampler_3d_backward({reference_sampling(s, in_double), s.side(0), s.output_side(0)},
                                             grad_output, input, grid);
}

template <int kAxes>
Array forward(const Argument& input, const Argument& grid, const Argument& mode, const Argument& padding_mode,
              const Argument& align_corners, const Argument& out) {
  const Arguments arguments(Kind<kAxes>::kForward, Arguments::Memory::cpu_or_gpu);
  const auto sampling = read_sampling<kAxes>(arguments, input, grid, mode, padding_mode, align_corners);
  const Array output = arguments.result("out", sampling.input, sampling.output_shape(), out);
  const Place place(arguments, sampling.input, {&sampling.grid, &output});
  arguments.claim({&output}, {&sampling.input, &sampling.grid});
  place.compute([&] { compute_forward(place, sampling, output); });
  return output;
}

template <int kAxes>
Results backward(const Argument& grad_output_object, const Argument& input, const Argument& grid,
                 const Argument& mode, const Argument& padding_mode, const Argument& align_corners,
                 const Argument& output_mask, const Argument& out) {
  const Arguments arguments(Kind<kAxes>::kBackward, Arguments::Memory::cpu_or_gpu);
  const std::vector<bool> needs = arguments.flags("output_mask", output_mask, 2);
  const Array grad_output = arguments.floats("grad_output", grad_output_object);
  const auto sampling = read_sampling<kAxes>(arguments, input, grid, mode, padding_mode, align_corners);
  arguments.check_same_type(sampling.input, {&grad_output});
  arguments.check_shape(grad_output, sampling.output_shape());
  std::optional<Array> grad_input, grad_grid;
  if (needs[0]) {
    grad_input =
        arguments.result("out[0]", sampling.input, sampling.input_shape(), arguments.entry("out", out, 2, 0));
  }
  if (needs[1]) {
    grad_grid =
        arguments.result("out[1]", sampling.input, sampling.grid_shape(), arguments.entry("out", out, 2, 1));
  }
  const Place place(arguments, sampling.input, {&sampling.grid, &grad_output});
  for (const auto* gradient : {&grad_input, &grad_grid}) {
    if (*gradient) arguments.check_same_device(sampling.input, {&**gradient});
  }
  arguments.claim({grad_input ? &*grad_input : nullptr, grad_grid ? &*grad_grid : nullptr},
                  {&grad_output, &sampling.input, &sampling.grid});
  if (grad_input || grad_grid) {
    place.compute([&] { compute_backward(place, sampling, grad_output, grad_input, grad_grid); });
  }
  return {grad_input, grad_grid};
}

Results double_backward(const Argument& grad_output, const Argument& input, const Argument& grid,
                        const Argument& grad_grad_input, const Argument& grad_grad_grid, const Argument& mode,
                        const Argument& padding_mode, const Argument& align_corners,
                        const Argument& output_mask, const Argument& out) {
  const Arguments arguments("grid_sample_double_backward");
  const std::vector<bool> needs = arguments.flags("output_mask", output_mask, 3);
  const auto sampling = read_sampling<2>(arguments, input, grid, mode, padding_mode, align_corners);
  DoubleBackwardArrays arrays(arguments, sampling, grad_output, grad_grad_input, grad_grad_grid);
  arrays.make_results(arguments, sampling, needs, out);
  const auto given = [](const std::optional<Array>& array) { return array ? &*array : nullptr; };
  arguments.claim({given(arrays.results[0]), given(arrays.results[1]), given(arrays.results[2])},
                  {&arrays.grad_output, &sampling.input, &sampling.grid, given(arrays.grad_grad_input),
                   given(arrays.grad_grad_grid)});
  const Place place(arguments, sampling.input, {&sampling.grid, &arrays.grad_output});
  place.compute([&] { compute_double_backward(place, sampling, arrays); });
  return arrays.results;
}

template <int kAxes>
Array reference_forward(const Argument& input, const Argument& grid, const Argument& mode,
                        const Argument& padding_mode, const Argument& align_corners,
                        bool positions_in_double) {
  const Arguments arguments(Kind<kAxes>::kReferenceForward);
  const auto sampling = read_sampling<kAxes>(arguments, input, grid, mode, padding_mode, align_corners);
  const Array output = arguments.result("out", sampling.input, sampling.output_shape(), {});
  {
    const Unlocked unlocked;
    write_doubles(reference_output(sampling, positions_in_double, doubles_of(sampling.input.view),
                                   doubles_of(sampling.grid.view)),
                  output.view);
  }
  return output;
}

template <int kAxes>
Results reference_backward(const Argument& grad_output_object, const Argument& input, const Argument& grid,
                           const Argument& mode, const Argument& padding_mode, const Argument& align_corners,
                           bool positions_in_double) {
  const Arguments arguments(Kind<kAxes>::kReferenceBackward);
  const Array grad_output = arguments.floats("grad_output", grad_output_object);
  const auto sampling = read_sampling<kAxes>(arguments, input, grid, mode, padding_mode, align_corners);
  arguments.check_shape(grad_output, sampling.output_shape());
  const Array grad_input = arguments.result("out[0]", sampling.input, sampling.input_shape(), {});
  const Array grad_grid = arguments.result("out[1]", sampling.input, sampling.grid_shape(), {});
  {
    const Unlocked unlocked;
    const reference::GridSamplerGradients expected =
        reference_gradients(sampling, positions_in_double, doubles_of(grad_output.view),
                            doubles_of(sampling.input.view), doubles_of(sampling.grid.view));
    write_doubles(expected.input, grad_input.view);
    write_doubles(expected.grid, grad_grid.view);
  }
  return {grad_input, grad_grid};
}

Results reference_double_backward(const Argument& grad_output, const Argument& input, const Argument& grid,
                                  const Argument& grad_grad_input, const Argument& grad_grad_grid,
                                  const Argument& mode, const Argument& padding_mode,
                                  const Argument& align_corners, bool positions_in_double) {
  const Arguments arguments("reference.grid_sample_double_backward");
  const auto sampling = read_sampling<2>(arguments, input, grid, mode, padding_mode, align_corners);
  DoubleBackwardArrays arrays(arguments, sampling, grad_output, grad_grad_input, grad_grad_grid);
  arrays.make_results(arguments, sampling, {true, true, true}, {});
  {
    const Unlocked unlocked;
    const auto values = [](const std::optional<Array>& array) {
      return array ? doubles_of(array->view) : Doubles();
    };
    const reference::GridSamplerSecondGradients expected = reference::grid_sampler_2d_double_backward(
        reference_sampling(sampling, positions_in_double), doubles_of(arrays.grad_output.view),
        doubles_of(sampling.input.view), doubles_of(sampling.grid.view), values(arrays.grad_grad_input),
        values(arrays.grad_grad_grid));
    write_doubles(expected.grad_output, arrays.results[0]->view);
    write_doubles(expected.input, arrays.results[1]->view);
    write_doubles(expected.grid, arrays.results[2]->view);
  }
  return arrays.results;
}

const Binding kBinding([](nb::module_& module) {
  define(module, "grid_sample", forward<2>);
  define(module, "grid_sample_backward", backward<2>);
  define(module, "reference_grid_sample", reference_forward<2>);
  define(module, "reference_grid_sample_backward", reference_backward<2>);
  define(module, "grid_sample_double_backward", double_backward);
  define(module, "reference_grid_sample_double_backward", reference_double_backward);
  define(module, "grid_sample_3d", forward<3>);
  define(module, "grid_sample_3d_backward", backward<3>);
  define(module, "reference_grid_sample_3d", reference_forward<3>);
  define(module, "reference_grid_sample_3d_backward", reference_backward<3>);
});

}  // namespace
}  // namespace aclgrad::python
