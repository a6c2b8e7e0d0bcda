// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// How images and volumes are cut, and which samples have to do with which piece. Each box of slices and rows goes through
// its samples in order, so a pixel's sum does not depend on how many boxes or threads there are.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/grid_sampler/layout.h"

namespace aclgrad::ops::grid_sampler {

inline constexpr int kBlock = 16;  // samples
// That are prepared together, so that the processor need not wait for each.
inline constexpr int kMaxBlocks = 4;
inline constexpr int64_t kMaxSamples = kMaxBlocks * kBlock;

// An image cut into boxes of 1 << slice_shift slices and 1 << row_shift rows.
struct BoxCut {
  int64_t depth;
  int64_t height;
  int64_t slice_shift = 0;
  int64_t row_shift = 0;

  // Halves the boxes as long as `are_too_large` says so. Boxes of images have at least four rows, as many as a sample may
  // have taps: so it has to do with two boxes at most.
  template <class Predicate>
  BoxCut(const Sampling& sampling, Predicate&& are_too_large)
      : depth(sampling.z_axis().size), height(sampling.y_axis().size) {
    const int64_t min_row_shift = sampling.axis_count == 3 ? 0 : 2;
    while (int64_t{1} << slice_shift < depth) ++slice_shift;
    while (int64_t{1} << row_shift < height) ++row_shift;
    while ((slice_shift > 0 || row_shift > min_row_shift) && are_too_large(*this))
      --(slice_shift >= row_shift ? slice_shift : row_shift);  // compact boxes have few neighbours
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
inline int64_t max_slots(int64_t floats) {
  constexpr int64_t kMaxSlots = 64;
  constexpr int64_t kFloats = 16 << 20;
  return std::clamp<int64_t>(kFloats / std::max<int64_t>(floats, 1), 1, kMaxSlots);
}

// Copies of boxes in channels-last order: floats, the channels of each pixel filled up.
struct BoxBuffers {
  int64_t taps;  // of an axis
  bool has_slices;
  int64_t width;
  int64_t channels;    // of a pixel
  int64_t row_floats;  // from one row to the next

  explicit BoxBuffers(const Sampling& sampling)
      : taps(taps_along_axis(sampling.interpolation)),
        has_slices(sampling.axis_count == 3),
        width(sampling.x_axis().size),
        channels(padded_channels(sampling.channels)),
        row_floats(spread_row(width * channels)) {}

  // With as much beside a box as taps may reach: behind it, or before it, too.
  int64_t rows(const BoxCut& cut, int64_t sides) const { return cut.rows() + sides * (taps - 1); }
  int64_t floats(const BoxCut& cut, int64_t sides) const {
    const int64_t slices = cut.slices() + (has_slices ? sides * (taps - 1) : 0);
    return slices * rows(cut, sides) * row_floats;
  }
};

// Samples of an image in their order: neighbours from `first` on, or listed by their numbers counted from it.
struct Samples {
  int64_t first;
  int64_t count;
  const uint32_t* listed = nullptr;

  int64_t operator[](int64_t k) const { return first + (listed == nullptr ? k : listed[k]); }
  bool are_neighbours() const { return listed == nullptr; }

  // Calls body(k, first, count) for each run of neighbours, from number k on.
  template <class Body>
  void for_each_run(Body&& body) const {
    if (listed == nullptr) return body(int64_t{0}, first, count);
    for (int64_t k = 0, end = 0; k < count; k = end) {
      for (end = k + 1; end < count && listed[end] == listed[end - 1] + 1;) ++end;
      body(k, first + listed[k], end - k);
    }
  }

  // At most `most` of them from number k on.
  Samples part(int64_t k, int64_t most) const {
    const int64_t rest = std::min(most, count - k);
    return listed == nullptr ? Samples{first + k, rest} : Samples{first, rest, listed + k};
  }
};

// For which boxes a sample is listed.
enum class Listing {
  owned,   // that of its first slice and row
  reached  // those of all its taps
};

// The samples of some images, listed for each box that has to do with them. An image has segments, each with one list
// for each box. Without a cut there is nothing to list. list_samples() of block-inl.h fills the lists.
struct SampleLists {
  Listing listing;
  int64_t samples;
  int64_t segments;
  int64_t segment_samples;
  int64_t segment_entries;
  int32_t* boxes =
      nullptr;  // [images, segments, segment_samples / 16], of blocks, -1 where there are several
  uint32_t* entries = nullptr;  // [images, segments, segment_entries]
  int64_t* ends = nullptr;      // [images, segments, boxes]
  int64_t* runs = nullptr;      // [images, segments], of samples with the same boxes

  SampleLists(const Sampling& sampling, Listing how, int64_t images, int64_t max_boxes,
              WorkspaceAllocator& allocator)
      : listing(how),
        samples(sampling.samples),
        segments(std::clamp<int64_t>(samples / (max_boxes * kMinListed), 1, kMaxSegments)),
        segment_samples(divide_up(divide_up(samples, segments), kMaxSamples) * kMaxSamples),
        segment_entries(segment_samples * max_boxes_of_sample(sampling)) {
    if (max_boxes == 1) return;
    boxes = allocator.take<int32_t>(images * segments * segment_samples / kBlock);
    entries = allocator.take<uint32_t>(images * segments * segment_entries);
    ends = allocator.take<int64_t>(images * segments * max_boxes);
    runs = allocator.take<int64_t>(images * segments);
  }

  // Whether hardly any neighbours have the same boxes.
  bool are_scattered(const BoxCut& cut, int64_t images) const {
    constexpr int64_t kFew = 14;
    if (cut.count() == 1) return false;
    int64_t listed = 0, all_runs = 0;
    for (int64_t segment = 0; segment < images * segments; ++segment) {
      listed += ends[(segment + 1) * cut.count() - 1];
      all_runs += runs[segment];
    }
    return listed < kFew * all_runs;
  }

  // Calls body(Samples) for the samples of a box, in their order: for so many neighbours at most, or 16 others. The image
  // is counted from the first.
  template <class Body>
  void for_each_run(const BoxCut& cut, int64_t image, int64_t box, int64_t most, Body&& body) const {
    if (cut.count() == 1) {
      for (int64_t first = 0; first < samples; first += most)
        body(Samples{first, std::min(most, samples - first)});
      return;
    }
    for (int64_t segment = 0; segment < segments; ++segment) {
      const int64_t number = image * segments + segment;
      const int64_t* of_segment = ends + number * cut.count();
      const uint32_t* list = entries + number * segment_entries;
      const int64_t end = of_segment[box];
      for (int64_t k = box == 0 ? 0 : of_segment[box - 1]; k < end;) {
        const Samples run = run_at(list + k, std::min(most, end - k), segment * segment_samples);
        body(run);
        k += run.count;
      }
    }
  }

 private:
  static constexpr int64_t kMinListed = 64;  // samples of a list, on average
  static constexpr int64_t kMaxSegments = 64;

  int64_t max_boxes_of_sample(const Sampling& sampling) const {
    if (listing == Listing::owned || sampling.interpolation == Interpolation::nearest) return 1;
    return sampling.axis_count == 3 ? 4 : 2;  // two along each axis that is cut
  }

  // Neighbours in whole blocks, or up to the end.
  static Samples run_at(const uint32_t* list, int64_t most, int64_t first) {
    int64_t count = 1;
    while (count < most && list[count] == list[0] + count) ++count;
    if (count < most) count -= count % kBlock;
    if (count > 0) return {first + list[0], count};
    return {first, std::min<int64_t>(kBlock, most), list};
  }
};

}  // namespace aclgrad::ops::grid_sampler
