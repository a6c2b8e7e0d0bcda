// Images as they suit kernels with channels in lanes: pixel after pixel, the channels of each side by side as floats,
// filled up with zeros to a multiple of 16.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_2D_PIXEL_MAJOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_2D_PIXEL_MAJOR_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_2D_PIXEL_MAJOR_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_2D_PIXEL_MAJOR_INL_H_
#endif

#include "base/simd-inl.h"
#include "ops/grid_sampler_2d/image.h"
#include "ops/grid_sampler_2d/points-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::HWY_NAMESPACE {

// A tile of an image stays in the first-level cache while it is transposed. Its channels are as many as a cache line
// of the pixel-major copy holds, so that each line is filled at once. Tiles follow each other along the image for a
// page of floats before the next channels come: the hardware prefetches so few and long streams.
inline constexpr int64_t kTilePixels = 64;
inline constexpr int64_t kTileChannels = 16;
inline constexpr int64_t kRunPixels = 1024;

// A vector of blocks of four pixels: of rows[0], rows[4], rows[8], ...
HWY_INLINE auto load_blocks(hn::FixedTag<float, 4> d, const float* const* rows, int64_t pixel) {
  return hn::LoadU(d, rows[0] + pixel);
}

HWY_INLINE void store_blocks(hn::Vec<hn::FixedTag<float, 4>> v, hn::FixedTag<float, 4> d, float* const* rows,
                             int64_t pixel) {
  hn::StoreU(v, d, rows[0] + pixel);
}

template <size_t kSize>
HWY_INLINE auto load_blocks(hn::Simd<float, kSize, 0> d, const float* const* rows, int64_t pixel) {
  const hn::FixedTag<float, kSize / 2> half;
  return hn::Combine(d, load_blocks(half, rows + kSize / 2, pixel), load_blocks(half, rows, pixel));
}

template <class V, size_t kSize>
HWY_INLINE void store_blocks(V v, hn::Simd<float, kSize, 0>, float* const* rows, int64_t pixel) {
  const hn::FixedTag<float, kSize / 2> half;
  store_blocks(hn::LowerHalf(half, v), half, rows, pixel);
  store_blocks(hn::UpperHalf(half, v), half, rows + kSize / 2, pixel);
}

// Transposes the 4 x 4 floats that the blocks of four vectors make up.
template <class D>
HWY_INLINE void transpose_blocks(D d, hn::Vec<D> (&v)[4]) {
  const hn::Repartition<double, D> wide;
  const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, v[0], v[1]));
  const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, v[2], v[3]));
  const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, v[0], v[1]));
  const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, v[2], v[3]));
  v[0] = hn::BitCast(d, hn::InterleaveLower(wide, low01, low23));
  v[1] = hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23));
  v[2] = hn::BitCast(d, hn::InterleaveLower(wide, high01, high23));
  v[3] = hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23));
}

// Whether the kernels may read and write the floats of the image as rows of a tile.
template <class T>
inline bool has_tile_rows(const Image<T>& image, int64_t pixels) {
  return std::is_same_v<std::remove_const_t<T>, float> && image.is_planar() && pixels % 4 == 0;
}

// At most kTilePixels pixels, and as many channels, from the given ones on, as a vector has lanes.
template <class D, class T>
void pack_tile(D d, const Image<const T>& image, int64_t channel, int64_t first, int64_t pixels, float* to,
               int64_t pixel_stride) {
  static constexpr float kZeros[kTilePixels] = {};
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(D()));
  alignas(64) float staged[lanes][kTilePixels];
  const float* rows[lanes];
  for (int64_t k = 0; k < lanes; ++k) {
    const T* from = image.data + (channel + k) * image.channel_stride;
    if (channel + k >= image.channels) {
      rows[k] = kZeros;
    } else if (has_tile_rows(image, pixels)) {
      rows[k] = reinterpret_cast<const float*>(from + first);
    } else {
      load_pixels(image, from, first, pixels, staged[k]);
      std::fill(staged[k] + pixels, staged[k] + (pixels + 3) / 4 * 4, 0.0f);
      rows[k] = staged[k];
    }
  }
  const auto transpose = [&](int64_t pixel, int64_t count) HWY_ATTR {
    hn::Vec<D> v[4];
    for (int j = 0; j < 4; ++j) v[j] = load_blocks(d, rows + j, pixel);
    transpose_blocks(d, v);
    for (int64_t j = 0; j < count; ++j) hn::StoreU(v[j], d, to + (pixel + j) * pixel_stride + channel);
  };
  int64_t pixel = 0;
  for (; pixel + 4 <= pixels; pixel += 4) transpose(pixel, 4);
  if (pixel < pixels) transpose(pixel, pixels - pixel);
}

template <class D, class T>
void unpack_tile(D d, const float* from, int64_t pixel_stride, const Image<T>& image, int64_t channel,
                 int64_t first, int64_t pixels) {
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(D()));
  alignas(64) float staged[lanes][kTilePixels];
  const int64_t channels = std::min(lanes, image.channels - channel);
  const bool in_place = has_tile_rows(image, pixels);
  float* rows[lanes];
  for (int64_t k = 0; k < lanes; ++k) {
    T* to = image.data + (channel + k) * image.channel_stride;
    rows[k] = in_place && k < channels ? reinterpret_cast<float*>(to + first) : staged[k];
  }
  const auto transpose = [&](int64_t pixel, int64_t count) HWY_ATTR {
    hn::Vec<D> v[4];
    for (int64_t j = 0; j < 4; ++j) {
      v[j] = hn::LoadU(d, from + (pixel + std::min(j, count - 1)) * pixel_stride + channel);
    }
    transpose_blocks(d, v);
    for (int j = 0; j < 4; ++j) store_blocks(v[j], d, rows + j, pixel);
  };
  int64_t pixel = 0;
  for (; pixel + 4 <= pixels; pixel += 4) transpose(pixel, 4);
  if (pixel < pixels) transpose(pixel, pixels - pixel);
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

}  // namespace aclgrad::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
