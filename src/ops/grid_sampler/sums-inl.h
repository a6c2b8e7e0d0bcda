// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// How what samples give is added to the sums of their pixels: run by run of neighbours, or sample by sample.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_SUMS_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_SUMS_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_SUMS_INL_H_
#endif

#include <array>
#include <optional>
#include <utility>

#include "ops/grid_sampler/runs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// kFollow: the samples of an image mostly follow each other in some direction, pixel by pixel.
template <class Real, int kTaps, int kTogether, bool kAreScattered, int kAxes, bool kFollow = false>
class SumsBySamples : public RunsBySamples<Real, kTaps, kTogether, kAreScattered, kAxes> {
 protected:
  using Base = RunsBySamples<Real, kTaps, kTogether, kAreScattered, kAxes>;
  using Base::kAll, Base::kGroup, Base::kRows, Base::kSamples, Base::band_, Base::pixels_, Base::step_to,
      Base::sums_, Base::sums_of;
  using typename Base::Channels, typename Base::D, typename Base::Pixels, typename Base::Runs,
      typename Base::Taps, typename Base::V, typename Base::Vector;

 public:
  using Base::Base;

 protected:
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
      if (runs.count != 0) return this->template add_runs<kReach>(pixels, runs, weight, channels, gradient);
    }
    add_each<kReach>(pixels, taps, weight, vector, channels, gradient);
  }

 private:
  template <class Kernel, size_t... kIndex>
  static auto room_for_chunk(const Kernel& kernel, std::index_sequence<kIndex...>) {
    return std::array{((void)kIndex, kernel.nothing_found())...};
  }

  // Of a row. Infinity times the weight of what is no tap is no zero.
  template <Reach kReach, class Weight>
  static HWY_INLINE void find_terms(const Pixels& pixels, int row, const Weight& weight, V gradient,
                                    V (&terms)[kTaps]) {
    for (int k = 0; k < kTaps; ++k) {
      terms[k] = hn::Mul(weight(row * kTaps + k), gradient);
      if constexpr (kReach == Reach::pairs) terms[k] = hn::IfThenElseZero(pixels.is_pixel(row, k), terms[k]);
    }
  }

  // [row][column and channel][sample]
  using Terms = Real[kRows][kTaps * kTogether][kSamples];

  template <Reach kReach, class Weight, class Gradient>
  HWY_INLINE void add_each(const Pixels& pixels, const Taps (&taps)[kAxes], const Weight& weight,
                           const Vector& vector, const Channels& channels, const Gradient& gradient) const {
    const D d;
    const bool is_inside = vector.is_inside;
    uint32_t bits = vector.bits;
    alignas(64) Real wholes[kAxes][kSamples];
    if (kReach == Reach::edge || kAreScattered || !is_inside) {
      for (int axis = 0; axis < kAxes; ++axis) hn::Store(taps[axis].whole, d, wholes[axis]);
    }
    constexpr bool kMayAddElements = kTaps == 2 && kReach == Reach::edge && !kAreScattered;
    bool adds_elements = false;  // of which those that are no taps get zeros
    if constexpr (kMayAddElements) adds_elements = is_inside && pixels.has_elements();
    if constexpr (kMayAddTogether && kReach != Reach::line) {
      const bool may_add = kReach == Reach::edge ? adds_elements : kReach == Reach::pairs || bits == kAll;
      if (is_inside && may_add && are_apart(pixels))
        return add_rows<kReach>(pixels, weight, bits, channels.begin, gradient);
    }
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
          find_terms<kReach>(pixels, row, weight, of_channel, of_row);
          if constexpr (kMayAddElements) {
            if (adds_elements) pixels.move_to_elements(row, of_row);
          }
          for (int k = 0; k < kTaps; ++k) hn::Store(of_row[k], d, terms[planes][row][k * kTogether + c]);
        }
      }
    }
    if constexpr (kAreScattered) {
      add_anywhere(sums, planes, bits, wholes, terms);
    } else {
      const auto add = [&](int64_t i) HWY_ATTR {
        const int64_t offset = kReach == Reach::line ? pixels.line() + i * kTogether : pixels.offsets()[i];
        for (int plane = 0; plane < planes; ++plane) add_pixels(sums[plane] + offset, terms[plane], i);
      };
      // Pairs that are no taps add zeros.
      if (kReach == Reach::pairs || HWY_LIKELY(kReach != Reach::edge && is_inside && bits == kAll)) {
        if constexpr (kFollow && kReach != Reach::line) {
          const auto right = rises(taps[0].first), down = rises(taps[1].first);
          if (right && down) return add_by_taps(pixels.offsets(), *right, *down, sums, planes, terms);
        }
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

  // The terms of a row of a sample, which lie side by side, are added as vectors, unless its neighbours add to some of the
  // same pixels: the processor could not pass on to a load what lies in two stores.
  static constexpr bool kMayAddTogether =
      kTaps == 2 && kTogether > 1 && !kAreScattered && std::is_same_v<Real, float>;

  HWY_INLINE bool are_apart(const Pixels& pixels) const {
    const typename Pixels::Integer integer;
    const auto near = hn::Set(integer, kTaps * kTogether - 1);
    const auto row = hn::Set(integer, static_cast<int32_t>(sums_.rows.row_stride));
    const auto offsets = hn::Load(integer, pixels.offsets());
    const auto steps = hn::Abs(hn::Sub(offsets, previous_lanes(integer, offsets)));
    return hn::AllTrue(integer, hn::And(hn::Gt(steps, near), hn::Gt(hn::Abs(hn::Sub(steps, row)), near)));
  }

  template <Reach kReach, class Weight, class Gradient>
  HWY_INLINE void add_rows(const Pixels& pixels, const Weight& weight, uint32_t bits, int64_t channel,
                           const Gradient& gradient) const {
    const D d;
    const hn::CappedTag<Real, 4> four;
    const hn::CappedTag<Real, 2> two;
    constexpr int kCount = kTaps * kTogether;
    alignas(64) Real terms[kRows][kCount * kSamples];  // four of each sample, then four more, or two
    for (int row = 0; row < kRows; ++row) {
      V of_row[kCount];
      for (int c = 0; c < kTogether; ++c) {
        V of_taps[kTaps];
        find_terms<kReach>(pixels, row, weight, gradient(channel + c), of_taps);
        if constexpr (kReach == Reach::edge) pixels.move_to_elements(row, of_taps);
        for (int k = 0; k < kTaps; ++k) of_row[k * kTogether + c] = of_taps[k];
      }
      Real* to = terms[row];
      hn::StoreInterleaved4(of_row[0], of_row[1], of_row[2], of_row[3], d, to);
      if constexpr (kCount == 6) hn::StoreInterleaved2(of_row[4], of_row[5], d, to + 4 * kSamples);
      if constexpr (kCount == 8)
        hn::StoreInterleaved4(of_row[4], of_row[5], of_row[6], of_row[7], d, to + 4 * kSamples);
    }
    const auto add = [](auto tag, const Real* term, Real* to)
                         HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(tag, to), hn::LoadU(tag, term)), tag, to); };
    for (int i = 0; i < static_cast<int>(kSamples); ++i) {
      if (kReach == Reach::edge && (bits >> i & 1) == 0) continue;
      for (int row = 0; row < kRows; ++row) {
        const int64_t at =
            kReach == Reach::edge ? pixels.offsets(row)[i] : pixels.offsets()[i] + step_to(row);
        Real* to = sums_of(channel) + at;
        add(four, terms[row] + 4 * i, to);
        if constexpr (kCount == 6) add(two, terms[row] + 4 * kSamples + 2 * i, to + 4);
        if constexpr (kCount == 8) add(four, terms[row] + 4 * kSamples + 4 * i, to + 4);
      }
    }
  }

  // Samples that follow each other in one direction share pixels with their neighbours. Sample by sample, the processor
  // would wait for each sum to be stored before it loads it again; tap by tap of a few samples it waits less. The bits are
  // the same: where two samples share a pixel, the tap of the earlier one comes first.
  HWY_NOINLINE void add_by_taps(const typename Pixels::Offset* offsets, bool right, bool down,
                                Real* const* sums, int planes, const Terms* terms) const {
    constexpr int64_t kFewSamples = std::min<int64_t>(4, kSamples);
    for (int plane = 0; plane < planes; ++plane) {
      for (int64_t first = 0; first < kSamples; first += kFewSamples) {
        for (int row = 1; row >= 0; --row) {
          for (int column = 1; column >= 0; --column) {
            const int of_row = down ? row : 1 - row, of_column = right ? column : 1 - column;
            Real* to = sums[plane] + step_to(of_row) + of_column;
            for (int64_t i = first; i < first + kFewSamples; ++i)
              to[offsets[i]] += terms[plane][of_row][of_column][i];
          }
        }
      }
    }
  }

  // Whether it never falls from lane to lane; or never rises; nothing if it does both.
  static HWY_INLINE std::optional<bool> rises(V v) {
    const D d;
    const V before = hn::IfThenElse(hn::FirstN(d, 1), v, previous_lanes(d, v));
    if (hn::AllTrue(d, hn::Ge(v, before))) return true;
    if (hn::AllTrue(d, hn::Le(v, before))) return false;
    return {};
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
          if constexpr (kAreScattered) {
            add_apart_pixels(sums[plane] + offset, terms[plane], i);
          } else {
            add_pixels(sums[plane] + offset, terms[plane], i);
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
};

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
