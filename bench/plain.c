// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The operators as one would write them in an afternoon, for a compiler with -O3 -march=native: baselines of the benchmark.
// One thread, contiguous but for the grid samplers' flag; NSA compress and the sums of groups are of any `Element`, the
// others of float32.
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef struct {
  int64_t batch, channels, height, width, output_height, output_width;
  int64_t channels_last;
} Sampling;

typedef struct {
  int64_t corner[4];             // pixels, or 0 where the corner is outside
  float weight[4];               // 0 there
  float along_x[4], along_y[4];  // derivatives of the weights
} Corners;

static Corners corners_of(float x, float y, int64_t height, int64_t width) {
  Corners corners;
  x = ((x + 1) * width - 1) / 2;
  y = ((y + 1) * height - 1) / 2;
  const float left = floorf(x), top = floorf(y);
  const float fx = x - left, fy = y - top;
  for (int corner = 0; corner < 4; ++corner) {
    const int right = corner & 1, below = corner >> 1;
    const float column = left + right, row = top + below;
    const int inside = column >= 0 && column < width && row >= 0 && row < height;
    const float wx = right ? fx : 1 - fx, wy = below ? fy : 1 - fy;
    corners.corner[corner] = inside ? (int64_t)row * width + (int64_t)column : 0;
    corners.weight[corner] = inside ? wx * wy : 0;
    corners.along_x[corner] = inside ? (right ? wy : -wy) : 0;
    corners.along_y[corner] = inside ? (below ? wx : -wx) : 0;
  }
  return corners;
}

void grid_sampler_2d(const Sampling* s, const float* input, const float* grid, float* output) {
  const int64_t pixels = s->height * s->width, samples = s->output_height * s->output_width,
                channels = s->channels;
  const int64_t step = s->channels_last ? channels : 1;
  const int64_t plane = s->channels_last ? 1 : pixels, output_plane = s->channels_last ? 1 : samples;
  for (int64_t n = 0; n < s->batch; ++n) {
    for (int64_t k = 0; k < samples; ++k) {
      const Corners at = corners_of(grid[2 * k], grid[2 * k + 1], s->height, s->width);
      if (s->channels_last) {
        const float* restrict p0 = input + at.corner[0] * channels;
        const float* restrict p1 = input + at.corner[1] * channels;
        const float* restrict p2 = input + at.corner[2] * channels;
        const float* restrict p3 = input + at.corner[3] * channels;
        float* restrict out = output + k * channels;
        for (int64_t c = 0; c < channels; ++c)
          out[c] = at.weight[0] * p0[c] + at.weight[1] * p1[c] + at.weight[2] * p2[c] + at.weight[3] * p3[c];
      } else {
        for (int64_t c = 0; c < channels; ++c) {
          float sum = 0;
          for (int corner = 0; corner < 4; ++corner)
            sum += at.weight[corner] * input[at.corner[corner] * step + c * plane];
          output[k * step + c * output_plane] = sum;
        }
      }
    }
    input += channels * pixels;
    output += channels * samples;
    grid += 2 * samples;
  }
}

void grid_sampler_2d_backward(const Sampling* s, const float* grad_output, const float* input,
                              const float* grid, float* grad_input, float* grad_grid) {
  const int64_t pixels = s->height * s->width, samples = s->output_height * s->output_width,
                channels = s->channels;
  const int64_t step = s->channels_last ? channels : 1;
  const int64_t plane = s->channels_last ? 1 : pixels, output_plane = s->channels_last ? 1 : samples;
  memset(grad_input, 0, (size_t)(s->batch * channels * pixels) * sizeof(float));
  for (int64_t n = 0; n < s->batch; ++n) {
    for (int64_t k = 0; k < samples; ++k) {
      const Corners at = corners_of(grid[2 * k], grid[2 * k + 1], s->height, s->width);
      float along_x = 0, along_y = 0;
      for (int corner = 0; corner < 4; ++corner) {
        const int64_t offset = at.corner[corner] * step;
        const float weight = at.weight[corner];
        float dot = 0;
        for (int64_t c = 0; c < channels; ++c) {
          const float grad = grad_output[k * step + c * output_plane];
          grad_input[offset + c * plane] += weight * grad;
          dot += input[offset + c * plane] * grad;
        }
        along_x += at.along_x[corner] * dot;
        along_y += at.along_y[corner] * dot;
      }
      grad_grid[2 * k] = along_x * s->width / 2;
      grad_grid[2 * k + 1] = along_y * s->height / 2;
    }
    grad_output += channels * samples;
    input += channels * pixels;
    grad_input += channels * pixels;
    grid += 2 * samples;
    grad_grid += 2 * samples;
  }
}

typedef struct {
  int64_t batch, channels, sides[3], output_sides[3];  // depth, height, width
  int64_t channels_last;
} Volumes;

typedef struct {
  int64_t voxel[8];   // or 0 where it is outside
  float weight[8];    // 0 there
  float along[8][3];  // derivatives of the weights by x, y, z in voxels
} Voxels;

static Voxels voxels_of(const float* at, const int64_t* sides) {
  Voxels voxels;
  float first[3], fraction[3];
  for (int axis = 0; axis < 3; ++axis) {
    const float place = ((at[axis] + 1) * sides[2 - axis] - 1) / 2;
    first[axis] = floorf(place);
    fraction[axis] = place - first[axis];
  }
  for (int v = 0; v < 8; ++v) {
    int64_t voxel = 0;
    int inside = 1;
    float factor[3];
    for (int axis = 2; axis >= 0; --axis) {
      const int second = v >> axis & 1;
      const float index = first[axis] + second;
      inside = inside && index >= 0 && index < sides[2 - axis];
      voxel = inside ? voxel * sides[2 - axis] + (int64_t)index : 0;
      factor[axis] = second ? fraction[axis] : 1 - fraction[axis];
    }
    voxels.voxel[v] = voxel;
    voxels.weight[v] = inside ? factor[0] * factor[1] * factor[2] : 0;
    for (int axis = 0; axis < 3; ++axis) {
      const float others = factor[(axis + 1) % 3] * factor[(axis + 2) % 3];
      voxels.along[v][axis] = !inside ? 0 : v >> axis & 1 ? others : -others;
    }
  }
  return voxels;
}

void grid_sampler_3d(const Volumes* s, const float* input, const float* grid, float* output) {
  const int64_t voxels = s->sides[0] * s->sides[1] * s->sides[2], channels = s->channels;
  const int64_t samples = s->output_sides[0] * s->output_sides[1] * s->output_sides[2];
  const int64_t step = s->channels_last ? channels : 1;
  const int64_t plane = s->channels_last ? 1 : voxels, output_plane = s->channels_last ? 1 : samples;
  for (int64_t n = 0; n < s->batch; ++n, input += channels * voxels, output += channels * samples) {
    for (int64_t k = 0; k < samples; ++k, grid += 3) {
      const Voxels at = voxels_of(grid, s->sides);
      for (int64_t c = 0; c < channels; ++c) {
        float sum = 0;
        for (int v = 0; v < 8; ++v) sum += at.weight[v] * input[at.voxel[v] * step + c * plane];
        output[k * step + c * output_plane] = sum;
      }
    }
  }
}

void grid_sampler_3d_backward(const Volumes* s, const float* grad_output, const float* input,
                              const float* grid, float* grad_input, float* grad_grid) {
  const int64_t voxels = s->sides[0] * s->sides[1] * s->sides[2], channels = s->channels;
  const int64_t samples = s->output_sides[0] * s->output_sides[1] * s->output_sides[2];
  const int64_t step = s->channels_last ? channels : 1;
  const int64_t plane = s->channels_last ? 1 : voxels, output_plane = s->channels_last ? 1 : samples;
  memset(grad_input, 0, (size_t)(s->batch * channels * voxels) * sizeof(float));
  for (int64_t n = 0; n < s->batch; ++n) {
    for (int64_t k = 0; k < samples; ++k, grid += 3, grad_grid += 3) {
      const Voxels at = voxels_of(grid, s->sides);
      float along[3] = {0, 0, 0};
      for (int v = 0; v < 8; ++v) {
        const int64_t offset = at.voxel[v] * step;
        float dot = 0;
        for (int64_t c = 0; c < channels; ++c) {
          const float grad = grad_output[k * step + c * output_plane];
          grad_input[offset + c * plane] += at.weight[v] * grad;
          dot += input[offset + c * plane] * grad;
        }
        for (int axis = 0; axis < 3; ++axis) along[axis] += at.along[v][axis] * dot;
      }
      for (int axis = 0; axis < 3; ++axis) grad_grid[axis] = along[axis] * s->sides[2 - axis] / 2;
    }
    grad_output += channels * samples;
    input += channels * voxels;
    grad_input += channels * voxels;
  }
}

typedef struct {
  int64_t batch, keys, heads, channels, queries, levels, points;
} Attention;

void msda(const Attention* a, const float* value, const int64_t* shapes, const int64_t* starts,
          const float* location, const float* weights, float* output) {
  const int64_t row = a->heads * a->channels;
  for (int64_t n = 0; n < a->batch; ++n, value += a->keys * row) {
    for (int64_t q = 0; q < a->queries * a->heads; ++q, output += a->channels) {
      const int64_t head = q % a->heads;
      memset(output, 0, (size_t)a->channels * sizeof(float));
      for (int64_t level = 0; level < a->levels; ++level) {
        const float* plane = value + starts[level] * row + head * a->channels;
        for (int64_t p = 0; p < a->points; ++p, location += 2, ++weights) {
          const Corners at =
              corners_of(2 * location[0] - 1, 2 * location[1] - 1, shapes[2 * level], shapes[2 * level + 1]);
          for (int corner = 0; corner < 4; ++corner) {
            const float weight = at.weight[corner] * *weights;
            const float* restrict pixel = plane + at.corner[corner] * row;
            float* restrict out = output;
            for (int64_t c = 0; c < a->channels; ++c) out[c] += weight * pixel[c];
          }
        }
      }
    }
  }
}

void msda_backward(const Attention* a, const float* value, const int64_t* shapes, const int64_t* starts,
                   const float* location, const float* weights, const float* grad_output, float* grad_value,
                   float* grad_location, float* grad_weights) {
  const int64_t row = a->heads * a->channels;
  memset(grad_value, 0, (size_t)(a->batch * a->keys * row) * sizeof(float));
  for (int64_t n = 0; n < a->batch; ++n, value += a->keys * row, grad_value += a->keys * row) {
    for (int64_t q = 0; q < a->queries * a->heads; ++q, grad_output += a->channels) {
      const int64_t head = q % a->heads;
      for (int64_t level = 0; level < a->levels; ++level) {
        const int64_t plane = starts[level] * row + head * a->channels;
        const int64_t height = shapes[2 * level], width = shapes[2 * level + 1];
        for (int64_t p = 0; p < a->points; ++p, location += 2, grad_location += 2) {
          const Corners at = corners_of(2 * location[0] - 1, 2 * location[1] - 1, height, width);
          float along_x = 0, along_y = 0, along_weight = 0;
          for (int corner = 0; corner < 4; ++corner) {
            const float weight = at.weight[corner] * *weights;
            const float* restrict pixel = value + plane + at.corner[corner] * row;
            float* restrict grad_pixel = grad_value + plane + at.corner[corner] * row;
            float dot = 0;
            for (int64_t c = 0; c < a->channels; ++c) {
              grad_pixel[c] += weight * grad_output[c];
              dot += pixel[c] * grad_output[c];
            }
            along_x += at.along_x[corner] * dot;
            along_y += at.along_y[corner] * dot;
            along_weight += at.weight[corner] * dot;
          }
          grad_location[0] = along_x * width * *weights;
          grad_location[1] = along_y * height * *weights;
          *grad_weights++ = along_weight;
          ++weights;
        }
      }
    }
  }
}

// One sequence of `tokens`.
typedef struct {
  int64_t tokens, heads, channels, block, stride, windows;
} Compression;

void nsa_compress(const Compression* s, const Element* input, const Element* weight, Element* output) {
  const int64_t row = s->heads * s->channels;
  float sums[row];
  for (int64_t k = 0; k < s->windows; ++k) {
    memset(sums, 0, sizeof(sums));
    for (int64_t j = 0; j < s->block; ++j) {
      for (int64_t n = 0; n < s->heads; ++n) {
        const Element* restrict token = input + (k * s->stride + j) * row + n * s->channels;
        const float factor = weight[j * s->heads + n];
        for (int64_t c = 0; c < s->channels; ++c) sums[n * s->channels + c] += factor * (float)token[c];
      }
    }
    for (int64_t c = 0; c < row; ++c) output[k * row + c] = (Element)sums[c];
  }
}

void nsa_compress_backward(const Compression* s, const Element* grad_output, const Element* input,
                           const Element* weight, Element* grad_input, Element* grad_weight) {
  const int64_t row = s->heads * s->channels;
  float sums[row], weight_sums[s->block * s->heads];
  memset(weight_sums, 0, sizeof(weight_sums));
  for (int64_t t = 0; t < s->tokens; ++t) {
    memset(sums, 0, sizeof(sums));
    const int64_t first = t < s->block ? 0 : (t - s->block) / s->stride + 1;
    for (int64_t k = first; k < s->windows && k * s->stride <= t; ++k) {
      for (int64_t n = 0; n < s->heads; ++n) {
        const Element* restrict grad = grad_output + k * row + n * s->channels;
        const Element* restrict token = input + t * row + n * s->channels;
        const int64_t entry = (t - k * s->stride) * s->heads + n;
        float dot = 0;
        for (int64_t c = 0; c < s->channels; ++c) {
          sums[n * s->channels + c] += (float)weight[entry] * (float)grad[c];
          dot += (float)token[c] * (float)grad[c];
        }
        weight_sums[entry] += dot;
      }
    }
    for (int64_t c = 0; c < row; ++c) grad_input[t * row + c] = (Element)sums[c];
  }
  for (int64_t e = 0; e < s->block * s->heads; ++e) grad_weight[e] = (Element)weight_sums[e];
}

void grouped_bias_add_grad(const int64_t* sizes, const Element* grad, const int64_t* ends, Element* output) {
  const int64_t rows = sizes[0], columns = sizes[1], groups = sizes[2];
  float sums[columns];
  int64_t row = 0;
  for (int64_t group = 0; group < groups; ++group, output += columns) {
    memset(sums, 0, sizeof(sums));
    for (; row < ends[group] && row < rows; ++row) {
      for (int64_t c = 0; c < columns; ++c) sums[c] += (float)grad[row * columns + c];
    }
    for (int64_t c = 0; c < columns; ++c) output[c] = (Element)sums[c];
  }
}
