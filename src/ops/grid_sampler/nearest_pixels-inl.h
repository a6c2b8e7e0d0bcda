// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What nearest samples and their gradients read and add to.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_NEAREST_PIXELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_NEAREST_PIXELS_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_NEAREST_PIXELS_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_NEAREST_PIXELS_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "ops/grid_sampler/axis-inl.h"
#include "ops/grid_sampler/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// The pixels that vectors of samples read, one for each sample: of images, or volumes.
template <class Real, int kAxes>
class NearestPixels {
 public:
  using D = BlockTag<Real>;
  using V = hn::Vec<D>;
  using Offset = OffsetOf<Real>;
  using Integer = hn::RebindToSigned<D>;
  static constexpr int64_t kSamples = hn::MaxLanes(D());
  static constexpr uint32_t kAll = (uint32_t{1} << kSamples) - 1;

  struct Found {
    alignas(
        64) Offset offsets[kSamples];  // of elements, unless the image is too large; 0 where nothing is read
    uint32_t bits;                     // of the samples that read something
    // All do, in so many lines, one or two, of pixels side by side; 0 if that is not so, or not known. In a line the
    // sample in lane i reads, or would read, the pixel that is i behind the one at offset `line`.
    int lines;
    Offset line[2] = {};
    uint32_t in_first = 0;  // a bit for each sample
  };

  // Lines are looked for up to so many.
  HWY_INLINE NearestPixels(const Image& image, const Axis* axes, int max_lines)
      : NearestPixels(image, axes, max_lines, std::make_index_sequence<kAxes>()) {}

  // Of samples at these coordinates.
  HWY_INLINE void find(const V (&coordinates)[kAxes], V (&pixels)[kAxes], Found& found) {
    const auto offsets = find_offsets(coordinates, pixels, found.bits);
    hn::Store(offsets, Integer(), found.offsets);
    found.lines = 0;
    if (max_lines_ == 0 || (patience_ == 0 && ++skipped_ < kMaxSkipped)) return;
    if (found.bits == kAll) found.lines = find_lines(offsets, found);
    patience_ = found.lines != 0 ? kMaxPatience : std::max(patience_ - 1, 0);
    skipped_ = 0;
  }

  // Whether a sample reads the last pixel of the image, behind which nothing may be read.
  HWY_INLINE bool reads_last(const Found& found) const {
    const Integer integer;
    return !hn::AllFalse(integer, hn::Eq(hn::Load(integer, found.offsets), hn::Set(integer, last_)));
  }

  // Whether offsets are too large for vectors. Then those of the pixels are computed one by one.
  bool is_far() const { return is_far_; }

  HWY_INLINE void store_offsets(const V (&pixels)[kAxes], const Found& found,
                                int64_t (&offsets)[kSamples]) const {
    if (HWY_UNLIKELY(is_far_)) return find_far_offsets(pixels, found.bits, offsets);
    std::copy_n(found.offsets, kSamples, offsets);
  }

 private:
  using Bits = hwy::MakeUnsigned<Real>;
  static constexpr int kMaxPatience = 8;  // vectors without lines
  static constexpr int kMaxSkipped = 16;

  HWY_INLINE hn::Vec<Integer> find_offsets(const V (&coordinates)[kAxes], V (&pixels)[kAxes],
                                           uint32_t& bits_of_reads) const {
    const D d;
    const Integer integer;
    hn::Mask<D> reads;
    auto offsets = minus_units_;
    for (int k = 0; k < kAxes; ++k) {
      V scale;
      const V pixel = hn::Round(find_position<1>(d, axes_[k], coordinates[k], scale));
      const auto is_inside = hn::And(hn::Ge(pixel, hn::Zero(d)), hn::Le(pixel, axes_[k].last));
      reads = k == 0 ? is_inside : hn::And(reads, is_inside);
      pixels[k] = pixel;
      const auto bits = hn::BitCast(integer, hn::Add(pixel, hn::Set(d, kUnits)));
      const auto stride = hn::Set(integer, static_cast<Offset>(strides_[k]));
      offsets = hn::Add(offsets, strides_[k] == 1 ? bits : hn::Mul(bits, stride));
    }
    bits_of_reads = bits_of(d, reads);
    return hn::IfThenElseZero(hn::RebindMask(integer, reads), offsets);
  }

  HWY_INLINE int find_lines(hn::Vec<Integer> offsets, Found& found) const {
    const Integer integer;
    const auto lines = hn::Sub(offsets, steps_);
    const auto is_in = [&](Offset line) HWY_ATTR { return hn::Eq(lines, hn::Set(integer, line)); };
    found.line[0] = hn::GetLane(lines);
    const auto is_in_first = is_in(found.line[0]);
    if (hn::AllTrue(integer, is_in_first)) return 1;
    if (max_lines_ == 1) return 0;
    found.in_first = bits_of(integer, is_in_first);
    found.line[1] = hn::ExtractLane(lines, kSamples - 1);
    const bool has_lines = std::max(found.line[0], found.line[1]) <= last_line_ && found.line[1] >= 0;
    return has_lines && hn::AllTrue(integer, hn::Or(is_in_first, is_in(found.line[1]))) ? 2 : 0;
  }

  // Added to a whole number below it, its unit in the last place is one: that number is its last bits.
  static constexpr Real kUnits = std::is_same_v<Real, float> ? Real{1 << 23} : Real{int64_t{1} << 52};

  template <size_t... kAxis>
  HWY_INLINE NearestPixels(const Image& image, const Axis* axes, int max_lines, std::index_sequence<kAxis...>)
      : axes_{VectorAxis<D>(axes[kAxis])...},
        strides_{image.column_stride, image.row_stride, image.slice_stride} {
    const int64_t last = image.offset(image.depth - 1, image.height - 1, image.width - 1);
    last_ = static_cast<Offset>(last);
    last_line_ = static_cast<Offset>(last - (kSamples - 1) * image.column_stride);
    steps_ = hn::Mul(hn::Iota(Integer(), 0), hn::Set(Integer(), static_cast<Offset>(image.column_stride)));
    is_far_ = std::is_same_v<Real, float> &&
              (last > std::numeric_limits<int32_t>::max() ||
               std::max({image.depth, image.height, image.width}) >= int64_t{1} << 23);
    max_lines_ = is_far_ ? 0 : max_lines;
    Bits units = 0;
    for (int k = 0; k < kAxes; ++k) units += std::bit_cast<Bits>(kUnits) * static_cast<Bits>(strides_[k]);
    minus_units_ = hn::Set(Integer(), static_cast<Offset>(Bits{0} - units));
  }

  HWY_NOINLINE void find_far_offsets(const V (&pixels)[kAxes], uint32_t bits,
                                     int64_t (&offsets)[kSamples]) const {
    std::fill(offsets, offsets + kSamples, 0);
    for (int k = 0; k < kAxes; ++k) {
      alignas(64) Real along[kSamples];
      hn::Store(hn::IfThenElseZero(mask_of(D(), bits), pixels[k]), D(), along);
      for (int64_t i = 0; i < kSamples; ++i) offsets[i] += static_cast<int64_t>(along[i]) * strides_[k];
    }
  }

  const VectorAxis<D> axes_[kAxes];
  const int64_t strides_[3];
  // Where grids are not smooth, lines are looked for in few vectors.
  int patience_ = kMaxPatience;
  int skipped_ = 0;
  bool is_far_;
  int max_lines_;
  Offset last_;                   // pixel
  Offset last_line_;              // that is one for all lanes
  hn::Vec<Integer> steps_;        // in a line
  hn::Vec<Integer> minus_units_;  // by which the offsets are too large at first
};

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
