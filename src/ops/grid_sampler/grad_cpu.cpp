// The gradient of grid sampling on the CPU: which implementation computes it, and what needs none.
#include "ops/grid_sampler/grad.h"
#include "ops/grid_sampler/layout.h"

namespace aclgrad::ops::grid_sampler {
namespace {

// What is left of the problem for the kernels: nearest interpolation has no grid_grad.
GridSampler2DBackward differentiable_part(const GridSampler2DBackward& problem) {
  GridSampler2DBackward part = problem;
  if (problem.interpolation == Interpolation::nearest) part.wants_grid_grad = false;
  return part;
}

bool is_empty(const GridSampler2DBackward& problem) {
  return problem.batch == 0 || problem.channels == 0 || samples_of(problem) == 0 || pixels_of(problem) == 0;
}

void zero_input_grad(const GridSampler2DBackward& problem) {
  visit_element_type(problem.type, [&]<class T>(T) {
    parallel_for(
        problem.batch, 0.1 * static_cast<double>(problem.batch * pixels_of(problem) * problem.channels),
        [&](int64_t n) {
          const auto image = image_of(static_cast<T*>(problem.input_grad), problem.input_grad_strides, n,
                                      problem.channels, problem.height, problem.width);
          zero_rows(image, RowBand{0, problem.height});
        });
  });
}

void zero_grid_grad(const GridSampler2DBackward& problem) {
  visit_element_type(problem.type, [&]<class T>(T) {
    parallel_for(problem.batch, 0.1 * static_cast<double>(problem.batch * samples_of(problem)),
                 [&](int64_t n) {
                   const auto image = grid_of(static_cast<T*>(problem.grid_grad), problem.grid_grad_strides,
                                              n, problem.output_height, problem.output_width);
                   zero_rows(image, RowBand{0, problem.output_height});
                 });
  });
}

}  // namespace

size_t kernel_workspace_size(const GridSampler2DBackward& problem) {
  const GridSampler2DBackward part = differentiable_part(problem);
  if (is_empty(part) || (!part.wants_input_grad && !part.wants_grid_grad)) return 0;
  if (!vectorises_over_channels(part)) return grad_by_samples_workspace_size(part);
  const size_t size = grad_by_channels_workspace_size(part);
  return may_have_lines(part) ? std::max(size, grad_by_samples_workspace_size(part)) : size;
}

double kernel_nanoseconds(const GridSampler2DBackward& problem) {
  const auto samples = static_cast<double>(problem.batch * samples_of(problem));
  const auto pixels = static_cast<double>(problem.batch * pixels_of(problem));
  const auto channels = static_cast<double>(problem.channels);
  const double taps = problem.interpolation == Interpolation::bicubic ? 16 : 4;
  const bool by_channels = vectorises_over_channels(problem);
  // Without sums to add to, and with four channels in one load, vectors of samples take less than half the time.
  const bool is_light = !problem.wants_input_grad && problem.type == DataType::float32 &&
                        problem.channels > 1 && problem.input_strides[1] == 1;
  const double of_tap = is_light ? 0.6 : 1.4;
  const double of_pixel = problem.wants_input_grad ? (by_channels ? 0.8 : 0.1) : 0;
  return samples * (5 + (by_channels ? 0.3 + 0.12 * taps : of_tap * taps) * channels) +
         pixels * of_pixel * channels;
}

void run_kernel(const GridSampler2DBackward& problem, void* workspace) {
  const GridSampler2DBackward part = differentiable_part(problem);
  if (is_empty(part)) {
    if (problem.wants_input_grad) zero_input_grad(problem);
    if (problem.wants_grid_grad) zero_grid_grad(problem);
    return;
  }
  if (problem.wants_grid_grad && !part.wants_grid_grad) zero_grid_grad(problem);
  if (!part.wants_input_grad && !part.wants_grid_grad) return;
  vectorises_over_samples(part) ? grad_by_samples(part, workspace) : grad_by_channels(part, workspace);
}

}  // namespace aclgrad::ops::grid_sampler
