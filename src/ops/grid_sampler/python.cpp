// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Grid sampling of images (two axes) and volumes (three), and its gradient.
#include "binding.h"
#include "ops/grid_sampler/kernel.h"
#include "ops/grid_sampler/reference.h"

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

template <class Problem>
void read_second(Call& call, const Argument& grad_output, const Argument& input, const Argument& grid,
                 const Argument& grad_grad_input, const Argument& grad_grad_grid, const Argument& mode,
                 const Argument& padding_mode, const Argument& align_corners, Problem& p) {
  read_sampling(call, input, grid, mode, padding_mode, align_corners, p);
  call.input("grad_output", grad_output, p.grad_output);
  call.optional_input("grad_grad_input", grad_grad_input, p.grad_grad_input);
  call.optional_input("grad_grad_grid", grad_grad_grid, p.grad_grad_grid);
}

template <class Problem>
Results double_backward(const Argument& grad_output, const Argument& input, const Argument& grid,
                        const Argument& grad_grad_input, const Argument& grad_grad_grid, const Argument& mode,
                        const Argument& padding_mode, const Argument& align_corners,
                        const Argument& output_mask, const Argument& out) {
  Call call(Call::Memory::cpu);
  Problem p;
  const std::vector<bool> wanted = call.flags("output_mask", output_mask, 3);
  read_second(call, grad_output, input, grid, grad_grad_input, grad_grad_grid, mode, padding_mode,
              align_corners, p);
  call.outputs(out, wanted, {&p.grad_grad_output, &p.grad_input, &p.grad_grid});
  check(p, call);
  return call.run(p);
}

// ---- The reference. It takes float64, but finds positions as the type did that the arrays had before they were widened.

template <int kAxes>
reference::GridSamplingOf<kAxes> reference_sampling(const GridSampling& p, bool positions_in_double) {
  constexpr int kRow = kAxes;  // its axis in input, one behind that in the grid
  return {.batch = p.input.size(0),
          .channels = p.input.size(1),
          .depth = kAxes == 3 ? p.input.size(2) : 1,
          .height = p.input.size(kRow),
          .width = p.input.size(kRow + 1),
          .output_depth = kAxes == 3 ? p.grid.size(1) : 1,
          .output_height = p.grid.size(kRow - 1),
          .output_width = p.grid.size(kRow),
          .mode = static_cast<int>(p.interpolation),
          .padding = static_cast<int>(p.padding),
          .align_corners = p.align_corners,
          .positions_in_double = positions_in_double};
}

template <class Problem, int kAxes>
Array reference_forward(const Argument& input, const Argument& grid, const Argument& mode,
                        const Argument& padding_mode, const Argument& align_corners,
                        bool positions_in_double) {
  Call call(Call::Memory::cpu);
  Problem p;
  read_sampling(call, input, grid, mode, padding_mode, align_corners, p);
  call.output("out", {}, p.output);
  check(p, call);
  return only(call.compute([&] {
    write_doubles(reference::grid_sampler(reference_sampling<kAxes>(p, positions_in_double),
                                          doubles_of(p.input), doubles_of(p.grid)),
                  p.output);
  }));
}

template <class Problem, int kAxes>
Results reference_backward(const Argument& grad_output, const Argument& input, const Argument& grid,
                           const Argument& mode, const Argument& padding_mode, const Argument& align_corners,
                           bool positions_in_double) {
  Call call(Call::Memory::cpu);
  Problem p;
  call.input("grad_output", grad_output, p.grad_output);
  read_sampling(call, input, grid, mode, padding_mode, align_corners, p);
  call.outputs({}, {true, true}, {&p.grad_input, &p.grad_grid});
  check(p, call);
  return call.compute([&] {
    const reference::GridSamplerGradients expected =
        reference::grid_sampler_backward(reference_sampling<kAxes>(p, positions_in_double),
                                         doubles_of(p.grad_output), doubles_of(p.input), doubles_of(p.grid));
    write_doubles(expected.input, p.grad_input);
    write_doubles(expected.grid, p.grad_grid);
  });
}

template <class Problem, int kAxes>
Results reference_double_backward(const Argument& grad_output, const Argument& input, const Argument& grid,
                                  const Argument& grad_grad_input, const Argument& grad_grad_grid,
                                  const Argument& mode, const Argument& padding_mode,
                                  const Argument& align_corners, bool positions_in_double) {
  Call call(Call::Memory::cpu);
  Problem p;
  read_second(call, grad_output, input, grid, grad_grad_input, grad_grad_grid, mode, padding_mode,
              align_corners, p);
  call.outputs({}, {true, true, true}, {&p.grad_grad_output, &p.grad_input, &p.grad_grid});
  check(p, call);
  return call.compute([&] {
    const auto values = [](const ConstTensor& tensor) {
      return tensor.defined() ? doubles_of(tensor) : std::vector<double>();
    };
    const reference::GridSamplerSecondGradients expected = reference::grid_sampler_double_backward(
        reference_sampling<kAxes>(p, positions_in_double), values(p.grad_output), values(p.input),
        values(p.grid), values(p.grad_grad_input), values(p.grad_grad_grid));
    write_doubles(expected.grad_output, p.grad_grad_output);
    write_doubles(expected.input, p.grad_input);
    write_doubles(expected.grid, p.grad_grid);
  });
}

const Binding kBinding([](nb::module_& module) {
  define(module, "grid_sample", forward<GridSampler2D>);
  define(module, "grid_sample_backward", backward<GridSampler2DBackward>);
  define(module, "reference_grid_sample", reference_forward<GridSampler2D, 2>);
  define(module, "reference_grid_sample_backward", reference_backward<GridSampler2DBackward, 2>);
  define(module, "grid_sample_double_backward", double_backward<GridSampler2DDoubleBackward>);
  define(module, "reference_grid_sample_double_backward",
         reference_double_backward<GridSampler2DDoubleBackward, 2>);
  define(module, "grid_sample_3d", forward<GridSampler3D>);
  define(module, "grid_sample_3d_backward", backward<GridSampler3DBackward>);
  define(module, "reference_grid_sample_3d", reference_forward<GridSampler3D, 3>);
  define(module, "reference_grid_sample_3d_backward", reference_backward<GridSampler3DBackward, 3>);
  define(module, "grid_sample_3d_double_backward", double_backward<GridSampler3DDoubleBackward>);
  define(module, "reference_grid_sample_3d_double_backward",
         reference_double_backward<GridSampler3DDoubleBackward, 3>);
});

}  // namespace
}  // namespace aclgrad::python
