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

template <int kAxes, class Problem>
void sample(const Problem& p, bool in_double) {
  write_doubles(reference::grid_sampler(reference_sampling<kAxes>(p, in_double), doubles_of(p.input),
                                        doubles_of(p.grid)),
                p.output);
}

template <int kAxes, class Problem>
void differentiate(const Problem& p, bool in_double) {
  const reference::GridSamplerGradients expected =
      reference::grid_sampler_backward(reference_sampling<kAxes>(p, in_double), doubles_of(p.grad_output),
                                       doubles_of(p.input), doubles_of(p.grid));
  write_doubles(expected.input, p.grad_input);
  write_doubles(expected.grid, p.grad_grid);
}

template <int kAxes, class Problem>
void differentiate_twice(const Problem& p, bool in_double) {
  const reference::GridSamplerSecondGradients expected = reference::grid_sampler_double_backward(
      reference_sampling<kAxes>(p, in_double), doubles_of(p.grad_output), doubles_of(p.input),
      doubles_of(p.grid), doubles_of(p.grad_grad_input), doubles_of(p.grad_grad_grid));
  write_doubles(expected.grad_output, p.grad_grad_output);
  write_doubles(expected.input, p.grad_input);
  write_doubles(expected.grid, p.grad_grid);
}

// ---- The functions

template <int kAxes, class Problem>
Array forward(const Argument& input, const Argument& grid, const Argument& mode, const Argument& padding_mode,
              const Argument& align_corners, const Argument& out) {
  Call call(Call::Memory::cpu_or_gpu);
  Problem p;
  read_sampling(call, input, grid, mode, padding_mode, align_corners, p);
  call.output("out", out, p.output);
  check(p, call);
  return only(call.run(p, sample<kAxes, Problem>));
}

template <int kAxes, class Problem>
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
  return call.run(p, differentiate<kAxes, Problem>);
}

template <int kAxes, class Problem>
Results double_backward(const Argument& grad_output, const Argument& input, const Argument& grid,
                        const Argument& grad_grad_input, const Argument& grad_grad_grid, const Argument& mode,
                        const Argument& padding_mode, const Argument& align_corners,
                        const Argument& output_mask, const Argument& out) {
  Call call(Call::Memory::cpu);
  Problem p;
  const std::vector<bool> wanted = call.flags("output_mask", output_mask, 3);
  read_sampling(call, input, grid, mode, padding_mode, align_corners, p);
  call.input("grad_output", grad_output, p.grad_output);
  call.optional_input("grad_grad_input", grad_grad_input, p.grad_grad_input);
  call.optional_input("grad_grad_grid", grad_grad_grid, p.grad_grad_grid);
  call.outputs(out, wanted, {&p.grad_grad_output, &p.grad_input, &p.grad_grid});
  check(p, call);
  return call.run(p, differentiate_twice<kAxes, Problem>);
}

const Binding kBinding([](nb::module_& module) {
  define_with_reference(module, "grid_sample", forward<2, GridSampler2D>);
  define_with_reference(module, "grid_sample_backward", backward<2, GridSampler2DBackward>);
  define_with_reference(module, "grid_sample_double_backward",
                        double_backward<2, GridSampler2DDoubleBackward>);
  define_with_reference(module, "grid_sample_3d", forward<3, GridSampler3D>);
  define_with_reference(module, "grid_sample_3d_backward", backward<3, GridSampler3DBackward>);
  define_with_reference(module, "grid_sample_3d_double_backward",
                        double_backward<3, GridSampler3DDoubleBackward>);
});

}  // namespace
}  // namespace aclgrad::python
