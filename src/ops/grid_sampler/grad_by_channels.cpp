// The gradient of grid sampling, vectorised over channels.
//
// Each task takes a band of rows of an image: it brings the rows that its samples read into channels-last order, adds
// what the samples give to a channels-last buffer, and writes the band out. The band that has a sample's first row also
// computes its grid_grad. The buffers of a band are small, so that the next one finds them in the cache. Which samples
// a band has is found out before: of each chunk of neighbours, from which row to which they lie. Where most chunks have
// to do with many bands, that is too coarse; then the samples of each band are listed.
#include "ops/grid_sampler/grad.h"
#include "ops/grid_sampler/layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/grad_by_channels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/channels-inl.h"
#include "ops/grid_sampler/channels_last-inl.h"

#ifndef ACLGRAD_OPS_GRID_SAMPLER_2D_GRAD_BY_CHANNELS_
#define ACLGRAD_OPS_GRID_SAMPLER_2D_GRAD_BY_CHANNELS_
namespace aclgrad::ops::grid_sampler {

// Samples of a chunk, of which the first and last row are known: few, so that few chunks have to do with two bands.
inline constexpr int64_t kBandChunk = 32;

// How the rows of each image are cut.
struct Bands {
  int64_t shift;  // a band has 1 << shift rows
  int64_t count;  // of an image
  int64_t slots;  // bands that are worked on at the same time, at most
  // Floats of the buffers of one band.
  int64_t input_floats;
  int64_t sums_floats;
};

// Sizes that follow from types, shapes and strides.
struct ChannelsLayout {
  int64_t taps;
  int64_t channels;     // of a pixel in channels-last order
  bool packs_input;     // or else it is read where it lies
  bool packs_gradient;  // grad_output
  bool wants_input_grad;
  int64_t height;
  int64_t chunks;      // of samples, in an image
  int64_t run_chunks;  // whose gradients are packed together
  int64_t images;      // worked on together
  int64_t row_floats;  // from one row of a buffer to the next
  Bands finest;        // what the workspace holds
  int64_t run_floats = 0;
  // Samples of an image are listed in segments, each with one list for each band.
  int64_t segments;
  int64_t segment_samples;

  ChannelsLayout(const GridSampler2DBackward& problem, int64_t taps_of_axis)
      : taps(taps_of_axis),
        channels(padded_channels(problem)),
        wants_input_grad(problem.wants_input_grad),
        height(problem.height),
        chunks(divide_up(samples_of(problem), kBandChunk)) {
    constexpr int64_t kRoundBytes = 8 << 20;
    constexpr int64_t kBandBytes = 256 << 10;
    constexpr int64_t kRunBytes = 32 << 10;
    constexpr int64_t kMostSlots = 64;
    constexpr int64_t kLeastTasks = 16;
    constexpr int64_t kLeastListed = 64;  // samples of a list, on average

    const auto& strides = problem.grad_output_strides;
    const bool is_flat = strides[2] == problem.output_width * strides[3];
    packs_input = problem.wants_grid_grad && !is_channels_last(problem, problem.input_strides);
    packs_gradient = !is_channels_last(problem, strides) || !is_flat;
    run_chunks = std::clamp<int64_t>(kRunBytes / (kBandChunk * channels * 4), 1, 16);
    const int64_t sample_bytes = kLists * 4 + (packs_gradient ? channels * 4 : 0);
    images = std::clamp<int64_t>(kRoundBytes / (samples_of(problem) * sample_bytes), 1, problem.batch);

    row_floats = spread_row(problem.width * channels);
    finest = widest_bands(kLeastShift, kBandBytes, divide_up(kLeastTasks, images), kMostSlots);
    if (packs_gradient) run_floats = run_chunks * kBandChunk * channels;
    segments = std::clamp<int64_t>(samples_of(problem) / (finest.count * kLeastListed), 1, 64);
    segment_samples = divide_up(divide_up(samples_of(problem), segments), kBandChunk) * kBandChunk;
  }

  // Those to cut by. What lies at the ends of bands is packed for both sides, so the fewer threads there are, the fewer
  // bands; not so few, though, that a busy neighbour could hold up the others. Packing less is worth more than buffers
  // that fit the second-level cache.
  Bands bands_for(int64_t threads) const {
    constexpr int64_t kBandBytes = 1 << 20;
    constexpr int64_t kTasksPerThread = 4;
    Bands bands =
        widest_bands(finest.shift, kBandBytes, divide_up(threads * kTasksPerThread, images), threads);
    while (bands.shift > finest.shift && !have_room(bands)) bands = bands_of(bands.shift - 1, threads);
    return bands.shift == finest.shift ? finest : bands;
  }

  static constexpr int64_t kLists = 2;

 private:
  // A band has at least as many rows as a sample has taps, so that a sample is in two lists at most.
  static constexpr int64_t kLeastShift = 2;

  Bands bands_of(int64_t shift, int64_t most_slots) const {
    const int64_t rows = int64_t{1} << shift;
    const int64_t count = divide_up(height, rows);
    return {shift, count, std::min(most_slots, images * count),
            packs_input ? (rows + taps - 1) * row_floats : 0,
            wants_input_grad ? (rows + 2 * (taps - 1)) * row_floats : 0};
  }

  // Bands of about so many bytes and at least as many rows as `shift` says; if that leaves room, at least so many.
  Bands widest_bands(int64_t shift, int64_t bytes, int64_t least, int64_t most_slots) const {
    while ((row_floats * 4 << shift) < bytes && (least << shift) < height) ++shift;
    return bands_of(shift, most_slots);
  }

  // Whether the workspace holds their buffers.
  bool have_room(const Bands& bands) const {
    return bands.slots <= finest.slots &&
           bands.slots * bands.input_floats <= finest.slots * finest.input_floats &&
           bands.slots * bands.sums_floats <= finest.slots * finest.sums_floats;
  }

  // Where rows lie whole pages apart, what is stored to one delays the loads from the other: processors compare the
  // addresses of loads and stores by their last 12 bits first.
  static int64_t spread_row(int64_t floats) {
    constexpr int64_t kPage = 1024;
    constexpr int64_t kLeast = 192;
    const int64_t beyond = floats % kPage;
    if (floats < kPage - kLeast || (beyond >= kLeast && beyond <= kPage - kLeast)) return floats;
    return (floats + kLeast) / kPage * kPage + kLeast;
  }
};

}  // namespace aclgrad::ops::grid_sampler
#endif

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

template <class T, int kTaps>
class GradByChannels {
 public:
  using Group = SampleGroup<float, kTaps>;

  GradByChannels(const GridSampler2DBackward& problem, WorkspaceAllocator& allocator)
      : problem_(problem),
        layout_(problem, kTaps),
        bands_(layout_.bands_for(thread_count())),
        block_(channel_block(problem)),
        x_axis_(x_axis_of(problem, false)),
        y_axis_(y_axis_of(problem, false)),
        samples_(samples_of(problem)) {
    const int64_t segments = layout_.images * layout_.segments;
    const int64_t all_floats = layout_.packs_gradient ? layout_.images * samples_ * layout_.channels : 0;
    no_pixel_ = allocator.take<float>(layout_.channels);
    ranges_ = allocator.take<RowSpan>(layout_.images * layout_.chunks);
    input_buffers_ = allocator.take<float>(layout_.finest.slots * layout_.finest.input_floats);
    sums_buffers_ =
        allocator.take<float>(layout_.finest.slots * (layout_.finest.sums_floats + layout_.channels));
    run_gradients_ = allocator.take<float>(layout_.finest.slots * layout_.run_floats);
    all_gradients_ = allocator.take<float>(all_floats);
    lists_ = allocator.take<uint32_t>(segments * layout_.segment_samples * ChannelsLayout::kLists);
    list_ends_ = allocator.take<int64_t>(segments * layout_.finest.count);
  }

  void run() {
    const bool wants_input_grad = problem_.wants_input_grad;
    const bool wants_grid_grad = problem_.wants_grid_grad;
    differentiate_group_ = block_ == 4
                               ? choose_differentiate_group<kTaps, 4>(wants_input_grad, wants_grid_grad)
                               : choose_differentiate_group<kTaps, 16>(wants_input_grad, wants_grid_grad);
    std::fill_n(no_pixel_, layout_.channels, 0.0f);
    for (first_image_ = 0; first_image_ < problem_.batch; first_image_ += layout_.images) {
      images_ = std::min(layout_.images, problem_.batch - first_image_);
      find_ranges();
      scattered_ = are_samples_scattered();
      if (scattered_) {
        pack_all_gradients();
        list_samples();
      }
      differentiate();
    }
  }

 private:
  // Everything below counts images within the current round.

  double round_nanoseconds() const {
    return kernel_nanoseconds(problem_) * static_cast<double>(images_) / static_cast<double>(problem_.batch);
  }

  int64_t samples_of_chunk(int64_t chunk) const {
    return std::min(kBandChunk, samples_ - chunk * kBandChunk);
  }

  Image<const T> input_image(int64_t image) const {
    return image_of(static_cast<const T*>(problem_.input), problem_.input_strides, first_image_ + image,
                    problem_.channels, problem_.height, problem_.width);
  }

  Image<const T> gradient_image(int64_t image) const {
    return image_of(static_cast<const T*>(problem_.grad_output), problem_.grad_output_strides,
                    first_image_ + image, problem_.channels, problem_.output_height, problem_.output_width);
  }

  Image<T> input_grad_image(int64_t image) const {
    return image_of(static_cast<T*>(problem_.input_grad), problem_.input_grad_strides, first_image_ + image,
                    problem_.channels, problem_.height, problem_.width);
  }

  Image<const T> grid_image(int64_t image) const {
    return grid_of(static_cast<const T*>(problem_.grid), problem_.grid_strides, first_image_ + image,
                   problem_.output_height, problem_.output_width);
  }

  Image<T> grid_grad_image(int64_t image) const {
    return grid_of(static_cast<T*>(problem_.grid_grad), problem_.grid_grad_strides, first_image_ + image,
                   problem_.output_height, problem_.output_width);
  }

  // ---- Which samples a band has

  void find_ranges() {
    constexpr double kSampleNanoseconds = 1.5;
    const double nanoseconds = kSampleNanoseconds * static_cast<double>(images_ * samples_);
    parallel_for(images_ * layout_.chunks, nanoseconds, [&](int64_t task) HWY_ATTR {
      const int64_t chunk = task % layout_.chunks;
      ranges_[task] = rows_of_samples<kTaps>(grid_image(task / layout_.chunks), y_axis_, chunk * kBandChunk,
                                             samples_of_chunk(chunk));
    });
  }

  bool are_samples_scattered() const {
    constexpr int64_t kFewVisits = 3;  // of a chunk
    int64_t visits = 0;
    for (int64_t chunk = 0; chunk < images_ * layout_.chunks; ++chunk) {
      visits += band_of(ranges_[chunk].last) - band_of(ranges_[chunk].first) + 1;
    }
    return visits > kFewVisits * images_ * layout_.chunks;
  }

  int64_t band_of(int32_t row) const { return row >> bands_.shift; }

  void list_samples() {
    parallel_for(images_ * layout_.segments, 0.2 * round_nanoseconds(), [&](int64_t task) HWY_ATTR {
      list_segment(grid_image(task / layout_.segments), task % layout_.segments * layout_.segment_samples,
                   lists_ + task * layout_.segment_samples * ChannelsLayout::kLists,
                   list_ends_ + task * bands_.count);
    });
  }

  // Lists the samples of a segment, counted from its first, band after band. ends[b] is where list b ends.
  void list_segment(const Image<const T>& grid, int64_t first, uint32_t* lists, int64_t* ends) const {
    std::fill_n(ends, bands_.count, 0);
    for_each_band_of_samples(grid, first, [&](int64_t band, int64_t) { ++ends[band]; });
    int64_t start = 0;
    for (int64_t band = 0; band < bands_.count; ++band) {
      const int64_t count = ends[band];
      ends[band] = start;  // moves to the end as the list is filled
      start += count;
    }
    for_each_band_of_samples(grid, first, [&](int64_t band, int64_t sample) {
      lists[ends[band]++] = static_cast<uint32_t>(sample);
    });
  }

  // Calls body(band, number in the segment) for the samples of a segment, for each band that they have to do with.
  template <class Body>
  void for_each_band_of_samples(const Image<const T>& grid, int64_t first, Body&& body) const {
    const int64_t end = std::min(first + layout_.segment_samples, samples_);
    for (int64_t sample = first; sample < end; sample += kGroup) {
      const int64_t count = std::min<int64_t>(kGroup, end - sample);
      Group group;
      plan_rows(grid, y_axis_, sample, count, group);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t first_band = band_of(group.first_row[i]);
        const int64_t last_band = band_of(group.last_row[i]);
        body(first_band, sample - first + i);
        if (last_band != first_band) body(last_band, sample - first + i);
      }
    }
  }

  // ---- grad_output in channels-last order

  struct Gradients {
    const float* first;
    int64_t stride;  // from one sample to the next
  };

  // Those of samples [first, first + count): where they lie, or packed.
  Gradients pack_gradients(int64_t image, int64_t first, int64_t count, float* to) const {
    const Image<const T> gradients = gradient_image(image);
    if constexpr (std::is_same_v<T, float>) {
      if (!layout_.packs_gradient) return {gradients.data + gradients.offset(first), gradients.flat_stride()};
    }
    visit_channel_tag(
        block_, [&](auto d) HWY_ATTR { pack_pixels(d, gradients, first, count, to, layout_.channels); });
    return {to, layout_.channels};
  }

  void pack_all_gradients() {
    if (!layout_.packs_gradient) return;
    const int64_t runs = divide_up(samples_, kRunPixels);
    parallel_for(images_ * runs, 0.2 * round_nanoseconds(), [&](int64_t task) HWY_ATTR {
      const int64_t image = task / runs;
      const int64_t first = task % runs * kRunPixels;
      pack_gradients(image, first, std::min(kRunPixels, samples_ - first),
                     all_gradients_ + (image * samples_ + first) * layout_.channels);
    });
  }

  Gradients all_gradients(int64_t image) const {
    if (layout_.packs_gradient)
      return {all_gradients_ + image * samples_ * layout_.channels, layout_.channels};
    return pack_gradients(image, 0, samples_, nullptr);
  }

  // ---- Bands

  void differentiate() {
    parallel_for_with_slots(images_ * bands_.count, bands_.slots, round_nanoseconds(),
                            [&](int64_t task, int64_t slot) HWY_ATTR {
                              differentiate_band(task / bands_.count, task % bands_.count, slot);
                            });
  }

  void differentiate_band(int64_t image, int64_t band_index, int64_t slot) const {
    const RowBand band{band_index << bands_.shift,
                       std::min((band_index + 1) << bands_.shift, problem_.height)};
    BandTask task{band, x_axis_, y_axis_, layout_.channels, {}, {}, no_pixel_, nullptr};
    if (problem_.wants_grid_grad)
      task.input = input_rows(image, band, input_buffers_ + slot * bands_.input_floats);
    if (problem_.wants_input_grad) {
      const int64_t floats = bands_.sums_floats + layout_.channels;
      float* buffer = sums_buffers_ + slot * floats;
      std::memset(buffer, 0, static_cast<size_t>(floats) * sizeof(float));
      task.sums = {buffer, band.begin - (kTaps - 1), layout_.row_floats, layout_.channels};
      task.no_sum = buffer + bands_.sums_floats;
    }
    if (scattered_) {
      differentiate_lists(task, image, band_index);
    } else {
      differentiate_chunks(task, image, run_gradients_ + slot * layout_.run_floats);
    }
    if (problem_.wants_input_grad) {
      const Image<T> input_grad = input_grad_image(image);
      for_each_span(band, [&](int64_t row, int64_t pixels) {
        visit_channel_tag(block_, [&](auto d) HWY_ATTR {
          unpack_pixels(d, task.sums.at(row, 0), layout_.channels, input_grad, row * problem_.width, pixels);
        });
      });
    }
  }

  // Calls body(first row, pixels) for rows of a buffer, together where they follow each other without a gap.
  template <class Body>
  void for_each_span(RowBand rows, Body&& body) const {
    const bool has_gaps = layout_.row_floats != problem_.width * layout_.channels;
    const int64_t step = has_gaps ? 1 : rows.end - rows.begin;
    for (int64_t row = rows.begin; row < rows.end; row += step) body(row, step * problem_.width);
  }

  // The rows that the samples of a band read: packed, or where they lie.
  Rows<const float> input_rows(int64_t image, RowBand band, float* buffer) const {
    const Image<const T> input = input_image(image);
    if constexpr (std::is_same_v<T, float>) {
      if (!layout_.packs_input) return {input.data, 0, input.row_stride, input.column_stride};
    }
    const Rows<float> rows{buffer, band.begin, layout_.row_floats, layout_.channels};
    band.end = std::min(band.end + kTaps - 1, problem_.height);
    for_each_span(band, [&](int64_t row, int64_t pixels) {
      visit_channel_tag(block_, [&](auto d) HWY_ATTR {
        pack_pixels(d, input, row * input.width, pixels, rows.at(row, 0), layout_.channels);
      });
    });
    return {buffer, rows.first_row, rows.row_stride, rows.column_stride};
  }

  // Goes through the chunks that have to do with the band, in runs of neighbours.
  void differentiate_chunks(const BandTask& task, int64_t image, float* buffer) const {
    const RowSpan* ranges = ranges_ + image * layout_.chunks;
    for (int64_t chunk = 0; chunk < layout_.chunks;) {
      if (!ranges[chunk].meets(task.band)) {
        ++chunk;
        continue;
      }
      const int64_t begin = chunk;
      const int64_t last_end = std::min(layout_.chunks, begin + layout_.run_chunks);
      while (chunk < last_end && ranges[chunk].meets(task.band)) ++chunk;
      differentiate_run(task, image, begin * kBandChunk, std::min(chunk * kBandChunk, samples_), buffer);
    }
  }

  void differentiate_run(const BandTask& task, int64_t image, int64_t begin, int64_t end,
                         float* buffer) const {
    const Gradients gradients = pack_gradients(image, begin, end - begin, buffer);
    const Axis x_axis = x_axis_;
    const Axis y_axis = y_axis_;
    for (int64_t first = begin; first < end; first += kGroup) {
      const int64_t count = std::min<int64_t>(kGroup, end - first);
      Group group;
      plan_group(grid_image(image), x_axis, y_axis, first, count, group);
      const uint32_t bits = samples_of_band(group, count, task.band);
      if (bits == 0) continue;
      const float* of_samples[kGroup];
      for (int64_t i = 0; i < kGroup; ++i)
        of_samples[i] = gradients.first + (first - begin + i) * gradients.stride;
      alignas(64) float x[kGroup];
      alignas(64) float y[kGroup];
      const uint32_t owned = differentiate_samples(task, group, bits, of_samples, x, y);
      if (owned != 0) store_grid_grad(grid_grad_image(image), first, owned, x, y);
    }
  }

  // Goes through the lists of the band.
  void differentiate_lists(const BandTask& task, int64_t image, int64_t band_index) const {
    const Image<T> grid_grad = grid_grad_image(image);
    const Gradients gradients = all_gradients(image);
    for (int64_t segment = 0; segment < layout_.segments; ++segment) {
      const int64_t number = image * layout_.segments + segment;
      const int64_t* ends = list_ends_ + number * bands_.count;
      const uint32_t* list = lists_ + number * layout_.segment_samples * ChannelsLayout::kLists;
      const int64_t first = segment * layout_.segment_samples;
      const int64_t end = ends[band_index];
      for (int64_t k = band_index == 0 ? 0 : ends[band_index - 1]; k < end; k += kGroup) {
        differentiate_listed(task, image, first, list + k, std::min<int64_t>(kGroup, end - k), gradients,
                             grid_grad);
      }
    }
  }

  // Samples first + list[0], first + list[1], ...
  void differentiate_listed(const BandTask& task, int64_t image, int64_t first, const uint32_t* list,
                            int64_t count, const Gradients& gradients, const Image<T>& grid_grad) const {
    const Image<const T> grid = grid_image(image);
    alignas(64) float x[kGroup];
    alignas(64) float y[kGroup];
    const float* of_samples[kGroup];
    for (int64_t i = 0; i < kGroup; ++i) {
      const int64_t sample = first + list[std::min(i, count - 1)];
      const int64_t offset = grid.offset(sample);
      x[i] = to_float(grid.data[offset]);
      y[i] = to_float(grid.data[offset + grid.channel_stride]);
      of_samples[i] = gradients.first + sample * gradients.stride;
    }
    Group group;
    plan_coordinates(x, y, x_axis_, y_axis_, group);
    uint32_t owned = differentiate_samples(task, group, (1u << count) - 1, of_samples, x, y);
    for (; owned != 0; owned &= owned - 1) {
      const auto i = static_cast<size_t>(__builtin_ctz(owned));
      store_grid_grad(grid_grad, first + list[i], 1, x + i, y + i);
    }
  }

  // Returns which of the samples x and y are for.
  uint32_t differentiate_samples(const BandTask& task, const Group& group, uint32_t bits,
                                 const float* const* gradients, float* x, float* y) const {
    const uint32_t owned = problem_.wants_grid_grad ? bits & samples_owned(group, task.band) : 0;
    differentiate_group_(task, group, problem_.wants_input_grad ? bits : owned, owned, gradients, x, y);
    return owned;
  }

  const GridSampler2DBackward& problem_;
  const ChannelsLayout layout_;
  const Bands bands_;
  const int64_t block_;
  const Axis x_axis_;
  const Axis y_axis_;
  const int64_t samples_;
  DifferentiateGroup<kTaps> differentiate_group_ = nullptr;
  float* no_pixel_;       // [channels]
  RowSpan* ranges_;       // [images, chunks]
  float* input_buffers_;  // [slots, input_floats]
  float* sums_buffers_;   // [slots, sums_floats + channels]
  float* run_gradients_;  // [slots, run_floats]
  // Where samples are scattered:
  float* all_gradients_;     // [images, samples, channels]
  uint32_t* lists_;          // [images, segments, segment_samples * kLists]
  int64_t* list_ends_;       // [images, segments, bands]
  int64_t first_image_ = 0;  // of the current round
  int64_t images_ = 0;       // in the current round
  bool scattered_ = false;
};

template <class Function>
void visit_problem(const GridSampler2DBackward& problem, WorkspaceAllocator& allocator, Function&& function) {
  visit_float_type(problem.type, [&]<class T>(T) {
    visit_taps(problem.interpolation,
               [&](auto taps) { function(GradByChannels<T, taps>(problem, allocator)); });
  });
}

void run_by_channels(const GridSampler2DBackward& problem, void* workspace) {
  WorkspaceAllocator allocator(workspace);
  visit_problem(problem, allocator, [](auto&& grad) { grad.run(); });
}

size_t size_by_channels(const GridSampler2DBackward& problem) {
  WorkspaceAllocator allocator;
  visit_problem(problem, allocator, [](auto&&) {});
  return allocator.size();
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_by_channels);
HWY_EXPORT(size_by_channels);

}  // namespace

void grad_by_channels(const GridSampler2DBackward& problem, void* workspace) {
  HWY_DYNAMIC_DISPATCH(run_by_channels)(problem, workspace);
}

size_t grad_by_channels_workspace_size(const GridSampler2DBackward& problem) {
  return HWY_DYNAMIC_DISPATCH(size_by_channels)(problem);
}

}  // namespace aclgrad::ops::grid_sampler

#endif
