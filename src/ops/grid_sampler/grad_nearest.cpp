// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of nearest grid sampling: each gradient of the output is added to the one pixel that its sample reads.
#include <algorithm>

#include "ops/grid_sampler/grad_bands.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/grad_nearest.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/coordinates-inl.h"
#include "ops/grid_sampler/images-inl.h"
#include "ops/grid_sampler/nearest_pixels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

// The samples of an image, as far as they add to a band of its rows.
template <class Real, int kAxes>
class GradNearest {
 public:
  GradNearest(const Sampling& sampling, int64_t image, RowBand band, const Sums& sums)
      : band_(band),
        grad_output_(sampling.output[image]),
        target_(image_around(sums, sampling.last_axis().size)),
        sums_(sums),
        reads_gradient_(grad_output_.type == data_type_of<Real> && grad_output_.is_flat()),
        has_channels_last_(target_.channels > 1 && target_.channel_stride == 1 && reads_gradient_ &&
                           grad_output_.channel_stride == 1),
        grid_(sampling.grid[image]),
        pixels_(target_, sampling.axes, max_lines()) {}

  // Samples [first, end), all of them inside of the band or not: a few channels of a chunk of them at a time.
  void differentiate(int64_t first, int64_t end, bool is_inside) {
    Vector chunk[kChunkSamples / kSamples];
    const int64_t max_vectors = has_channels_last_ ? 1 : kChunkSamples / kSamples;
    while (first < end) {
      int64_t vectors = 0;
      for (; vectors < max_vectors && first < end; first += kSamples) {
        if (find(first, std::min(kSamples, end - first), is_inside, chunk[vectors])) ++vectors;
      }
      if (vectors == 0) continue;
      if (has_channels_last_) {
        add_pixels(chunk[0]);
        continue;
      }
      for (int64_t channel = 0; channel < target_.channels; channel += kGroup) {
        const int64_t channels = std::min(kGroup, target_.channels - channel);
        for (int64_t k = 0; k < vectors; ++k) add_channels(chunk[k], channel, channels);
      }
    }
  }

  void finish() { sums_.zero_to(band_.end - 1); }

 private:
  using Pixels = NearestPixels<Real, kAxes>;
  using D = typename Pixels::D;
  using V = typename Pixels::V;
  static constexpr int64_t kSamples = Pixels::kSamples;
  static constexpr int64_t kGroup = kFewChannels;  // channels whose sums wait for each other

  // Neighbouring samples.
  struct Vector {
    int64_t first;
    int64_t count;
    uint32_t bits;  // of those that add to the band
    int lines;      // of pixels side by side that all of them add to; 0 if that is not so
    uint32_t in_first;
    int64_t line[2];
    int64_t offsets[kSamples];
  };

  // That are looked for. With two, zeros are added to what lies between rows, too; of one channel, they take as long as
  // pixels anywhere.
  int max_lines() const {
    if (has_channels_last_) return target_.column_stride == target_.channels ? 1 : 0;
    if (target_.column_stride != 1) return 0;
    return target_.channels > 1 && target_.has_contiguous_channels() ? 2 : 1;
  }

  // The image that the sums are a part of.
  static Image image_around(const Sums& sums, int64_t rows) {
    Image image = sums.rows;
    (kAxes == 2 ? image.height : image.depth) = rows;
    image.data = image.channel<Real>(0) - sums.first_row * step_of(image);
    return image;
  }

  static int64_t step_of(const Image& image) { return kAxes == 2 ? image.row_stride : image.slice_stride; }

  // Returns whether any sample adds to the band; then the rows that they add to are zeroed.
  HWY_INLINE bool find(int64_t first, int64_t count, bool is_inside, Vector& vector) {
    const D d;
    V coordinates[kAxes], pixels[kAxes];
    grid_.load(first, count, coordinates);
    typename Pixels::Found found;
    pixels_.find(coordinates, pixels, found);
    uint32_t bits = found.bits;
    if (HWY_UNLIKELY(count != kSamples)) bits &= (uint32_t{1} << count) - 1;
    const V row = pixels[kAxes - 1];
    if (!is_inside) bits &= rows_from(d, row, band_.begin) & ~rows_from(d, row, band_.end);
    if (bits == 0) return false;
    if (HWY_UNLIKELY((rows_from(d, row, sums_.missing.begin) & bits) != 0)) {
      const V of_bits = hn::IfThenElseZero(mask_of(d, bits), row);
      sums_.zero_to(static_cast<int64_t>(hn::GetLane(hn::MaxOfLanes(d, of_bits))));
    }
    vector.first = first;
    vector.count = count;
    vector.bits = bits;
    vector.lines = bits == Pixels::kAll && are_lines_of_band(found) ? found.lines : 0;
    vector.in_first = found.in_first;
    std::copy_n(found.line, 2, vector.line);
    pixels_.store_offsets(pixels, found, vector.offsets);
    return true;
  }

  // Of two lines, whether all of both lies in the band and the samples of the first come first, as sums add up in order.
  HWY_INLINE bool are_lines_of_band(const typename Pixels::Found& found) const {
    if (found.lines != 2) return true;
    const int64_t begin = band_.begin * step_of(target_), end = band_.end * step_of(target_);
    const auto low = std::min<int64_t>(found.line[0], found.line[1]);
    const auto high = std::max<int64_t>(found.line[0], found.line[1]);
    return low >= begin && high + kSamples <= end && (found.in_first & (found.in_first + 1)) == 0;
  }

  // ---- Channel by channel

  // Some channels of the output's gradient.
  struct Gradients {
    const Real* first;
    int64_t channel_stride;
    int64_t sample_stride;
  };

  HWY_INLINE void add_channels(const Vector& vector, int64_t channel, int64_t channels) const {
    alignas(64) Real staged[kGroup][kSamples];
    Gradients from{staged[0], kSamples, 1};
    if (HWY_LIKELY(reads_gradient_)) {
      const int64_t stride = grad_output_.flat_stride();
      from = {grad_output_.channel<Real>(channel) + vector.first * stride, grad_output_.channel_stride,
              stride};
    } else {
      load_pixels(grad_output_, channel, channels, vector.first, vector.count, staged[0], kSamples);
    }
    Real* const to = target_.channel<Real>(channel);
    if (channels == 1) return add<1>(vector, from, to);
    if (channels == 2) return add<2>(vector, from, to);
    if (channels == 3) return add<3>(vector, from, to);
    add<4>(vector, from, to);
  }

  template <int kChannels>
  HWY_INLINE void add(const Vector& vector, const Gradients& from, Real* to) const {
    if (vector.lines != 0 && from.sample_stride == 1) return add_lines<kChannels>(vector, from, to);
    const auto add_sample = [&](int64_t i) HWY_ATTR {
      Real* pixel = to + vector.offsets[i];
      const Real* gradient = from.first + i * from.sample_stride;
      for (int c = 0; c < kChannels; ++c)
        pixel[c * target_.channel_stride] += gradient[c * from.channel_stride];
    };
    if (HWY_LIKELY(vector.bits == Pixels::kAll)) {
      for (int64_t i = 0; i < kSamples; ++i) add_sample(i);
      return;
    }
    for (uint32_t bits = vector.bits; bits != 0; bits &= bits - 1) add_sample(__builtin_ctz(bits));
  }

  template <int kChannels>
  HWY_INLINE void add_lines(const Vector& vector, const Gradients& from, Real* to) const {
    const D d;
    const auto add_to = [&](Real* line, V terms)
                            HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(d, line), terms), d, line); };
    const auto is_in_first = mask_of(d, vector.in_first);
    for (int c = 0; c < kChannels; ++c, to += target_.channel_stride) {
      const V terms = hn::LoadU(d, from.first + c * from.channel_stride);
      if (vector.lines == 1) {
        add_to(to + vector.line[0], terms);
        continue;
      }
      add_to(to + vector.line[0], hn::IfThenElseZero(is_in_first, terms));
      add_to(to + vector.line[1], hn::IfThenZeroElse(is_in_first, terms));
    }
  }

  // ---- Pixel by pixel, whose channels lie side by side

  HWY_INLINE void add_pixels(const Vector& vector) const {
    if (target_.channels > kFewChannels) return add_pixels_of(target_.channels, vector);
    visit_interleaved(target_.channels, [&](auto channels) HWY_ATTR { add_pixels_of(channels, vector); });
  }

  template <class Count>
  HWY_INLINE void add_pixels_of(Count channels, const Vector& vector) const {
    const Real* from = grad_output_.channel<Real>(0);
    Real* to = target_.channel<Real>(0);
    if (vector.lines == 1 && grad_output_.is_flat() && grad_output_.flat_stride() == channels) {
      from += vector.first * channels;
      to += vector.line[0];
      for (int64_t k = 0; k < kSamples * channels; k += kSamples)
        hn::StoreU(hn::Add(hn::LoadU(D(), to + k), hn::LoadU(D(), from + k)), D(), to + k);
      return;
    }
    for_each_pixel(grad_output_, vector.first, vector.count, [&](int64_t k, int64_t offset) HWY_ATTR {
      if (HWY_UNLIKELY((vector.bits >> k & 1) == 0)) return;
      for (int64_t c = 0; c < channels; ++c) to[vector.offsets[k] + c] += from[offset + c];
    });
  }

  const RowBand band_;
  const Image grad_output_;
  const Image target_;
  Sums sums_;
  const bool reads_gradient_;  // where it lies
  const bool has_channels_last_;
  GridReader<Real, kAxes> grid_;
  Pixels pixels_;
};

void run_nearest_gradient(const Sampling& sampling, const SamplesLayout& layout) {
  visit_axes(sampling, [&](auto axes) {
    const auto run = [&]<class Real>(Real) {
      differentiate_images(sampling, layout, gradient_nanoseconds(sampling),
                           differentiate_band<GradNearest<Real, axes>, Sampling>);
    };
    sampling.type == DataType::float64 ? run(double{}) : run(float{});
  });
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_nearest_gradient);

constexpr int64_t kMaxImages = 64;

// The channels of one image as the images of a batch, all with its grid: threads share them out without any sample in two
// bands.
Sampling with_images_of_channels(const Sampling& sampling, int64_t images) {
  if (images == 1) return sampling;
  Sampling cut = sampling;
  cut.batch = images;
  cut.channels = sampling.channels / images;
  for (Images* of_batch : {&cut.input, &cut.input_grad, &cut.output}) {
    of_batch->first.channels = cut.channels;
    of_batch->stride = cut.channels * of_batch->first.channel_stride;
  }
  cut.grid.stride = 0;
  return cut;
}

bool shares_channels(const Sampling& sampling) {
  return sampling.batch == 1 && gradient_nanoseconds(sampling) >= kMinParallelNanoseconds;
}

}  // namespace

// For any number of threads.
size_t grad_nearest_workspace_size(const Sampling& sampling) {
  size_t size = 0;
  for (int64_t images = shares_channels(sampling) ? std::min(sampling.channels, kMaxImages) : 1; images > 0;
       --images) {
    if (sampling.channels % images == 0)
      size = std::max(size, size_of_workspace<SamplesLayout>(with_images_of_channels(sampling, images)));
  }
  return size;
}

void grad_nearest(const Sampling& sampling, void* workspace) {
  int64_t images = 1;
  if (shares_channels(sampling)) images = std::min<int64_t>({sampling.channels, thread_count(), kMaxImages});
  while (sampling.channels % images != 0) --images;
  const Sampling cut = with_images_of_channels(sampling, images);
  WorkspaceAllocator allocator(workspace);
  const SamplesLayout layout(cut, allocator);
  HWY_DYNAMIC_DISPATCH(run_nearest_gradient)(cut, layout);
}

}  // namespace aclgrad::ops::grid_sampler

#endif
