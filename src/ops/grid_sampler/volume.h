// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Volumes where they lie, and how their work is cut.
//
// Vectorised over channels or over samples, as images are (layout.h), but without a look at the grid: the choice follows
// from types and sizes. Where samples add to a volume, and where one is read in a copy with its channels side by side,
// volumes are cut into boxes of slices and rows. Each box goes through the samples that have to do with it, in order, so a
// voxel's sum does not depend on the boxes. Which samples these are is listed before.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/caches.h"
#include "ops/grid_sampler/layout.h"

namespace aclgrad::ops::grid_sampler {

// One volume of a batch. A grid is a volume, too, of three channels: x, y and z.
template <class T>
struct Volume {
  T* data;
  int64_t channels;
  int64_t depth;
  int64_t height;
  int64_t width;
  int64_t channel_stride;
  int64_t slice_stride;
  int64_t row_stride;
  int64_t column_stride;
  bool outgrows_caches = false;  // as in Image

  Image slice(int64_t z) const {
    using Element = std::remove_const_t<T>;
    return {const_cast<Element*>(data + z * slice_stride),
            data_type_of<Element>,
            channels,
            height,
            width,
            channel_stride,
            row_stride,
            column_stride,
            outgrows_caches};
  }

  // Whether one stride leads from each voxel to the next, across the ends of rows and slices.
  bool is_flat() const {
    const Image image = slice(0);
    return image.is_flat() && (depth == 1 || slice_stride == image.pixels() * image.flat_stride());
  }
  int64_t flat_stride() const { return height * width == 1 ? slice_stride : slice(0).flat_stride(); }

  // Whether the voxels of a channel lie side by side.
  bool is_dense() const { return is_flat() && flat_stride() == 1; }

  int64_t offset(int64_t z, int64_t y, int64_t x) const {
    return z * slice_stride + y * row_stride + x * column_stride;
  }
};

template <class T>
Volume<T> volume_of(T* batch_data, const GridSampling3D::Strides& strides, int64_t batch, int64_t index,
                    int64_t channels, int64_t depth, int64_t height, int64_t width) {
  T* data = batch_data == nullptr ? nullptr : batch_data + index * strides[0];
  const int64_t bytes = batch * channels * depth * height * width * static_cast<int64_t>(sizeof(T));
  return {data,       channels,   depth,      height,     width,
          strides[1], strides[2], strides[3], strides[4], outgrows_caches(bytes)};
}

// The tensors of a problem, by the index in the batch.
template <class T>
Volume<const T> input_volume(const GridSampling3D& problem, int64_t index) {
  return volume_of(static_cast<const T*>(problem.input), problem.input_strides, problem.batch, index,
                   problem.channels, problem.depth, problem.height, problem.width);
}

template <class T, class Data>
Volume<T> sampled_volume(const GridSampling3D& problem, Data* data, const GridSampling3D::Strides& strides,
                         int64_t index) {
  return volume_of(static_cast<T*>(data), strides, problem.batch, index, problem.channels,
                   problem.output_depth, problem.output_height, problem.output_width);
}

template <class T, class Data>
Volume<T> coordinate_volume(const GridSampling3D& problem, Data* data, const GridSampling3D::Strides& strides,
                            int64_t index) {
  const GridSampling3D::Strides moved{strides[0], strides[4], strides[1], strides[2], strides[3]};
  return volume_of(static_cast<T*>(data), moved, problem.batch, index, 3, problem.output_depth,
                   problem.output_height, problem.output_width);
}

template <class T>
Volume<const T> grid_volume(const GridSampling3D& problem, int64_t index) {
  return coordinate_volume<const T>(problem, problem.grid, problem.grid_strides, index);
}

template <class T>
Volume<const T> grad_output_volume(const GridSampler3DBackward& problem, int64_t index) {
  return sampled_volume<const T>(problem, problem.grad_output, problem.grad_output_strides, index);
}

template <class T>
Volume<T> input_grad_volume(const GridSampler3DBackward& problem, int64_t index) {
  return volume_of(static_cast<T*>(problem.input_grad), problem.input_grad_strides, problem.batch, index,
                   problem.channels, problem.depth, problem.height, problem.width);
}

template <class T>
Volume<T> grid_grad_volume(const GridSampler3DBackward& problem, int64_t index) {
  return coordinate_volume<T>(problem, problem.grid_grad, problem.grid_grad_strides, index);
}

inline bool is_index(int64_t index, int64_t size) {
  return index >= 0 && index < size;
}

struct VolumeAxes {
  Axis x, y, z;

  VolumeAxes(const GridSampling3D& problem, bool forward)
      : x(x_axis_of(problem, forward)),
        y(y_axis_of(problem, forward)),
        z{problem.depth, problem.padding, problem.align_corners, forward} {}
};

// Calls function with the number of taps on each axis as a std::integral_constant.
template <class Function>
void visit_volume_taps(Interpolation interpolation, Function&& function) {
  if (interpolation == Interpolation::nearest) return function(std::integral_constant<int, 1>());
  function(std::integral_constant<int, 2>());
}

// ---- How the work is cut

// Few samples in a large volume read it where it lies, so that their time does not depend on its size.
inline bool vectorises_over_channels(const GridSampling3D& problem) {
  return problem.type != DataType::float64 && problem.channels >= kFewChannels &&
         samples_of(problem) >= pixels_of(problem) / 8;
}

// Whether a tensor of volumes lies in memory just as the kernels that are vectorised over channels want it.
inline bool is_channels_last(const GridSampling3D& problem, const GridSampling3D::Strides& strides) {
  return problem.type == DataType::float32 && strides[1] == 1 &&
         problem.channels == padded_channels(problem.channels);
}

// Slices and rows of a volume, over its whole width.
struct Box {
  RowBand slices;
  RowBand rows;

  bool contains(int64_t slice, int64_t row) const { return slices.contains(slice) && rows.contains(row); }
};

// A volume cut into boxes of 1 << slice_shift slices and 1 << row_shift rows.
struct BoxCut {
  int64_t depth;
  int64_t height;
  int64_t slice_shift = 0;
  int64_t row_shift = 0;

  // Those of compact boxes have few neighbours, those of `side_by_side` lie side by side in a dense volume.
  enum class Shape { compact, side_by_side };

  // Halves the boxes as long as `are_too_large` says so.
  template <class Predicate>
  BoxCut(int64_t volume_depth, int64_t volume_height, Shape shape, Predicate&& are_too_large)
      : depth(volume_depth), height(volume_height) {
    while (int64_t{1} << slice_shift < depth) ++slice_shift;
    while (int64_t{1} << row_shift < height) ++row_shift;
    while (slice_shift + row_shift > 0 && are_too_large(*this)) {
      const bool cuts_slices = shape == Shape::compact ? slice_shift >= row_shift : slice_shift > 0;
      --(cuts_slices ? slice_shift : row_shift);
    }
  }

  int64_t slices() const { return int64_t{1} << slice_shift; }  // of a box
  int64_t rows() const { return int64_t{1} << row_shift; }
  int64_t bands() const { return divide_up(height, rows()); }
  int64_t count() const { return divide_up(depth, slices()) * bands(); }

  Box box(int64_t index) const {
    const int64_t slab = index / bands(), band = index % bands();
    return {{slab << slice_shift, std::min((slab + 1) << slice_shift, depth)},
            {band << row_shift, std::min((band + 1) << row_shift, height)}};
  }
};

// Boxes that are worked on at the same time, at most, where the buffers of one have so many floats.
inline int64_t most_slots(int64_t floats) {
  constexpr int64_t kMost = 32;
  constexpr int64_t kFloats = 16 << 20;
  return std::clamp<int64_t>(kFloats / std::max<int64_t>(floats, 1), 1, kMost);
}

}  // namespace aclgrad::ops::grid_sampler
