// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Blocks of samples: their coordinates read, their taps prepared, their gradients written. This is where forward operator
// and gradient find out which pixels a sample reads.
#include "ops/grid_sampler/boxes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/blocks_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/axis-inl.h"
#include "ops/grid_sampler/block-inl.h"
#include "ops/grid_sampler/coordinates-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

template <class Real, int kAxes>
HWY_INLINE void load_neighbours(const Image& grid, const Samples& samples, Real (&to)[kAxes][kMaxSamples]) {
  if (grid.type == data_type_of<Real> && has_interleaved_coordinates(grid)) {
    // Of the next calls, which the hardware does not prefetch beyond the end of a page.
    constexpr int64_t kPrefetchElements = 2 * kAxes * kMaxSamples, kLine = 64 / sizeof(Real);
    const Real* from = grid.channel<Real>(0) + kAxes * samples.first + kPrefetchElements;
    for (int64_t k = 0; k < kAxes * samples.count; k += kLine) hwy::Prefetch(from + k);
  }
  load_pixels(grid, 0, kAxes, samples.first, samples.count, to[0], kMaxSamples);
}

template <class Real, int kAxes>
void load_listed(const Image& grid, const Samples& samples, Real (&to)[kAxes][kMaxSamples]) {
  visit_type<Real>(grid.type, [&]<class T>(T) {
    const bool is_flat = grid.is_flat();
    const int64_t stride = grid.flat_stride();
    for (int64_t k = 0; k < samples.count; ++k) {
      const T* from = grid.channel<T>(0) + (is_flat ? samples[k] * stride : grid.offset(samples[k]));
      for (int axis = 0; axis < kAxes; ++axis) to[axis][k] = to_real(from[axis * grid.channel_stride]);
    }
  });
}

}  // namespace

template <class Real, int kAxes>
void load_coordinates(const Image& grid, const Samples& samples, Real (&to)[kAxes][kMaxSamples]) {
  samples.are_neighbours() ? load_neighbours(grid, samples, to) : load_listed(grid, samples, to);
  for (auto& of_axis : to) {
    for (int64_t k = samples.count; k % kBlock != 0; ++k) of_axis[k] = of_axis[samples.count - 1];
  }
}

namespace {

template <int kTaps, class Real, int kAxes>
void prepare(const Axis* axes, const Image& grid, const Samples& samples, int first_axis,
             Block<Real, kAxes>* blocks) {
  alignas(64) Real coordinates[kAxes][kMaxSamples];
  load_coordinates(grid, samples, coordinates);
  prepare_coordinates<kTaps>(axes, coordinates, first_axis, divide_up(samples.count, kBlock), blocks);
  // So that only a full block is ever interior as a whole.
  if (samples.count % kBlock != 0)
    blocks[samples.count / kBlock].interior &= (1u << samples.count % kBlock) - 1;
}

template <class Real, int kAxes>
void prepare(const Sampling& sampling, int64_t image, const Samples& samples, int first_axis,
             Block<Real, kAxes>* blocks) {
  visit_taps_of<kAxes>(sampling.interpolation, [&](auto taps) {
    prepare<taps>(sampling.axes, sampling.grid[image], samples, first_axis, blocks);
  });
}

// Only the spans.
template <class Real, int kAxes>
void prepare_spans(const Sampling& sampling, int64_t image, const Samples& samples,
                   Block<Real, kAxes>* blocks) {
  prepare(sampling, image, samples, 1, blocks);
}

template <class Real, int kAxes>
RowSpan span_of_samples(const Sampling& sampling, int64_t image, const Samples& samples) {
  const IndexTag d;
  auto first_row = index_vector(-kNowhere);
  auto last_row = hn::Zero(d);
  Block<Real, kAxes> blocks[kMaxBlocks];
  prepare_spans(sampling, image, samples, blocks);
  for (int64_t k = 0; k < divide_up(samples.count, kBlock); ++k) {
    for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
      const Span& rows = blocks[k].spans[kAxes - 2];
      first_row = hn::Min(first_row, hn::Load(d, rows.first + lane));
      last_row = hn::Max(last_row, hn::Load(d, rows.last + lane));
    }
  }
  return {hn::GetLane(hn::MinOfLanes(d, first_row)), hn::GetLane(hn::MaxOfLanes(d, last_row))};
}

// The smallest and the largest coordinate of a chunk along the last axis. Returns whether pixels rise with coordinates from
// one to the other.
template <class Real, int kAxes>
bool find_extremes(GridReader<Real, kAxes>& grid, const Axis& axis, const Samples& chunk, Real& smallest,
                   Real& largest) {
  const BlockTag<Real> d;
  constexpr int64_t kVector = hn::MaxLanes(d);
  if (axis.padding == Padding::reflection || chunk.count % kVector != 0) return false;
  const auto limit =
      hn::Set(d, static_cast<Real>(1 << 28) / static_cast<Real>(axis.size));  // all have a place
  auto low = limit, high = hn::Neg(limit);
  auto rise = hn::FirstN(d, kVector);
  for (int64_t k = 0; k < chunk.count; k += kVector) {
    hn::Vec<BlockTag<Real>> coordinates[kAxes];
    grid.load(chunk.first + k, kVector, coordinates);
    const auto last = coordinates[kAxes - 1];
    rise = hn::And(rise, hn::Lt(hn::Abs(last), limit));
    low = hn::Min(low, last);
    high = hn::Max(high, last);
  }
  smallest = hn::GetLane(hn::MinOfLanes(d, low));
  largest = hn::GetLane(hn::MaxOfLanes(d, high));
  return hn::AllTrue(d, rise);
}

// Of at most kBlock chunks, whose smallest coordinates make up a block, and the largest another one.
template <class Real, int kAxes>
void find_spans_of_chunks(const Sampling& sampling, int64_t image, const Samples& samples, RowSpan* spans) {
  alignas(64) Real extremes[kAxes][kMaxSamples] = {};
  Real *smallest = extremes[kAxes - 1], *largest = smallest + kBlock;
  GridReader<Real, kAxes> grid(sampling.grid[image]);
  const int64_t chunks = divide_up(samples.count, kMaxSamples);
  uint32_t risen = 0;
  for (int64_t k = 0; k < chunks; ++k) {
    const Samples chunk = samples.part(k * kMaxSamples, kMaxSamples);
    const bool rise = find_extremes(grid, sampling.last_axis(), chunk, smallest[k], largest[k]);
    if (!rise) spans[k] = span_of_samples<Real, kAxes>(sampling, image, chunk);
    risen |= uint32_t{rise} << k;
  }
  Block<Real, kAxes> blocks[2];
  visit_taps_of<kAxes>(sampling.interpolation,
                       [&](auto taps) { prepare_coordinates<taps>(sampling.axes, extremes, 1, 2, blocks); });
  for (; risen != 0; risen &= risen - 1) {
    const int k = __builtin_ctz(risen);
    spans[k] = {blocks[0].spans[kAxes - 2].first[k], blocks[1].spans[kAxes - 2].last[k]};
  }
}

}  // namespace

template <int kAxes>
void prepare_blocks(const Sampling& sampling, int64_t image, const Samples& samples,
                    Block<float, kAxes>* blocks) {
  prepare(sampling, image, samples, 0, blocks);
}

void find_spans(const Sampling& sampling, double serial_nanoseconds, RowSpan* spans) {
  constexpr int64_t kTaskSamples = kBlock * kMaxSamples;
  const int64_t tasks = divide_up(sampling.samples, kTaskSamples);
  const int64_t chunks = divide_up(sampling.samples, kMaxSamples);
  parallel_for(sampling.batch * tasks, serial_nanoseconds, [&](int64_t task) {
    const int64_t image = task / tasks, first = task % tasks * kTaskSamples;
    const Samples samples{first, std::min(kTaskSamples, sampling.samples - first)};
    RowSpan* to = spans + image * chunks + first / kMaxSamples;
    visit_axes(sampling, [&](auto axes) {
      sampling.type == DataType::float64 ? find_spans_of_chunks<double, axes>(sampling, image, samples, to)
                                         : find_spans_of_chunks<float, axes>(sampling, image, samples, to);
    });
  });
}

// ---- Lists

namespace {

// Those of the boxes that a block or a sample has to do with.
struct Parts {
  RowBand slabs, bands;

  int64_t count() const { return (slabs.end - slabs.begin) * (bands.end - bands.begin); }
  bool operator==(const Parts&) const = default;
};

RowBand parts_between(int64_t first, int64_t last, int64_t shift) {
  return {first >> shift, (last >> shift) + 1};
}

// From the first to the last of the samples of a block.
RowBand parts_of(const Span& span, int64_t shift) {
  const IndexTag d;
  auto first = hn::Load(d, span.first), last = hn::Load(d, span.last);
  for (size_t lane = hn::Lanes(d); lane < kBlock; lane += hn::Lanes(d)) {
    first = hn::Min(first, hn::Load(d, span.first + lane));
    last = hn::Max(last, hn::Load(d, span.last + lane));
  }
  return parts_between(hn::GetLane(hn::MinOfLanes(d, first)), hn::GetLane(hn::MaxOfLanes(d, last)), shift);
}

// Lists the samples of one segment of an image.
template <int kAxes>
class SegmentLister {
  using SampleBlock = Block<float, kAxes>;

 public:
  SegmentLister(const Sampling& sampling, const SampleLists& lists, const BoxCut& cut, int64_t image,
                int64_t number)
      : sampling_(sampling),
        listing_(lists.listing),
        cut_(cut),
        image_(image),
        first_(number % lists.segments * lists.segment_samples),
        end_(std::min(first_ + lists.segment_samples, lists.samples)),
        boxes_(lists.boxes + number * lists.segment_samples / kBlock),
        entries_(lists.entries + number * lists.segment_entries),
        ends_(lists.ends + number * cut.count()),
        runs_(lists.runs[number]) {}

  // Counted from the segment's first, box after box. ends[b] is where list b ends.
  void list() {
    std::fill_n(ends_, cut_.count(), 0);
    runs_ = 0;
    for_each_chunk([&](const Samples& chunk) {
      SampleBlock blocks[kMaxBlocks];
      prepare_spans(sampling_, image_, chunk, blocks);
      for (int64_t k = 0; k < chunk.count; k += kBlock) {
        const Samples samples = chunk.part(k, kBlock);
        int32_t& box = box_of(samples);
        box = find_box(blocks[k / kBlock]);
        if (box >= 0) {
          ends_[box] += samples.count;
          ++runs_;
        } else {
          runs_ +=
              list_each(blocks[k / kBlock], samples, [&](int64_t of_sample, int64_t) { ++ends_[of_sample]; });
        }
      }
    });
    int64_t start = 0;
    for (int64_t box = 0; box < cut_.count(); ++box) {
      const int64_t count = ends_[box];
      ends_[box] = start;  // moves to the end as the list is filled
      start += count;
    }
    for_each_chunk([&](const Samples& chunk) { fill(chunk); });
  }

 private:
  template <class Body>
  void for_each_chunk(Body&& body) const {
    for (int64_t first = first_; first < end_; first += kMaxSamples)
      body(Samples{first, std::min(kMaxSamples, end_ - first)});
  }

  int32_t& box_of(const Samples& samples) { return boxes_[(samples.first - first_) / kBlock]; }

  void fill(const Samples& chunk) {
    const auto list = [&](int64_t box, int64_t sample) {
      entries_[ends_[box]++] = static_cast<uint32_t>(sample - first_);
    };
    SampleBlock blocks[kMaxBlocks];
    bool are_prepared = false;
    for (int64_t k = 0; k < chunk.count; k += kBlock) {
      const Samples samples = chunk.part(k, kBlock);
      if (const int32_t box = box_of(samples); box >= 0) {
        for (int64_t i = 0; i < samples.count; ++i) list(box, samples[i]);
        continue;
      }
      if (!are_prepared) prepare_spans(sampling_, image_, chunk, blocks);
      are_prepared = true;
      list_each(blocks[k / kBlock], samples, list);
    }
  }

  RowBand slabs_of(const SampleBlock& block) const {
    if constexpr (kAxes == 3) return parts_of(block.slices(), cut_.slice_shift);
    return {0, 1};
  }

  int32_t find_box(const SampleBlock& block) const {
    const Parts parts{slabs_of(block), parts_of(block.rows(), cut_.row_shift)};
    return parts.count() == 1 ? static_cast<int32_t>(parts.slabs.begin * cut_.bands() + parts.bands.begin)
                              : -1;
  }

  // Calls body(box, sample) for the samples of a block. Returns how often the boxes of one sample are not those of the one
  // before.
  template <class Body>
  int64_t list_each(const SampleBlock& block, const Samples& samples, Body&& body) const {
    const bool is_first_alone = listing_ == Listing::owned;
    const auto parts_of_sample = [&](const Span& span, int64_t i, int64_t shift) {
      return parts_between(span.first[i], is_first_alone ? span.first[i] : span.last[i], shift);
    };
    Parts parts{{0, 0}, {0, 0}};
    int64_t changes = 0;
    for (int64_t i = 0; i < samples.count; ++i) {
      const Parts before = parts;
      parts = {{0, 1}, parts_of_sample(block.rows(), i, cut_.row_shift)};
      if constexpr (kAxes == 3) parts.slabs = parts_of_sample(block.slices(), i, cut_.slice_shift);
      changes += parts != before;
      for (int64_t slab = parts.slabs.begin; slab < parts.slabs.end; ++slab) {
        for (int64_t band = parts.bands.begin; band < parts.bands.end; ++band)
          body(slab * cut_.bands() + band, samples[i]);
      }
    }
    return changes;
  }

  const Sampling& sampling_;
  const Listing listing_;
  const BoxCut& cut_;
  const int64_t image_;
  const int64_t first_;
  const int64_t end_;
  int32_t* const boxes_;
  uint32_t* const entries_;
  int64_t* const ends_;
  int64_t& runs_;
};

}  // namespace

void list_samples(const Sampling& sampling, const SampleLists& lists, const BoxCut& cut, int64_t first_image,
                  int64_t images, double serial_nanoseconds) {
  if (cut.count() == 1) return;
  parallel_for(images * lists.segments, serial_nanoseconds, [&](int64_t number) {
    const int64_t image = first_image + number / lists.segments;
    visit_axes(sampling, [&](auto axes) { SegmentLister<axes>(sampling, lists, cut, image, number).list(); });
  });
}

// ---- Gradients by the grid

namespace {

template <class Real, int kAxes>
void store_coordinates(const Image& grid_grad, int64_t first, const Real (&slopes)[kAxes][kBlock]) {
  if (grid_grad.type != data_type_of<Real>)
    return store_pixels(grid_grad, 0, kAxes, first, kBlock, slopes[0], kBlock);
  const BlockTag<Real> d;
  alignas(64) Real elements[kAxes * kBlock];
  for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
    hn::Vec<BlockTag<Real>> along[kAxes];
    for (int axis = 0; axis < kAxes; ++axis) along[axis] = hn::Load(d, slopes[axis] + lane);
    store_interleaved(d, along, elements + kAxes * lane);
  }
  Real* to = grid_grad.channel<Real>(0) + kAxes * first;
  if (!grid_grad.outgrows_caches || reinterpret_cast<uintptr_t>(to) % 64 != 0) {
    std::memcpy(to, elements, sizeof elements);
    return;
  }
  for (size_t i = 0; i < kAxes * kBlock; i += hn::Lanes(d)) hn::Stream(hn::Load(d, elements + i), d, to + i);
}

}  // namespace

template <class Real, int kAxes>
void store_grid_grad(const Image& grid_grad, const Samples& samples, uint32_t bits,
                     const Real (&slopes)[kAxes][kBlock]) {
  if (bits == kAllSamples && samples.are_neighbours() && has_interleaved_coordinates(grid_grad))
    return store_coordinates(grid_grad, samples.first, slopes);
  visit_type<Real>(grid_grad.type, [&]<class T>(T) {
    for (uint32_t rest = bits; rest != 0; rest &= rest - 1) {
      const int i = __builtin_ctz(rest);
      T* to = grid_grad.channel<T>(0) + grid_grad.offset(samples[i]);
      for (int axis = 0; axis < kAxes; ++axis)
        to[axis * grid_grad.channel_stride] = from_real<T>(slopes[axis][i]);
    }
  });
}

template void prepare_blocks<2>(const Sampling&, int64_t, const Samples&, Block<float, 2>*);
template void prepare_blocks<3>(const Sampling&, int64_t, const Samples&, Block<float, 3>*);
#define ACLGRAD_INSTANTIATE(Real, kAxes)                                                                  \
  template void load_coordinates<Real, kAxes>(const Image&, const Samples&, Real(&)[kAxes][kMaxSamples]); \
  template void store_grid_grad<Real, kAxes>(const Image&, const Samples&, uint32_t,                      \
                                             const Real(&)[kAxes][kBlock]);
ACLGRAD_INSTANTIATE(float, 2)
ACLGRAD_INSTANTIATE(double, 2)
ACLGRAD_INSTANTIATE(float, 3)
ACLGRAD_INSTANTIATE(double, 3)
#undef ACLGRAD_INSTANTIATE

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
