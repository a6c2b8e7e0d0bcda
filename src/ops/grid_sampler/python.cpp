// Two-dimensional grid sampling and its gradient.
#include "ops/grid_sampler/kernel.h"

#include <optional>

#include "arguments.h"
#include "binding.h"
#include "operand.h"
#include "ops/grid_sampler/python_modes.h"
#include "ops/grid_sampler/reference.h"

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
  int64_t height() const { return input.size(2); }
  int64_t width() const { return input.size(3); }
  int64_t output_height() const { return grid.size(1); }
  int64_t output_width() const { return grid.size(2); }
};

Sampling read_sampling(const Arguments& arguments, nb::handle input, nb::handle grid, nb::handle mode,
                       nb::handle padding_mode, nb::handle align_corners) {
  constexpr int64_t kMaxSide = int64_t{1} << 30;
  Sampling sampling{arguments.floats("input", input), arguments.floats("grid", grid),
                    interpolation_of(arguments, mode, true), padding_of(arguments, padding_mode),
                    !align_corners.is_none() && arguments.flag("align_corners", align_corners)};
  arguments.check_same_type(sampling.input, {&sampling.grid});
  arguments.check_rank(sampling.input, 4);
  arguments.check_rank(sampling.grid, 4);
  arguments.check_shape(sampling.grid,
                        {sampling.batch(), sampling.output_height(), sampling.output_width(), 2});
  for (int64_t side : {sampling.height(), sampling.width()}) {
    arguments.check(side > 0 && side < kMaxSide, "input", "a height and a width from 1 to 2^30 - 1", side);
  }
  return sampling;
}

// Kernels take any strides but negative ones.
constexpr int kNoDenseAxis = 4;

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
  GridSampler2D problem;
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
  GridSampler2DBackward problem;
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
reference::GridSampling definition_of(const Sampling& sampling, bool positions_in_double) {
  return {.batch = sampling.batch(),
          .channels = sampling.channels(),
          .height = sampling.height(),
          .width = sampling.width(),
          .output_height = sampling.output_height(),
          .output_width = sampling.output_width(),
          .mode = static_cast<int>(sampling.interpolation),
          .padding = static_cast<int>(sampling.padding),
          .align_corners = sampling.align_corners,
          .positions_in_double = positions_in_double};
}

nb::object forward(nb::handle input, nb::handle grid, nb::handle mode, nb::handle padding_mode,
                   nb::handle align_corners, nb::handle out) {
  const Arguments arguments("grid_sample", Arguments::Memory::cpu_or_gpu);
  const Sampling sampling = read_sampling(arguments, input, grid, mode, padding_mode, align_corners);
  const Array output = arguments.result(
      "out", sampling.input,
      {sampling.batch(), sampling.channels(), sampling.output_height(), sampling.output_width()}, out);
  const Place place(arguments, sampling.input, {&sampling.grid, &output});
  arguments.claim({&output}, {&sampling.input, &sampling.grid});
  place.compute([&] { compute_forward(place, sampling, output); });
  return output.object;
}

Results backward(nb::handle grad_output_object, nb::handle input, nb::handle grid, nb::handle mode,
                 nb::handle padding_mode, nb::handle align_corners, nb::handle output_mask, nb::handle out) {
  const Arguments arguments("grid_sample_backward", Arguments::Memory::cpu_or_gpu);
  const std::vector<bool> needs = arguments.flags("output_mask", output_mask, 2);
  const Array grad_output = arguments.floats("grad_output", grad_output_object);
  const Sampling sampling = read_sampling(arguments, input, grid, mode, padding_mode, align_corners);
  const int64_t batch = sampling.batch(), channels = sampling.channels();
  const int64_t output_height = sampling.output_height(), output_width = sampling.output_width();
  arguments.check_same_type(sampling.input, {&grad_output});
  arguments.check_shape(grad_output, {batch, channels, output_height, output_width});
  std::optional<Array> grad_input, grad_grid;
  if (needs[0]) {
    grad_input =
        arguments.result("out[0]", sampling.input, {batch, channels, sampling.height(), sampling.width()},
                         arguments.entry("out", out, 2, 0));
  }
  if (needs[1]) {
    grad_grid = arguments.result("out[1]", sampling.input, {batch, output_height, output_width, 2},
                                 arguments.entry("out", out, 2, 1));
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
  return nb::make_tuple(grad_input ? grad_input->object : nb::none(),
                        grad_grid ? grad_grid->object : nb::none());
}

nb::object reference_forward(nb::handle input, nb::handle grid, nb::handle mode, nb::handle padding_mode,
                             nb::handle align_corners, bool positions_in_double) {
  const Arguments arguments("reference.grid_sample");
  const Sampling sampling = read_sampling(arguments, input, grid, mode, padding_mode, align_corners);
  const Array output = arguments.result(
      "out", sampling.input,
      {sampling.batch(), sampling.channels(), sampling.output_height(), sampling.output_width()}, nb::none());
  {
    nb::gil_scoped_release unlocked;
    write_doubles(reference::grid_sampler_2d(definition_of(sampling, positions_in_double),
                                             doubles_of(sampling.input.view), doubles_of(sampling.grid.view)),
                  output.view);
  }
  return output.object;
}

Results reference_backward(nb::handle grad_output_object, nb::handle input, nb::handle grid, nb::handle mode,
                           nb::handle padding_mode, nb::handle align_corners, bool positions_in_double) {
  const Arguments arguments("reference.grid_sample_backward");
  const Array grad_output = arguments.floats("grad_output", grad_output_object);
  const Sampling sampling = read_sampling(arguments, input, grid, mode, padding_mode, align_corners);
  const int64_t batch = sampling.batch(), channels = sampling.channels();
  const int64_t output_height = sampling.output_height(), output_width = sampling.output_width();
  arguments.check_shape(grad_output, {batch, channels, output_height, output_width});
  const Array grad_input = arguments.result(
      "out[0]", sampling.input, {batch, channels, sampling.height(), sampling.width()}, nb::none());
  const Array grad_grid =
      arguments.result("out[1]", sampling.input, {batch, output_height, output_width, 2}, nb::none());
  {
    nb::gil_scoped_release unlocked;
    const reference::GridSamplerGradients golden = reference::grid_sampler_2d_backward(
        definition_of(sampling, positions_in_double), doubles_of(grad_output.view),
        doubles_of(sampling.input.view), doubles_of(sampling.grid.view));
    write_doubles(golden.input, grad_input.view);
    write_doubles(golden.grid, grad_grid.view);
  }
  return nb::make_tuple(grad_input.object, grad_grid.object);
}

const Binding kBinding([](nb::module_& module) {
  define(module, "grid_sample", forward);
  define(module, "grid_sample_backward", backward);
  define(module, "reference_grid_sample", reference_forward);
  define(module, "reference_grid_sample_backward", reference_backward);
});

}  // namespace

}  // namespace aclgrad::python
