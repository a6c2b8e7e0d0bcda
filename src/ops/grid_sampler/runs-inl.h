// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What neighbouring samples give to the sums of a line of pixels is added as vectors.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_RUNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_RUNS_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_RUNS_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_RUNS_INL_H_
#endif

#include <bit>

#include "ops/grid_sampler/images-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

template <class Real, int kTaps, int kTogether, bool kAreScattered, int kAxes>
class RunsBySamples : public ImagesBySamples<Real, kTaps, kTogether, kAreScattered, kAxes> {
 protected:
  using Base = ImagesBySamples<Real, kTaps, kTogether, kAreScattered, kAxes>;
  using Base::kAll, Base::kSamples, Base::band_, Base::sums_;
  using typename Base::Channels, typename Base::D, typename Base::Pixels, typename Base::Taps,
      typename Base::V, typename Base::Vector;

 public:
  RunsBySamples(const Sampling& sampling, const Image& input, int64_t image, RowBand band, const Sums& sums)
      : Base(sampling, input, image, band, sums),
        rows_follow_(sums.rows.row_stride == sums.rows.width * kTogether &&
                     (kAxes == 2 || sums.rows.slice_stride == sums.rows.height * sums.rows.row_stride)) {}

 protected:
  static constexpr int kRows = Pixels::kRows;
  static constexpr uint32_t kAllRows = (uint32_t{1} << kRows) - 1;

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

  // Finds the runs that the samples make up, one if they are a line. None, if there are too many, or what the lanes of one
  // would add to lies outside of the band; and none of pairs, few of which lie in lines.
  template <Reach kReach>
  HWY_INLINE void find_runs(const Pixels& pixels, const Taps (&taps)[kAxes], const Vector& vector,
                            bool are_line, Runs& runs) const {
    runs.count = 0;
    if constexpr (kTaps == 2 && !kAreScattered && kReach != Reach::pairs) {
      if (!vector.is_inside || vector.count != kSamples) return;
      if (are_line) {
        runs = {1, {{pixels.line(), kAll, kAllRows}}};
      } else {
        runs.count = find_runs<kReach>(pixels, taps, runs.run);
      }
    }
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

 private:
  template <Reach kReach>
  HWY_INLINE int find_runs(const Pixels& pixels, const Taps (&taps)[kAxes], Run (&runs)[kMaxRuns]) const {
    const D d;
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

  const bool rows_follow_;  // of the sums
};

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
