// As base/kernel.h says, over problem.h.
#pragma once

#include "aclgrad/grid_sampler.h"
#include "base/kernel.h"
#include "ops/grid_sampler/problem.h"

namespace aclgrad::ops::grid_sampler {

size_t kernel_workspace_size(const GridSampler2D& problem);
size_t kernel_workspace_size(const GridSampler2DBackward& problem);
size_t kernel_workspace_size(const GridSampler3D& problem);
size_t kernel_workspace_size(const GridSampler3DBackward& problem);

double kernel_nanoseconds(const GridSampler2D& problem);
double kernel_nanoseconds(const GridSampler2DBackward& problem);
double kernel_nanoseconds(const GridSampler3D& problem);
double kernel_nanoseconds(const GridSampler3DBackward& problem);

void run_kernel(const GridSampler2D& problem, void* workspace);
void run_kernel(const GridSampler2DBackward& problem, void* workspace);
void run_kernel(const GridSampler3D& problem, void* workspace);
void run_kernel(const GridSampler3DBackward& problem, void* workspace);

}  // namespace aclgrad::ops::grid_sampler

namespace aclgrad {  // where argument-dependent lookup finds them

inline size_t kernel_workspace_size(const GridSampler2D& problem) {
  return kernel_workspace_size(ops::grid_sampler::GridSampler2D(problem));
}
inline size_t kernel_workspace_size(const GridSampler2DBackward& problem) {
  return kernel_workspace_size(ops::grid_sampler::GridSampler2DBackward(problem));
}

inline double kernel_nanoseconds(const GridSampler2D& problem) {
  return kernel_nanoseconds(ops::grid_sampler::GridSampler2D(problem));
}
inline double kernel_nanoseconds(const GridSampler2DBackward& problem) {
  return kernel_nanoseconds(ops::grid_sampler::GridSampler2DBackward(problem));
}

inline void run_kernel(const GridSampler2D& problem, void* workspace) {
  run_kernel(ops::grid_sampler::GridSampler2D(problem), workspace);
}
inline void run_kernel(const GridSampler2DBackward& problem, void* workspace) {
  run_kernel(ops::grid_sampler::GridSampler2DBackward(problem), workspace);
}

inline size_t kernel_workspace_size(const GridSampler3D& problem) {
  return kernel_workspace_size(ops::grid_sampler::GridSampler3D(problem));
}
inline size_t kernel_workspace_size(const GridSampler3DBackward& problem) {
  return kernel_workspace_size(ops::grid_sampler::GridSampler3DBackward(problem));
}

inline double kernel_nanoseconds(const GridSampler3D& problem) {
  return kernel_nanoseconds(ops::grid_sampler::GridSampler3D(problem));
}
inline double kernel_nanoseconds(const GridSampler3DBackward& problem) {
  return kernel_nanoseconds(ops::grid_sampler::GridSampler3DBackward(problem));
}

inline void run_kernel(const GridSampler3D& problem, void* workspace) {
  run_kernel(ops::grid_sampler::GridSampler3D(problem), workspace);
}
inline void run_kernel(const GridSampler3DBackward& problem, void* workspace) {
  run_kernel(ops::grid_sampler::GridSampler3DBackward(problem), workspace);
}

}  // namespace aclgrad
