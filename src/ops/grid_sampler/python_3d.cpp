// Three-dimensional grid sampling and its gradient.
#include <optional>

#include "arguments.h"
#include "binding.h"
#include "operand.h"
#include "ops/grid_sampler/kernel.h"
#include "ops/grid_sampler/python_modes.h"
#include "ops/grid_sampler/reference_3d.h"

namespace aclgrad::python {
namespace {

using ops::grid_sampler::interpolation_of;
using ops::grid_sampler::padding_of;

struct Sampling {
  Array input;
  Array grid;
  Interpolation interpolation;
  Padding padding;
  bool align_corners;

  int64_t batch() const { return input.size(0); }
  int64_t channels() const { return input.size(1); }
  int64_t depth() const { return input.size(2); }
  int64_t height() const { return input.size(3); }
  int64_t width() const { return input.size(4); }
  int64_t output_depth() const { return grid.size(1); }
  int64_t output_height() const { return grid.size(2); }
  int64_t output_width() const { return grid.size(3); }
};

Sampling read_sampling(const Arguments& arguments, nb::handle input, nb::handle grid, nb::handle mode,
                       nb::handle padding_mode, nb::handle align_corners) {
  constexpr int64_t kMaxSide = int64_t{1} << 30;
  Sampling sampling{arguments.floats("input", input), arguments.floats("grid", grid),
                    interpolation_of(arguments, mode, false), padding_of(arguments, padding_mode),
                    !align_corners.is_none() && arguments.flag("align_corners", align_corners)};
  arguments.check_same_type(sampling.input, {&sampling.grid});
  arguments.check_rank(sampling.input, 5);
  arguments.check_rank(sampling.grid, 5);
  arguments.check_shape(sampling.grid, {sampling.batch(), sampling.output_depth(), sampling.output_height(),
                                        sampling.output_width(), 3});
  for (int64_t side : {sampling.depth(), sampling.height(), sampling.width()}) {
    arguments.check(side > 0 && side < kMaxSide, "input", "a depth, a height and a width from 1 to 2^30 - 1",
                    side);
  }
  return sampling;
}

// Kernels take any strides but negative ones.
constexpr int kNoDenseAxis = 5;

struct SamplingOperands {
  Operand input;
  Operand grid;

  SamplingOperands(const Place& place, const Sampling& sampling)
      : input(Operand::read(place, sampling.input.view, kNoDenseAxis)),
        grid(Operand::read(place, sampling.grid.view, kNoDenseAxis)) {}

  void describe(const Sampling& sampling, GridSampling& problem) const {
    problem.input = input.tensor();
    problem.grid = grid.tensor();
    problem.interpolation = sampling.interpolation;
    problem.padding = sampling.padding;
    problem.align_corners = sampling.align_corners;
  }
};

void compute_forward(const Place& place, const Sampling& sampling, const Array& output) {
  if (output.empty()) return;
  const SamplingOperands operands(place, sampling);
  const Operand output_operand = Operand::write(place, output.view, kNoDenseAxis);
  GridSampler3D problem;
  operands.describe(sampling, problem);
  problem.output = output_operand.tensor();
  place.run(problem);
  output_operand.finish();
}

// A gradient that is not wanted is absent.
void compute_backward(const Place& place, const Sampling& sampling, const Array& grad_output,
                      const std::optional<Array>& grad_input, const std::optional<Array>& grad_grid) {
  if (grad_output.empty()) {
    if (grad_input) place.fill_zero(grad_input->view);
    if (grad_grid) place.fill_zero(grad_grid->view);
    return;
  }
  const SamplingOperands operands(place, sampling);
  const Operand grad_output_operand = Operand::read(place, grad_output.view, kNoDenseAxis);
  GridSampler3DBackward problem;
  operands.describe(sampling, problem);
  problem.grad_output = grad_output_operand.tensor();
  std::optional<Operand> input_operand, grid_operand;
  if (grad_input) {
    input_operand = Operand::write(place, grad_input->view, kNoDenseAxis);
    problem.grad_input = input_operand->tensor();
  }
  if (grad_grid) {
    grid_operand = Operand::write(place, grad_grid->view, kNoDenseAxis);
    problem.grad_grid = grid_operand->tensor();
  }
  place.run(problem);
  if (input_operand) input_operand->finish();
  if (grid_operand) grid_operand->finish();
}

// The definition takes float64, but finds positions as the type did that the arrays had before they were widened.
reference::GridSampling3D definition_of(const Sampling& sampling, bool positions_in_double) {
  return {{.batch = sampling.batch(),
           .channels = sampling.channels(),
           .height = sampling.height(),
           .width = sampling.width(),
           .output_height = sampling.output_height(),
           .output_width = sampling.output_width(),
           .mode = static_cast<int>(sampling.interpolation),
           .padding = static_cast<int>(sampling.padding),
           .align_corners = sampling.align_corners,
           .positions_in_double = positions_in_double},
          sampling.depth(),
          sampling.output_depth()};
}

Array new_output(const Arguments& arguments, const Sampling& sampling, nb::handle out) {
  return arguments.result("out", sampling.input,
                          {sampling.batch(), sampling.channels(), sampling.output_depth(),
                           sampling.output_height(), sampling.output_width()},
                          out);
}

Array new_grad_input(const Arguments& arguments, const Sampling& sampling, nb::handle out) {
  return arguments.result(
      "out[0]", sampling.input,
      {sampling.batch(), sampling.channels(), sampling.depth(), sampling.height(), sampling.width()}, out);
}

Array new_grad_grid(const Arguments& arguments, const Sampling& sampling, nb::handle out) {
  return arguments.result(
      "out[1]", sampling.input,
      {sampling.batch(), sampling.output_depth(), sampling.output_height(), sampling.output_width(), 3}, out);
}

void check_grad_output(const Arguments& arguments, const Sampling& sampling, const Array& grad_output) {
  arguments.check_shape(grad_output, {sampling.batch(), sampling.channels(), sampling.output_depth(),
                                      sampling.output_height(), sampling.output_width()});
}

nb::object forward(nb::handle input, nb::handle grid, nb::handle mode, nb::handle padding_mode,
                   nb::handle align_corners, nb::handle out) {
  const Arguments arguments("grid_sample_3d", Arguments::Memory::cpu_or_gpu);
  const Sampling sampling = read_sampling(arguments, input, grid, mode, padding_mode, align_corners);
  const Array output = new_output(arguments, sampling, out);
  const Place place(arguments, sampling.input, {&sampling.grid, &output});
  arguments.claim({&output}, {&sampling.input, &sampling.grid});
  place.compute([&] { compute_forward(place, sampling, output); });
  return output.object;
}

Results backward(nb::handle grad_output_object, nb::handle input, nb::handle grid, nb::handle mode,
                 nb::handle padding_mode, nb::handle align_corners, nb::handle output_mask, nb::handle out) {
  const Arguments arguments("grid_sample_3d_backward", Arguments::Memory::cpu_or_gpu);
  const std::vector<bool> needs = arguments.flags("output_mask", output_mask, 2);
  const Array grad_output = arguments.floats("grad_output", grad_output_object);
  const Sampling sampling = read_sampling(arguments, input, grid, mode, padding_mode, align_corners);
  arguments.check_same_type(sampling.input, {&grad_output});
  check_grad_output(arguments, sampling, grad_output);
  std::optional<Array> grad_input, grad_grid;
  if (needs[0]) grad_input = new_grad_input(arguments, sampling, arguments.entry("out", out, 2, 0));
  if (needs[1]) grad_grid = new_grad_grid(arguments, sampling, arguments.entry("out", out, 2, 1));
  const Place place(arguments, sampling.input, {&sampling.grid, &grad_output});
  for (const auto* gradient : {&grad_input, &grad_grid}) {
    if (*gradient) arguments.check_same_device(sampling.input, {&**gradient});
  }
  arguments.claim({grad_input ? &*grad_input : nullptr, grad_grid ? &*grad_grid : nullptr},
                  {&grad_output, &sampling.input, &sampling.grid});
  if (grad_input || grad_grid) {
    place.compute([&] { compute_backward(place, sampling, grad_output, grad_input, grad_grid); });
  }
  return nb::make_tuple(grad_input ? grad_input->object : nb::none(),
                        grad_grid ? grad_grid->object : nb::none());
}

nb::object reference_forward(nb::handle input, nb::handle grid, nb::handle mode, nb::handle padding_mode,
                             nb::handle align_corners, bool positions_in_double) {
  const Arguments arguments("reference.grid_sample_3d");
  const Sampling sampling = read_sampling(arguments, input, grid, mode, padding_mode, align_corners);
  const Array output = new_output(arguments, sampling, nb::none());
  {
    nb::gil_scoped_release unlocked;
    write_doubles(reference::grid_sampler_3d(definition_of(sampling, positions_in_double),
                                             doubles_of(sampling.input.view), doubles_of(sampling.grid.view)),
                  output.view);
  }
  return output.object;
}

Results reference_backward(nb::handle grad_output_object, nb::handle input, nb::handle grid, nb::handle mode,
                           nb::handle padding_mode, nb::handle align_corners, bool positions_in_double) {
  const Arguments arguments("reference.grid_sample_3d_backward");
  const Array grad_output = arguments.floats("grad_output", grad_output_object);
  const Sampling sampling = read_sampling(arguments, input, grid, mode, padding_mode, align_corners);
  check_grad_output(arguments, sampling, grad_output);
  const Array grad_input = new_grad_input(arguments, sampling, nb::none());
  const Array grad_grid = new_grad_grid(arguments, sampling, nb::none());
  {
    nb::gil_scoped_release unlocked;
    const reference::GridSamplerGradients expected = reference::grid_sampler_3d_backward(
        definition_of(sampling, positions_in_double), doubles_of(grad_output.view),
        doubles_of(sampling.input.view), doubles_of(sampling.grid.view));
    write_doubles(expected.input, grad_input.view);
    write_doubles(expected.grid, grad_grid.view);
  }
  return nb::make_tuple(grad_input.object, grad_grid.object);
}

const Binding kBinding([](nb::module_& module) {
  define(module, "grid_sample_3d", forward);
  define(module, "grid_sample_3d_backward", backward);
  define(module, "reference_grid_sample_3d", reference_forward);
  define(module, "reference_grid_sample_3d_backward", reference_backward);
});

}  // namespace
}  // namespace aclgrad::python
