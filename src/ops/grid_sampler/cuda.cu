// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Grid sampling and its gradient on a GPU.
//
// In planes (cuda_planes.h, cuda_tiles.h), where grids are smooth, or where little is read for a sample: images stay where
// they lie. By channels (cuda_channels.h), where grids are scattered: a pixel's channels are brought side by side. Only the
// data tells the one from the other, so both are launched, and the kernels of the wrong one return at once.
#include "cuda/sums.h"
#include "ops/grid_sampler/cuda_channels.h"
#include "ops/grid_sampler/cuda_planes.h"
#include "ops/grid_sampler/cuda_tiles.h"
#include "ops/grid_sampler/kernel.h"

namespace aclgrad::ops::grid_sampler {

namespace {

// From so many on, the channels of a pixel fill 32 bytes, which is what memory is moved in, in every type.
constexpr int64_t kMinChannels = 16;
// The same of images whose pixels have them side by side already.
constexpr int64_t kMinChannelsInOrder = 8;

bool can_work_by_channels(const SamplingOf<2>& problem, int64_t min_channels) {
  return problem.type != DataType::float64 && problem.channels >= min_channels &&
         are_dense(samples_of(problem), pixels_of(problem));
}
// Another order of the pixels costs time. It is not made up for where a sample reads one pixel, or four of few channels, or
// where nothing is added.
bool works_by_channels(const ForwardOf<2>& problem, const CudaLaunch&) {
  constexpr int64_t kManyChannels = 32;
  const bool is_in_order = problem.input_strides[1] == 1;
  return can_work_by_channels(problem, kMinChannels) && problem.interpolation != Interpolation::nearest &&
         (is_in_order || problem.channels >= kManyChannels ||
          problem.interpolation == Interpolation::bicubic);
}
// What is deterministic must not depend on strides. In images that are in order, whole quads of fewer channels are added
// together.
bool works_by_channels(const BackwardOf<2>& problem, const CudaLaunch& on) {
  const bool is_in_order = problem.input_strides[1] == 1,
             is_bilinear = problem.interpolation == Interpolation::bilinear;
  if (can_work_by_channels(problem, kMinChannels))
    return on.deterministic || problem.interpolation == Interpolation::bicubic ||
           (is_bilinear && (is_in_order || problem.wants_input_grad));
  const bool fills_quads = problem.channels == kQuad && problem.type == DataType::float32;
  return can_work_by_channels(problem, fills_quads ? kQuad : kMinChannelsInOrder) && is_in_order &&
         is_bilinear && problem.wants_input_grad && !on.deterministic;
}

// ---- Images whose channels lie side by side

// Of images in the workspace: whole quads of channels.
int64_t pixel_stride(const SamplingOf<2>& problem) {
  return divide_up(problem.channels, kQuad) * kQuad;
}

// Of an image, or a volume of so many.
template <int kAxes = 2>
Strides<kAxes> channels_last_strides(int64_t height, int64_t width, int64_t pixel, int64_t depth = 1) {
  const int64_t row = width * pixel, slice = height * row;
  if constexpr (kAxes == 2) return {slice, 1, row, pixel};
  if constexpr (kAxes == 3) return {depth * slice, 1, slice, row, pixel};
}

bool reads_input(const BackwardOf<2>& problem) {
  return problem.wants_grid_grad && problem.interpolation != Interpolation::nearest;
}

template <class T>
bool pixels_hold_quads(const void* data, const Strides<2>& strides) {
  return holds_quads<T>(data, {strides[0], strides[2], strides[3]});
}

// Brings an image into the workspace, unless its channels lie side by side already, and changes data and strides to where
// it then is. With an allocator without memory it only takes the room.
template <class T>
void pack_image(const PlanarImage& image, const void*& data, Strides<2>& strides,
                WorkspaceAllocator& allocator, const CudaLaunch* on, const Condition& condition) {
  if (strides[1] == 1) return;
  T* packed = allocator.take<T>(image.batch * image.pixels() * image.packed_pixel);
  if (on == nullptr) return;
  launch_if(*on, condition, tiles_of(image), pack_pixels<T>, image, static_cast<const T*>(data), packed);
  data = packed;
  strides = channels_last_strides(image.height, image.width, image.packed_pixel);
}

// The problem with its input packed. Without a launch it only takes the room.
template <class T, class Problem>
Problem with_packed_input(Problem problem, WorkspaceAllocator& allocator, const CudaLaunch* on,
                          const Condition& condition) {
  pack_image<T>({problem.batch, problem.channels, problem.height, problem.width, problem.input_strides,
                 pixel_stride(problem)},
                problem.input, problem.input_strides, allocator, on, condition);
  return problem;
}

// The problem with its images in the order that the gradient by channels wants. Without a launch it only takes their room.
template <class T>
BackwardOf<2> with_channels_side_by_side(BackwardOf<2> problem, WorkspaceAllocator& allocator,
                                         const CudaLaunch* on, const Condition& condition) {
  pack_image<T>({problem.batch, problem.channels, problem.output_height, problem.output_width,
                 problem.grad_output_strides, pixel_stride(problem)},
                problem.grad_output, problem.grad_output_strides, allocator, on, condition);
  return reads_input(problem) ? with_packed_input<T>(problem, allocator, on, condition) : problem;
}

// ---- Which implementation

// Whether images lie in planes whose places fit 32 bits.
bool has_planes(const SamplingOf<2>& problem) {
  return has_near_pixels<2>(problem) && problem.input_strides[2] == problem.width &&
         problem.input_strides[3] == 1;
}

// Planes are faster than images that have to be brought into another order until so many of the 32 samples of a warp jump.
// The larger the image is beside its samples, the more that order costs.
int max_jumps(const SamplingOf<2>& problem, int jumps, int jumps_for_pixels) {
  const int64_t samples = std::max<int64_t>(samples_of<2>(problem), 1);
  return static_cast<int>(
      std::min<int64_t>(jumps + jumps_for_pixels * pixels_of<2>(problem) / samples, kWarp));
}
int max_jumps(const ForwardOf<2>& problem, const CudaLaunch&) {
  return max_jumps(problem, 12, 5);
}
int max_jumps(const BackwardOf<2>& problem, const CudaLaunch& on) {
  return on.deterministic ? 0 : max_jumps(problem, 13, 2);
}

// Calls way(by_channels, condition, allocator) for each implementation that may be the right one. Both take the same memory.
template <class T, int kAxes, class Problem, class Way>
void for_each_way(const Problem& problem, void* workspace, const CudaLaunch& on, bool launches, Way&& way) {
  WorkspaceAllocator allocator(workspace);
  if constexpr (!std::is_same_v<T, double> && kAxes == 2) {
    if (works_by_channels(problem, on)) {
      const int limit = max_jumps(problem, on);
      if (limit == 0 || !has_planes(problem) || problem.interpolation == Interpolation::bicubic)
        return way(true, Condition{}, allocator);
      const int64_t samples = Sample<2>::count(problem);
      // In problems of so few elements smooth grids lose more by being looked at than scattered ones win.
      constexpr int64_t kFewElements = int64_t{1} << (std::is_same_v<Problem, ForwardOf<2>> ? 23 : 22);
      if (limit == kWarp || samples > kMaxSamples || samples * problem.channels <= kFewElements)
        return way(false, Condition{}, allocator);
      const auto most = static_cast<unsigned>(limit * kSampledWarps);
      auto* jumps = allocator.take<unsigned>(1);
      if (launches) {
        launch(on, 1, kSamplingThreads, count_jumps<T>, problem, axes_of<2>(problem, true),
               BlocksOfSamples<2>(problem), jumps);
      }
      way(false, Condition{jumps, 0, most}, allocator);
      return way(true, Condition{jumps, most + 1, ~0u}, allocator);
    }
  }
  way(false, Condition{}, allocator);
}

// The most that one of them takes: take<T>(by_channels, allocator).
template <int kAxes, class Problem, class Take>
size_t workspace_size(const Problem& problem, const CudaLaunch& on, Take&& take) {
  size_t largest = 0;
  visit_element_type(problem.type, [&]<class T>(T element) {
    for_each_way<T, kAxes>(problem, nullptr, on, false,
                           [&](bool by_channels, const Condition&, WorkspaceAllocator allocator) {
                             take(element, by_channels, allocator);
                             largest = std::max(largest, allocator.size());
                           });
  });
  return largest;
}

// ---- Gradient, all implementations

template <int kAxes>
Shape shape_of(const Strides<kAxes>& entries) {
  return {entries.data(), kAxes + 2};
}
// [N, C, H, W] or [N, C, D, H, W].
template <int kAxes>
Shape shape_of(const BackwardOf<kAxes>& problem, int64_t depth, int64_t height, int64_t width) {
  if constexpr (kAxes == 2) return {problem.batch, problem.channels, height, width};
  return {problem.batch, problem.channels, depth, height, width};
}

template <int kAxes>
Strides<kAxes> planar_strides(const SamplingOf<kAxes>& problem) {
  const int64_t slice = problem.height * problem.width, plane = problem.depth * slice;
  if constexpr (kAxes == 2) return {problem.channels * plane, plane, problem.width, 1};
  if constexpr (kAxes == 3) return {problem.channels * plane, plane, slice, problem.width, 1};
}

// Whether elements lie at the same places, wherever the axes lead that have one.
template <int kAxes>
bool lie_alike(const Shape& shape, const Strides<kAxes>& a, const Strides<kAxes>& b) {
  for (int axis = 0; axis < kAxes + 2; ++axis) {
    if (shape[axis] != 1 && a[axis] != b[axis]) return false;
  }
  return true;
}

// Gradients that lie side by side in their arithmetic type need no buffer: they are added up where they belong.
template <int kAxes>
bool sums_in_place(const BackwardOf<kAxes>& problem, bool by_channels, const CudaLaunch& on) {
  if (on.deterministic || (problem.type != DataType::float32 && problem.type != DataType::float64))
    return false;
  const Shape shape = shape_of(problem, problem.depth, problem.height, problem.width);
  const auto& strides = problem.input_grad_strides;
  const auto last =
      channels_last_strides<kAxes>(problem.height, problem.width, problem.channels, problem.depth);
  const bool are_last = lie_alike<kAxes>(shape, strides, last);
  if (by_channels) return are_last;
  // Pixels must have the same places in the image.
  if (are_last && lie_alike<kAxes>(shape, problem.input_strides, last)) return true;
  return lie_alike<kAxes>(shape, strides, planar_strides<kAxes>(problem));
}

template <int kAxes>
Strides<kAxes> sums_strides(const BackwardOf<kAxes>& problem, bool by_channels, const CudaLaunch& on) {
  if (sums_in_place(problem, by_channels, on)) return problem.input_grad_strides;
  if constexpr (kAxes == 2) {
    if (by_channels) return channels_last_strides(problem.height, problem.width, pixel_stride(problem));
  }
  return planar_strides<kAxes>(problem);
}

template <class T, int kAxes>
GradientSums<RealOf<T>> sums_of(const BackwardOf<kAxes>& problem, bool by_channels, const CudaLaunch& on,
                                WorkspaceAllocator& allocator) {
  constexpr int64_t kMaxTaps = kAxes == 2 ? 16 : 8;  // padding may bring all taps of a sample to one pixel
  const bool in_place = sums_in_place(problem, by_channels, on);
  int64_t channels = problem.channels, channels_of_row = 0;
  if constexpr (kAxes == 2) {
    if (by_channels && !in_place) channels = channels_of_row = pixel_stride(problem);
  }
  return {problem.batch * channels * pixels_of<kAxes>(problem),
          kMaxTaps * samples_of<kAxes>(problem),
          channels_of_row,
          in_place ? problem.input_grad : nullptr,
          on,
          allocator};
}

// Whether 32 bits hold the places, and pixels have the same ones in the image and in the sums.
template <int kAxes>
bool has_near_sums(const BackwardOf<kAxes>& problem, const Strides<kAxes>& strides) {
  if (!has_near_places<kAxes>(problem, problem.grad_output_strides)) return false;
  return !problem.wants_input_grad ||
         std::equal(strides.begin() + 2, strides.end(), problem.input_strides.begin() + 2);
}

// Whether four sums of a row that begin at a multiple of four pixels lie on a boundary of four.
template <int kAxes, class Real>
bool rows_hold_quads(const BackwardOf<kAxes>& problem, const FloatSums<Real>& sums,
                     const Strides<kAxes>& strides) {
  const bool steps =
      std::all_of(strides.begin() + 2, strides.end() - 1, [](int64_t s) { return s % kQuad == 0; });
  return problem.width % kQuad == 0 && strides[kAxes + 1] == 1 && steps &&
         holds_quads<Real>(sums.cells, {strides[0], strides[1]});
}

template <class T>
void scatter_tiles(const BackwardOf<2>& problem, const FloatSums<float>& sums, const Strides<2>& strides,
                   const Condition& condition, const CudaLaunch& on) {
  constexpr int64_t kManyWarps = 2048, kMinChannelsOfPart = 2 * kBoxChannels;
  const int64_t tiles = problem.batch * divide_up(problem.output_height, int64_t{kTileHeight}) *
                        divide_up(problem.output_width, int64_t{kTileWidth});
  // More warps share the channels of a tile where there are few tiles, as long as each has some channels.
  int parts = 1;
  while (parts < kWarps && tiles * parts < kManyWarps && problem.channels >= 2 * kMinChannelsOfPart * parts)
    parts *= 2;
  launch_if(on, condition, divide_up(tiles * parts, kWarps), scatter_by_tiles<T>, problem, sums, strides,
            axes_of<2>(problem, false), parts, rows_hold_quads<2>(problem, sums, strides));
}

template <class T, int kAxes>
void find_slopes_in_rows(const BackwardOf<kAxes>& problem, const Condition& condition, const CudaLaunch& on) {
  const BlocksOfSamples<kAxes> blocks(problem);
  const auto run = [&](auto kernel, auto pixel) {
    launch_if(on, condition, blocks.count, kernel, problem, axes_of<kAxes>(problem, false), blocks, pixel);
  };
  const auto pixel = static_cast<int32_t>(problem.input_strides[kAxes + 1]);
  pixel == 1 ? run(find_slopes<T, kAxes, Neighbours>, Neighbours())
             : run(find_slopes<T, kAxes, int32_t>, pixel);
}

template <class T, int kAxes>
void scatter_in_rows(const BackwardOf<kAxes>& problem, const FloatSums<RealOf<T>>& sums,
                     const Strides<kAxes>& strides, const Condition& condition, const CudaLaunch& on) {
  const BlocksOfSamples<kAxes> blocks(problem);
  launch_if(on, condition, blocks.count, scatter_rows<T, kAxes>, problem, sums, strides,
            axes_of<kAxes>(problem, false), blocks, static_cast<int32_t>(problem.input_strides[kAxes + 1]),
            rows_hold_quads<kAxes>(problem, sums, strides));
}

// Where 32 bits hold the places, and pixels have the same ones in the image and in the sums.
template <class T, int kAxes>
void scatter_near(const BackwardOf<kAxes>& problem, const FloatSums<RealOf<T>>& sums,
                  const Strides<kAxes>& strides, const Condition& condition, const CudaLaunch& on) {
  if (!problem.wants_input_grad) return find_slopes_in_rows<T>(problem, condition, on);
  if constexpr (kAxes == 2 && !std::is_same_v<T, double>) {
    // Of few channels and samples, tiles leave too few threads.
    constexpr int64_t kMinChannelsOfTile = 8, kFewElements = int64_t{1} << 19;
    const int64_t elements = Sample<2>::count(problem) * problem.channels;
    const bool fills_tiles = problem.channels >= kMinChannels ||
                             (problem.channels >= kMinChannelsOfTile && elements > kFewElements);
    if (fills_tiles && has_planes(problem)) return scatter_tiles<T>(problem, sums, strides, condition, on);
  }
  scatter_in_rows<T>(problem, sums, strides, condition, on);
}

template <class T, int kTaps, class Sums, int kAxes>
void scatter_in_planes(const BackwardOf<kAxes>& problem, const Sums& sums, const Strides<kAxes>& strides,
                       const Condition& condition, const CudaLaunch& on) {
  if constexpr (kTaps == 2 && std::is_same_v<Sums, FloatSums<RealOf<T>>>) {
    if (!on.deterministic && has_near_sums<kAxes>(problem, strides))
      return scatter_near<T>(problem, sums, strides, condition, on);
  }
  launch_if(on, condition, divide_up(Sample<kAxes>::count(problem), kThreads),
            scatter_by_samples<T, kTaps, Sums, kAxes>, problem, sums, strides,
            axes_of<kAxes>(problem, false));
}

template <class T, int kTaps, class Sums>
void scatter_channels(const BackwardOf<2>& problem, const Sums& sums, const Strides<2>& strides,
                      const Condition& condition, WorkspaceAllocator& allocator, const CudaLaunch& on) {
  const auto packed = with_channels_side_by_side<T>(problem, allocator, &on, condition);
  const bool whole = pixels_hold_quads<T>(packed.grad_output, packed.grad_output_strides) &&
                     (!reads_input(problem) || pixels_hold_quads<T>(packed.input, packed.input_strides)) &&
                     pixels_hold_quads<typename Sums::Cell>(sums.cells, strides);
  const int lanes = lanes_for(problem.channels);
  const int64_t blocks = divide_up(Sample<2>::count(problem) * lanes, kThreads);
  // Fewer where they may have nothing to do: blocks take time to start. But long ones end at different times.
  constexpr int64_t kFewBlocks = 4096;
  launch(on, condition.count == nullptr ? blocks : std::min(blocks, kFewBlocks), kThreads,
         scatter_by_channels<T, kTaps, Sums>, condition, packed, sums, strides, axes_of<2>(problem, false),
         lanes, whole);
}

template <class T, class Sums, int kAxes>
void scatter(const BackwardOf<kAxes>& problem, const Sums& sums, const Strides<kAxes>& strides,
             bool by_channels, const Condition& condition, WorkspaceAllocator& allocator,
             const CudaLaunch& on) {
  visit_taps_of<kAxes>(problem.interpolation, [&]<int kTaps>(std::integral_constant<int, kTaps>) {
    if constexpr (!std::is_same_v<T, double> && kAxes == 2) {
      if (by_channels) return scatter_channels<T, kTaps>(problem, sums, strides, condition, allocator, on);
    }
    scatter_in_planes<T, kTaps>(problem, sums, strides, condition, on);
  });
}

template <class T, class Sums, int kAxes>
void store(const BackwardOf<kAxes>& problem, const Sums& sums, bool by_channels, const Condition& condition,
           const CudaLaunch& on) {
  if constexpr (!std::is_same_v<T, double> && kAxes == 2) {
    if (by_channels) {
      const PlanarImage image{problem.batch, problem.channels,           problem.height,
                              problem.width, problem.input_grad_strides, pixel_stride(problem)};
      return launch_if(on, condition, tiles_of(image), store_pixels<T, Sums>, image, sums,
                       static_cast<T*>(problem.input_grad));
    }
  }
  store_sums(sums, static_cast<T*>(problem.input_grad),
             shape_of(problem, problem.depth, problem.height, problem.width),
             shape_of<kAxes>(problem.input_grad_strides), on, condition);
}

template <class T, int kAxes>
void run(const BackwardOf<kAxes>& problem, bool by_channels, const Condition& condition,
         WorkspaceAllocator& allocator, const CudaLaunch& on) {
  const auto strides = sums_strides(problem, by_channels, on);
  if (!problem.wants_input_grad)
    return scatter<T>(problem, FloatSums<RealOf<T>>{nullptr}, strides, by_channels, condition, allocator, on);
  sums_of<T>(problem, by_channels, on, allocator)
      .add_up(
          on,
          [&](Magnitudes* magnitudes) {
            // The largest weight of a term is at most 1.
            const Shape shape =
                shape_of(problem, problem.output_depth, problem.output_height, problem.output_width);
            find_magnitude_of(static_cast<const T*>(problem.grad_output), shape,
                              shape_of<kAxes>(problem.grad_output_strides), on, magnitudes, 0, true);
          },
          [&](const auto& sums) {
            scatter<T>(problem, sums, strides, by_channels, condition, allocator, on);
          },
          [&](const auto& sums) { store<T>(problem, sums, by_channels, condition, on); }, condition);
}

template <int kAxes, class Problem>
size_t backward_workspace_size(const Problem& given, const CudaLaunch& on) {
  const BackwardOf<kAxes> problem(given);
  return workspace_size<kAxes>(problem, on, [&]<class T>(T, bool by_channels, WorkspaceAllocator& allocator) {
    if (problem.wants_input_grad) sums_of<T>(problem, by_channels, on, allocator);
    if constexpr (!std::is_same_v<T, double> && kAxes == 2) {
      if (by_channels) with_channels_side_by_side<T>(problem, allocator, nullptr, Condition{});
    }
  });
}

template <int kAxes, class Problem>
size_t forward_workspace_size(const Problem& given, const CudaLaunch& on) {
  const ForwardOf<kAxes> problem(given);
  return workspace_size<kAxes>(problem, on, [&]<class T>(T, bool by_channels, WorkspaceAllocator& allocator) {
    if constexpr (!std::is_same_v<T, double> && kAxes == 2) {
      if (by_channels) with_packed_input<T>(problem, allocator, nullptr, Condition{});
    }
  });
}

template <class T, int kTaps, int kAxes>
void interpolate_in_planes(const ForwardOf<kAxes>& problem, const Condition& condition,
                           const CudaLaunch& on) {
  const auto axes = axes_of<kAxes>(problem, true);
  const int64_t samples = Sample<kAxes>::count(problem);
  constexpr int64_t kManyThreads = int64_t{1} << 18, kMinChannelsOfThread = 8;
  const int64_t threads_of_sample = std::max<int64_t>(
      std::min(kManyThreads / std::max<int64_t>(samples, 1), problem.channels / kMinChannelsOfThread), 1);
  const int64_t channels_of_thread = std::max<int64_t>(divide_up(problem.channels, threads_of_sample), 1);
  const int64_t parts = divide_up(problem.channels, channels_of_thread);
  if constexpr (kTaps <= 2) {
    if (has_near_places<kAxes>(problem, problem.output_strides)) {
      const BlocksOfSamples<kAxes> blocks(problem);
      const auto run = [&](auto kernel, auto pixel) {
        launch_if(on, condition, blocks.count * parts, kernel, problem, axes, blocks, Divisor(parts),
                  static_cast<int>(channels_of_thread), pixel);
      };
      constexpr int kTogether = kAxes == 2 ? 4 : 2;
      const auto pixel = static_cast<int32_t>(problem.input_strides[kAxes + 1]);
      if (pixel != 1) return run(interpolate_rows<T, kTaps, kAxes, kTogether, int32_t>, pixel);
      if constexpr (kAxes == 2) {
        if (channels_of_thread == 3)
          return run(interpolate_rows<T, kTaps, kAxes, 3, Neighbours>, Neighbours());
      }
      return run(interpolate_rows<T, kTaps, kAxes, kTogether, Neighbours>, Neighbours());
    }
  }
  const int64_t blocks = divide_up(samples * parts, kThreads);
  if constexpr (kTaps > 2) {
    if (has_near_pixels<kAxes>(problem)) {
      return launch_if(on, condition, blocks, interpolate<T, kTaps, kAxes, int32_t>, problem, axes,
                       channels_of_thread);
    }
  }
  launch_if(on, condition, blocks, interpolate<T, kTaps, kAxes, int64_t>, problem, axes, channels_of_thread);
}

template <class T, int kTaps, int kAxes>
void interpolate_all(const ForwardOf<kAxes>& problem, bool by_channels, const Condition& condition,
                     [[maybe_unused]] WorkspaceAllocator& allocator, const CudaLaunch& on) {
  if constexpr (!std::is_same_v<T, double> && kAxes == 2) {
    if (by_channels) {
      const auto packed = with_packed_input<T>(problem, allocator, &on, condition);
      const int lanes = std::min(kTileChannels / kQuad, lanes_for(problem.channels));
      const int64_t blocks = divide_up(Sample<2>::count(problem) * lanes, kThreads);
      return launch_if(on, condition, blocks, interpolate_by_channels<T, kTaps>, packed,
                       axes_of<2>(problem, true), lanes,
                       pixels_hold_quads<T>(packed.input, packed.input_strides));
    }
  }
  interpolate_in_planes<T, kTaps>(problem, condition, on);
}

template <int kAxes, class Problem>
void run_forward(const Problem& given, void* workspace, const CudaLaunch& on) {
  const ForwardOf<kAxes> problem(given);
  visit_element_type(problem.type, [&]<class T>(T) {
    for_each_way<T, kAxes>(problem, workspace, on, true,
                           [&](bool by_channels, const Condition& condition, WorkspaceAllocator allocator) {
                             visit_taps_of<kAxes>(
                                 problem.interpolation, [&]<int kTaps>(std::integral_constant<int, kTaps>) {
                                   interpolate_all<T, kTaps>(problem, by_channels, condition, allocator, on);
                                 });
                           });
  });
}

template <int kAxes, class Problem>
void run_backward(const Problem& given, void* workspace, const CudaLaunch& on) {
  BackwardOf<kAxes> problem(given);
  // Without pixels there is none to pad with: both gradients are zero, which is what zeros padding makes them.
  if (pixels_of<kAxes>(problem) == 0) problem.padding = Padding::zeros;
  if (!problem.wants_input_grad && !problem.wants_grid_grad) return;
  visit_element_type(problem.type, [&]<class T>(T) {
    for_each_way<T, kAxes>(problem, workspace, on, true,
                           [&](bool by_channels, const Condition& condition, WorkspaceAllocator allocator) {
                             run<T>(problem, by_channels, condition, allocator, on);
                           });
  });
}

const CudaKernel<GridSampler2D> kForward(forward_workspace_size<2, GridSampler2D>,
                                         run_forward<2, GridSampler2D>);
const CudaKernel<GridSampler3D> kForward3D(forward_workspace_size<3, GridSampler3D>,
                                           run_forward<3, GridSampler3D>);
const CudaKernel<GridSampler2DBackward> kBackward(backward_workspace_size<2, GridSampler2DBackward>,
                                                  run_backward<2, GridSampler2DBackward>);
const CudaKernel<GridSampler3DBackward> kBackward3D(backward_workspace_size<3, GridSampler3DBackward>,
                                                    run_backward<3, GridSampler3DBackward>);

}  // namespace
}  // namespace aclgrad::ops::grid_sampler
