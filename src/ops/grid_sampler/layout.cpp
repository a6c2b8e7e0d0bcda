// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "ops/grid_sampler/layout.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/caches.h"

namespace aclgrad::ops::grid_sampler {
namespace {

// A tensor of these extents: [N, C, H, W] or [N, C, D, H, W], or with the channels last, which of a grid are its coordinates.
// It may be undefined. The kernels write to those images alone that are outputs of the problem.
template <class AnyTensor>
Images images_of(const AnyTensor& tensor, DataType type, const Shape& extents, bool channels_last = false) {
  const Shape& strides = tensor.strides;
  const int last = extents.rank() - 1, channel = channels_last ? last : 1,
            x = channels_last ? last - 1 : last;
  const int y = x - 1, z = x - 2;
  const bool is_volume = last == 4;
  const auto size = static_cast<int64_t>(size_of(type));
  const int64_t elements = std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies());
  const int64_t channel_bytes = extents[x] * extents[y] * (is_volume ? extents[z] : 1) * size;
  // Small images that share cache lines would have many that are stored past the caches in part.
  constexpr int64_t kLine = 64, kManyLines = 64;
  const bool has_lines = channel_bytes % kLine == 0 || channel_bytes >= kManyLines * kLine;
  return {{const_cast<void*>(static_cast<const void*>(tensor.data)), type, extents[channel],
           is_volume ? extents[z] : 1, extents[y], extents[x], strides[channel],
           is_volume ? strides[z] : extents[y] * strides[y], strides[y], strides[x],
           has_lines && outgrows_caches(elements * size)},
          strides[0]};
}

// `output` is its gradient, backward.
template <class AnyTensor>
Sampling sampling_of(const GridSampling& problem, bool forward, const AnyTensor& output) {
  const DataType type = problem.input.type;
  Sampling sampling;  // without the images of a gradient
  sampling.type = type;
  sampling.interpolation = problem.interpolation;
  sampling.axis_count = problem.input.shape.rank() - 2;
  sampling.input = images_of(problem.input, type, problem.input.shape);
  sampling.grid = images_of(problem.grid, type, problem.grid.shape, true);
  sampling.output = images_of(output, type, output.shape);
  const Image& input = sampling.input.first;
  sampling.batch = problem.input.size(0);
  sampling.channels = input.channels;
  sampling.pixels = input.pixels();
  sampling.samples = sampling.grid.first.pixels();
  const int64_t sizes[] = {input.width, input.height, input.depth};
  for (int k = 0; k < 3; ++k) sampling.axes[k] = {sizes[k], problem.padding, problem.align_corners, forward};
  sampling.vectorises_over_channels = type != DataType::float64 &&
                                      (sampling.axis_count == 2 || sampling.channels >= kFewChannels) &&
                                      are_dense(sampling.samples, sampling.pixels);
  sampling.has_plain_rows = has_plain_rows(input);
  sampling.wants_input_grad = sampling.wants_grid_grad = sampling.wants_grad_grad_output = false;
  return sampling;
}

// Nearest interpolation has no grid_grad.
template <class Problem>
Sampling gradient_of(const Problem& problem) {
  Sampling sampling = sampling_of(problem, false, problem.grad_output);
  sampling.input_grad = images_of(problem.grad_input, sampling.type, problem.input.shape);
  sampling.grid_grad = images_of(problem.grad_grid, sampling.type, problem.grid.shape, true);
  sampling.wants_input_grad = problem.grad_input.defined();
  sampling.wants_grid_grad = problem.grad_grid.defined() && problem.interpolation != Interpolation::nearest;
  return sampling;
}

// Nearest interpolation has no derivative by the grid.
template <class Problem>
DoubleBackward second_of(const Problem& problem) {
  DoubleBackward sampling{};
  static_cast<Sampling&>(sampling) = gradient_of(problem);
  sampling.has_plain_rows = false;
  // By samples, four channels take 0.65 to 1.07 of the time with bilinear interpolation, and up to 1.4 with bicubic.
  const bool may_be_four = sampling.axis_count == 2 && problem.interpolation == Interpolation::bilinear;
  if (sampling.channels < kFewChannels + may_be_four) sampling.vectorises_over_channels = false;
  sampling.has_grad_grad_input = problem.grad_grad_input.defined();
  sampling.has_grad_grad_grid =
      problem.grad_grad_grid.defined() && problem.interpolation != Interpolation::nearest;
  sampling.wants_input_grad = problem.grad_input.defined() && sampling.has_grad_grad_grid;
  sampling.grad_grad_input = images_of(problem.grad_grad_input, sampling.type, problem.input.shape);
  sampling.grad_grad_grid = images_of(problem.grad_grad_grid, sampling.type, problem.grid.shape, true);
  sampling.grad_grad_output = images_of(problem.grad_grad_output, sampling.type, problem.grad_output.shape);
  sampling.wants_grad_grad_output = problem.grad_grad_output.defined();
  return sampling;
}

template <class T>
void zero_rows(const Image& image, int64_t slice, RowBand band) {
  const int64_t first_of_slice = slice * image.slice_stride;
  const bool contiguous = image.column_stride == 1;
  const bool interleaved = image.channel_stride == 1 && image.column_stride == image.channels;
  if (contiguous && image.row_stride == image.width) {
    const auto count = static_cast<size_t>((band.end - band.begin) * image.width);
    for (int64_t channel = 0; channel < image.channels; ++channel) {
      std::memset(image.channel<T>(channel) + first_of_slice + image.offset(band.begin, 0), 0,
                  count * sizeof(T));
    }
    return;
  }
  if (image.row_stride == 1 && !interleaved) {
    const auto bytes = static_cast<size_t>(band.end - band.begin) * sizeof(T);
    for (int64_t channel = 0; channel < image.channels; ++channel) {
      T* first = image.channel<T>(channel) + first_of_slice + band.begin;
      for (int64_t column = 0; column < image.width; ++column)
        std::memset(first + column * image.column_stride, 0, bytes);
    }
    return;
  }
  for (int64_t row = band.begin; row < band.end; ++row) {
    T* first = image.channel<T>(0) + first_of_slice + row * image.row_stride;
    if (interleaved) {
      std::memset(first, 0, static_cast<size_t>(image.width * image.channels) * sizeof(T));
      continue;
    }
    for (int64_t channel = 0; channel < image.channels; ++channel, first += image.channel_stride) {
      if (contiguous) {
        std::memset(first, 0, static_cast<size_t>(image.width) * sizeof(T));
      } else {
        for (int64_t column = 0; column < image.width; ++column) first[column * image.column_stride] = T{};
      }
    }
  }
}

double taps_of(const Sampling& sampling) {
  return sampling.interpolation == Interpolation::bicubic ? 16 : 4;
}

// The pixel at whose right or below a coordinate falls, without padding.
double pixel_before(double coordinate, const Axis& axis) {
  const auto pixels = static_cast<double>(axis.size);
  const double place =
      axis.align_corners ? (coordinate + 1) / 2 * (pixels - 1) : ((coordinate + 1) * pixels - 1) / 2;
  return std::floor(place);
}

// From samples to their next ones, at some places of the grid.
struct GridSteps {
  int64_t probes = 0;  // places
  int64_t breaks = 0;  // not to the next pixel in the row
  int64_t across = 0;  // to another column
  int64_t climbs = 0;  // to another row
  int64_t jumps = 0;   // over a row, or over more than a column

  // Of all steps.
  double share(int64_t count) const {
    return probes == 0 ? 0 : static_cast<double>(count) / static_cast<double>(probes * (kNeighbours - 1));
  }
  static constexpr int64_t kNeighbours = 16;  // of a probe
};

GridSteps steps_of(const Sampling& sampling, int64_t max_probes = 64) {
  constexpr int64_t kNeighbours = GridSteps::kNeighbours;
  GridSteps steps;
  if (sampling.samples < kNeighbours) return steps;
  // At most every fourth sample, so that this takes little of the time that a small problem takes.
  steps.probes = std::clamp<int64_t>(sampling.batch * sampling.samples / (4 * kNeighbours), 1, max_probes);
  visit_element_type(sampling.grid.first.type, [&]<class T>(T) {
    for (int64_t probe = 0; probe < steps.probes; ++probe) {
      const Image grid = sampling.grid[probe * sampling.batch / steps.probes];
      const T *xs = grid.channel<T>(0), *ys = grid.channel<T>(1);
      double column = 0, row = 0;
      const int64_t any = (sampling.samples - kNeighbours) * probe / std::max<int64_t>(1, steps.probes - 1);
      const int64_t beyond = any % grid.width + kNeighbours - grid.width;  // of its row
      for_each_pixel(grid, beyond > 0 && grid.width >= kNeighbours ? any - beyond : any, kNeighbours,
                     [&](int64_t k, int64_t offset) {
                       const double x = pixel_before(to_real(xs[offset]), sampling.x_axis());
                       const double y = pixel_before(to_real(ys[offset]), sampling.y_axis());
                       if (k > 0) {
                         steps.breaks += !(x == column + 1 && y == row);
                         steps.across += x != column;
                         steps.climbs += y != row;
                         steps.jumps += !(std::abs(x - column) <= 2 && std::abs(y - row) <= 1);
                       }
                       column = x;
                       row = y;
                     });
    }
  });
  return steps;
}

// How wide strips are, in samples: shorter pieces of rows take longer to read and write.
constexpr int64_t kStripSamples = 256;

bool is_smooth(const GridSteps& steps, const Sampling& sampling) {
  // The more channels, the faster the alternative is.
  const int64_t max_breaks = sampling.channels <= kFewChannels ? 5 : 3;
  return steps.probes > 0 && steps.breaks <= steps.probes * max_breaks;
}

bool is_scattered(const GridSteps& steps) {
  return steps.share(steps.jumps) > 0.5;
}

constexpr int64_t kProbesOfRows = 16;

// Cache lines of planes between which the samples of a row of the grid go from row to row of the image.
double lines_of_row(const GridSteps& steps, const Sampling& sampling) {
  return steps.share(steps.climbs) * static_cast<double>(sampling.output.first.width * sampling.channels);
}

}  // namespace

Images layout_of_sums(const Sampling& sampling) {
  const Image& grad = sampling.input_grad.first;
  if (size_of(sampling.type) != 2) return sampling.input_grad;
  const Image planes = as_planes(grad, sampling.type, grad.width, grad.data);
  return {planes, planes.channels * planes.channel_stride};
}

bool adds_alike(const Sampling& sampling) {
  const Image &input = sampling.input.first, sums = layout_of_sums(sampling).first;
  const bool is_interleaved = input.column_stride != 1, has_halves = size_of(sampling.type) == 2;
  if (is_interleaved && has_halves && sampling.axis_count == 2 && sampling.channels > kFewChannels)
    return true;
  return input.column_stride == sums.column_stride && (!is_interleaved || sums.channel_stride == 1) &&
         input.row_stride == sums.row_stride &&
         (sampling.axis_count == 2 || input.slice_stride == sums.slice_stride);
}

bool has_plain_rows(const Image& image) {
  const bool has_rows =
      image.column_stride == 1 ||
      (image.type == DataType::float32 && image.channels >= 2 && image.channels <= kFewChannels &&
       image.channel_stride == 1 && image.column_stride == image.channels);
  const int64_t last = image.offset(image.depth - 1, image.height - 1, image.width - 1) + image.channels;
  return has_rows && std::max({image.depth, image.height, image.width}) < 1 << 23 && last < -kNowhere;
}

Sampling sampling_of(const GridSampler2D& problem) {
  return sampling_of(problem, true, problem.output);
}

Sampling sampling_of(const GridSampler3D& problem) {
  return sampling_of(problem, true, problem.output);
}

Sampling sampling_of(const GridSampler2DBackward& problem) {
  Sampling sampling = gradient_of(problem);
  if (sampling.channels <= kFewChannels) sampling.vectorises_over_channels = false;
  return sampling;
}

Sampling sampling_of(const GridSampler3DBackward& problem) {
  return gradient_of(problem);
}

DoubleBackward sampling_of(const GridSampler2DDoubleBackward& problem) {
  return second_of(problem);
}

DoubleBackward sampling_of(const GridSampler3DDoubleBackward& problem) {
  return second_of(problem);
}

void zero_box(const Image& image, const Box& box) {
  // Where there are no pixels there need be no address, which memset takes for no bytes, too.
  if (box.rows.begin == box.rows.end || image.width == 0 || image.channels == 0) return;
  visit_element_type(image.type, [&]<class T>(T) {
    for (int64_t slice = box.slices.begin; slice < box.slices.end; ++slice)
      zero_rows<T>(image, slice, box.rows);
  });
}

void zero_images(const Images& images, int64_t batch) {
  const Image& first = images.first;
  const double elements = static_cast<double>(batch * first.channels * first.pixels());
  parallel_for(batch * first.depth, 0.1 * elements, [&](int64_t task) {
    const int64_t slice = task % first.depth;
    zero_box(images[task / first.depth], {{slice, slice + 1}, {0, first.height}});
  });
}

double forward_nanoseconds(const Sampling& sampling) {
  const auto samples = static_cast<double>(sampling.batch * sampling.samples);
  const auto channels = static_cast<double>(sampling.channels);
  if (sampling.interpolation == Interpolation::nearest) return samples * (0.3 + 0.3 * channels);
  if (has_few_channels(sampling)) return samples * (0.8 + 0.25 * taps_of(sampling) * channels);
  if (sampling.axis_count == 3)
    return samples * (sampling.vectorises_over_channels ? 10 + channels : 5 + 6 * channels);
  if (!sampling.vectorises_over_channels) return samples * (3 + 0.5 * taps_of(sampling) * channels);
  const auto pixels = static_cast<double>(sampling.batch * sampling.pixels);
  return samples * (3 + (0.3 + 0.05 * taps_of(sampling)) * channels) + 0.3 * pixels * channels;
}

double gradient_nanoseconds(const Sampling& sampling) {
  const auto samples = static_cast<double>(sampling.batch * sampling.samples);
  const auto pixels = static_cast<double>(sampling.batch * sampling.pixels);
  const auto channels = static_cast<double>(sampling.channels);
  const bool by_channels = sampling.vectorises_over_channels;
  if (sampling.interpolation == Interpolation::nearest)
    return samples * (0.8 + 0.4 * channels) + pixels * 0.05 * channels;
  if (sampling.axis_count == 3) {
    const double of_voxel = sampling.wants_input_grad ? 0.5 : 0;
    return samples * (10 + (by_channels ? 1.5 : 10) * channels) + pixels * of_voxel * channels;
  }
  if (has_few_channels(sampling)) return samples * (2.5 + 0.65 * taps_of(sampling) * channels);
  // Without sums to add to, and with four channels in one load or images in the cache, vectors of samples take less than
  // half the time.
  constexpr double kCacheElements = 1 << 20;
  const bool is_near = sampling.input.first.channel_stride == 1 || pixels * channels <= kCacheElements;
  const bool is_light =
      !sampling.wants_input_grad && sampling.type == DataType::float32 && sampling.channels > 1 && is_near;
  const double of_tap = is_light ? 0.6 : 1.4;
  const double of_pixel = sampling.wants_input_grad ? (by_channels ? 0.8 : 0.1) : 0;
  return samples *
             (5 + (by_channels ? 0.3 + 0.12 * taps_of(sampling) : of_tap * taps_of(sampling)) * channels) +
         pixels * of_pixel * channels;
}

// The taps of two images, and a result for each sample.
double double_backward_nanoseconds(const DoubleBackward& sampling) {
  return 2 * gradient_nanoseconds(sampling);
}

bool is_grid_smooth(const Sampling& sampling) {
  return is_smooth(steps_of(sampling), sampling);
}

bool is_grid_scattered(const Sampling& sampling) {
  return is_scattered(steps_of(sampling));
}

bool is_grid_turned(const Sampling& sampling) {
  const GridSteps steps = steps_of(sampling);
  const bool is_turned = steps.climbs >= 2 * steps.probes && steps.climbs <= steps.across + steps.probes;
  return steps.probes > 0 && is_turned && steps.jumps <= steps.probes;
}

bool goes_up(const Sampling& sampling) {
  const Image& grid = sampling.grid.first;
  if (!outgrows_cache(sampling) || grid.height < 2) return false;
  const int64_t row = grid.height / 2, column = grid.width / 2;
  bool is_above = false;
  visit_element_type(grid.type, [&]<class T>(T) {
    const T* ys = grid.channel<T>(1) + grid.depth / 2 * grid.slice_stride;
    is_above = to_real(ys[grid.offset(row, column)]) < to_real(ys[grid.offset(row - 1, column)]);
  });
  return is_above;
}

bool suits_strips(const Sampling& sampling) {
  // Twice the cache lines of the first level: of half as many, strips take up to 1.3 times as long. Where a grid turns so
  // little that the pixels of its next row are asked for, it takes more lines; and for nearest samples, which read one row
  // each: of 1500, strips take up to twice as long.
  constexpr double kMinLines = 1024, kMinLinesOfLittleTurned = 1400, kMinLinesOfNearest = 2000,
                   kLittle = 0.25;
  const int64_t width = sampling.output.first.width;
  const bool has_planes = sampling.channels <= kFewChannels && sampling.input.first.column_stride == 1;
  if (sampling.axis_count != 2 || width <= kStripSamples || !has_planes ||
      static_cast<double>(width * sampling.channels) < kMinLines)
    return false;
  const GridSteps steps = steps_of(sampling, kProbesOfRows);
  double min_lines = steps.share(steps.climbs) <= kLittle ? kMinLinesOfLittleTurned : kMinLines;
  if (sampling.interpolation == Interpolation::nearest) min_lines = kMinLinesOfNearest;
  return lines_of_row(steps, sampling) >= min_lines && !is_scattered(steps);
}

bool asks_ahead(const Sampling& sampling) {
  // Where grids turn by 15 degrees, to ask for pixels of fewer lines takes up to 1.5 times as long, by 30 degrees 0.8 times.
  constexpr double kMinLines = 1500, kMinClimbs = 0.4;
  if (sampling.interpolation != Interpolation::nearest || !is_far(sampling)) return false;
  if (sampling.axis_count == 3) return true;
  const GridSteps steps = steps_of(sampling, kProbesOfRows);
  return steps.share(steps.climbs) >= kMinClimbs || lines_of_row(steps, sampling) >= kMinLines;
}

bool finds_own_first(const Sampling& sampling) {
  constexpr int64_t kMinBytes = 3 << 20, kPage = 4096;
  if (sampling.axis_count != 2 || sampling.channels > kFewChannels || image_bytes(sampling) < kMinBytes)
    return false;
  const GridSteps steps = steps_of(sampling);
  if (is_smooth(steps, sampling)) return false;
  const Image& input = sampling.input.first;
  const bool has_channels = sampling.channels > 1;
  if (is_scattered(steps)) return has_channels;
  // Of one channel it pays where rows share lines of the first-level cache.
  const bool has_pages = input.row_stride * static_cast<int64_t>(size_of(input.type)) % kPage == 0;
  return input.column_stride == 1 && (has_channels || has_pages);
}

SampleRuns::SampleRuns(const Sampling& sampling, int64_t max_samples)
    : samples_(sampling.samples),
      row_samples_(sampling.in_strips ? sampling.output.first.width : samples_),
      rows_(samples_ / row_samples_),
      runs_(divide_up(row_samples_, sampling.in_strips ? kStripSamples : max_samples)),
      run_samples_(divide_up(row_samples_, runs_)) {
  constexpr int64_t kMinRows = 8, kMaxRows = 64;
  part_rows_ = std::clamp(rows_ * runs_ / (kTasksOfThread * thread_count()), kMinRows, kMaxRows);
  constexpr int64_t kLine = 64;
  const Image& output = sampling.output.first;
  const auto bytes = static_cast<int64_t>(size_of(output.type));
  const auto beyond = static_cast<int64_t>(reinterpret_cast<uintptr_t>(output.data) % kLine);
  line_samples_ = kLine / bytes;
  lead_ = output.outgrows_caches && beyond % bytes == 0 ? (kLine - beyond) / bytes : 0;
}

}  // namespace aclgrad::ops::grid_sampler
