// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// How what samples give is added to the sums of their pixels: run by run of neighbours, or sample by sample.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_SUMS_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_SUMS_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_SUMS_INL_H_
#endif

#include <array>
#include <bit>
#include <utility>

#include "ops/grid_sampler/images-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

template <class T, int kTaps, int kTogether, bool kAreScattered, int kAxes>
class SumsBySamples : public ImagesBySamples<T, kTaps, kTogether, kAreScattered, kAxes> {
 protected:
  using Base = ImagesBySamples<T, kTaps, kTogether, kAreScattered, kAxes>;
  using Base::kAll, Base::kGroup, Base::kSamples, Base::band_, Base::pixels_, Base::sums_;
  using typename Base::Channels, typename Base::D, typename Base::Pixels, typename Base::Real,
      typename Base::Taps, typename Base::V, typename Base::Vector;

 public:
  SumsBySamples(const Sampling& sampling, const Image& input, int64_t image, RowBand band, const Sums& sums)
      : Base(sampling, input, image, band, sums),
        adds_alike_(!kAreScattered && sampling.adds_alike),
        rows_follow_(sums.rows.row_stride == sums.rows.width * kTogether &&
                     (kAxes == 2 || sums.rows.slice_stride == sums.rows.height * sums.rows.row_stride)) {}

 protected:
  // Some neighbouring samples of a vector that lie in a line: lane i, of any line, would have its first tap at `at` +
  // i * kTogether.
  struct Run {
    int64_t at;
    uint32_t bits;
    uint32_t rows;  // a bit for each row in which they have pixels
  };

  static constexpr int kMaxRuns = 4;  // that are looked for in a vector
  struct Runs {
    int count = 0;
    Run run[kMaxRuns];
  };

  // Finds the runs that the samples make up. None, if there are too many, or what the lanes of one would add to lies
  // outside of the band.
  template <Reach kReach>
  HWY_INLINE void find_runs(const Pixels& pixels, const Taps (&taps)[kAxes], const Vector& vector,
                            Runs& runs) const {
    runs.count = 0;
    if constexpr (kTaps == 2 && !kAreScattered) {
      if (vector.is_inside && vector.count == kSamples && adds_alike_)
        runs.count = find_runs<kReach>(pixels, taps, runs.run);
    }
  }

  // Goes through samples [first, end) with at most so many vectors at a time, for which the kernel finds once what serves
  // all channels. Then it differentiates a few channels at a time, so that their pixels stay in the cache.
  template <class Kernel>
  static HWY_NOINLINE void differentiate_chunks(Kernel& kernel, int64_t first, int64_t end, bool is_inside,
                                                int64_t max_vectors) {
    auto chunk = room_for_chunk(kernel, std::make_index_sequence<kChunkSamples / kSamples>());
    while (first < end) {
      int64_t vectors = 0;
      for (; vectors < max_vectors && first < end; first += kSamples) {
        chunk[vectors].vector = {first, std::min(kSamples, end - first), is_inside};
        if (kernel.find(chunk[vectors])) ++vectors;
      }
      for (int64_t channel = 0; channel < kernel.input_.channels; channel += kGroup) {
        const Channels group{channel, std::min(channel + kGroup, kernel.input_.channels)};
        for (int64_t k = 0; k < vectors; ++k) kernel.differentiate_group(chunk[k], group);
      }
      for (int64_t k = 0; k < vectors; ++k) {
        if (chunk[k].vector.owned != 0) kernel.store_slopes_of(chunk[k]);
      }
    }
  }

  // Adds to some channels: weight(tap) times gradient(channel).
  template <Reach kReach, class Weight, class Gradient>
  HWY_INLINE void add_terms(const Pixels& pixels, const Taps (&taps)[kAxes], const Weight& weight,
                            const Vector& vector, [[maybe_unused]] const Runs& runs, const Channels& channels,
                            const Gradient& gradient) const {
    if constexpr (kTaps == 2 && !kAreScattered) {
      if (runs.count != 0) return add_runs<kReach>(pixels, runs, weight, channels, gradient);
    }
    add_each<kReach>(pixels, taps, weight, vector, channels, gradient);
  }

 private:
  template <class Kernel, size_t... kIndex>
  static auto room_for_chunk(const Kernel& kernel, std::index_sequence<kIndex...>) {
    return std::array{((void)kIndex, kernel.nothing_found())...};
  }

  static constexpr int kRows = Pixels::kRows;
  static constexpr uint32_t kAllRows = (uint32_t{1} << kRows) - 1;

  // [row][column and channel][sample]
  using Terms = Real[kRows][kTaps * kTogether][kSamples];

  template <Reach kReach>
  HWY_INLINE int find_runs(const Pixels& pixels, const Taps (&taps)[kAxes], Run (&runs)[kMaxRuns]) const {
    const D d;
    if (kReach == Reach::line) {
      runs[0] = {pixels.line(), kAll, kAllRows};
      return 1;
    }
    if (!rows_follow_) return 0;
    alignas(64) Real rows[kAxes - 1][kSamples];
    alignas(64) typename Pixels::Offset starts[kSamples];
    for (int axis = 1; axis < kAxes; ++axis) hn::Store(taps[axis].first, d, rows[axis - 1]);
    const auto of_lanes = pixels.template starts_of_lines<kReach>(taps);
    const typename Pixels::Integer integer;
    hn::Store(of_lanes, integer, starts);
    uint32_t with_pixels[kRows];  // samples
    for (int row = 0; kReach == Reach::edge && row < kRows; ++row)
      with_pixels[row] = bits_of(d, hn::Or(pixels.is_pixel(row, 0), pixels.is_pixel(row, 1)));
    int count = 0;
    uint32_t rest = kAll;
    while (rest != 0) {
      const auto first = static_cast<uint32_t>(__builtin_ctz(rest));
      uint32_t bits = bits_of(integer, hn::Eq(of_lanes, hn::Set(integer, starts[first])));
      for (int axis = 1; kReach == Reach::edge && axis < kAxes; ++axis)
        bits &= bits_of(d, hn::Eq(taps[axis].first, hn::Set(d, rows[axis - 1][first])));
      const uint32_t from_first = bits >> first;
      // Sums add up in the order of the samples, so no other run may be in between.
      if (count == kMaxRuns || (from_first & (from_first + 1)) != 0) return 0;
      Run& run = runs[count++];
      run = {starts[first], bits, kReach == Reach::edge ? 0 : kAllRows};
      for (int row = 0; kReach == Reach::edge && row < kRows; ++row)
        run.rows |= static_cast<uint32_t>((with_pixels[row] & bits) != 0) << row;
      if (!has_room(run)) return 0;
      rest &= ~bits;
      // Few are worth it, where a sample has few pixels.
      if (kAxes == 2 && count == 2 && static_cast<int64_t>(std::popcount(rest)) > kSamples / 2) return 0;
    }
    return count;
  }

  // Whether the lanes add to nothing outside of the band.
  HWY_INLINE bool has_room(const Run& run) const {
    if (run.rows == 0) return true;
    const int64_t begin = run.at + step_to(__builtin_ctz(run.rows));
    const int64_t end =
        run.at + step_to(31 - __builtin_clz(run.rows)) + (kSamples + kTaps - 1) * int64_t{kTogether};
    return begin >= band_.begin * band_stride() && end <= band_.end * band_stride();
  }

  // A pixel gets the right term of the sample before its own, then the left one of its own. Lanes of other runs, and taps
  // that are no pixels, add zero.
  template <Reach kReach, class Weight, class Gradient>
  HWY_INLINE void add_runs(const Pixels& pixels, const Runs& runs, const Weight& weight,
                           const Channels& channels, const Gradient& gradient) const {
    const D d;
    constexpr bool kAtEdge = kReach == Reach::edge;
    constexpr int64_t kLast = kSamples - 1;
    V left[kRows], right[kRows];
    Real last_right[kRows];
    hn::Mask<D> has_left[kRows], has_right[kRows];  // at an edge
    uint32_t has_last = kAllRows;                   // a bit for each row
    for (int row = 0; row < kRows; ++row) {
      left[row] = weight(row * kTaps);
      const V of_right = weight(row * kTaps + kTaps - 1);
      right[row] = previous_lanes(d, of_right);
      last_right[row] = hn::ExtractLane(of_right, kLast);
      if (!kAtEdge) continue;
      const uint32_t bits = bits_of(d, pixels.is_pixel(row, kTaps - 1));
      has_left[row] = pixels.is_pixel(row, 0);
      has_right[row] = mask_of(d, bits << 1);
      if ((bits >> kLast & 1) == 0) has_last &= ~(uint32_t{1} << row);
    }
    int64_t steps[kRows];  // in registers, while sums are stored
    for (int row = 0; row < kRows; ++row) steps[row] = step_to(row);
    const bool is_whole = !kAtEdge && runs.count == 1;
    for (int64_t channel = channels.begin; channel < channels.end; channel += kTogether) {
      V gradients[kTogether], before[kTogether];
      Real last_gradient[kTogether];
      for (int c = 0; c < kTogether; ++c) {
        gradients[c] = gradient(channel + c);
        before[c] = previous_lanes(d, gradients[c]);
        last_gradient[c] = hn::ExtractLane(gradients[c], kLast);
      }
      Real* const sums_of_channel = sums_of(channel);
      for (int k = 0; k < runs.count; ++k) {
        const Run run = runs.run[k];
        const uint32_t with_last = (run.bits >> kLast & 1) != 0 ? has_last : 0;
        V own[kTogether], previous[kTogether];
        for (int c = 0; c < kTogether; ++c) {
          own[c] = is_whole ? gradients[c] : hn::IfThenElseZero(mask_of(d, run.bits), gradients[c]);
          previous[c] = is_whole ? before[c] : hn::IfThenElseZero(mask_of(d, run.bits << 1), before[c]);
        }
        for (int row = 0; row < kRows; ++row) {
          if (kAtEdge && (run.rows >> row & 1) == 0) continue;
          Real* to = sums_of_channel + run.at + steps[row];
          V sums[kTogether];
          load_interleaved(d, to, sums);
          for (int c = 0; c < kTogether; ++c) {
            V of_right = hn::Mul(right[row], previous[c]), of_left = hn::Mul(left[row], own[c]);
            if (kAtEdge) {
              of_right = hn::IfThenElseZero(has_right[row], of_right);
              of_left = hn::IfThenElseZero(has_left[row], of_left);
            }
            sums[c] = hn::Add(hn::Add(sums[c], of_right), of_left);
          }
          if constexpr (kTogether == 1) {
            hn::StoreU(sums[0], d, to);
          } else {
            store_interleaved(d, sums, to);
          }
          if ((with_last >> row & 1) == 0) continue;
          for (int c = 0; c < kTogether; ++c)
            to[kSamples * kTogether + c] += last_right[row] * last_gradient[c];
        }
      }
    }
  }

  // Where the first pixel of the image would be among the sums.
  HWY_INLINE Real* sums_of(int64_t channel) const {
    return sums_.rows.template channel<Real>(channel) - sums_.first_row * band_stride();
  }
  HWY_INLINE int64_t band_stride() const {
    return kAxes == 2 ? sums_.rows.row_stride : sums_.rows.slice_stride;
  }

  // From the sums of the first row of the taps.
  HWY_INLINE int64_t step_to(int row) const {
    const int64_t step = row % kTaps * sums_.rows.row_stride;
    return kAxes == 2 ? step : step + row / kTaps * sums_.rows.slice_stride;
  }

  template <Reach kReach, class Weight, class Gradient>
  HWY_INLINE void add_each(const Pixels& pixels, const Taps (&taps)[kAxes], const Weight& weight,
                           const Vector& vector, const Channels& channels, const Gradient& gradient) const {
    const D d;
    const bool is_inside = vector.is_inside;
    uint32_t bits = vector.bits;
    alignas(64) Real wholes[kAxes][kSamples];
    if (kReach == Reach::edge || kAreScattered || !is_inside || !adds_alike_) {
      for (int axis = 0; axis < kAxes; ++axis) hn::Store(taps[axis].whole, d, wholes[axis]);
    }
    constexpr bool kMayAddElements = kTaps == 2 && kReach == Reach::edge && !kAreScattered;
    bool adds_elements = false;  // of which those that are no taps get zeros
    if constexpr (kMayAddElements) adds_elements = is_inside && adds_alike_ && pixels.has_elements();
    constexpr int kPlanes = kGroup / kTogether;
    alignas(64) Terms terms[kPlanes];
    Real* sums[kPlanes] = {};
    int planes = 0;
    for (int64_t channel = channels.begin; channel < channels.end; channel += kTogether, ++planes) {
      sums[planes] = sums_of(channel);
      for (int c = 0; c < kTogether; ++c) {
        const V of_channel = gradient(channel + c);
        for (int row = 0; row < kRows; ++row) {
          V of_row[kTaps];
          for (int k = 0; k < kTaps; ++k) of_row[k] = hn::Mul(weight(row * kTaps + k), of_channel);
          if constexpr (kMayAddElements) {
            if (adds_elements) pixels.move_to_elements(row, of_row);
          }
          for (int k = 0; k < kTaps; ++k) hn::Store(of_row[k], d, terms[planes][row][k * kTogether + c]);
        }
      }
    }
    if (kAreScattered || !adds_alike_) return add_anywhere(sums, planes, bits, wholes, terms);
    if constexpr (!kAreScattered) {
      const auto add = [&](int64_t i) HWY_ATTR {
        const int64_t offset = kReach == Reach::line ? pixels.line() + i * kTogether : pixels.offsets()[i];
        for (int plane = 0; plane < planes; ++plane) add_pixels(sums[plane] + offset, terms[plane], i);
      };
      if (HWY_LIKELY(kReach != Reach::edge && is_inside && bits == kAll)) {
        for (int64_t i = 0; i < kSamples; ++i) add(i);
        return;
      }
      if (adds_elements) {
        for (; bits != 0; bits &= bits - 1) add_elements(pixels, sums, planes, terms, __builtin_ctz(bits));
        return;
      }
      // Of the others some may have a pixel outside of the band.
      uint32_t inside = kReach == Reach::edge ? pixels.interior_samples(taps) : bits;
      if (!is_inside) {
        const Taps& last = taps[kAxes - 1];
        inside &= pixels.template first_rows_from<kReach>(last, band_.begin) &
                  ~pixels.template first_rows_from<kReach>(last, band_.end - (kTaps - 1));
      }
      for (; bits != 0; bits &= bits - 1) {
        const int i = __builtin_ctz(bits);
        if (HWY_LIKELY(inside >> i & 1)) {
          add(i);
        } else {
          add_anywhere(sums, planes, uint32_t{1} << i, wholes, terms);
        }
      }
    }
  }

  // Calls body(row, its sums) for the rows of the taps, of which the first ones' are given.
  template <class Body>
  HWY_INLINE void for_each_row(Real* first, Body&& body) const {
    for (int slice = 0; slice < kRows / kTaps; ++slice, first += sums_.rows.slice_stride) {
      Real* to = first;
      for (int row = 0; row < kTaps; ++row, to += sums_.rows.row_stride) body(slice * kTaps + row, to);
    }
  }

  // The planes of a sample next to each other: each waits for its own sums.
  HWY_INLINE void add_pixels(Real* to, const Terms& terms, int64_t i) const {
    for_each_row(to, [&](int row, Real* of_row) HWY_ATTR {
      for (int k = 0; k < kTaps * kTogether; ++k) of_row[k] += terms[row][k][i];
    });
  }

  // The same at an edge, where each row of a sample has its own place.
  HWY_INLINE void add_elements(const Pixels& pixels, Real* const* sums, int planes, const Terms* terms,
                               int i) const {
    for (int plane = 0; plane < planes; ++plane) {
      for (int row = 0; row < kRows; ++row) {
        Real* to = sums[plane] + pixels.offsets(row)[i];
        for (int k = 0; k < kTaps * kTogether; ++k) to[k] += terms[plane][row][k][i];
      }
    }
  }

  // The planes of a sample whose elements do not lie side by side.
  HWY_INLINE void add_apart_pixels(Real* to, const Terms& terms, int64_t i) const {
    const Image& rows = sums_.rows;
    for (int c = 0; c < kTogether; ++c, to += rows.channel_stride) {
      for_each_row(to, [&](int row, Real* of_row) HWY_ATTR {
        for (int k = 0; k < kTaps; ++k) of_row[k * rows.column_stride] += terms[row][k * kTogether + c][i];
      });
    }
  }

  HWY_NOINLINE void add_anywhere(Real* const* sums, int planes, uint32_t bits,
                                 const Real (&wholes)[kAxes][kSamples], const Terms* terms) const {
    const Image& rows = sums_.rows;
    for (; bits != 0; bits &= bits - 1) {
      const int i = __builtin_ctz(bits);
      int64_t first[3] = {};
      bool is_inside = true;
      for (int axis = 0; axis < kAxes; ++axis) {
        first[axis] = static_cast<int64_t>(wholes[axis][i]) - kTapsBefore<kTaps>;
        const RowBand band = axis == kAxes - 1 ? band_ : RowBand{0, pixels_.axis(axis).size};
        is_inside &= first[axis] >= band.begin && first[axis] + kTaps <= band.end;
      }
      if (is_inside) {
        const int64_t offset = rows.offset(first[2], first[1], first[0]);
        for (int plane = 0; plane < planes; ++plane) {
          if (adds_alike_) {
            add_pixels(sums[plane] + offset, terms[plane], i);
          } else {
            add_apart_pixels(sums[plane] + offset, terms[plane], i);
          }
        }
        continue;
      }
      // That the taps read along each axis, or -1 where that is none of the band.
      int64_t pixels[3][kTaps] = {};
      for (int axis = 0; axis < kAxes; ++axis) {
        for (int k = 0; k < kTaps; ++k) {
          pixels[axis][k] = tap_pixel<kTaps>(first[axis] + k, pixels_.axis(axis));
          if (axis == kAxes - 1 && !band_.contains(pixels[axis][k])) pixels[axis][k] = -1;
        }
      }
      for (int row = 0; row < kRows; ++row) {
        const int64_t y = pixels[1][row % kTaps], z = kAxes == 2 ? 0 : pixels[2][row / kTaps];
        for (int column = 0; y >= 0 && z >= 0 && column < kTaps; ++column) {
          const int64_t x = pixels[0][column];
          for (int plane = 0; x >= 0 && plane < planes; ++plane) {
            Real* to = sums[plane] + rows.offset(z, y, x);
            for (int c = 0; c < kTogether; ++c)
              to[c * rows.channel_stride] += terms[plane][row][column * kTogether + c][i];
          }
        }
      }
    }
  }

  const bool adds_alike_;   // the offsets of pixels are those of their sums
  const bool rows_follow_;  // of the sums
};

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
