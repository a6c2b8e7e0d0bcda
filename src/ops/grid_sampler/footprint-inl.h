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

#include "ops/grid_sampler/edges-inl.h"
#include "ops/grid_sampler/elements-inl.h"
#include "ops/grid_sampler/interleaved-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// Of vectors of samples in images, or volumes, whose pixels lie side by side in each row, kTogether channels interleaved
// in each. Real is the type of the arithmetic.
template <class Real, int kTaps, int kTogether, int kAxes = 2, int kMaxLines = 2>
class Footprint {
 public:
  using D = BlockTag<Real>;
  using V = hn::Vec<D>;
  using Offset = OffsetOf<Real>;
  using Integer = hn::RebindToSigned<D>;
  using Index = hn::Vec<Integer>;
  using Taps = VectorTaps<D, kTaps>;
  static constexpr size_t kSamples = hn::MaxLanes(D());
  static constexpr int kRows = kTapsOfSample<kTaps, kAxes> / kTaps;  // that it reads
  static constexpr int kRowElements = kTaps * kTogether;             // that it reads of each

  // Whether the next row of the grid is expected to lie above in the image.
  HWY_INLINE Footprint(const Image& image, const Axis* axes, bool goes_up)
      : Footprint(image, axes, goes_up, std::make_index_sequence<kAxes>()) {}

  // Of samples at these coordinates, whose taps are found. At an edge they may become pairs of pixels, with their weights.
  HWY_INLINE Reach find(const V (&coordinates)[kAxes], Taps (&taps)[kAxes], bool may_be_pairs = false) {
    const D d;
    V pixels[kAxes], first[kAxes];
    auto is_interior = hn::FirstN(d, kSamples);
    for (int k = 0; k < kAxes; ++k) {
      pixels[k] = find_position<kTaps>(d, axes_[k], coordinates[k], taps[k].scale);
      first[k] = first_tap<kTaps>(d, pixels[k]);
      is_interior = hn::And(is_interior, has_pixels(k, first[k]));
    }
    if (HWY_UNLIKELY(!hn::AllTrue(d, is_interior))) {
      V of_edge[kAxes];
      for (int k = 0; k < kAxes; ++k) {
        taps[k].find_anywhere(d, axes_[k], pixels[k]);
        of_edge[k] = taps[k].first;
      }
      if constexpr (kTaps == 2) {
        if (may_be_pairs && has_pairs_ && !are_neighbours(d, of_edge)) return find_pairs(taps);
      }
      return find_edge(of_edge);
    }
    for (int k = 0; k < kAxes; ++k) taps[k].find_at(d, pixels[k]);
    const Index offsets = offsets_of(first);
    const Index lines = hn::Sub(offsets, steps_);
    line_ = hn::GetLane(lines);
    const auto is_in_first = is_in_line(lines, line_);
    if (hn::AllTrue(Integer(), is_in_first)) return Reach::line;
    hn::Store(offsets, Integer(), offsets_[0]);
    const bool has_lines = find_other_lines(lines, hn::Not(is_in_first));
    return has_lines ? Reach::lines : Reach::interior;
  }

  // pixels[column * kTogether + c] of one row of the taps; zeros where a tap is no pixel.
  template <Reach kReach, class T>
  HWY_INLINE void load_row(const T* from, int row, V (&pixels)[kRowElements]) const {
    const D d;
    if constexpr (kReach == Reach::line) {
      load_line<kTogether>(d, from + line_ + step_to(row), pixels);
    } else if constexpr (kReach == Reach::lines) {
      load_line<kTogether>(d, from + line_ + step_to(row), pixels);
      for (int line = 0; line < kMaxLines - 1 && (kMaxLines == 2 || line < other_lines_); ++line) {
        V of_other[kRowElements];
        load_line<kTogether>(d, from + other_line_[line] + step_to(row), of_other);
        for (int k = 0; k < kRowElements; ++k)
          pixels[k] = hn::IfThenElse(is_in_other_[line], of_other[k], pixels[k]);
      }
    } else if constexpr (kReach == Reach::interior) {
      load_elements(d, from + step_to(row), offsets_[0], pixels);
    } else if constexpr (kReach == Reach::pairs || kReach == Reach::line_at_edge) {
      if constexpr (kReach == Reach::pairs) load_row<Reach::interior>(from, row, pixels);
      if constexpr (kReach == Reach::line_at_edge) load_line<kTogether>(d, from + edge_lines_[row], pixels);
      for (int k = 0; k < kRowElements; ++k)
        pixels[k] = hn::IfThenElseZero(is_pixel_[row][k / kTogether], pixels[k]);
    } else {
      load_edge_row(from, row, pixels);
    }
  }

  // Asks for what the samples of the next row of a grid will be the first to read of a channel, if they lie as these do.
  template <Reach kReach, class T>
  HWY_INLINE void prefetch_next_row(const T* from) const {
    from += next_row_;
    if constexpr (kReach == Reach::line) prefetch_line<kTogether>(D(), from + line_);
    if constexpr (kReach == Reach::lines)
      prefetch_lines<kTogether>(D(), from, line_, other_line_[other_lines_ - 1], next_row_ < 0);
    if (kReach == Reach::interior && is_in_rows(kSamples / 4)) prefetch_four(D(), from, offsets_[0]);
  }

  // Whether the first and the last of interior samples are so many rows apart at most.
  HWY_INLINE bool is_in_rows(int64_t rows) const {
    return std::abs(int64_t{offsets_[0][kSamples - 1]} - offsets_[0][0]) <= rows * row_stride_;
  }

  // Where samples at these coordinates have their first tap, or where the interior samples next to them have it.
  HWY_INLINE void find_near(const V (&coordinates)[kAxes], Offset (&at)[kSamples]) const {
    V first[kAxes], scale;
    for (int k = 0; k < kAxes; ++k) {
      first[k] = first_tap<kTaps>(D(), find_position<kTaps>(D(), axes_[k], coordinates[k], scale));
      first[k] = hn::Max(hn::Min(first[k], last_first_tap_[k]), hn::Zero(D()));
    }
    hn::StoreU(offsets_of(first), Integer(), at);
  }

  // From the first of the rows that a sample reads.
  HWY_INLINE int64_t step_to(int row) const {
    const int64_t step = row % kTaps * row_stride_;
    return kAxes == 2 ? step : step + row / kTaps * slice_stride_;
  }

  // Where the first tap of each sample is, if all are pixels: of neighbours, or of each. At an edge of an image that has
  // elements: where those of a row begin that each sample reads.
  HWY_INLINE int64_t line() const { return line_; }
  HWY_INLINE int64_t other_line() const { return other_line_[0]; }  // of two
  HWY_INLINE hn::Mask<D> is_in_other() const { return is_in_other_[0]; }
  HWY_INLINE const Offset* offsets(int row = 0) const { return offsets_[row]; }
  // Those of a line, of which only the first is found.
  HWY_INLINE void find_offsets_of_line() {
    hn::Store(hn::Add(hn::Set(Integer(), static_cast<Offset>(line_)), steps_), Integer(), offsets_[0]);
  }
  HWY_INLINE bool has_elements() const { return axis(0).size >= kTaps; }

  // terms[column] of the taps of a row become those of its elements, which are zero where no tap is a pixel.
  HWY_INLINE void move_to_elements(int row, V (&terms)[2]) const {
    const V left = hn::IfThenElseZero(is_pixel_[row][0], terms[0]);
    const V right = hn::IfThenElseZero(is_pixel_[row][1], terms[1]);
    terms[0] = hn::Or(hn::IfThenZeroElse(is_at_[0][1], left), hn::IfThenZeroElse(is_at_[1][1], right));
    terms[1] = hn::Or(hn::IfThenElseZero(is_at_[0][1], left), hn::IfThenElseZero(is_at_[1][1], right));
  }

  // Where the first tap of lane 0 would be if its sample were a neighbour of that of each lane. Without a meaning where a
  // sample has no place.
  template <Reach kReach>
  HWY_INLINE Index starts_of_lines(const Taps (&taps)[kAxes]) const {
    const Integer integer;
    if constexpr (kReach == Reach::lines || kReach == Reach::interior)
      return hn::Sub(hn::Load(integer, offsets_[0]), steps_);
    // Beyond the edges numbers are shifted by a pixel along each axis, so that none is negative.
    const auto one = hn::Set(D(), Real{1});
    const auto most = hn::Set(D(), kUnits / 2);
    V shifted[kAxes];
    for (int k = 0; k < kAxes; ++k)
      shifted[k] = hn::Min(hn::Max(hn::Add(taps[k].first, one), hn::Zero(D())), most);
    const int64_t back = kTogether + row_stride_ + (kAxes == 2 ? 0 : slice_stride_);
    return hn::Sub(hn::Sub(offsets_of(shifted), steps_), hn::Set(integer, static_cast<Offset>(back)));
  }

  // A bit for each sample whose first, or last, row is the given one or below it; of volumes its slice. A sample at an edge
  // may read none: that counts as row 0. `taps` are those along this axis.
  template <Reach kReach>
  HWY_INLINE uint32_t first_rows_from(const Taps& taps, int64_t row) const {
    return rows_from(D(), kReach == Reach::edge ? hn::Load(D(), edge_rows_[0]) : taps.first, row);
  }
  template <Reach kReach>
  HWY_INLINE uint32_t last_rows_from(const Taps& taps, int64_t row) const {
    return rows_from(D(), last_rows<kReach>(taps), row);
  }

  // Of all samples.
  template <Reach kReach>
  HWY_INLINE int64_t last_row(const Taps& taps) const {
    return static_cast<int64_t>(hn::GetLane(hn::MaxOfLanes(D(), last_rows<kReach>(taps))));
  }

  HWY_INLINE hn::Mask<D> is_pixel(int row, int column) const { return is_pixel_[row][column]; }

  // Of pairs of pixels along an axis: which samples have one tap, that is the other pixel of the two.
  HWY_INLINE hn::Mask<D> is_moved(int axis) const { return is_moved_[axis]; }

  // A bit for each sample whose taps are all pixels, next to each other.
  HWY_INLINE uint32_t interior_samples(const Taps (&taps)[kAxes]) const {
    auto is_interior = hn::FirstN(D(), kSamples);
    for (int k = 0; k < kAxes; ++k) is_interior = hn::And(is_interior, has_pixels(k, taps[k].first));
    return bits_of(D(), is_interior);
  }

  // A bit for each sample at an edge that reads any pixel.
  HWY_INLINE uint32_t samples_with_pixels() const {
    auto any = is_pixel_[0][0];
    for (const auto& of_row : is_pixel_) {
      for (const auto& of_tap : of_row) any = hn::Or(any, of_tap);
    }
    return bits_of(D(), any);
  }

  HWY_INLINE bool is_line_at_edge() const { return is_line_at_edge_; }
  HWY_INLINE const Axis& axis(int k) const { return axes_[k].axis; }

 private:
  // Those of pixels, which are whole numbers from 0 on below 2^23, or 2^52: added to a number whose unit in the last place
  // is one, they are its last bits.
  static constexpr Real kUnits = std::is_same_v<Real, float> ? Real{1 << 23} : Real{int64_t{1} << 52};

  template <size_t... kAxis>
  HWY_INLINE Footprint(const Image& image, const Axis* axes, bool goes_up, std::index_sequence<kAxis...>)
      : axes_{VectorAxis<D>(axes[kAxis])...},
        last_first_tap_{hn::Set(D(), static_cast<Real>(axes[kAxis].size - kTaps))...},
        steps_(hn::Mul(hn::Iota(Integer(), 0), hn::Set(Integer(), kTogether))),
        surplus_(offsets_of_units(image)),
        row_stride_(image.row_stride),
        slice_stride_(image.slice_stride),
        next_row_(goes_up ? step_to(kRows - kTaps) - row_stride_ : step_to(kRows - 1) + row_stride_),
        has_pairs_(std::min({axes[kAxis].size...}) >= 2),
        has_dense_rows_((image.depth * image.height == 1 || image.row_stride == image.width * kTogether) &&
                        (image.depth == 1 || image.slice_stride == image.height * image.row_stride)),
        last_line_(image.pixels() * kTogether - step_to(kRows - 1) - kLineElements) {}

  HWY_INLINE hn::Mask<D> has_pixels(int axis, V first) const {
    return hn::And(hn::Ge(first, hn::Zero(D())), hn::Le(first, last_first_tap_[axis]));
  }

  template <Reach kReach>
  HWY_INLINE V last_rows(const Taps& taps) const {
    return kReach == Reach::edge ? hn::Load(D(), edge_rows_[1])
                                 : hn::Add(taps.first, hn::Set(D(), Real{kTaps - 1}));
  }

  static HWY_INLINE Index offsets_of_units(const Image& image) {
    using Bits = hwy::MakeUnsigned<Real>;
    const int64_t strides = kTogether + image.row_stride + (kAxes == 2 ? 0 : image.slice_stride);
    const auto bits = static_cast<Bits>(std::bit_cast<Bits>(kUnits) * static_cast<Bits>(strides));
    return hn::Set(Integer(), static_cast<Offset>(bits));
  }

  HWY_INLINE Index offsets_of(const V (&pixels)[kAxes]) const {
    const Integer integer;
    const auto times = [&](V v, int64_t stride) HWY_ATTR {
      const auto bits = hn::BitCast(integer, hn::Add(v, hn::Set(D(), kUnits)));
      return stride == 1 ? bits : hn::Mul(bits, hn::Set(integer, static_cast<Offset>(stride)));
    };
    Index sum = hn::Add(times(pixels[1], row_stride_), times(pixels[0], kTogether));
    if constexpr (kAxes == 3) sum = hn::Add(sum, times(pixels[2], slice_stride_));
    return hn::Sub(sum, surplus_);
  }

  static HWY_INLINE hn::Mask<Integer> is_in_line(Index lines, int64_t line) {
    return hn::Eq(lines, hn::Set(Integer(), static_cast<Offset>(line)));
  }

  // Of samples that are not in the first line. Returns whether there are few lines, each of which can be read where the
  // samples are another's, too.
  HWY_INLINE bool find_other_lines(Index lines, hn::Mask<Integer> rest) {
    const Integer integer;
    if (!has_dense_rows_ || line_ > last_line_) return false;
    for (other_lines_ = 0; other_lines_ < kMaxLines - 1;) {
      const size_t lane = kMaxLines == 2 ? kSamples - 1 : hn::FindKnownFirstTrue(integer, rest);
      const int64_t line = offsets_[0][lane] - static_cast<int64_t>(lane) * kTogether;
      if (line < 0 || line > last_line_) return false;
      const auto is_in_other = is_in_line(lines, line);
      is_in_other_[other_lines_] = hn::RebindMask(D(), is_in_other);
      other_line_[other_lines_++] = line;
      rest = hn::AndNot(is_in_other, rest);
      if (hn::AllFalse(integer, rest)) return true;
    }
    return false;
  }

  HWY_INLINE Reach find_pairs(Taps (&taps)[kAxes]) {
    V first[kAxes];
    hn::Mask<D> is_tap[kAxes][2];
    for (int k = 0; k < kAxes; ++k)
      first[k] = taps[k].first =
          weigh_pair(D(), last_first_tap_[k], taps[k].first, taps[k].weight, is_tap[k], is_moved_[k]);
    hn::Store(offsets_of(first), Integer(), offsets_[0]);
    for (int row = 0; row < kRows; ++row) {
      auto is_row = is_tap[1][row % 2];
      if constexpr (kAxes == 3) is_row = hn::And(is_row, is_tap[2][row / 2]);
      for (int k = 0; k < 2; ++k) is_pixel_[row][k] = hn::And(is_row, is_tap[0][k]);
    }
    return Reach::pairs;
  }

  // Whether the first taps are neighbours. Then those that are no pixels are read in their place, too: rows beyond the
  // image at its edge, columns beyond it in the next row, if that follows without a gap.
  HWY_INLINE bool find_edge_line(const V (&first)[kAxes]) {
    if (!has_dense_rows_ || (kTaps == 4 && axis(0).padding != Padding::zeros)) return false;
    if (!are_neighbours(D(), first)) return false;
    Real places[kAxes];
    for (int k = 0; k < kAxes; ++k) places[k] = hn::GetLane(first[k]);
    const auto inside = [&](int axis, int tap) {
      return std::clamp<int64_t>(static_cast<int64_t>(places[axis]) + tap, 0, axes_[axis].axis.size - 1);
    };
    const int64_t end = last_line_ + step_to(kRows - 1);
    for (int k = 0; k < kRows; ++k) {
      int64_t row = inside(1, k % kTaps);
      if constexpr (kAxes == 3) row += inside(2, k / kTaps) * axis(1).size;
      edge_lines_[k] = (row * axis(0).size + static_cast<int64_t>(places[0])) * kTogether;
      if (edge_lines_[k] < 0 || edge_lines_[k] > end) return false;
    }
    return true;
  }

  // As many columns as there are taps are loaded side by side. Each tap finds its own among them.
  HWY_NOINLINE Reach find_edge(const V (&first)[kAxes]) {
    const D d;
    PaddedTap<D> padded[kAxes][kTaps];
    for (int axis = 0; axis < kAxes; ++axis) {
      for (int k = 0; k < kTaps; ++k)
        padded[axis][k] =
            pad_tap<kTaps>(d, hn::Add(first[axis], hn::Set(d, static_cast<Real>(k))), axes_[axis].axis);
    }
    const PaddedTap<D>(&columns)[kTaps] = padded[0];
    V pixels[kAxes] = {hn::Set(d, static_cast<Real>(std::max<int64_t>(0, axis(0).size - kTaps)))};
    for (const PaddedTap<D>& column : columns) pixels[0] = hn::Min(pixels[0], column.pixel);
    V min_row = hn::Set(d, static_cast<Real>(axis(kAxes - 1).size)), max_row = hn::Zero(d);
    for (int row = 0; row < kRows; ++row) {
      auto is_row = padded[1][row % kTaps].is_pixel;
      pixels[1] = padded[1][row % kTaps].pixel;
      if constexpr (kAxes == 3) {
        is_row = hn::And(is_row, padded[2][row / kTaps].is_pixel);
        pixels[2] = padded[2][row / kTaps].pixel;
      }
      hn::Store(offsets_of(pixels), Integer(), offsets_[row]);
      for (int k = 0; k < kTaps; ++k) is_pixel_[row][k] = hn::And(columns[k].is_pixel, is_row);
      min_row = hn::Min(min_row, pixels[kAxes - 1]);
      max_row = hn::Max(max_row, pixels[kAxes - 1]);
    }
    hn::Store(min_row, d, edge_rows_[0]);
    hn::Store(max_row, d, edge_rows_[1]);
    for (int k = 0; k < kTaps; ++k) {
      const V distance = hn::Sub(columns[k].pixel, pixels[0]);
      for (int j = 1; j < kTaps; ++j) is_at_[k][j] = hn::Eq(distance, hn::Set(d, static_cast<Real>(j)));
    }
    is_line_at_edge_ = find_edge_line(first);
    return is_line_at_edge_ ? Reach::line_at_edge : Reach::edge;
  }

  template <class T>
  HWY_INLINE void load_edge_row(const T* from, int row, V (&pixels)[kRowElements]) const {
    const D d;
    V loaded[kRowElements];
    if (HWY_LIKELY(has_elements())) {
      load_elements(d, from, offsets_[row], loaded);
    } else {  // an image with fewer columns than taps
      for (int k = 0; k < kTaps; ++k) {
        V of_column[kTogether];
        load_elements(d, from + std::min<int64_t>(k, axis(0).size - 1) * kTogether, offsets_[row], of_column);
        std::copy_n(of_column, kTogether, loaded + k * kTogether);
      }
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

  // That a line has: of the last sample, too.
  static constexpr int64_t kLineElements = (static_cast<int64_t>(kSamples) + kTaps - 1) * kTogether;

  alignas(V) Offset offsets_[kRows][kSamples];
  alignas(V) Real edge_rows_[2][kSamples];
  const VectorAxis<D> axes_[kAxes];
  const V last_first_tap_[kAxes];  // of interior samples
  const Index steps_;              // of the offsets of neighbours
  const Index surplus_;            // what the bits of kUnits add to an offset
  hn::Mask<D> is_pixel_[kRows][kTaps];
  hn::Mask<D> is_moved_[kAxes];
  hn::Mask<D> is_at_[kTaps][kTaps];  // at an edge: whether tap k is the j-th of the columns
  hn::Mask<D> is_in_other_[kMaxLines - 1];
  const int64_t row_stride_;
  const int64_t slice_stride_;
  const int64_t next_row_;     // from the first tap: what the next row of the grid reads, in the last slice
  const bool has_pairs_;       // along each axis
  const bool has_dense_rows_;  // which follow each other without a gap
  const int64_t last_line_;    // whose rows may be read whole, where they are dense
  int64_t line_ = 0;           // where the first of neighbours has its first tap
  int64_t other_line_[kMaxLines - 1];  // where it would have it in another line
  int other_lines_ = 0;
  bool is_line_at_edge_ = false;
  int64_t edge_lines_[kRows];
};

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
