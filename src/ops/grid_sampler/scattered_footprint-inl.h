// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The pixels that a vector of samples reads in images, or volumes, of any strides, each loaded on its own. With what
// kernels ask of a Footprint.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_SCATTERED_FOOTPRINT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_SCATTERED_FOOTPRINT_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_SCATTERED_FOOTPRINT_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_SCATTERED_FOOTPRINT_INL_H_
#endif

#include <limits>

#include "ops/grid_sampler/footprint-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// Of kTogether channels at a time, one, or four that lie side by side in each pixel.
template <class Real, int kTaps, int kTogether, int kAxes = 2>
class ScatteredFootprint {
 public:
  using D = BlockTag<Real>;
  using V = hn::Vec<D>;
  using Offset = OffsetOf<Real>;
  using Taps = VectorTaps<D, kTaps>;
  static constexpr size_t kSamples = hn::MaxLanes(D());
  static constexpr int kRows = kTapsOfSample<kTaps, kAxes> / kTaps;  // that it reads

  HWY_INLINE ScatteredFootprint(const Image& image, const Axis* axes, bool /*goes_up*/)
      : ScatteredFootprint(image, axes, std::make_index_sequence<kAxes>()) {}

  // Of samples at these coordinates, whose taps are found.
  HWY_INLINE Reach find(const V (&coordinates)[kAxes], Taps (&taps)[kAxes]) {
    const D d;
    bool are_interior = true;
    for (int k = 0; k < kAxes; ++k) {
      const V pixel = find_position<kTaps>(d, axes_[k], coordinates[k], taps[k].scale);
      taps[k].find_anywhere(d, axes_[k], pixel);
      const V first = taps[k].first;
      alignas(64) Real wholes[kSamples];
      hn::Store(taps[k].whole, d, wholes);
      const auto is_inside = hn::And(hn::Ge(first, hn::Zero(d)), hn::Le(first, last_first_tap(k)));
      if (hn::AllTrue(d, is_inside)) {
        find_neighbours(k, wholes);
      } else {
        find_pixels(k, wholes);
        are_interior = false;
      }
    }
    return are_interior ? Reach::interior : Reach::edge;
  }

  // pixels[column * kTogether + c] of one row of the taps; zeros where a tap is no pixel.
  template <Reach kReach, class T>
  HWY_INLINE void load_row(const T* from, int row, V (&pixels)[kTaps * kTogether]) const {
    for (int column = 0; column < kTaps; ++column) {
      V of_tap[kTogether];
      load_tap(from, row, column, of_tap);
      for (int c = 0; c < kTogether; ++c) {
        pixels[column * kTogether + c] =
            kReach == Reach::edge ? hn::IfThenElseZero(is_pixel(row, column), of_tap[c]) : of_tap[c];
      }
    }
  }

  template <Reach kReach, class T>
  HWY_INLINE void prefetch_next_row(const T*) const {}

  HWY_INLINE hn::Mask<D> is_pixel(int row, int column) const {
    uint32_t bits = pixels_[1][row % kTaps] & pixels_[0][column];
    if constexpr (kAxes == 3) bits &= pixels_[2][row / kTaps];
    return mask_of(D(), bits);
  }

  HWY_INLINE uint32_t samples_with_pixels() const {
    uint32_t bits = ~uint32_t{0};
    for (const auto& along_axis : pixels_) {
      uint32_t any = 0;
      for (uint32_t of_tap : along_axis) any |= of_tap;
      bits &= any;
    }
    return bits;
  }

  template <Reach kReach>
  HWY_INLINE uint32_t first_rows_from(const Taps&, int64_t row) const {
    return rows_from(first_row_, row);
  }
  template <Reach kReach>
  HWY_INLINE uint32_t last_rows_from(const Taps&, int64_t row) const {
    return rows_from(last_row_, row);
  }
  template <Reach kReach>
  HWY_INLINE int64_t last_row(const Taps&) const {
    return *std::max_element(last_row_, last_row_ + kSamples);
  }

  HWY_INLINE bool is_line_at_edge() const { return false; }
  HWY_INLINE const Axis& axis(int k) const { return axes_[k].axis; }

 private:
  static constexpr int64_t kMaxOffset = std::numeric_limits<Offset>::max();

  template <size_t... kAxis>
  HWY_INLINE ScatteredFootprint(const Image& image, const Axis* axes, std::index_sequence<kAxis...>)
      : axes_{VectorAxis<D>(axes[kAxis])...},
        strides_{image.column_stride, image.row_stride, image.slice_stride},
        has_small_offsets_(image.offset(image.depth - 1, image.height - 1, image.width - 1) <= kMaxOffset) {}

  // Of interior samples; below zero where not all numbers of columns, or rows, are exact.
  HWY_INLINE V last_first_tap(int k) const {
    const int64_t size = axes_[k].axis.size;
    return hn::Set(D(), size < 1 << 23 ? static_cast<Real>(size - kTaps) : Real{-1});
  }

  HWY_INLINE void find_neighbours(int k, const Real (&wholes)[kSamples]) {
    const auto stride = static_cast<Offset>(has_small_offsets_ ? strides_[k] : 1);
    for (int tap = 0; tap < kTaps; ++tap) {
      for (size_t i = 0; i < kSamples; ++i)
        offsets_[k][tap][i] = (static_cast<Offset>(wholes[i]) - kTapsBefore<kTaps> + tap) * stride;
      pixels_[k][tap] = (uint32_t{1} << kSamples) - 1;
    }
    for (size_t i = 0; k == kAxes - 1 && i < kSamples; ++i) {
      first_row_[i] = static_cast<Offset>(wholes[i]) - kTapsBefore<kTaps>;
      last_row_[i] = first_row_[i] + kTaps - 1;
    }
  }

  // A tap that is no pixel is read, and counted among the rows, at the edge.
  HWY_INLINE void find_pixels(int k, const Real (&wholes)[kSamples]) {
    const Axis axis = axes_[k].axis;
    const int64_t stride = has_small_offsets_ ? strides_[k] : 1;
    for (int tap = 0; tap < kTaps; ++tap) {
      uint32_t bits = 0;
      for (size_t i = 0; i < kSamples; ++i) {
        const int64_t place = static_cast<int64_t>(wholes[i]) - kTapsBefore<kTaps> + tap;
        const int64_t pixel = kTaps == 4 ? tap_pixel<kTaps>(place, axis) : place;
        const auto read = static_cast<Offset>(
            std::clamp<int64_t>(kTaps == 4 && pixel >= 0 ? pixel : place, 0, axis.size - 1));
        bits |= static_cast<uint32_t>(pixel == read) << i;
        offsets_[k][tap][i] = static_cast<Offset>(read * stride);
        if (k != kAxes - 1) continue;
        first_row_[i] = tap == 0 ? read : std::min(first_row_[i], read);
        last_row_[i] = tap == 0 ? read : std::max(last_row_[i], read);
      }
      pixels_[k][tap] = bits;
    }
  }

  // Of a tap of each sample, where the lanes of a vector cannot hold them.
  HWY_INLINE void find_offsets(int row, int column, int64_t (&to)[kSamples]) const {
    for (size_t i = 0; i < kSamples; ++i) {
      to[i] = offsets_[1][row % kTaps][i] * strides_[1] + offsets_[0][column][i] * strides_[0];
      if constexpr (kAxes == 3) to[i] += offsets_[2][row / kTaps][i] * strides_[2];
    }
  }

  HWY_INLINE hn::Vec<hn::RebindToSigned<D>> small_offsets(int row, int column) const {
    const hn::RebindToSigned<D> integer;
    const auto at =
        hn::Add(hn::Load(integer, offsets_[1][row % kTaps]), hn::Load(integer, offsets_[0][column]));
    if constexpr (kAxes == 2) return at;
    return hn::Add(at, hn::Load(integer, offsets_[kAxes - 1][row / kTaps]));
  }

  template <class T>
  HWY_INLINE void load_tap(const T* from, int row, int column, V (&to)[kTogether]) const {
    const D d;
    if (HWY_LIKELY(has_small_offsets_)) {
      const auto offsets = small_offsets(row, column);
      if constexpr (kTogether == 1 && std::is_same_v<T, Real>) {
        to[0] = hn::GatherIndex(d, from, offsets);
        return;
      }
      alignas(64) Offset at[kSamples];
      hn::Store(offsets, hn::RebindToSigned<D>(), at);
      return load_elements(d, from, at, to);
    }
    int64_t at[kSamples];
    find_offsets(row, column, at);
    for (int c = 0; c < kTogether; ++c) {
      alignas(64) T elements[kSamples];
      for (size_t i = 0; i < kSamples; ++i) elements[i] = from[at[i] + c];
      to[c] = load(elements);
    }
  }

  static HWY_INLINE uint32_t rows_from(const Offset (&rows)[kSamples], int64_t begin) {
    uint32_t bits = 0;
    for (size_t i = 0; i < kSamples; ++i) bits |= static_cast<uint32_t>(rows[i] >= begin) << i;
    return bits;
  }

  const VectorAxis<D> axes_[kAxes];
  alignas(64) Offset offsets_[kAxes][kTaps][kSamples];  // of the taps along each axis
  Offset first_row_[kSamples];                          // of the taps; of volumes it is slices
  Offset last_row_[kSamples];
  const int64_t strides_[3];
  uint32_t pixels_[kAxes][kTaps];  // a bit for each sample whose tap is a pixel
  const bool
      has_small_offsets_;  // which the lanes of a vector hold; else they are numbers of columns and rows
};

// Calls function with the Reach as a std::integral_constant; a line at an edge is as any samples there.
template <bool kHasLines, class Function>
HWY_INLINE void visit_reach(Reach reach, Function&& function) {
  if constexpr (kHasLines) {
    if (reach == Reach::line) return function(std::integral_constant<Reach, Reach::line>());
    if (reach == Reach::lines) return function(std::integral_constant<Reach, Reach::lines>());
  }
  if (reach == Reach::interior) return function(std::integral_constant<Reach, Reach::interior>());
  function(std::integral_constant<Reach, Reach::edge>());
}

// The same for what differs at edges alone.
template <class Function>
HWY_INLINE void visit_interior_or_edge(Reach reach, Function&& function) {
  if (reach == Reach::edge || reach == Reach::line_at_edge)
    return function(std::integral_constant<Reach, Reach::edge>());
  function(std::integral_constant<Reach, Reach::interior>());
}

// A row of either, for kernels that take a line at an edge as any samples there.
template <Reach kReach, class Pixels, class T, class V, int kCount>
HWY_INLINE void load_any_row(const Pixels& pixels, const T* from, int row, V (&to)[kCount]) {
  if (kReach == Reach::edge && pixels.is_line_at_edge())
    return pixels.template load_row<Reach::line_at_edge>(from, row, to);
  pixels.template load_row<kReach>(from, row, to);
}

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
