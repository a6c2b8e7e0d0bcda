// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The operators' references in double precision behind a C interface, for the PyTorch tests: each takes an array of sizes
// and one of tensors, the inputs before the outputs.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/grid_sampler/reference_3d.h"
#include "ops/grouped_bias_add/reference.h"
#include "ops/multi_scale_deformable_attention/reference.h"
#include "ops/nsa_compress/reference.h"

using namespace aclgrad::reference;

namespace {

// The memory of a contiguous tensor.
struct Elements {
  void* data;
  int64_t count;

  operator std::vector<double>() const { return copy<double>(); }
  operator std::vector<int64_t>() const { return copy<int64_t>(); }
  void operator=(const std::vector<double>& values) const {
    std::copy(values.begin(), values.end(), static_cast<double*>(data));
  }

 private:
  template <class T>
  std::vector<T> copy() const {
    return {static_cast<const T*>(data), static_cast<const T*>(data) + count};
  }
};

GridSampling grid_sampling(const int64_t* s) {
  return {s[0],      s[1],     s[2], s[3], s[4], s[5], static_cast<int>(s[6]), static_cast<int>(s[7]),
          s[8] != 0, s[9] != 0};
}

// Batch, channels, depth, height, width, the same three of the output, and the rest.
GridSampling3D grid_sampling_3d(const int64_t* s) {
  const int64_t of_slices[] = {s[0], s[1], s[3], s[4], s[6], s[7], s[8], s[9], s[10], s[11]};
  return {grid_sampling(of_slices), s[2], s[5]};
}

NsaSizes nsa_sizes(const int64_t* s, const Elements& sequence_ends) {
  return {s[0], s[1], s[2], s[3], sequence_ends};
}

MultiScaleDeformableAttention attention_of(const int64_t* s, const Elements* t) {
  MultiScaleDeformableAttention a{};
  a.batches = s[0];
  a.rows = s[1];
  a.heads = s[2];
  a.channels = s[3];
  a.queries = s[4];
  a.levels = s[5];
  a.points = s[6];
  a.spatial_shape = t[0];
  a.level_start_index = t[1];
  a.value = t[2];
  a.location = t[3];
  a.attention_weight = t[4];
  a.grad_output = t[5];
  return a;
}

}  // namespace

extern "C" {

void reference_grouped_bias_add_grad(const int64_t* sizes, const Elements* t) {
  t[3] = grouped_bias_add_grad(t[0], sizes[1], t[1], t[2]);
}

void reference_grouped_bias_add_double_backward(const int64_t* sizes, const Elements* t) {
  t[3] = grouped_bias_add_double_backward(t[0], sizes[0], sizes[1], t[1], t[2]);
}

void reference_nsa_compress(const int64_t* sizes, const Elements* t) {
  t[3] = nsa_compress(nsa_sizes(sizes, t[0]), t[1], t[2]);
}

void reference_nsa_compress_grad(const int64_t* sizes, const Elements* t) {
  const NsaGradients gradients = nsa_compress_grad(nsa_sizes(sizes, t[0]), t[1], t[2], t[3]);
  t[4] = gradients.input;
  t[5] = gradients.weight;
}

void reference_nsa_compress_double_backward(const int64_t* sizes, const Elements* t) {
  const NsaSecondGradients gradients =
      nsa_compress_double_backward(nsa_sizes(sizes, t[0]), t[1], t[2], t[3], t[4], t[5]);
  t[6] = gradients.output_grad;
  t[7] = gradients.input;
  t[8] = gradients.weight;
}

void reference_multi_scale_deformable_attention(const int64_t* sizes, const Elements* t) {
  auto attention = attention_of(sizes, t);
  attention.run();
  t[6] = attention.output;
  t[7] = attention.grad_value;
  t[8] = attention.grad_location;
  t[9] = attention.grad_attention_weight;
}

void reference_multi_scale_deformable_attention_double_backward(const int64_t* sizes, const Elements* t) {
  auto attention = attention_of(sizes, t);
  attention.grad_grad_value = t[6];
  attention.grad_grad_location = t[7];
  attention.grad_grad_attention_weight = t[8];
  attention.run_double_backward();
  t[9] = attention.grad_grad_output;
  t[10] = attention.grad_value;
  t[11] = attention.grad_location;
  t[12] = attention.grad_attention_weight;
}

void reference_grid_sampler_2d(const int64_t* sizes, const Elements* t) {
  t[2] = grid_sampler_2d(grid_sampling(sizes), t[0], t[1]);
}

void reference_grid_sampler_2d_backward(const int64_t* sizes, const Elements* t) {
  const GridSamplerGradients gradients = grid_sampler_2d_backward(grid_sampling(sizes), t[0], t[1], t[2]);
  t[3] = gradients.input;
  t[4] = gradients.grid;
}

void reference_grid_sampler_2d_double_backward(const int64_t* sizes, const Elements* t) {
  const GridSamplerSecondGradients gradients =
      grid_sampler_2d_double_backward(grid_sampling(sizes), t[0], t[1], t[2], t[3], t[4]);
  t[5] = gradients.grad_output;
  t[6] = gradients.input;
  t[7] = gradients.grid;
}

void reference_grid_sampler_3d(const int64_t* sizes, const Elements* t) {
  t[2] = grid_sampler_3d(grid_sampling_3d(sizes), t[0], t[1]);
}

void reference_grid_sampler_3d_backward(const int64_t* sizes, const Elements* t) {
  const GridSamplerGradients gradients = grid_sampler_3d_backward(grid_sampling_3d(sizes), t[0], t[1], t[2]);
  t[3] = gradients.input;
  t[4] = gradients.grid;
}
}
