// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Grid sampling of images (two axes) and volumes (three), and its gradient.
#include <type_traits>

#include "binding.h"
#include "ops/grid_sampler/kernel.h"
#include "ops/grid_sampler/reference_3d.h"

namespace aclgrad::python {
namespace {

void read_sampling(Call& call, const Argument& input, const Argument& grid, const Argument& mode,
                   const Argument& padding_mode, const Argument& align_corners, GridSampling& p) {
  call.input("input", input, p.input);
  call.input("grid", grid, p.grid);
  call.mode("mode", mode, p.interpolation);
  call.mode("padding_mode", padding_mode, p.padding);
  p.align_corners = !align_corners.is_none() && call.flag("align_corners", align_corners);
}

template <class Problem>
Array forward(const Argument& input, const Argument& grid, const Argument& mode, const Argument& padding_mode,
              const Argument& align_corners, const Argument& out) {
  Call call(Call::Memory::cpu_or_gpu);
  Problem p;
  read_sampling(call, input, grid, mode, padding_mode, align_corners, p);
  call.output("out", out, p.output);
  check(p, call);
  return only(call.run(p));
}

template <class Problem>
Results backward(const Argument& grad_output, const Argument& input, const Argument& grid,
                 const Argument& mode, const Argument& padding_mode, const Argument& align_corners,
                 const Argument& output_mask, const Argument& out) {
  Call call(Call::Memory::cpu_or_gpu);
  Problem p;
  const std::vector<bool> wanted = call.flags("output_mask", output_mask, 2);
  call.input("grad_output", grad_output, p.grad_output);
  read_sampling(call, input, grid, mode, padding_mode, align_corners, p);
  call.outputs(out, wanted, {&p.grad_input, &p.grad_grid});
  check(p, call);
  return call.run(p);
}

void read_second(Call& call, const Argument& grad_output, const Argument& input, const Argument& grid,
                 const Argument& grad_grad_input, const Argument& grad_grad_grid, const Argument& mode,
                 const Argument& padding_mode, const Argument& align_corners,
                 GridSampler2DDoubleBackward& p) {
  read_sampling(call, input, grid, mode, padding_mode, align_corners, p);
  call.input("grad_output", grad_output, p.grad_output);
  call.optional_input("grad_grad_input", grad_grad_input, p.grad_grad_input);
  call.optional_input("grad_grad_grid", grad_grad_grid, p.grad_grad_grid);
}

Results double_backward(const Argument& grad_output, const Argument& input, const Argument& grid,
                        const Argument& grad_grad_input, const Argument& grad_grad_grid, const Argument& mode,
                        const Argument& padding_mode, const Argument& align_corners,
                        const Argument& output_mask, const Argument& out) {
  Call call(Call::Memory::cpu);
  GridSampler2DDoubleBackward p;
  const std::vector<bool> wanted = call.flags("output_mask", output_mask, 3);
  read_second(call, grad_output, input, grid, grad_grad_input, grad_grad_grid, mode, padding_mode,
              align_corners, p);
  call.outputs(out, wanted, {&p.grad_grad_output, &p.grad_input, &p.grad_grid});
  check(p, call);
  return call.run(p);
}

// ---- The reference. It takes float64, but finds positions as the type did that the arrays had before they were widened.

using Doubles = std::vector<double>;

template <bool is_3d>
auto reference_sampling(const GridSampling& p, bool positions_in_double) {
  constexpr int kRow = is_3d ? 3 : 2;  // its axis in input, one behind that in the grid
  const reference::GridSampling sampling{.batch = p.input.size(0),
                                         .channels = p.input.size(1),
                                         .height = p.input.size(kRow),
                                         .width = p.input.size(kRow + 1),
                                         .output_height = p.grid.size(kRow - 1),
                                         .output_width = p.grid.size(kRow),
                                         .mode = static_cast<int>(p.interpolation),
                                         .padding = static_cast<int>(p.padding),
                                         .align_corners = p.align_corners,
                                         .positions_in_double = positions_in_double};
  if constexpr (is_3d) {
    return reference::GridSampling3D{sampling, p.input.size(2), p.grid.size(1)};
  } else {
    return sampling;
  }
}

template <class Problem>
Array reference_forward(const Argument& input, const Argument& grid, const Argument& mode,
                        const Argument& padding_mode, const Argument& align_corners,
                        bool positions_in_double) {
  constexpr bool is_3d = std::is_same_v<Problem, GridSampler3D>;
  Call call(Call::Memory::cpu);
  Problem p;
  read_sampling(call, input, grid, mode, padding_mode, align_corners, p);
  call.output("out", {}, p.output);
  check(p, call);
  return only(call.compute([&] {
    const auto sampling = reference_sampling<is_3d>(p, positions_in_double);
    const Doubles input_values = doubles_of(p.input), grid_values = doubles_of(p.grid);
    if constexpr (is_3d) {
      write_doubles(reference::grid_sampler_3d(sampling, input_values, grid_values), p.output);
    } else {
      write_doubles(reference::grid_sampler_2d(sampling, input_values, grid_values), p.output);
    }
  }));
}

template <class Problem>
Results reference_backward(const Argument& grad_output, const Argument& input, const Argument& grid,
                           const Argument& mode, const Argument& padding_mode, const Argument& align_corners,
                           bool positions_in_double) {
  constexpr bool is_3d = std::is_same_v<Problem, GridSampler3DBackward>;
  Call call(Call::Memory::cpu);
  Problem p;
  call.input("grad_output", grad_output, p.grad_output);
  read_sampling(call, input, grid, mode, padding_mode, align_corners, p);
  call.outputs({}, {true, true}, {&p.grad_input, &p.grad_grid});
  check(p, call);
  return call.compute([&] {
    const auto sampling = reference_sampling<is_3d>(p, positions_in_double);
    const Doubles inputs[] = {doubles_of(p.grad_output), doubles_of(p.input), doubles_of(p.grid)};
    reference::GridSamplerGradients expected;
    if constexpr (is_3d) {
      expected = reference::grid_sampler_3d_backward(sampling, inputs[0], inputs[1], inputs[2]);
    } else {
      expected = reference::grid_sampler_2d_backward(sampling, inputs[0], inputs[1], inputs[2]);
    }
    write_doubles(expected.input, p.grad_input);
    write_doubles(expected.grid, p.grad_grid);
  });
}

Results reference_double_backward(const Argument& grad_output, const Argument& input, const Argument& grid,
                                  const Argument& grad_grad_input, const Argument& grad_grad_grid,
                                  const Argument& mode, const Argument& padding_mode,
                                  const Argument& align_corners, bool positions_in_double) {
  Call call(Call::Memory::cpu);
  GridSampler2DDoubleBackward p;
  read_second(call, grad_output, input, grid, grad_grad_input, grad_grad_grid, mode, padding_mode,
              align_corners, p);
  call.outputs({}, {true, true, true}, {&p.grad_grad_output, &p.grad_input, &p.grad_grid});
  check(p, call);
  return call.compute([&] {
    const auto values = [](const ConstTensor& tensor) {
      return tensor.defined() ? doubles_of(tensor) : Doubles();
    };
    const reference::GridSamplerSecondGradients expected = reference::grid_sampler_2d_double_backward(
        reference_sampling<false>(p, positions_in_double), values(p.grad_output), values(p.input),
        values(p.grid), values(p.grad_grad_input), values(p.grad_grad_grid));
    write_doubles(expected.grad_output, p.grad_grad_output);
    write_doubles(expected.input, p.grad_input);
    write_doubles(expected.grid, p.grad_grid);
  });
}

const Binding kBinding([](nb::module_& module) {
  define(module, "grid_sample", forward<GridSampler2D>);
  define(module, "grid_sample_backward", backward<GridSampler2DBackward>);
  define(module, "reference_grid_sample", reference_forward<GridSampler2D>);
  define(module, "reference_grid_sample_backward", reference_backward<GridSampler2DBackward>);
  define(module, "grid_sample_double_backward", double_backward);
  define(module, "reference_grid_sample_double_backward", reference_double_backward);
  define(module, "grid_sample_3d", forward<GridSampler3D>);
  define(module, "grid_sample_3d_backward", backward<GridSampler3DBackward>);
  define(module, "reference_grid_sample_3d", reference_forward<GridSampler3D>);
  define(module, "reference_grid_sample_3d_backward", reference_backward<GridSampler3DBackward>);
});

}  // namespace
}  // namespace aclgrad::python
