// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The bilinear gradient of many channels in planes on a GPU, in floats. A warp owns a tile of samples, and most pixels are
// read by several of them. Their terms are added up in shared memory, in a box of pixels around all that the tile reads, and
// memory sees one addition for four pixels of a row. Where the box would be too large, terms go to memory one by one: any
// grid is right.
#pragma once

#include "ops/grid_sampler/cuda_near.h"

namespace aclgrad::ops::grid_sampler {

// A tile has so many lanes side by side, and each lane so many samples below each other.
inline constexpr int kTileWidth = 16, kTileRows = 2, kTileHeight = kTileRows * kWarp / kTileWidth;
inline constexpr int kTileBlocks = 3;  // at least, on a multiprocessor
inline constexpr int kBoxPixels = 640, kBoxChannels = 2;

// A sample of a tile.
template <class T>
struct TileSample : NearSample<T, 2, 2> {
  int32_t at;    // the place of its first pixel in a plane
  int cell = 0;  // of the box, for that pixel
  int turn = 0;  // how many lanes before this one add to the same pixels

  __device__ TileSample(const BackwardOf<2>& problem, const Axes<2>& axes, const NearPlace<2>& place)
      : NearSample<T, 2, 2>(problem, axes, place), at(this->offset(problem.input_strides, Neighbours())) {}
};

// CellsOfPixel for sums of some channels around what a warp reads, row after row. A row begins where a quad does.
struct PixelBox {
  int left = 1 << 30, top = 1 << 30, width = 0, height = 0;
  unsigned inverse = 0;  // of the width

  // All lanes of the warp call it. Without samples that read anything, the box is empty.
  template <class T, int kSamples>
  __device__ PixelBox(const Lanes& lanes, const TileSample<T> (&samples)[kSamples]) {
    int right = -2, bottom = -2;
    for (const auto& of : samples) {
      if (!of.reads) continue;
      left = min(left, of.first[0]), top = min(top, of.first[1]);
      right = max(right, of.first[0]), bottom = max(bottom, of.first[1]);
    }
    left = lanes.smallest(left) & ~(kQuad - 1), top = lanes.smallest(top);
    right = -lanes.smallest(-right), bottom = -lanes.smallest(-bottom);
    if (bottom < top) return;
    width = (right + 2 - left + kQuad - 1) & ~(kQuad - 1);
    height = bottom + 2 - top;
    // The row of a cell is its number times that, in units of 2^-20: exactly, for so few cells.
    inverse = ((1u << 20) + width - 1) / width;
  }
  __device__ bool fits() const {
    return width <= kBoxPixels && height <= kBoxPixels && width * height <= kBoxPixels;
  }

  // In a plane, or -1 beside the image.
  __device__ int32_t offset(int cell, int32_t image_width, int32_t image_height) const {
    const int row = static_cast<int>(static_cast<unsigned>(cell) * inverse >> 20);
    const int32_t y = top + row, x = left + cell - row * width;
    return y < 0 || y >= image_height || x < 0 || x >= image_width ? -1 : y * image_width + x;
  }
};

struct alignas(sizeof(float) * kBoxChannels) CellsOfPixel {
  float of[kBoxChannels];
};

// Adds a box to memory, `kCount` channels that are so far apart, and makes it zero. `whole`: quads of a row lie on boundaries.
template <int kCount>
__device__ void empty_box(const Lanes& lanes, const PixelBox& at, CellsOfPixel* box,
                          const FloatSums<float>& sums, float* plane, int64_t channel_stride,
                          int32_t image_width, int32_t image_height, bool whole, int32_t first_offset) {
  const int cells = at.width * at.height;
  if (!whole) {
    for (int i = lanes.index; i < cells; i += kWarp) {
      const CellsOfPixel sum = box[i];
      box[i] = {};
      const int32_t offset = at.offset(i, image_width, image_height);
      if (offset < 0) continue;
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        if (sum.of[j] != 0) sums.add_to(plane + j * channel_stride + offset, sum.of[j]);
      }
    }
    return;
  }
  for (int i = kQuad * lanes.index; i < cells; i += kQuad * kWarp) {
    // Half of the lanes begin with the second half of their quad, so that they do not meet in the banks.
    const int second_half = (lanes.index >> 2 & 1) * 2;
    CellsOfPixel sum[kQuad];
    for (int k = 0; k < kQuad; ++k) {
      CellsOfPixel& cell = box[i + (k ^ second_half)];
      sum[k] = cell;
      cell = {};
    }
    const int32_t offset = i == kQuad * lanes.index ? first_offset : at.offset(i, image_width, image_height);
    if (offset < 0) continue;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      Quad<float> quad;
      for (int k = 0; k < kQuad; ++k) quad.lane[k] = second_half != 0 ? sum[k ^ 2].of[j] : sum[k].of[j];
      if (quad.lane[0] == 0 && quad.lane[1] == 0 && quad.lane[2] == 0 && quad.lane[3] == 0) continue;
      sums.add_quad(plane + j * channel_stride + offset, quad, kQuad, true);
    }
  }
}

// ---- Gradients of the grid, where a lane owns samples below each other: x and y of the first, and so on

// Where so many warps one after another share the channels of the same samples: the sums of all, in the first one. All threads
// of the block call it. `memory`: for kValues of each.
template <int kValues, class Real>
__device__ void sum_parts(Real (&sums)[kValues], int part, int parts, Real* memory) {
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < kValues; ++i) memory[i * kThreads + thread] = sums[i];
  __syncthreads();
  for (int other = 1; part == 0 && other < parts; ++other) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) sums[i] += memory[i * kThreads + thread + other * kWarp];
  }
  __syncthreads();
}

// Of `count` samples.
template <class T, int kValues, class Real>
__device__ void store_grid_grad(const BackwardOf<2>& problem, const Sample<2>& first, int count,
                                const Real (&multipliers)[kValues][kThreads], const Real (&sums)[kValues]) {
  const auto& strides = problem.grid_grad_strides;
  T* grid_grad = static_cast<T*>(problem.grid_grad) + first.offset_in_grid(strides);
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    if (i / 2 < count)
      grid_grad[i / 2 * strides[1] + i % 2 * strides[3]] = narrow<T>(multipliers[i][threadIdx.x] * sums[i]);
  }
}

// ---- All

// `parts`: so many warps share the channels of a tile. Images and sums have rows of neighbouring pixels; `whole`: quads of
// sums that begin at a multiple of four pixels lie on boundaries, and rows end with one.
template <class T>
__global__ void __launch_bounds__(kThreads, kTileBlocks)
    scatter_by_tiles(Condition condition, BackwardOf<2> problem, FloatSums<float> sums,
                     Strides<2> sums_strides, Axes<2> axes, int parts, bool whole) {
  if (!condition.holds()) return;
  __shared__ alignas(16) CellsOfPixel boxes[kWarps][kBoxPixels];
  __shared__ float multipliers[2 * kTileRows][kThreads];
  const Lanes lanes(kWarp);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp;
  const int part = warp & (parts - 1), groups = kWarps / parts;
  CellsOfPixel* box = boxes[warp];
  for (int i = lanes.index; i < kBoxPixels; i += kWarp) box[i] = {};
  // Samples of an image of as many rows and columns as there are tiles.
  SamplingOf<2> tiles_of = problem;
  tiles_of.output_height = divide_up(problem.output_height, int64_t{kTileHeight});
  tiles_of.output_width = divide_up(problem.output_width, int64_t{kTileWidth});
  const int64_t tiles = Sample<2>::count(tiles_of);
  const auto width = static_cast<int32_t>(problem.width), height = static_cast<int32_t>(problem.height);
  const PiecesOfBlock pieces(divide_up(tiles, int64_t{groups}));
  for (int64_t piece = pieces.first; piece < pieces.end; ++piece) {
    const int64_t index = piece * groups + warp / parts;
    const Sample<2> tile(tiles_of, index < tiles ? index : 0);
    const int64_t n = tile.batch, column = tile.place[0] * kTileWidth + lanes.index % kTileWidth;
    const int64_t first_row = tile.place[1] * kTileHeight + lanes.index / kTileWidth * kTileRows;
    int count = 0;
    if (index < tiles && column < problem.output_width)
      count = static_cast<int>(max(min(int64_t{kTileRows}, problem.output_height - first_row), int64_t{0}));
    const auto sample = [&](int k) {
      const NearPlace<2> place{static_cast<int32_t>(n),
                               {static_cast<int32_t>(column), static_cast<int32_t>(first_row) + k},
                               k < count};
      const TileSample<T> found(problem, axes, place);
      for (int axis = 0; axis < 2; ++axis) multipliers[2 * k + axis][thread] = found.multipliers[axis];
      return found;
    };
    TileSample<T> samples[] = {sample(0), sample(1)};
    static_assert(std::size(samples) == kTileRows);
    PixelBox at(lanes, samples);
    const bool fits = at.fits();
    int turns = 0;  // of the lanes that add to the same pixels
    if (fits) {
#pragma unroll
      for (auto& of : samples) {
        if (of.reads) of.cell = (of.first[1] - at.top) * at.width + of.first[0] - at.left;
        const unsigned same = __match_any_sync(~0u, of.reads ? of.cell : -1 - lanes.index);
        of.turn = __popc(same & ((1u << lanes.index) - 1u));
        turns = max(turns, of.turn);
      }
      turns = -lanes.smallest(-turns);
    } else {
      at.height = 0;
    }
    const int32_t first_offset = at.offset(kQuad * lanes.index, width, height);
    const auto& strides = problem.grad_output_strides;
    const int64_t first_channel = kBoxChannels * part, step = kBoxChannels * parts;
    const T* input = static_cast<const T*>(problem.input) + n * problem.input_strides[0] +
                     first_channel * problem.input_strides[1];
    const T* grad_output = static_cast<const T*>(problem.grad_output) + n * strides[0] +
                           first_channel * strides[1] + first_row * strides[2] + column * strides[3];
    auto* plane = sums.cells + n * sums_strides[0] + first_channel * sums_strides[1];
    float gradients[2 * kTileRows] = {};
    // Of so many channels, from where the pointers are.
    const auto scatter = [&]<int kCount>(std::integral_constant<int, kCount>) {
      float gradient[kTileRows][kCount];
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
#pragma unroll
        for (int k = 0; k < kTileRows; ++k)
          gradient[k][j] = k < count ? widen(grad_output[k * strides[2] + j * strides[1]]) : 0.0f;
      }
      if (problem.wants_grid_grad) {
        // All on their way before any is used.
        float values[kTileRows][kCount][4];
#pragma unroll
        for (int j = 0; j < kCount; ++j) {
#pragma unroll
          for (int k = 0; k < kTileRows; ++k) {
            const T* upper = input + j * problem.input_strides[1] + samples[k].at;
            samples[k].load({upper, upper + width}, Neighbours(), values[k][j]);
          }
        }
#pragma unroll
        for (int k = 0; k < kTileRows; ++k) {
#pragma unroll
          for (int j = 0; j < kCount; ++j)
            add_slopes(values[k][j], samples[k].rest, gradient[k][j], gradients + 2 * k);
        }
      }
#pragma unroll
      for (int k = 0; k < kTileRows; ++k) {
        const TileSample<T>& of = samples[k];
        const float to_right = of.rest[0], to_below = of.rest[1];
        const float weights[] = {(1 - to_below) * (1 - to_right), (1 - to_below) * to_right,
                                 to_below * (1 - to_right), to_below * to_right};
        CellsOfPixel* const to = box + of.cell;
        if (fits) {
          // A pixel at a time, and lanes that read the same pixels in turn, so that no two lanes add to the same.
#pragma unroll 1
          for (int turn = 0; turn <= turns; ++turn) {
            const bool adds = of.reads && of.turn == turn;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              if (adds) {
                CellsOfPixel sum = to[i % 2 + i / 2 * at.width];
#pragma unroll
                for (int j = 0; j < kCount; ++j) sum.of[j] = std::fma(weights[i], gradient[k][j], sum.of[j]);
                to[i % 2 + i / 2 * at.width] = sum;
              }
              __syncwarp();
            }
          }
        } else {
#pragma unroll
          for (int i = 0; i < 4; i += 2) {
            const int32_t left = of.are_pixels[i] ? of.at + i / 2 * width : -1;
            const int32_t right = of.are_pixels[i + 1] ? of.at + 1 + i / 2 * width : -1;
#pragma unroll
            for (int j = 0; j < kCount; ++j) {
              const float values[] = {weights[i] * gradient[k][j], weights[i + 1] * gradient[k][j]};
              add_row(sums, plane + j * sums_strides[1], left, right, values, whole);
            }
          }
        }
      }
      empty_box<kCount>(lanes, at, box, sums, plane, sums_strides[1], width, height, whole, first_offset);
      __syncwarp();
    };
    int64_t c = index < tiles ? first_channel : problem.channels;
    __syncwarp();
#pragma unroll 1
    for (; c + kBoxChannels <= problem.channels; c += step) {
      scatter(std::integral_constant<int, kBoxChannels>());
      input += step * problem.input_strides[1];
      grad_output += step * strides[1];
      plane += step * sums_strides[1];
    }
    if (c < problem.channels) scatter(std::integral_constant<int, 1>());
    if (!problem.wants_grid_grad) continue;
#pragma unroll
    for (int k = 0; k < kTileRows; ++k) {
      if (!samples[k].reads) gradients[2 * k] = gradients[2 * k + 1] = 0;  // infinity times zero is no zero
    }
    if (parts > 1) {
      // In the boxes, which are zero again for a next tile.
      auto* memory = reinterpret_cast<float*>(&boxes[0][0]);
      __syncthreads();
      sum_parts(gradients, part, parts, memory);
#pragma unroll
      for (int i = 0; i < 2 * kTileRows; ++i) memory[i * kThreads + thread] = 0;
      __syncthreads();
    }
    if (part == 0)
      store_grid_grad<T>(problem, Sample<2>(n, {column, first_row}), count, multipliers, gradients);
  }
}

}  // namespace aclgrad::ops::grid_sampler
