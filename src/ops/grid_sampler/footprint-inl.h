// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The pixels that a vector of samples reads, found and loaded in registers: nothing is packed or listed before, and what
// is found serves all channels at once. Neighbouring elements of a sample are loaded together, and where the samples are
// neighbours themselves, so are their pixels.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_FOOTPRINT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_FOOTPRINT_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_FOOTPRINT_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_FOOTPRINT_INL_H_
#endif

#include "ops/grid_sampler/axis-inl.h"
#include "ops/grid_sampler/interleaved-inl.h"
#include "ops/grid_sampler/samples-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// ---- Elements at from[at[i]], from[at[i] + 1], ... for lane i, widened to the type of the arithmetic

template <class Bits, class T>
HWY_INLINE void copy_bits(const T* from, const int32_t* at, Bits (&to)[kLanes]) {
  for (size_t i = 0; i < kLanes; ++i) std::memcpy(to + i, from + at[i], sizeof(Bits));
}

HWY_INLINE FloatVector widen(hn::Vec<NarrowBitsTag> bits) {
  alignas(64) Half halves[kLanes];
  hn::Store(bits, NarrowBitsTag(), &halves[0].bits);
  return load(halves);
}

// The lower and the upper halves of 32-bit lanes.
HWY_INLINE void widen_pairs(BFloat16, hn::Vec<BitsTag> pairs, FloatVector& lower, FloatVector& upper) {
  lower = hn::BitCast(FloatTag(), hn::ShiftLeft<16>(pairs));
  upper = hn::BitCast(FloatTag(), hn::And(pairs, hn::Set(BitsTag(), 0xFFFF0000u)));
}

HWY_INLINE void widen_pairs(Half, hn::Vec<BitsTag> pairs, FloatVector& lower, FloatVector& upper) {
  lower = widen(hn::TruncateTo(NarrowBitsTag(), hn::And(pairs, hn::Set(BitsTag(), 0xFFFFu))));
  upper = widen(hn::TruncateTo(NarrowBitsTag(), hn::ShiftRight<16>(pairs)));
}

template <class D, class T, class Offset>
HWY_INLINE void load_elements(D d, const T* from, const Offset* at, hn::Vec<D> (&to)[1]) {
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    to[0] = hn::GatherIndex(d, from, hn::Load(hn::RebindToSigned<D>(), at));
  } else {
    alignas(64) T elements[kLanes];
    for (size_t i = 0; i < kLanes; ++i) elements[i] = from[at[i]];
    to[0] = load(elements);
  }
}

template <class D, class T, class Offset>
HWY_INLINE void load_elements(D d, const T* from, const Offset* at, hn::Vec<D> (&to)[2]) {
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    const auto low = load_pairs(d, from, at);
    const auto high = load_pairs(d, from, at + hn::MaxLanes(D()) / 2);
    to[0] = hn::ConcatEven(d, high, low);
    to[1] = hn::ConcatOdd(d, high, low);
  } else {
    alignas(64) uint32_t bits[kLanes];
    copy_bits(from, at, bits);
    widen_pairs(T(), hn::Load(BitsTag(), bits), to[0], to[1]);
  }
}

template <class D, class T, class Offset>
HWY_INLINE void load_four(D d, const T* from, const Offset* at, hn::Vec<D> (&to)[4]) {
  if constexpr (std::is_same_v<T, double>) {
    for (int k = 0; k < 4; ++k) to[k] = hn::GatherIndex(d, from + k, hn::Load(hn::RebindToSigned<D>(), at));
  } else if constexpr (std::is_same_v<T, float>) {
    const float* rows[hn::MaxLanes(D())];
    for (size_t i = 0; i < hn::MaxLanes(D()); ++i) rows[i] = from + at[i];
    transpose_rows(d, rows, 0, to);
  } else {
    alignas(64) uint64_t bits[kLanes];
    copy_bits(from, at, bits);
    const auto* pairs = reinterpret_cast<const uint32_t*>(bits);
    const auto low = hn::Load(BitsTag(), pairs), high = hn::Load(BitsTag(), pairs + kLanes);
    widen_pairs(T(), hn::ConcatEven(BitsTag(), high, low), to[0], to[1]);
    widen_pairs(T(), hn::ConcatOdd(BitsTag(), high, low), to[2], to[3]);
  }
}

template <class D, class T, class Offset, int kCount>
HWY_INLINE void load_elements(D d, const T* from, const Offset* at, hn::Vec<D> (&to)[kCount]) {
  if constexpr (kCount == 3) {
    hn::Vec<D> pair[2], last[1];
    load_elements(d, from, at, pair);
    load_elements(d, from + 2, at, last);
    to[0] = pair[0], to[1] = pair[1], to[2] = last[0];
  } else {
    // The last four may overlap those before.
    for (int k = 0; k < kCount; k += 4) {
      const int first = std::min(k, kCount - 4);
      hn::Vec<D> four[4];
      load_four(d, from + first, at, four);
      for (int j = k - first; j < 4; ++j) to[first + j] = four[j];
    }
  }
}

// ---- Pixels

// How the pixels of a vector of samples lie: next to each other in each row, as the samples are; so in two lines, between
// which the samples choose; or anywhere in the image. At an edge some taps are no pixels.
enum class Reach { line, two_lines, interior, line_at_edge, edge };

// Of vectors of samples in images of T whose pixels lie side by side in each row, kTogether channels interleaved in each.
template <class T, int kTaps, int kTogether>
class Footprint {
 public:
  using Real = RealOf<T>;
  using D = BlockTag<Real>;
  using V = hn::Vec<D>;
  using Offset = OffsetOf<Real>;
  using Integer = hn::RebindToSigned<D>;
  using Index = hn::Vec<Integer>;
  static constexpr size_t kSamples = hn::MaxLanes(D());
  static constexpr int kRowElements = kTaps * kTogether;  // that a sample reads of a row

  HWY_INLINE Footprint(const Image& image, const Axis* axes)
      : x_axis_(axes[0]),
        y_axis_(axes[1]),
        steps_(hn::Mul(hn::Iota(Integer(), 0), hn::Set(Integer(), kTogether))),
        surplus_(offsets_of_units(image.row_stride)),
        last_column_(hn::Set(D(), static_cast<Real>(image.width - kTaps))),
        last_row_(hn::Set(D(), static_cast<Real>(image.height - kTaps))),
        row_stride_(image.row_stride),
        last_line_(image.row_stride == image.width * kTogether
                       ? image.height * image.row_stride - (kTaps - 1) * image.row_stride -
                             (static_cast<int64_t>(kSamples) + kTaps - 1) * kTogether
                       : -1) {}

  // Of samples at these coordinates, whose taps x and y become.
  HWY_INLINE Reach find(V x_coordinate, V y_coordinate, VectorTaps<D, kTaps>& x, VectorTaps<D, kTaps>& y) {
    const D d;
    const V x_pixel = find_position<kTaps>(d, x_axis_, x_coordinate, x.scale);
    const V y_pixel = find_position<kTaps>(d, y_axis_, y_coordinate, y.scale);
    const V first_column = first_tap<kTaps>(d, x_pixel), first_row = first_tap<kTaps>(d, y_pixel);
    const auto zero = hn::Zero(d);
    const auto is_column = hn::And(hn::Ge(first_column, zero), hn::Le(first_column, last_column_));
    const auto is_row = hn::And(hn::Ge(first_row, zero), hn::Le(first_row, last_row_));
    if (HWY_UNLIKELY(!hn::AllTrue(d, hn::And(is_column, is_row)))) {
      x.find_anywhere(d, x_axis_, x_pixel);
      y.find_anywhere(d, y_axis_, y_pixel);
      return find_edge(x.first, y.first);
    }
    x.find_at(d, x_pixel);
    y.find_at(d, y_pixel);
    const Index offsets = offsets_of(y.first, x.first);
    const Index lines = hn::Sub(offsets, steps_);
    line_ = hn::GetLane(lines);
    const auto is_in_first = is_in_line(lines, line_);
    if (hn::AllTrue(Integer(), is_in_first)) return Reach::line;
    hn::Store(offsets, Integer(), offsets_[0]);
    second_line_ = offsets_[0][kSamples - 1] - static_cast<int64_t>(kSamples - 1) * kTogether;
    const auto is_in_second = is_in_line(lines, second_line_);
    if (!hn::AllTrue(Integer(), hn::Or(is_in_first, is_in_second))) return Reach::interior;
    // Each is read where the samples are the other's, too.
    if (second_line_ < 0 || line_ > last_line_) return Reach::interior;
    is_in_second_ = hn::RebindMask(d, is_in_second);
    return Reach::two_lines;
  }

  // pixels[column * kTogether + c] of one row of the taps; zeros where a tap is no pixel.
  template <Reach kReach>
  HWY_INLINE void load_row(const T* from, int row, V (&pixels)[kRowElements]) const {
    const D d;
    if constexpr (kReach == Reach::line) {
      load_line(from + line_ + row * row_stride_, pixels);
    } else if constexpr (kReach == Reach::two_lines) {
      V of_second[kRowElements];
      load_line(from + line_ + row * row_stride_, pixels);
      load_line(from + second_line_ + row * row_stride_, of_second);
      for (int k = 0; k < kRowElements; ++k)
        pixels[k] = hn::IfThenElse(is_in_second_, of_second[k], pixels[k]);
    } else if constexpr (kReach == Reach::interior) {
      load_elements(d, from + row * row_stride_, offsets_[0], pixels);
    } else if constexpr (kReach == Reach::line_at_edge) {
      load_line(from + edge_lines_[row], pixels);
      for (int column = 0; column < kTaps; ++column) {
        for (int c = 0; c < kTogether; ++c) {
          V& pixel = pixels[column * kTogether + c];
          pixel = hn::IfThenElseZero(is_pixel_[row][column], pixel);
        }
      }
    } else {
      load_edge_row(from, row, pixels);
    }
  }

  // Asks for what the samples of the next row of a grid will be the first to read of a channel, if they lie as these do:
  // the row above or the row below.
  HWY_INLINE void prefetch_next_row(const T* from) const {
    prefetch_for_later(from + line_ - row_stride_);
    prefetch_for_later(from + line_ + kTaps * row_stride_);
  }

  // Where the first tap of each sample is, if all are pixels: of neighbours, or of each.
  HWY_INLINE int64_t line() const { return line_; }
  HWY_INLINE const Offset* offsets() const { return offsets_[0]; }

  // Where the first tap of lane 0 would be if its sample were a neighbour of that of each lane. Without a meaning where a
  // sample has no place.
  template <Reach kReach>
  HWY_INLINE Index starts_of_lines(const VectorTaps<D, kTaps>& x, const VectorTaps<D, kTaps>& y) const {
    const Integer integer;
    if constexpr (kReach == Reach::two_lines || kReach == Reach::interior)
      return hn::Sub(hn::Load(integer, offsets_[0]), steps_);
    // Beyond the edges numbers are shifted by a row and a column, so that none is negative.
    const auto one = hn::Set(D(), Real{1});
    const auto most = hn::Set(D(), kUnits / 2);
    const auto shifted = [&](V first)
                             HWY_ATTR { return hn::Min(hn::Max(hn::Add(first, one), hn::Zero(D())), most); };
    const auto back = hn::Set(integer, static_cast<Offset>(row_stride_ + kTogether));
    return hn::Sub(hn::Sub(offsets_of(shifted(y.first), shifted(x.first)), steps_), back);
  }

  // The first and the last row that each sample at an edge reads; row 0 where it reads none.
  HWY_INLINE V first_edge_row() const { return hn::Load(D(), edge_rows_[0]); }
  HWY_INLINE V last_edge_row() const { return hn::Load(D(), edge_rows_[1]); }
  HWY_INLINE hn::Mask<D> is_pixel(int row, int column) const { return is_pixel_[row][column]; }

  HWY_INLINE const Axis& x_axis() const { return x_axis_.axis; }
  HWY_INLINE const Axis& y_axis() const { return y_axis_.axis; }

 private:
  // Those of pixels, which are whole numbers from 0 on below 2^23, or 2^52: added to a number whose unit in the last place
  // is one, they are its last bits.
  static constexpr Real kUnits = std::is_same_v<Real, float> ? Real{1 << 23} : Real{int64_t{1} << 52};

  static HWY_INLINE Index offsets_of_units(int64_t row_stride) {
    using Bits = hwy::MakeUnsigned<Real>;
    const auto bits =
        static_cast<Bits>(std::bit_cast<Bits>(kUnits) * (static_cast<Bits>(row_stride) + kTogether));
    return hn::Set(Integer(), static_cast<Offset>(bits));
  }

  HWY_INLINE Index offsets_of(V rows, V columns) const {
    const Integer integer;
    const auto bits = [&](V v) HWY_ATTR { return hn::BitCast(integer, hn::Add(v, hn::Set(D(), kUnits))); };
    const Index row = hn::Mul(bits(rows), hn::Set(integer, static_cast<Offset>(row_stride_)));
    const Index column = bits(columns);
    return hn::Sub(
        hn::Add(row, kTogether == 1 ? column : hn::Mul(column, hn::Set(integer, Offset{kTogether}))),
        surplus_);
  }

  static HWY_INLINE hn::Mask<Integer> is_in_line(Index lines, int64_t line) {
    return hn::Eq(lines, hn::Set(Integer(), static_cast<Offset>(line)));
  }

  struct PaddedTap {
    V pixel;
    hn::Mask<D> is_pixel;
  };

  static HWY_INLINE PaddedTap pad_tap(V tap, const Axis& axis) {
    const D d;
    const auto last = hn::Set(d, static_cast<Real>(axis.size - 1));
    auto is_pixel = hn::And(hn::Ge(tap, hn::Zero(d)), hn::Le(tap, last));
    if (kTaps == 4 && axis.padding != Padding::zeros) {
      is_pixel = hn::Gt(tap, hn::Set(d, static_cast<Real>(kNowhere + kTaps)));
      if (axis.padding == Padding::reflection) tap = mirror_taps(tap, axis);
    }
    return {hn::Min(hn::Max(tap, hn::Zero(d)), last), is_pixel};
  }

  static HWY_NOINLINE V mirror_taps(V taps, const Axis& axis) {
    const D d;
    alignas(64) Real pixels[kSamples];
    hn::Store(taps, d, pixels);
    for (Real& pixel : pixels) pixel = static_cast<Real>(tap_pixel<kTaps>(static_cast<int64_t>(pixel), axis));
    return hn::Load(d, pixels);
  }

  // The pixels of neighbours, the first of which is at `from`.
  static HWY_INLINE void load_line(const T* from, V (&pixels)[kRowElements]) {
    for (int column = 0; column < kTaps; ++column, from += kTogether) {
      V of_tap[kTogether];
      if constexpr (kTogether == 1) {
        of_tap[0] = load_lanes(D(), from);
      } else {
        load_interleaved(D(), from, of_tap);
      }
      for (int c = 0; c < kTogether; ++c) pixels[column * kTogether + c] = of_tap[c];
    }
  }

  // Whether the first taps are neighbours. Then those that are no pixels are read in their place, too: rows beyond the
  // image at its edge, columns beyond it in the next row, if that follows without a gap.
  HWY_INLINE bool find_edge_line(V first_column, V first_row) {
    const D d;
    if (kTaps == 4 && x_axis_.axis.padding != Padding::zeros) return false;
    const Real column = hn::GetLane(first_column), row = hn::GetLane(first_row);
    const auto is_next = hn::And(hn::Eq(hn::Sub(first_column, hn::Iota(d, Real{0})), hn::Set(d, column)),
                                 hn::Eq(first_row, hn::Set(d, row)));
    if (!hn::AllTrue(d, is_next)) return false;
    const int64_t height = y_axis_.axis.size, width = x_axis_.axis.size;
    if (height > 1 && row_stride_ != width * kTogether) return false;
    for (int k = 0; k < kTaps; ++k) {
      const int64_t inside = std::clamp<int64_t>(static_cast<int64_t>(row) + k, 0, height - 1);
      const int64_t pixel = inside * width + static_cast<int64_t>(column);
      if (pixel < 0 || pixel + static_cast<int64_t>(kSamples) + kTaps - 1 > height * width) return false;
      edge_lines_[k] = pixel * kTogether;
    }
    return true;
  }

  // As many columns as there are taps are loaded side by side. Each tap finds its own among them.
  HWY_NOINLINE Reach find_edge(V first_column, V first_row) {
    const D d;
    PaddedTap columns[kTaps];
    const bool are_neighbours = find_edge_line(first_column, first_row);
    V first = hn::Set(d, static_cast<Real>(std::max<int64_t>(0, x_axis_.axis.size - kTaps)));
    for (int k = 0; k < kTaps; ++k) {
      columns[k] = pad_tap(hn::Add(first_column, hn::Set(d, static_cast<Real>(k))), x_axis_.axis);
      first = hn::Min(first, columns[k].pixel);
    }
    V least_row = hn::Set(d, static_cast<Real>(y_axis_.axis.size)), most_row = hn::Zero(d);
    for (int row = 0; row < kTaps; ++row) {
      const PaddedTap of_row = pad_tap(hn::Add(first_row, hn::Set(d, static_cast<Real>(row))), y_axis_.axis);
      hn::Store(offsets_of(of_row.pixel, first), Integer(), offsets_[row]);
      for (int k = 0; k < kTaps; ++k) is_pixel_[row][k] = hn::And(columns[k].is_pixel, of_row.is_pixel);
      least_row = hn::Min(least_row, of_row.pixel);
      most_row = hn::Max(most_row, of_row.pixel);
    }
    hn::Store(least_row, d, edge_rows_[0]);
    hn::Store(most_row, d, edge_rows_[1]);
    for (int k = 0; k < kTaps; ++k) {
      const V distance = hn::Sub(columns[k].pixel, first);
      for (int j = 1; j < kTaps; ++j) is_at_[k][j] = hn::Eq(distance, hn::Set(d, static_cast<Real>(j)));
    }
    return are_neighbours ? Reach::line_at_edge : Reach::edge;
  }

  HWY_INLINE void load_edge_row(const T* from, int row, V (&pixels)[kRowElements]) const {
    const D d;
    V loaded[kRowElements];
    if (HWY_LIKELY(x_axis_.axis.size >= kTaps)) {
      load_elements(d, from, offsets_[row], loaded);
    } else {
      load_narrow_row(from, row, loaded);
    }
    for (int k = 0; k < kTaps; ++k) {
      for (int c = 0; c < kTogether; ++c) {
        V pixel = loaded[c];
        for (int j = 1; j < kTaps; ++j)
          pixel = hn::IfThenElse(is_at_[k][j], loaded[j * kTogether + c], pixel);
        pixels[k * kTogether + c] = hn::IfThenElseZero(is_pixel_[row][k], pixel);
      }
    }
  }

  // Of an image with fewer columns than taps.
  HWY_INLINE void load_narrow_row(const T* from, int row, V (&pixels)[kRowElements]) const {
    for (int k = 0; k < kTaps; ++k) {
      V of_column[kTogether];
      load_elements(D(), from + std::min<int64_t>(k, x_axis_.axis.size - 1) * kTogether, offsets_[row],
                    of_column);
      for (int c = 0; c < kTogether; ++c) pixels[k * kTogether + c] = of_column[c];
    }
  }

  alignas(V) Offset offsets_[kTaps][kSamples];
  alignas(V) Real edge_rows_[2][kSamples];
  const VectorAxis<D> x_axis_, y_axis_;
  const Index steps_;               // of the offsets of neighbours
  const Index surplus_;             // what the bits of kUnits add to an offset
  const V last_column_, last_row_;  // that the first tap of an interior sample may have
  hn::Mask<D> is_pixel_[kTaps][kTaps];
  hn::Mask<D> is_at_[kTaps][kTaps];  // at an edge: whether tap k is the j-th of the columns
  hn::Mask<D> is_in_second_;         // of two lines
  const int64_t row_stride_;
  const int64_t last_line_;  // that may be read whole; -1 where rows do not follow each other
  int64_t line_ = 0;  // where the first of neighbours has its first tap, and that of the second line would be
  int64_t second_line_ = 0;
  int64_t edge_lines_[kTaps];
};

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
