// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the gradient of images and its own gradient have in common, vectorised over samples: images are read where they
// lie, and nothing is packed or listed before.
//
// Each task takes a band of rows of an image and goes through the samples that have to do with it. float and double add
// up in input_grad itself; the 16-bit types in a buffer of floats, which is rounded in the end.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_IMAGES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_IMAGES_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_IMAGES_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_IMAGES_INL_H_
#endif

#include "ops/grid_sampler/coordinates-inl.h"
#include "ops/grid_sampler/grad_bands.h"
#include "ops/grid_sampler/scattered_footprint-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

static_assert(kChunkSamples == kMaxSamples);

// The samples of one image, as far as they have to do with a band of its rows; of a volume, of its slices. kTogether
// channels of a pixel lie side by side; and pixel beside pixel in each row, unless they are scattered. Real is the type of
// the arithmetic.
template <class Real, int kTaps, int kTogether, bool kAreScattered, int kAxes>
class ImagesBySamples {
 public:
  using D = BlockTag<Real>;
  using V = hn::Vec<D>;
  // Of which each takes less time than its samples one by one, which have twice as many taps in a volume.
  static constexpr int kMaxLines = kAxes == 2 ? 2 : 4;
  using Pixels = std::conditional_t<kAreScattered, ScatteredFootprint<Real, kTaps, kTogether, kAxes>,
                                    Footprint<Real, kTaps, kTogether, kAxes, kMaxLines>>;
  using Taps = VectorTaps<D, kTaps>;
  static constexpr int64_t kSamples = hn::MaxLanes(D());
  static constexpr uint32_t kAll = (uint32_t{1} << kSamples) - 1;

  // `input` is what the samples read, or one of two images.
  ImagesBySamples(const Sampling& sampling, const Image& input, int64_t image, RowBand band, const Sums& sums)
      : grid_(sampling.grid[image]),
        pixels_(input, sampling.axes, sampling.goes_up),  // NOLINT: clang-tidy does not see the delegate
        wants_input_grad_(sampling.wants_input_grad),
        wants_own_(sampling.wants_own()),
        band_(band),
        input_(input),
        grad_output_(sampling.output[image]),
        grid_grad_(sampling.grid_grad[image]),
        has_plain_grid_grad_(grid_grad_.type == data_type_of<Real> &&
                             has_interleaved_coordinates(grid_grad_)),
        has_plain_gradient_(grad_output_.type == sampling.type && grad_output_.has_contiguous_channels()),
        sums_(sums) {}

  void finish() { sums_.zero_to(band_.end - 1); }

 protected:
  static constexpr int64_t kGroup = kFewChannels;  // channels whose sums wait for each other

  // Neighbouring samples, at most as many as a vector has lanes.
  struct Vector {
    int64_t first;
    int64_t count;
    bool is_inside;      // all of them, of the band
    uint32_t bits = 0;   // of the samples that add to the band
    uint32_t owned = 0;  // whose own gradients are wanted
  };

  struct Channels {
    int64_t begin;
    int64_t end;
  };

  // Finds the samples' bits. Returns whether they have to do with the band; then the rows that they add to are zeroed.
  template <Reach kReach>
  HWY_INLINE bool find_bits(const Pixels& pixels, const Taps (&taps)[kAxes], Vector& vector) {
    const Taps& last = taps[kAxes - 1];
    vector.bits = HWY_LIKELY(vector.count == kSamples) ? kAll : (uint32_t{1} << vector.count) - 1;
    vector.owned = wants_own_ ? vector.bits : 0;
    if (!vector.is_inside) {
      const uint32_t all = vector.bits;
      const uint32_t begin_below = pixels.template first_rows_from<kReach>(last, band_.end);
      const uint32_t begin_inside = pixels.template first_rows_from<kReach>(last, band_.begin) & ~begin_below;
      vector.owned &= begin_inside;
      vector.bits &= pixels.template last_rows_from<kReach>(last, band_.begin) & ~begin_below;
      if (vector.bits == 0) return false;
      if constexpr (kReach != Reach::edge) {  // all samples have rows
        const uint32_t end_below = pixels.template last_rows_from<kReach>(last, band_.end);
        vector.is_inside = (begin_inside & ~end_below & all) == all;
      }
    }
    if (wants_input_grad_ &&
        HWY_UNLIKELY(pixels.template last_rows_from<kReach>(last, sums_.missing.begin) != 0))
      sums_.zero_to(pixels.template last_row<kReach>(last));
    if constexpr (kReach == Reach::edge || kReach == Reach::pairs)
      vector.bits &= pixels.samples_with_pixels();
    return true;
  }

  // Calls function(gradient(channel)), which are those of the output, of T.
  template <class T, class Function>
  HWY_INLINE void with_gradients(const Vector& vector, const Channels& channels, Function&& function) const {
    const D d;
    alignas(64) Real staged[kGroup][kSamples];
    const bool is_staged =
        vector.count != kSamples || !has_plain_gradient_ || (kTogether > 1 && !kAreScattered);
    if (is_staged) stage_gradients(vector, channels, staged);
    function([&](int64_t channel) HWY_ATTR {
      return is_staged ? hn::Load(d, staged[channel - channels.begin])
                       : load(grad_output_.template channel<T>(channel) + vector.first);
    });
  }

  // The gradient of a grid of T, or of any type.
  template <class T = Real>
  HWY_INLINE void store_slopes(const Slopes<V, kAxes>& slopes, const Vector& vector) const {
    const D d;
    if constexpr (std::is_same_v<T, Real>) {
      if (HWY_LIKELY(vector.owned == kAll && has_plain_grid_grad_)) {
        Real* to = grid_grad_.template channel<Real>(0) + kAxes * vector.first;
        if (!grid_grad_.outgrows_caches || reinterpret_cast<uintptr_t>(to) % 64 != 0)
          return store_interleaved(d, slopes.along, to);
        alignas(64) Real staged[kAxes * kSamples];
        store_interleaved(d, slopes.along, staged);
        for (int64_t k = 0; k < kAxes * kSamples; k += kSamples)
          hn::Stream(hn::Load(d, staged + k), d, to + k);
        return;
      }
    }
    alignas(64) Real of_samples[kAxes][kBlock];
    for (int axis = 0; axis < kAxes; ++axis) hn::Store(slopes.along[axis], d, of_samples[axis]);
    store_grid_grad(grid_grad_, Samples{vector.first, kSamples}, vector.owned, of_samples);
  }

  GridReader<Real, kAxes> grid_;
  Pixels pixels_;
  const bool wants_input_grad_;
  const bool wants_own_;  // what the samples themselves get
  const RowBand band_;
  const Image input_;
  const Image grad_output_;
  const Image grid_grad_;
  const bool has_plain_grid_grad_;  // vectors can be stored as they lie
  const bool has_plain_gradient_;
  Sums sums_;

 private:
  // The gradients of the output, where they are not vectors in memory.
  HWY_NOINLINE void stage_gradients(Vector vector, const Channels& channels,
                                    Real (&to)[kGroup][kSamples]) const {
    if constexpr (kTogether > 1 && kAreScattered) {
      if (vector.count == kSamples && grad_output_.type == data_type_of<Real> &&
          grad_output_.channel_stride == 1) {
        const Real* pixels[kSamples];
        const Real* from = grad_output_.template channel<Real>(channels.begin);
        for_each_pixel(grad_output_, vector.first, kSamples,
                       [&](int64_t i, int64_t offset) { pixels[i] = from + offset; });
        V of_channels[kTogether];
        transpose_rows(D(), pixels, 0, of_channels);
        for (int c = 0; c < kTogether; ++c) hn::Store(of_channels[c], D(), to[c]);
        return;
      }
    } else if constexpr (kTogether > 1) {
      if (vector.count == kSamples && has_plain_samples(grad_output_)) {
        V of_channels[kTogether];
        load_samples(D(), grad_output_, vector.first, of_channels);
        for (int c = 0; c < kTogether; ++c) hn::Store(of_channels[c], D(), to[c]);
        return;
      }
    }
    const int64_t count = channels.end - channels.begin;
    load_pixels(grad_output_, channels.begin, count, vector.first, vector.count, to[0], kSamples);
    for (int64_t c = 0; c < count; ++c) std::fill(to[c] + vector.count, to[c] + kSamples, Real{0});
  }
};

// ---- How kernels, which derive from it, go through the bands of all images

// Samples of an image: of their chunks those that have to do with a band, or all, if they lie inside of it.
struct BandSamples {
  int64_t first;
  int64_t end;
  const RowSpan* spans;  // of the chunks of the image; null if all lie inside
};

// What a kernel does with a band. All else is the same for all kernels, and compiled once.
template <class Problem>
using DifferentiateBand = void (*)(const Problem& sampling, int64_t image, RowBand band, const Sums& sums,
                                   const BandSamples& samples);

template <class Kernel, class Problem>
void differentiate_band(const Problem& sampling, int64_t image, RowBand band, const Sums& sums,
                        const BandSamples& samples) {
  Kernel kernel(sampling, image, band, sums);
  const auto [begin, end, spans] = samples;
  if (spans == nullptr) kernel.differentiate(begin, end, true);
  for (int64_t first = begin; spans != nullptr && first < end; first += kChunkSamples) {
    const RowSpan& span = spans[first / kChunkSamples];
    if (span.meets(band))
      kernel.differentiate(first, std::min(first + kChunkSamples, end), span.is_inside(band));
  }
  kernel.finish();
}

// What the samples themselves get.
template <class Problem>
void differentiate_by_grid(const Problem& sampling, double nanoseconds,
                           DifferentiateBand<Problem> differentiate) {
  // Long enough to be worth its beginning; short enough for each thread to get some, where threads share the work.
  constexpr int64_t kMaxTaskSamples = 2048;
  const int64_t shares = nanoseconds >= kMinParallelNanoseconds ? kTasksOfThread * thread_count() : 1;
  const int64_t share = divide_up(sampling.batch * sampling.samples, shares);
  const int64_t task_samples = std::min(kMaxTaskSamples, divide_up(share, kChunkSamples) * kChunkSamples);
  const RowBand all{0, sampling.last_axis().size};
  for_each_run(sampling, task_samples, nanoseconds,
               [&](const Sampling&, int64_t first_image, int64_t images, int64_t first, int64_t end) {
                 for (int64_t image = first_image; image < first_image + images; ++image)
                   differentiate(sampling, image, all, Sums{}, {first, end, nullptr});
               });
}

template <class Problem>
void differentiate_images(Problem sampling, SamplesLayout layout, double nanoseconds,
                          DifferentiateBand<Problem> differentiate) {
  sampling.goes_up = goes_up(sampling);
  if (!sampling.wants_input_grad) return differentiate_by_grid(sampling, nanoseconds, differentiate);
  const auto differentiate_own = [&] {
    Problem by_grid = sampling;
    by_grid.wants_input_grad = false;
    differentiate_by_grid(by_grid, nanoseconds / 2, differentiate);
    sampling.wants_grid_grad = sampling.wants_grad_grad_output = false;
  };
  const bool is_own_first = finds_own_first(sampling);
  if (is_own_first && sampling.wants_own()) differentiate_own();
  if (layout.may_add_in_buffer) layout.adds_in_buffer |= suits_strips(sampling);
  // A nearest sample of one channel that two bands find costs as much as two threads save.
  const bool is_light = sampling.interpolation == Interpolation::nearest && sampling.channels == 1;
  const bool is_cut = nanoseconds >= kMinParallelNanoseconds && (!is_light || is_grid_smooth(sampling));
  // Of a large image, half of the rows stay in the cache for addresses.
  constexpr int64_t kMinBytes = 12 << 20;
  const int64_t min_bands = is_own_first && image_bytes(sampling) >= kMinBytes ? 2 : 1;
  const int64_t threads = std::max<int64_t>(is_cut ? thread_count() : 1, min_bands);
  Bands bands = layout.bands_for(threads, sampling);
  if (bands.count() > 1) {
    find_spans(sampling, 0.2 * nanoseconds, layout.spans);
    if (layout.are_scattered(bands, sampling)) {
      // Below it two threads take as long as one.
      const bool pays = nanoseconds >= 7 * kMinParallelNanoseconds;
      bands = layout.fewer_bands(bands, pays ? threads : 1, sampling);
      // Or a vector of samples would be differentiated for each band that owns one of them.
      if (sampling.wants_own() && pays && bands.count() > 1) differentiate_own();
    } else if (!layout.adds_in_buffer && threads % sampling.batch == 0) {
      // With more bands, threads that are done early could take some of the others' work; but more samples lie in two.
      const Bands few = layout.fewer_bands(bands, threads, sampling);
      if (layout.are_even(few, sampling)) bands = few;
    }
  }
  const int64_t count = bands.count();
  parallel_for_with_slots(sampling.batch * count, bands.slots, nanoseconds, [&](int64_t task, int64_t slot) {
    const int64_t image = task / count;
    const RowBand band = bands.band(task % count);
    float* const buffer = layout.buffer(bands, slot);
    differentiate(sampling, image, band, layout.sums_of(sampling, image, band, buffer),
                  {0, sampling.samples, count > 1 ? layout.spans + image * layout.chunks : nullptr});
    if (!layout.adds_in_buffer) return;
    const int64_t pixels = sampling.pixels_of_band(band), first = sampling.pixels_of_band({0, band.begin});
    store_pixels(sampling.input_grad[image], 0, sampling.channels, first, pixels, buffer,
                 pixels + SamplesLayout::kBetweenPlanes);
  });
}

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
