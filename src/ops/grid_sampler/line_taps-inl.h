// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Interpolation where the samples of a vector lie in lines: where they read and how they weigh it is found once for all
// channels.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_LINE_TAPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_LINE_TAPS_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_LINE_TAPS_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_LINE_TAPS_INL_H_
#endif

#include <algorithm>

#include "ops/grid_sampler/lines-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// The taps of a vector of samples in lines, in images whose elements lie side by side in each row.
template <class D, int kTaps>
class LineTaps {
 public:
  using Real = hn::TFromD<D>;
  using V = hn::Vec<D>;
  static constexpr int64_t kSamples = hn::MaxLanes(D());

  // Finds the taps of the samples from `lane` of a block on, the first of which is `sample` of the image. Returns whether
  // they lie in lines, at most so many.
  HWY_INLINE bool find(const Block<Real>& block, int64_t sample, size_t lane, int most, const Image& image) {
    sample_ = sample;
    is_interior_ = block.interior == kAllSamples;
    // Each bicubic tap is padded on its own.
    if (kTaps == 4 && !is_interior_) return false;
    count_ = 0;
    const bool in_lines =
        find_lines<D>(block, lane, most, [&](int64_t row, int64_t column, uint32_t samples) HWY_ATTR {
          if (count_ > 0) samples_[count_] = mask_of(D(), samples);
          return find_offsets(row, column, image, offsets_[count_++]);
        });
    if (!in_lines) return false;
    if (!is_interior_) find_pixels(block, lane, image);
    const auto weights = load_weights<D, kTaps>(D(), block, lane);
    for (int row = 0; row < kTaps; ++row) {
      for (int column = 0; column < kTaps; ++column)
        hn::Store(weights.of(row, column), D(), weights_[row][column]);
    }
    return true;
  }

  int64_t sample() const { return sample_; }

  // The interpolated values in one channel.
  HWY_INLINE V interpolate(const Real* image) const {
    const D d;
    V pixels[kTaps][kTaps];
    for_each_tap([&](int row, int column)
                     HWY_ATTR { pixels[row][column] = hn::LoadU(d, image + offsets_[0][row] + column); });
    for (int k = 1; k < count_; ++k) {
      for_each_tap([&](int row, int column) HWY_ATTR {
        const V others = hn::LoadU(d, image + offsets_[k][row] + column);
        pixels[row][column] = hn::IfThenElse(samples_[k], others, pixels[row][column]);
      });
    }
    V value = hn::Zero(d);
    for_each_tap([&](int row, int column) HWY_ATTR {
      V pixel = pixels[row][column];
      if (!is_interior_) pixel = hn::IfThenElseZero(is_pixel_[row][column], pixel);
      value = hn::MulAdd(hn::Load(d, weights_[row][column]), pixel, value);
    });
    return value;
  }

  // Asks for what the next row of a smooth grid will be the first to read: the pixels below all of these, or above.
  HWY_INLINE void prefetch_next_row(const Real* image, int64_t row_stride) const {
    constexpr auto kOfCacheLine = static_cast<int64_t>(64 / sizeof(Real));
    const int64_t* one = offsets_[0];
    const int64_t* other = offsets_[count_ - 1];
    const Real* above = image + std::min(one[0], other[0]) - row_stride;
    const Real* below = image + std::max(one[kTaps - 1], other[kTaps - 1]) + row_stride;
    for (int64_t i = 0; i < kSamples; i += kOfCacheLine) {
      prefetch_for_later(above + i);
      prefetch_for_later(below + i);
    }
    prefetch_for_later(above + kSamples - 1);
    prefetch_for_later(below + kSamples - 1);
  }

 private:
  template <class Body>
  static HWY_INLINE void for_each_tap(Body&& body) {
    for (int row = 0; row < kTaps; ++row) {
      for (int column = 0; column < kTaps; ++column) body(row, column);
    }
  }

  // Rows beyond the image are read at its edge, columns beyond it in the next row if that follows without a gap. Returns
  // whether all that is read lies in the image.
  static HWY_INLINE bool find_offsets(int64_t row, int64_t column, const Image& image,
                                      int64_t (&offsets)[kTaps]) {
    constexpr int64_t kColumns = kSamples + kTaps - 1;  // that are read
    const bool is_in_row = column >= 0 && column + kColumns <= image.width;
    const bool rows_follow = image.height == 1 || image.row_stride == image.width * image.column_stride;
    if (!is_in_row && !rows_follow) return false;
    for (int k = 0; k < kTaps; ++k) {
      const int64_t inside = std::clamp<int64_t>(row + k, 0, image.height - 1);
      const int64_t pixel = inside * image.width + column;
      if (!is_in_row && (pixel < 0 || pixel + kColumns > image.pixels())) return false;
      offsets[k] = image.offset(inside, column);
    }
    return true;
  }

  HWY_INLINE void find_pixels(const Block<Real>& block, size_t lane, const Image& image) {
    const hn::Rebind<int32_t, D> integer;
    const auto is_inside = [&](const int32_t* first, int tap, int64_t size) HWY_ATTR {
      const auto place = hn::Add(hn::Load(integer, first + lane), hn::Set(integer, tap));
      return hn::And(hn::Gt(place, hn::Set(integer, -1)),
                     hn::Lt(place, hn::Set(integer, static_cast<int32_t>(size))));
    };
    for_each_tap([&](int row, int column) HWY_ATTR {
      const auto both = hn::And(is_inside(block.y().first, row, image.height),
                                is_inside(block.x().first, column, image.width));
      is_pixel_[row][column] = mask_of(D(), bits_of(integer, both));
    });
  }

  alignas(64) Real weights_[kTaps][kTaps][kSamples];
  int64_t sample_;
  int count_;
  bool is_interior_;
  int64_t offsets_[kManyLines][kTaps];  // of the pixels that lane 0 of each line reads, or would read
  hn::Mask<D> samples_[kManyLines];
  hn::Mask<D> is_pixel_[kTaps][kTaps];
};

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
