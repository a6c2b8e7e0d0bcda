// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The implementations of grid sampling on CPUs, by name and in the order of preference.
#pragma once

#include <cstddef>
#include <span>

#include "ops/grid_sampler/layout.h"

namespace aclgrad::ops::grid_sampler {

// Where an implementation is the fastest of those that are left, as far as types, sizes and strides tell.
enum class Suits { no, smooth_grids, rough_grids, scattered_grids, all_grids };

struct Implementation {
  const char* name;
  bool (*applies)(const Sampling& sampling);  // whether its results are right
  Suits (*suits)(const Sampling& sampling);
  size_t (*workspace_size)(const Sampling& sampling);
  void (*run)(const Sampling& sampling, void* workspace);
};

std::span<const Implementation> forward_implementations();
std::span<const Implementation> gradient_implementations();

// ---- The implementations, in files of their names

void sample_nearest(const Sampling& sampling, void* workspace);
void sample_by_samples(const Sampling& sampling, void* workspace);
size_t sample_planes_workspace_size(const Sampling& sampling);
void sample_planes(const Sampling& sampling, void* workspace);
size_t sample_by_channels_workspace_size(const Sampling& sampling);
void sample_by_channels(const Sampling& sampling, void* workspace);

size_t grad_nearest_workspace_size(const Sampling& sampling);
void grad_nearest(const Sampling& sampling, void* workspace);
size_t grad_by_samples_workspace_size(const Sampling& sampling);
void grad_by_samples(const Sampling& sampling, void* workspace);
size_t grad_by_channels_workspace_size(const Sampling& sampling);
void grad_by_channels(const Sampling& sampling, void* workspace);

// Of bilinear and bicubic interpolation.
size_t double_backward_by_samples_workspace_size(const DoubleBackward& sampling);
void double_backward_by_samples(const DoubleBackward& sampling, void* workspace);
size_t double_backward_by_channels_workspace_size(const DoubleBackward& sampling);
void double_backward_by_channels(const DoubleBackward& sampling, void* workspace);

}  // namespace aclgrad::ops::grid_sampler
