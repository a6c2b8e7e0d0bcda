// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Images read and written where they lie, whatever their type and strides.
#include "ops/grid_sampler/image.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/images_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/interleaved-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// ---- Pixels of one channel

namespace {

// Widens or rounds elements that lie side by side.
template <class From, class To>
HWY_INLINE void convert(const From* from, int64_t count, To* to) {
  if constexpr (std::is_same_v<From, To>) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(To));
  } else {
    int64_t k = 0;
    for (; k + static_cast<int64_t>(kLanes) <= count; k += kLanes) store(load(from + k), to + k);
    for (; k < count; ++k) to[k] = from_real<To>(to_real(from[k]));
  }
}

// Whether two to four channels lie side by side in each pixel, pixel after pixel, with no others between them.
bool are_interleaved(const Image& image, int64_t channels) {
  return channels >= 2 && channels <= 4 && image.channel_stride == 1 && image.is_flat() &&
         image.flat_stride() == channels;
}

template <class T, class Real>
void load_interleaved_pixels(const T* from, int64_t channels, int64_t count, Real* to, int64_t stride) {
  visit_interleaved(channels, [&](auto constant) HWY_ATTR {
    constexpr int kChannels = constant;
    const BlockTag<Real> d;
    constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(d));
    int64_t k = 0;
    for (; k + lanes <= count; k += lanes, from += kChannels * lanes) {
      hn::Vec<BlockTag<Real>> of_channels[kChannels];
      if constexpr (std::is_same_v<T, Real>) {
        load_interleaved(d, from, of_channels);
      } else {
        alignas(64) Real widened[kChannels * lanes];
        convert(from, kChannels * lanes, widened);
        load_interleaved(d, widened, of_channels);
      }
      for (int c = 0; c < kChannels; ++c) hn::StoreU(of_channels[c], d, to + c * stride + k);
    }
    for (; k < count; ++k) {
      for (int c = 0; c < kChannels; ++c) to[c * stride + k] = to_real(*from++);
    }
  });
}

template <class T, class Real>
void store_interleaved_pixels(const Real* from, int64_t stride, int64_t channels, int64_t count, T* to) {
  visit_interleaved(channels, [&](auto constant) HWY_ATTR {
    constexpr int kChannels = constant;
    const BlockTag<Real> d;
    constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(d));
    int64_t k = 0;
    for (; k + lanes <= count; k += lanes, to += kChannels * lanes) {
      hn::Vec<BlockTag<Real>> of_channels[kChannels];
      for (int c = 0; c < kChannels; ++c) of_channels[c] = hn::LoadU(d, from + c * stride + k);
      if constexpr (std::is_same_v<T, Real>) {
        store_interleaved(d, of_channels, to);
      } else {
        alignas(64) Real interleaved[kChannels * lanes];
        store_interleaved(d, of_channels, interleaved);
        convert(interleaved, kChannels * lanes, to);
      }
    }
    for (; k < count; ++k) {
      for (int c = 0; c < kChannels; ++c) *to++ = from_real<T>(from[c * stride + k]);
    }
  });
}

template <class T, class Real>
void load_pixels_of(const Image& image, int64_t channel, int64_t channels, int64_t first, int64_t count,
                    Real* to, int64_t stride) {
  const T* from = image.channel<T>(channel);
  if (are_interleaved(image, channels))
    return load_interleaved_pixels(from + first * channels, channels, count, to, stride);
  const bool is_contiguous = image.has_contiguous_channels();
  for (int64_t c = 0; c < channels; ++c, from += image.channel_stride, to += stride) {
    if (is_contiguous) {
      convert(from + first, count, to);
    } else {
      for_each_pixel(image, first, count, [&](int64_t k, int64_t offset) { to[k] = to_real(from[offset]); });
    }
  }
}

template <class T, class Real>
void store_pixels_of(const Image& image, int64_t channel, int64_t channels, int64_t first, int64_t count,
                     const Real* from, int64_t stride) {
  T* to = image.channel<T>(channel);
  if (are_interleaved(image, channels))
    return store_interleaved_pixels(from, stride, channels, count, to + first * channels);
  const bool is_contiguous = image.has_contiguous_channels();
  for (int64_t c = 0; c < channels; ++c, from += stride, to += image.channel_stride) {
    if (is_contiguous) {
      convert(from, count, to + first);
    } else {
      for_each_pixel(image, first, count,
                     [&](int64_t k, int64_t offset) { to[offset] = from_real<T>(from[k]); });
    }
  }
}

}  // namespace

template <class Real>
void load_pixels(const Image& image, int64_t channel, int64_t channels, int64_t first, int64_t count,
                 Real* to, int64_t stride) {
  visit_type<Real>(
      image.type, [&]<class T>(T) { load_pixels_of<T>(image, channel, channels, first, count, to, stride); });
}

template <class Real>
void store_pixels(const Image& image, int64_t channel, int64_t channels, int64_t first, int64_t count,
                  const Real* from, int64_t stride) {
  visit_type<Real>(image.type, [&]<class T>(T) {
    store_pixels_of<T>(image, channel, channels, first, count, from, stride);
  });
}

template void load_pixels<float>(const Image&, int64_t, int64_t, int64_t, int64_t, float*, int64_t);
template void load_pixels<double>(const Image&, int64_t, int64_t, int64_t, int64_t, double*, int64_t);
template void store_pixels<float>(const Image&, int64_t, int64_t, int64_t, int64_t, const float*, int64_t);
template void store_pixels<double>(const Image&, int64_t, int64_t, int64_t, int64_t, const double*, int64_t);

// ---- Channels-last order

namespace {

// A tile of an image stays in the first-level cache while it is transposed. Its channels are as many as a cache line
// of the channels-last copy holds, so that each line is filled at once. Tiles follow each other along the image for a
// page of floats before the next channels come: the hardware prefetches so few and long streams. It stops at the end of
// each page, though, so steps also fetch what comes some steps later.
constexpr int64_t kTilePixels = 128;
constexpr int64_t kTileChannels = 16;
constexpr int64_t kRunPixels = 1024;
constexpr int64_t kPrefetchPixels = 32;

// Calls body(pixel, step) so that steps cover the pixels: the last one overlaps the one before. Fewer pixels than a
// step are one of their own.
template <class Body>
HWY_INLINE void for_each_step(int64_t pixels, int64_t step, Body&& body) {
  int64_t pixel = 0;
  for (; pixel + step <= pixels; pixel += step) body(pixel, step);
  if (pixel < pixels) pixels < step ? body(0, pixels) : body(pixels - step, step);
}

// Whether steps may read and write the floats of the image where they lie.
bool has_tile_rows(const Image& image, int64_t pixels, int64_t step) {
  return image.type == DataType::float32 && image.has_contiguous_channels() && pixels >= step;
}

// At most kTilePixels pixels, and as many channels, from the given ones on, as a vector has lanes.
template <class D>
void pack_tile(D d, const Image& image, int64_t channel, int64_t first, int64_t pixels, float* to,
               int64_t pixel_stride) {
  static constexpr float kZeros[kTilePixels] = {};
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(D()));
  constexpr int64_t kStep = 8;
  alignas(64) float staged[lanes][kTilePixels];
  const bool in_place = has_tile_rows(image, pixels, kStep);
  const int64_t channels = std::clamp<int64_t>(image.channels - channel, 0, lanes);
  if (!in_place) {
    load_pixels(image, channel, channels, first, pixels, staged[0], kTilePixels);
    for (int64_t k = 0; k < channels && pixels < kStep; ++k)
      std::fill(staged[k] + pixels, staged[k] + kStep, 0.0f);
  }
  const float* rows[lanes];
  const float* const first_row = in_place ? image.channel<float>(channel) + first : staged[0];
  const int64_t row_stride = in_place ? image.channel_stride : kTilePixels;
  for (int64_t k = 0; k < lanes; ++k) rows[k] = k < channels ? first_row + k * row_stride : kZeros;
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

template <class D>
void unpack_tile(D d, const float* from, int64_t pixel_stride, const Image& image, int64_t channel,
                 int64_t first, int64_t pixels) {
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(D()));
  alignas(64) float staged[lanes][kTilePixels];
  const int64_t channels = std::min(lanes, image.channels - channel);
  const bool in_place = has_tile_rows(image, pixels, lanes);
  float* rows[lanes];
  const float* of_pixels[lanes];
  float* const first_row = in_place ? image.channel<float>(channel) + first : staged[0];
  const int64_t row_stride = in_place ? image.channel_stride : kTilePixels;
  for (int64_t k = 0; k < lanes; ++k) {
    rows[k] = k < channels ? first_row + k * row_stride : staged[k];
    of_pixels[k] = from + std::min(k, pixels - 1) * pixel_stride + channel;
  }
  const bool past_caches = in_place && image.outgrows_caches && channels == lanes &&
                           reinterpret_cast<uintptr_t>(first_row) % 64 == 0 && row_stride % 16 == 0;
  for_each_step(pixels, lanes, [&](int64_t pixel, int64_t) HWY_ATTR {
    const bool streams = past_caches && pixel % lanes == 0;
    if (in_place && !streams) {
      constexpr int kWillBeWritten = 1;
      for (float* row : rows) __builtin_prefetch(row + pixel + kPrefetchPixels, kWillBeWritten);
    }
    for (int64_t k = 0; k < lanes; k += 4) {
      hn::Vec<D> v[4];
      transpose_rows(d, of_pixels, pixel * pixel_stride + k, v);
      for (int64_t j = 0; j < 4; ++j) {
        float* to = rows[k + j] + pixel;
        streams ? hn::Stream(v[j], d, to) : hn::StoreU(v[j], d, to);
      }
    }
  });
  if (!in_place) store_pixels(image, channel, channels, first, pixels, staged[0], kTilePixels);
}

// The channels of a pixel lie side by side already: widens and fills up.
template <class T>
void pack_interleaved(const Image& image, int64_t first, int64_t pixels, float* to, int64_t pixel_stride) {
  for_each_pixel(image, first, pixels, [&](int64_t k, int64_t offset) HWY_ATTR {
    float* pixel = to + k * pixel_stride;
    convert(image.channel<T>(0) + offset, image.channels, pixel);
    std::fill(pixel + image.channels, pixel + pixel_stride, 0.0f);
  });
}

template <class T>
void unpack_interleaved(const float* from, int64_t pixel_stride, const Image& image, int64_t first,
                        int64_t pixels) {
  for_each_pixel(image, first, pixels, [&](int64_t k, int64_t offset) HWY_ATTR {
    convert(from + k * pixel_stride, image.channels, image.channel<T>(0) + offset);
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

// Whether the channels of each pixel lie side by side.
bool is_interleaved(const Image& image) {
  return image.channel_stride == 1 && image.channels > 1;
}

}  // namespace

void pack_pixels(const Image& image, int64_t first, int64_t pixels, float* to, int64_t pixel_stride) {
  if (is_interleaved(image)) {
    visit_float_type(image.type,
                     [&]<class T>(T) { pack_interleaved<T>(image, first, pixels, to, pixel_stride); });
    return;
  }
  visit_channel_tag(image.channels, [&](auto d) HWY_ATTR {
    for_each_tile(
        pixel_stride, hn::MaxLanes(d), pixels, [&](int64_t channel, int64_t pixel, int64_t count) HWY_ATTR {
          pack_tile(d, image, channel, first + pixel, count, to + pixel * pixel_stride, pixel_stride);
        });
  });
}

void pack_images(const Images& images, int64_t first_image, int64_t count, double serial_nanoseconds,
                 float* to, int64_t pixel_stride) {
  const int64_t pixels = images.first.pixels();
  const int64_t runs = divide_up(pixels, kRunPixels);
  parallel_for(count * runs, serial_nanoseconds, [&](int64_t task) {
    const int64_t image = task / runs, first = task % runs * kRunPixels;
    pack_pixels(images[first_image + image], first, std::min(kRunPixels, pixels - first),
                to + (image * pixels + first) * pixel_stride, pixel_stride);
  });
}

void unpack_pixels(const float* from, int64_t pixel_stride, const Image& image, int64_t first,
                   int64_t pixels) {
  if (is_interleaved(image)) {
    visit_float_type(image.type,
                     [&]<class T>(T) { unpack_interleaved<T>(from, pixel_stride, image, first, pixels); });
    return;
  }
  visit_channel_tag(image.channels, [&](auto d) HWY_ATTR {
    for_each_tile(
        image.channels, hn::MaxLanes(d), pixels, [&](int64_t channel, int64_t pixel, int64_t count) HWY_ATTR {
          unpack_tile(d, from + pixel * pixel_stride, pixel_stride, image, channel, first + pixel, count);
        });
  });
}

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
