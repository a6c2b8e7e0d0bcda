// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The operators' references in double precision behind a C interface, for the PyTorch tests: an array of sizes, then
// plain arrays of values.
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "ops/grid_sampler/reference_3d.h"
#include "ops/grouped_bias_add/reference.h"
#include "ops/multi_scale_deformable_attention/reference.h"
#include "ops/nsa_compress/reference.h"

using namespace aclgrad::reference;

namespace {

template <size_t count>
std::array<int64_t, count> first(const int64_t* sizes) {
  std::array<int64_t, count> values;
  std::copy_n(sizes, count, values.begin());
  return values;
}

std::vector<double> doubles(const double* data, int64_t count) {
  return {data, data + count};
}
std::vector<int64_t> integers(const int64_t* data, int64_t count) {
  return {data, data + count};
}

void write(const std::vector<double>& values, double* to) {
  std::copy(values.begin(), values.end(), to);
}

GridSampling grid_sampling(const int64_t* sizes) {
  const auto [batch, channels, height, width, output_height, output_width, mode, padding, align_corners,
              positions_in_double] = first<10>(sizes);
  return {batch,
          channels,
          height,
          width,
          output_height,
          output_width,
          static_cast<int>(mode),
          static_cast<int>(padding),
          align_corners != 0,
          positions_in_double != 0};
}

GridSampling3D grid_sampling_3d(const int64_t* sizes) {
  const auto [batch, channels, depth, height, width, output_depth, output_height, output_width, mode, padding,
              align_corners, positions_in_double] = first<12>(sizes);
  const int64_t of_slices[] = {batch,        channels, height,  width,         output_height,
                               output_width, mode,     padding, align_corners, positions_in_double};
  return {grid_sampling(of_slices), depth, output_depth};
}

int64_t input_size(const GridSampling& s) {
  return s.batch * s.channels * s.height * s.width;
}
int64_t point_count(const GridSampling& s) {
  return s.batch * s.output_height * s.output_width;
}

MultiScaleDeformableAttention attention_of(const int64_t* sizes, const int64_t* spatial_shape,
                                           const int64_t* level_start_index, const double* value,
                                           const double* location, const double* attention_weight,
                                           const double* grad_output) {
  MultiScaleDeformableAttention attention{};
  const auto [batches, rows, heads, channels, queries, levels, points] = first<7>(sizes);
  attention.batches = batches;
  attention.rows = rows;
  attention.heads = heads;
  attention.channels = channels;
  attention.queries = queries;
  attention.levels = levels;
  attention.points = points;
  const int64_t samples = batches * queries * heads * levels * points;
  attention.spatial_shape = integers(spatial_shape, levels * 2);
  attention.level_start_index = integers(level_start_index, levels);
  attention.value = doubles(value, batches * rows * heads * channels);
  attention.location = doubles(location, samples * 2);
  attention.attention_weight = doubles(attention_weight, samples);
  attention.grad_output = doubles(grad_output, batches * queries * heads * channels);
  return attention;
}

}  // namespace

extern "C" {

void reference_grouped_bias_add_grad(const int64_t* sizes, const double* grad_y, const int64_t* begin,
                                     const int64_t* end, double* out) {
  const auto [rows, columns, groups] = first<3>(sizes);
  write(grouped_bias_add_grad(doubles(grad_y, rows * columns), columns, integers(begin, groups),
                              integers(end, groups)),
        out);
}

void reference_grouped_bias_add_double_backward(const int64_t* sizes, const double* grad_grad_bias,
                                                const int64_t* begin, const int64_t* end, double* out) {
  const auto [rows, columns, groups] = first<3>(sizes);
  write(grouped_bias_add_double_backward(doubles(grad_grad_bias, groups * columns), rows, columns,
                                         integers(begin, groups), integers(end, groups)),
        out);
}

void reference_nsa_compress(const int64_t* sizes, const int64_t* sequence_ends, const double* input,
                            const double* weight, double* output) {
  const auto [tokens, heads, channels, block, stride, sequences] = first<6>(sizes);
  const NsaSizes nsa{heads, channels, block, stride, integers(sequence_ends, sequences)};
  write(nsa_compress(nsa, doubles(input, tokens * heads * channels), doubles(weight, block * heads)), output);
}

void reference_nsa_compress_grad(const int64_t* sizes, const int64_t* sequence_ends,
                                 const double* output_grad, const double* input, const double* weight,
                                 double* input_grad, double* weight_grad) {
  const auto [tokens, heads, channels, block, stride, sequences] = first<6>(sizes);
  const NsaSizes nsa{heads, channels, block, stride, integers(sequence_ends, sequences)};
  const auto windows = static_cast<int64_t>(window_starts(nsa).size());
  const NsaGradients gradients =
      nsa_compress_grad(nsa, doubles(output_grad, windows * heads * channels),
                        doubles(input, tokens * heads * channels), doubles(weight, block * heads));
  write(gradients.input, input_grad);
  write(gradients.weight, weight_grad);
}

void reference_nsa_compress_double_backward(const int64_t* sizes, const int64_t* sequence_ends,
                                            const double* output_grad, const double* input,
                                            const double* weight, const double* input_grad_grad,
                                            const double* weight_grad_grad, double* output_grad_grad,
                                            double* input_grad, double* weight_grad) {
  const auto [tokens, heads, channels, block, stride, sequences] = first<6>(sizes);
  const NsaSizes nsa{heads, channels, block, stride, integers(sequence_ends, sequences)};
  const auto windows = static_cast<int64_t>(window_starts(nsa).size());
  const int64_t elements = tokens * heads * channels;
  const NsaSecondGradients gradients = nsa_compress_double_backward(
      nsa, doubles(output_grad, windows * heads * channels), doubles(input, elements),
      doubles(weight, block * heads), doubles(input_grad_grad, elements),
      doubles(weight_grad_grad, block * heads));
  write(gradients.output_grad, output_grad_grad);
  write(gradients.input, input_grad);
  write(gradients.weight, weight_grad);
}

void reference_multi_scale_deformable_attention(const int64_t* sizes, const int64_t* spatial_shape,
                                                const int64_t* level_start_index, const double* value,
                                                const double* location, const double* attention_weight,
                                                const double* grad_output, double* output, double* grad_value,
                                                double* grad_location, double* grad_attention_weight) {
  auto attention =
      attention_of(sizes, spatial_shape, level_start_index, value, location, attention_weight, grad_output);
  attention.run();
  write(attention.output, output);
  write(attention.grad_value, grad_value);
  write(attention.grad_location, grad_location);
  write(attention.grad_attention_weight, grad_attention_weight);
}

void reference_multi_scale_deformable_attention_double_backward(
    const int64_t* sizes, const int64_t* spatial_shape, const int64_t* level_start_index, const double* value,
    const double* location, const double* attention_weight, const double* grad_output,
    const double* grad_grad_value, const double* grad_grad_location, const double* grad_grad_attention_weight,
    double* grad_grad_output, double* grad_value, double* grad_location, double* grad_attention_weight) {
  auto attention =
      attention_of(sizes, spatial_shape, level_start_index, value, location, attention_weight, grad_output);
  const auto like = [](const double* data, const std::vector<double>& values) {
    return doubles(data, static_cast<int64_t>(values.size()));
  };
  attention.grad_grad_value = like(grad_grad_value, attention.value);
  attention.grad_grad_location = like(grad_grad_location, attention.location);
  attention.grad_grad_attention_weight = like(grad_grad_attention_weight, attention.attention_weight);
  attention.run_double_backward();
  write(attention.grad_grad_output, grad_grad_output);
  write(attention.grad_value, grad_value);
  write(attention.grad_location, grad_location);
  write(attention.grad_attention_weight, grad_attention_weight);
}

void reference_grid_sampler_2d(const int64_t* sizes, const double* input, const double* grid,
                               double* output) {
  const GridSampling sampling = grid_sampling(sizes);
  write(grid_sampler_2d(sampling, doubles(input, input_size(sampling)),
                        doubles(grid, point_count(sampling) * 2)),
        output);
}

void reference_grid_sampler_2d_backward(const int64_t* sizes, const double* grad_output, const double* input,
                                        const double* grid, double* input_grad, double* grid_grad) {
  const GridSampling sampling = grid_sampling(sizes);
  const GridSamplerGradients gradients = grid_sampler_2d_backward(
      sampling, doubles(grad_output, point_count(sampling) * sampling.channels),
      doubles(input, input_size(sampling)), doubles(grid, point_count(sampling) * 2));
  write(gradients.input, input_grad);
  write(gradients.grid, grid_grad);
}

void reference_grid_sampler_2d_double_backward(const int64_t* sizes, const double* grad_output,
                                               const double* input, const double* grid,
                                               const double* grad_grad_input, const double* grad_grad_grid,
                                               double* grad_grad_output, double* input_grad,
                                               double* grid_grad) {
  const GridSampling sampling = grid_sampling(sizes);
  const GridSamplerSecondGradients gradients = grid_sampler_2d_double_backward(
      sampling, doubles(grad_output, point_count(sampling) * sampling.channels),
      doubles(input, input_size(sampling)), doubles(grid, point_count(sampling) * 2),
      doubles(grad_grad_input, input_size(sampling)), doubles(grad_grad_grid, point_count(sampling) * 2));
  write(gradients.grad_output, grad_grad_output);
  write(gradients.input, input_grad);
  write(gradients.grid, grid_grad);
}

void reference_grid_sampler_3d(const int64_t* sizes, const double* input, const double* grid,
                               double* output) {
  const GridSampling3D s = grid_sampling_3d(sizes);
  write(grid_sampler_3d(s, doubles(input, input_size(s) * s.depth),
                        doubles(grid, point_count(s) * s.output_depth * 3)),
        output);
}

void reference_grid_sampler_3d_backward(const int64_t* sizes, const double* grad_output, const double* input,
                                        const double* grid, double* input_grad, double* grid_grad) {
  const GridSampling3D s = grid_sampling_3d(sizes);
  const int64_t points = point_count(s) * s.output_depth;
  const GridSamplerGradients gradients =
      grid_sampler_3d_backward(s, doubles(grad_output, points * s.channels),
                               doubles(input, input_size(s) * s.depth), doubles(grid, points * 3));
  write(gradients.input, input_grad);
  write(gradients.grid, grid_grad);
}
}
