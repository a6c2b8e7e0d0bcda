// Images as they suit kernels vectorised over channels: pixel after pixel, the channels of each side by side as floats,
// filled up with zeros to a multiple of 16.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_2D_CHANNELS_LAST_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_2D_CHANNELS_LAST_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_2D_CHANNELS_LAST_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_2D_CHANNELS_LAST_INL_H_
#endif

#include "base/simd-inl.h"
#include "ops/grid_sampler/image.h"
#include "ops/grid_sampler/samples-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// A tile of an image stays in the first-level cache while it is transposed. Its channels are as many as a cache line
// of the channels-last copy holds, so that each line is filled at once. Tiles follow each other along the image for a
// page of floats before the next channels come: the hardware prefetches so few and long streams. It stops at the end of
// each page, though, so steps also fetch what comes some steps later.
inline constexpr int64_t kTilePixels = 128;
inline constexpr int64_t kTileChannels = 16;
inline constexpr int64_t kRunPixels = 1024;
inline constexpr int64_t kPrefetchPixels = 32;

// Calls body(pixel, step) so that steps cover the pixels: the last one overlaps the one before. Fewer pixels than a
// step are one of their own.
template <class Body>
HWY_INLINE void for_each_step(int64_t pixels, int64_t step, Body&& body) {
  int64_t pixel = 0;
  for (; pixel + step <= pixels; pixel += step) body(pixel, step);
  if (pixel < pixels) pixels < step ? body(0, pixels) : body(pixels - step, step);
}

// Whether steps may read and write the floats of the image where they lie.
template <class T>
inline bool has_tile_rows(const Image<T>& image, int64_t pixels, int64_t step) {
  return std::is_same_v<std::remove_const_t<T>, float> && image.has_contiguous_channels() && pixels >= step;
}

// At most kTilePixels pixels, and as many channels, from the given ones on, as a vector has lanes.
template <class D, class T>
void pack_tile(D d, const Image<const T>& image, int64_t channel, int64_t first, int64_t pixels, float* to,
               int64_t pixel_stride) {
  static constexpr float kZeros[kTilePixels] = {};
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(D()));
  constexpr int64_t kStep = 8;
  alignas(64) float staged[lanes][kTilePixels];
  const bool in_place = has_tile_rows(image, pixels, kStep);
  const float* rows[lanes];
  for (int64_t k = 0; k < lanes; ++k) {
    const T* from = image.data + (channel + k) * image.channel_stride;
    if (channel + k >= image.channels) {
      rows[k] = kZeros;
    } else if (in_place) {
      rows[k] = reinterpret_cast<const float*>(from + first);
    } else {
      load_pixels(image, from, first, pixels, staged[k]);
      if (pixels < kStep) std::fill(staged[k] + pixels, staged[k] + kStep, 0.0f);
      rows[k] = staged[k];
    }
  }
  for_each_step(pixels, kStep, [&](int64_t pixel, int64_t count) HWY_ATTR {
    if (in_place) {
      for (const float* row : rows) __builtin_prefetch(row + pixel + kPrefetchPixels);
    }
    for (int64_t k = 0; k < kStep; k += 4) {
      hn::Vec<D> v[4];
      transpose_rows(d, rows, pixel + k, v);
      for (int64_t j = 0; j < 4; ++j) {
        if (k + j < count) hn::StoreU(v[j], d, to + (pixel + k + j) * pixel_stride + channel);
      }
    }
  });
}

template <class D, class T>
void unpack_tile(D d, const float* from, int64_t pixel_stride, const Image<T>& image, int64_t channel,
                 int64_t first, int64_t pixels) {
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(D()));
  alignas(64) float staged[lanes][kTilePixels];
  const int64_t channels = std::min(lanes, image.channels - channel);
  const bool in_place = has_tile_rows(image, pixels, lanes);
  float* rows[lanes];
  const float* of_pixels[lanes];
  for (int64_t k = 0; k < lanes; ++k) {
    T* to = image.data + (channel + k) * image.channel_stride;
    rows[k] = in_place && k < channels ? reinterpret_cast<float*>(to + first) : staged[k];
    of_pixels[k] = from + std::min(k, pixels - 1) * pixel_stride + channel;
  }
  for_each_step(pixels, lanes, [&](int64_t pixel, int64_t) HWY_ATTR {
    if (in_place) {
      constexpr int kWillBeWritten = 1;
      for (float* row : rows) __builtin_prefetch(row + pixel + kPrefetchPixels, kWillBeWritten);
    }
    for (int64_t k = 0; k < lanes; k += 4) {
      hn::Vec<D> v[4];
      transpose_rows(d, of_pixels, pixel * pixel_stride + k, v);
      for (int64_t j = 0; j < 4; ++j) hn::StoreU(v[j], d, rows[k + j] + pixel);
    }
  });
  if (in_place) return;
  for (int64_t k = 0; k < channels; ++k) {
    store_pixels(image, image.data + (channel + k) * image.channel_stride, first, pixels, staged[k]);
  }
}

// The channels of a pixel lie side by side already: widens and fills up.
template <class T>
void pack_interleaved(const Image<const T>& image, int64_t first, int64_t pixels, float* to,
                      int64_t pixel_stride) {
  for_each_pixel(image, first, pixels, [&](int64_t k, int64_t offset) HWY_ATTR {
    const T* from = image.data + offset;
    float* pixel = to + k * pixel_stride;
    int64_t c = 0;
    for (; c + static_cast<int64_t>(kLanes) <= image.channels; c += kLanes) store(load(from + c), pixel + c);
    for (; c < image.channels; ++c) pixel[c] = to_float(from[c]);
    for (; c < pixel_stride; ++c) pixel[c] = 0.0f;
  });
}

template <class T>
void unpack_interleaved(const float* from, int64_t pixel_stride, const Image<T>& image, int64_t first,
                        int64_t pixels) {
  for_each_pixel(image, first, pixels, [&](int64_t k, int64_t offset) HWY_ATTR {
    T* to = image.data + offset;
    const float* pixel = from + k * pixel_stride;
    int64_t c = 0;
    for (; c + static_cast<int64_t>(kLanes) <= image.channels; c += kLanes) store(load(pixel + c), to + c);
    for (; c < image.channels; ++c) to[c] = from_float<T>(pixel[c]);
  });
}

// Calls body(channel, pixel, pixels) for tiles that cover `pixels` pixels of `channels` channels, `lanes` channels at
// a time.
template <class Body>
HWY_INLINE void for_each_tile(int64_t channels, int64_t lanes, int64_t pixels, Body&& body) {
  for (int64_t run = 0; run < pixels; run += kRunPixels) {
    const int64_t run_end = std::min(pixels, run + kRunPixels);
    for (int64_t first_channel = 0; first_channel < channels; first_channel += kTileChannels) {
      const int64_t end_channel = std::min(channels, first_channel + kTileChannels);
      for (int64_t pixel = run; pixel < run_end; pixel += kTilePixels) {
        const int64_t count = std::min(kTilePixels, run_end - pixel);
        for (int64_t channel = first_channel; channel < end_channel; channel += lanes)
          body(channel, pixel, count);
      }
    }
  }
}

// Pixels [first, first + pixels) of the image to or from `pixels` times `pixel_stride` floats. The tag says how many
// channels are transposed together.
template <class D, class T>
void pack_pixels(D d, const Image<const T>& image, int64_t first, int64_t pixels, float* to,
                 int64_t pixel_stride) {
  if (image.channel_stride == 1 && image.channels > 1) {
    return pack_interleaved(image, first, pixels, to, pixel_stride);
  }
  for_each_tile(pixel_stride, hn::MaxLanes(d), pixels,
                [&](int64_t channel, int64_t pixel, int64_t count) HWY_ATTR {
                  pack_tile(d, image, channel, first + pixel, count, to + pixel * pixel_stride, pixel_stride);
                });
}

template <class D, class T>
void unpack_pixels(D d, const float* from, int64_t pixel_stride, const Image<T>& image, int64_t first,
                   int64_t pixels) {
  if (image.channel_stride == 1 && image.channels > 1) {
    return unpack_interleaved(from, pixel_stride, image, first, pixels);
  }
  for_each_tile(
      image.channels, hn::MaxLanes(d), pixels, [&](int64_t channel, int64_t pixel, int64_t count) HWY_ATTR {
        unpack_tile(d, from + pixel * pixel_stride, pixel_stride, image, channel, first + pixel, count);
      });
}

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
