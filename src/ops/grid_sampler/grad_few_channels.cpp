// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of grid sampling of few channels, vectorised over samples: what a sample reads is found in registers, and
// nothing is packed or listed before.
//
// Each task takes a band of rows of an image and goes through the samples that have to do with it. float and double add
// up in input_grad itself; the 16-bit types in a buffer of floats, which is rounded in the end.
#include <bit>

#include "ops/grid_sampler/grad_bands.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/grad_few_channels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/footprint-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

// Differentiates at the samples of one image, as far as they have to do with a band of its rows.
template <class T, int kTaps, int kTogether>
class FewChannels {
 public:
  using Real = RealOf<T>;
  using D = BlockTag<Real>;
  using V = hn::Vec<D>;
  using Pixels = Footprint<T, kTaps, kTogether>;
  using Taps = VectorTaps<D, kTaps>;
  static constexpr int64_t kSamples = hn::MaxLanes(D());
  static constexpr uint32_t kAll = (uint32_t{1} << kSamples) - 1;

  FewChannels(const Sampling& sampling, int64_t image, RowBand band, const Sums& sums)
      : wants_input_grad_(sampling.wants_input_grad),
        wants_grid_grad_(kTaps > 1 && sampling.wants_grid_grad),
        band_(band),
        input_(sampling.input[image]),
        grid_(sampling.grid[image]),
        grad_output_(sampling.output[image]),
        grid_grad_(sampling.grid_grad[image]),
        prefetches_(outgrows_cache(sampling)),
        reads_pairs_(std::is_same_v<T, Real> && has_interleaved_coordinates(grid_)),
        writes_pairs_(std::is_same_v<T, Real> && has_interleaved_coordinates(grid_grad_)),
        has_plain_gradient_(grad_output_.type == data_type_of<T> && grad_output_.has_contiguous_channels()),
        rows_follow_(sums.rows.row_stride == sums.rows.width * kTogether),
        sums_(sums),
        pixels_(input_, sampling.axes) {}

  // Samples [first, end), all of them inside of the band or not.
  void differentiate(int64_t first, int64_t end, bool is_inside) {
    const D d;
    alignas(64) Real coordinates[2][kMostSamples];
    for (int64_t k = 0; k < end - first; k += kSamples) {
      const int64_t count = std::min(kSamples, end - first - k);
      V x, y;
      if (HWY_LIKELY(reads_pairs_ && count == kSamples)) {
        load_pairs_of(grid_.channel<T>(0) + 2 * (first + k), x, y);
      } else {
        load_coordinates(grid_, Samples{first + k, count}, coordinates);
        x = hn::Load(d, coordinates[0]);
        y = hn::Load(d, coordinates[1]);
      }
      differentiate_vector(x, y, first + k, count, is_inside);
    }
  }

  void finish() { sums_.zero_to(band_.end - 1); }

 private:
  static HWY_INLINE void load_pairs_of([[maybe_unused]] const T* from, [[maybe_unused]] V& x,
                                       [[maybe_unused]] V& y) {
    if constexpr (std::is_same_v<T, Real>) hn::LoadInterleaved2(D(), from, x, y);
  }

  HWY_INLINE void differentiate_vector(V x_coordinate, V y_coordinate, int64_t first, int64_t count,
                                       bool is_inside) {
    Taps taps[2];
    const Reach reach = pixels_.find({x_coordinate, y_coordinate}, taps);
    const Taps &x = taps[0], &y = taps[1];
    if (HWY_LIKELY(reach == Reach::line))
      return differentiate_reach<Reach::line>(x, y, first, count, is_inside);
    if (reach == Reach::two_lines)
      return differentiate_reach<Reach::two_lines>(x, y, first, count, is_inside);
    if (HWY_LIKELY(reach == Reach::interior))
      return differentiate_reach<Reach::interior>(x, y, first, count, is_inside);
    const Taps x_of_edge = x, y_of_edge = y;  // copies, so that the others need no memory
    differentiate_edge(x_of_edge, y_of_edge, first, count, is_inside);
  }

  HWY_NOINLINE void differentiate_edge(const Taps& x, const Taps& y, int64_t first, int64_t count,
                                       bool is_inside) {
    differentiate_reach<Reach::edge>(x, y, first, count, is_inside);
  }

  // A bit for each of the samples whose row lies there.
  static HWY_INLINE uint32_t rows_from(V row, int64_t begin) {
    return bits_of(D(), hn::Ge(row, hn::Set(D(), static_cast<Real>(begin))));
  }

  template <Reach kReach>
  HWY_INLINE void differentiate_reach(const Taps& x, const Taps& y, int64_t first, int64_t count,
                                      bool is_inside) {
    const D d;
    const V first_row = kReach == Reach::edge ? pixels_.first_edge_row() : y.first;
    const V last_row =
        kReach == Reach::edge ? pixels_.last_edge_row() : hn::Add(y.first, hn::Set(d, Real{kTaps - 1}));
    uint32_t bits = HWY_LIKELY(count == kSamples) ? kAll : (uint32_t{1} << count) - 1;
    uint32_t owned = bits;
    if (!is_inside) {
      owned &= rows_from(first_row, band_.begin) & ~rows_from(first_row, band_.end);
      bits &= rows_from(last_row, band_.begin) & ~rows_from(first_row, band_.end);
      if (bits == 0) return;
    }
    alignas(64) Real staged[kFewChannels][kSamples];
    const bool is_staged = count != kSamples || !(has_plain_gradient_ && kTogether == 1);
    if (is_staged) stage_gradients(first, count, staged);
    const auto gradient = [&](int64_t channel) HWY_ATTR {
      return is_staged ? hn::Load(d, staged[channel])
                       : load_lanes(d, grad_output_.channel<T>(channel) + first);
    };
    if (wants_grid_grad_ && owned != 0) {
      for (int64_t channel = 0; prefetches_ && channel < input_.channels; channel += kTogether)
        pixels_.template prefetch_next_row<kReach>(input_.channel<T>(channel));
      if constexpr (kTaps == 2) store_slopes(bilinear_slopes<kReach>(x, y, gradient), first, owned);
      if constexpr (kTaps == 4) store_slopes(bicubic_slopes<kReach>(x, y, gradient), first, owned);
    }
    if (!wants_input_grad_) return;
    if (HWY_UNLIKELY(!hn::AllTrue(d, hn::Lt(last_row, hn::Set(d, static_cast<Real>(sums_.missing.begin))))))
      sums_.zero_to(static_cast<int64_t>(hn::GetLane(hn::MaxOfLanes(d, last_row))));
    const bool is_whole = is_inside && count == kSamples;
    if constexpr (kTaps <= 2) {
      if (is_whole && add_lines<kReach>(x, y, gradient)) return;
    }
    add_terms<kReach>(x, y, bits, is_inside, gradient);
  }

  // ---- By the grid

  // Bilinear: from the differences of neighbouring pixels, which are exact where the products would cancel.
  template <Reach kReach, class Gradient>
  HWY_INLINE Slopes<V> bilinear_slopes(const Taps& x, const Taps& y, Gradient&& gradient) const {
    const D d;
    V sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    const T* from = input_.channel<T>(0);
    for (int64_t channel = 0; channel < input_.channels; channel += kTogether) {
      V above[2 * kTogether], below[2 * kTogether];
      pixels_.template load_row<kReach>(from, 0, above);
      pixels_.template load_row<kReach>(from, 1, below);
      for (int c = 0; c < kTogether; ++c) {
        const V of_channel = gradient(channel + c);
        const V left = above[c], right = above[kTogether + c];
        const V below_left = below[c], below_right = below[kTogether + c];
        sums[0] = hn::MulAdd(of_channel, hn::Sub(right, left), sums[0]);
        sums[1] = hn::MulAdd(of_channel, hn::Sub(below_right, below_left), sums[1]);
        sums[2] = hn::MulAdd(of_channel, hn::Sub(below_left, left), sums[2]);
        sums[3] = hn::MulAdd(of_channel, hn::Sub(below_right, right), sums[3]);
      }
      from += input_.channel_stride;
    }
    for (V& sum : sums) sum = hn::Add(sum, hn::Zero(d));  // a product that vanished leaves no sign
    const V x_slope = hn::MulAdd(y.weight[1], sums[1], hn::Mul(y.weight[0], sums[0]));
    const V y_slope = hn::MulAdd(x.weight[1], sums[3], hn::Mul(x.weight[0], sums[2]));
    return {hn::Mul(x_slope, x.scale), hn::Mul(y_slope, y.scale)};
  }

  template <Reach kReach, class Gradient>
  HWY_INLINE Slopes<V> bicubic_slopes(const Taps& x, const Taps& y, Gradient&& gradient) const {
    const D d;
    V x_slopes[4], y_slopes[4];
    find_slopes(d, x.fraction, x_slopes);
    find_slopes(d, y.fraction, y_slopes);
    V x_sum = hn::Zero(d), y_sum = hn::Zero(d);
    for (int row = 0; row < 4; ++row) {
      V products[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
      const T* from = input_.channel<T>(0);
      for (int64_t channel = 0; channel < input_.channels; channel += kTogether) {
        V pixels[4 * kTogether];
        pixels_.template load_row<kReach>(from, row, pixels);
        for (int c = 0; c < kTogether; ++c) {
          const V of_channel = gradient(channel + c);
          for (int k = 0; k < 4; ++k)
            products[k] = hn::MulAdd(of_channel, pixels[k * kTogether + c], products[k]);
        }
        from += input_.channel_stride;
      }
      V of_row = hn::Zero(d), slope_of_row = hn::Zero(d);
      for (int k = 0; k < 4; ++k) {
        // Infinity times zero is no zero.
        if (kReach == Reach::edge) products[k] = hn::IfThenElseZero(pixels_.is_pixel(row, k), products[k]);
        of_row = hn::MulAdd(x.weight[k], products[k], of_row);
        slope_of_row = hn::MulAdd(x_slopes[k], products[k], slope_of_row);
      }
      x_sum = hn::MulAdd(y.weight[row], slope_of_row, x_sum);
      y_sum = hn::MulAdd(y_slopes[row], of_row, y_sum);
    }
    return {hn::Mul(x_sum, x.scale), hn::Mul(y_sum, y.scale)};
  }

  HWY_INLINE void store_slopes(const Slopes<V>& slopes, int64_t first, uint32_t owned) const {
    const D d;
    if constexpr (std::is_same_v<T, Real>) {
      if (HWY_LIKELY(owned == kAll && writes_pairs_)) {
        Real* to = grid_grad_.channel<Real>(0) + 2 * first;
        if (!grid_grad_.outgrows_caches || reinterpret_cast<uintptr_t>(to) % 64 != 0)
          return hn::StoreInterleaved2(slopes.along[0], slopes.along[1], d, to);
        alignas(64) Real pairs[2 * kSamples];
        hn::StoreInterleaved2(slopes.along[0], slopes.along[1], d, pairs);
        for (int64_t k = 0; k < 2 * kSamples; k += kSamples) hn::Stream(hn::Load(d, pairs + k), d, to + k);
        return;
      }
    }
    alignas(64) Real of_samples[2][kBlock];
    for (int axis = 0; axis < 2; ++axis) hn::Store(slopes.along[axis], d, of_samples[axis]);
    store_grid_grad(grid_grad_, Samples{first, kSamples}, owned, of_samples);
  }

  // ---- By the input

  HWY_INLINE Real* sums_of(int64_t channel) const { return sums_.rows.template channel<Real>(channel); }

  // Where offset 0 of an image would be among the sums.
  HWY_INLINE int64_t first_sum() const { return -sums_.first_row * sums_.rows.row_stride; }

  // Some neighbouring samples of a vector that lie in a line: lane i, of any line, would have its first tap at `at` +
  // i * kTogether.
  struct Run {
    int64_t at;
    int64_t row;
    uint32_t bits;
  };

  static constexpr int kMostRuns = 4;

  // Finds the runs that the samples make up, at most kMostRuns. Returns their number, or 0 if there are more, or what the
  // lanes of each would add to lies outside of the band.
  template <Reach kReach>
  HWY_INLINE int find_runs(const Taps& x, const Taps& y, Run (&runs)[kMostRuns]) const {
    const D d;
    if (kReach == Reach::line) {
      runs[0] = {pixels_.line(), 0, kAll};
      return 1;
    }
    if (!rows_follow_) return 0;
    alignas(64) Real rows[kSamples];
    alignas(64) typename Pixels::Offset starts[kSamples];
    hn::Store(y.first, d, rows);
    const auto of_lanes = pixels_.template starts_of_lines<kReach>(x, y);
    const typename Pixels::Integer integer;
    hn::Store(of_lanes, integer, starts);
    int count = 0;
    uint32_t rest = kAll;
    while (rest != 0) {
      const auto first = static_cast<uint32_t>(__builtin_ctz(rest));
      uint32_t bits = bits_of(integer, hn::Eq(of_lanes, hn::Set(integer, starts[first])));
      if (kReach == Reach::edge) bits &= bits_of(d, hn::Eq(y.first, hn::Set(d, rows[first])));
      const uint32_t from_first = bits >> first;
      // Sums add up in the order of the samples, so no other run may be in between.
      if (count == kMostRuns || (from_first & (from_first + 1)) != 0) return 0;
      runs[count++] = {starts[first], static_cast<int64_t>(rows[first]), bits};
      rest &= ~bits;
      // Few are worth it.
      if (count == 2 && static_cast<int64_t>(std::popcount(rest)) > kSamples / 2) return 0;
    }
    const int64_t row_stride = sums_.rows.row_stride;
    for (int k = 0; k < count; ++k) {
      const int64_t begin = runs[k].at + std::max<int64_t>(0, -runs[k].row) * row_stride;
      const int64_t end = runs[k].at +
                          std::min<int64_t>(kTaps - 1, pixels_.y_axis().size - 1 - runs[k].row) * row_stride +
                          (kSamples + kTaps - 1) * kTogether;
      if (begin < band_.begin * row_stride || end > band_.end * row_stride) return 0;
    }
    return count;
  }

  // A pixel gets the right term of the sample before its own, then the left one of its own. Lanes of other runs, and taps
  // that are no pixels, add zero.
  template <Reach kReach, class Gradient>
  HWY_INLINE void add_run(const Run& run, bool is_alone, const Taps& x, const Taps& y,
                          Gradient&& gradient) const {
    const D d;
    constexpr int64_t kLast = kSamples - 1;
    const auto is_in_run = mask_of(d, run.bits);
    const bool has_last = kTaps == 2 && (run.bits >> kLast & 1) != 0;
    for (int row = 0; row < kTaps; ++row) {
      if (kReach == Reach::edge && !is_row(run.row + row)) continue;
      V left = hn::Mul(y.weight[row], x.weight[0]), right = hn::Mul(y.weight[row], x.weight[kTaps - 1]);
      auto is_left = is_in_run, is_right = is_in_run;
      if constexpr (kReach == Reach::edge) {
        is_left = hn::And(is_in_run, pixels_.is_pixel(row, 0));
        is_right = hn::And(is_in_run, pixels_.is_pixel(row, kTaps - 1));
      }
      const auto masked = [&](hn::Mask<D> mask, V v) HWY_ATTR {
        return kReach != Reach::edge && is_alone ? v : hn::IfThenElseZero(mask, v);
      };
      for (int64_t channel = 0; channel < input_.channels; channel += kTogether) {
        Real* to = sums_of(channel) + first_sum() + run.at + row * sums_.rows.row_stride;
        V sums[kTogether];
        load_interleaved(d, to, sums);
        Real last_terms[kTogether];
        for (int c = 0; c < kTogether; ++c) {
          const V of_channel = gradient(channel + c);
          if constexpr (kTaps == 2) {
            const V terms = masked(is_right, hn::Mul(right, of_channel));
            sums[c] = hn::Add(sums[c], previous_lanes(d, terms));
            last_terms[c] = hn::ExtractLane(terms, kLast);
          }
          sums[c] = hn::Add(sums[c], masked(is_left, hn::Mul(left, of_channel)));
        }
        if constexpr (kTogether == 1) {
          hn::StoreU(sums[0], d, to);
        } else {
          store_interleaved(d, sums, to);
        }
        for (int c = 0; c < kTogether && has_last; ++c) to[kSamples * kTogether + c] += last_terms[c];
      }
    }
  }

  HWY_INLINE bool is_row(int64_t row) const { return row >= 0 && row < pixels_.y_axis().size; }

  // Returns false where the samples lie in no lines.
  template <Reach kReach, class Gradient>
  HWY_INLINE bool add_lines(const Taps& x, const Taps& y, Gradient&& gradient) const {
    Run runs[kMostRuns];
    const int count = find_runs<kReach>(x, y, runs);
    for (int k = 0; k < count; ++k) add_run<kReach>(runs[k], count == 1, x, y, gradient);
    return count != 0;
  }

  template <Reach kReach, class Gradient>
  HWY_INLINE void add_terms(const Taps& x, const Taps& y, uint32_t bits, bool is_inside,
                            Gradient&& gradient) {
    const D d;
    alignas(64) Real columns[kSamples], rows[kSamples];
    if (kReach == Reach::edge || !is_inside) {
      hn::Store(x.first, d, columns);
      hn::Store(y.first, d, rows);
    }
    constexpr int kPlanes = kFewChannels / kTogether;
    alignas(64) Terms terms[kPlanes];
    Real* sums[kPlanes] = {};
    int planes = 0;
    for (int64_t channel = 0; channel < input_.channels; channel += kTogether, ++planes) {
      sums[planes] = sums_of(channel) + first_sum();
      for (int c = 0; c < kTogether; ++c) {
        const V of_channel = gradient(channel + c);
        for (int row = 0; row < kTaps; ++row) {
          for (int k = 0; k < kTaps; ++k) {
            const V weight = hn::Mul(y.weight[row], x.weight[k]);
            hn::Store(hn::Mul(weight, of_channel), d, terms[planes][row][k * kTogether + c]);
          }
        }
      }
    }
    if (kReach == Reach::edge) return add_anywhere(sums, planes, bits, columns, rows, terms);
    const auto add = [&](int64_t i) HWY_ATTR {
      const int64_t offset = kReach == Reach::line ? pixels_.line() + i * kTogether : pixels_.offsets()[i];
      for (int plane = 0; plane < planes; ++plane) add_pixels(sums[plane] + offset, terms[plane], i);
    };
    if (HWY_LIKELY(is_inside && bits == kAll)) {
      for (int64_t i = 0; i < kSamples; ++i) add(i);
      return;
    }
    // Of the others some may have a row outside of the band.
    const uint32_t inside =
        is_inside ? bits : rows_from(y.first, band_.begin) & ~rows_from(y.first, band_.end - (kTaps - 1));
    for (; bits != 0; bits &= bits - 1) {
      const int i = __builtin_ctz(bits);
      if (HWY_LIKELY(inside >> i & 1)) {
        add(i);
      } else {
        add_anywhere(sums, planes, uint32_t{1} << i, columns, rows, terms);
      }
    }
  }

  // [row][column and channel][sample]
  using Terms = Real[kTaps][kTaps * kTogether][kSamples];

  // The planes of a sample next to each other: each waits for its own sums.
  HWY_INLINE void add_pixels(Real* to, const Terms& terms, int64_t i) const {
    for (int row = 0; row < kTaps; ++row, to += sums_.rows.row_stride) {
      for (int k = 0; k < kTaps * kTogether; ++k) to[k] += terms[row][k][i];
    }
  }

  HWY_NOINLINE void add_anywhere(Real* const* sums, int planes, uint32_t bits, const Real* columns,
                                 const Real* rows, const Terms* terms) const {
    const Axis &x_axis = pixels_.x_axis(), &y_axis = pixels_.y_axis();
    const int64_t row_stride = sums_.rows.row_stride;
    for (; bits != 0; bits &= bits - 1) {
      const int i = __builtin_ctz(bits);
      const auto column = static_cast<int64_t>(columns[i]), row = static_cast<int64_t>(rows[i]);
      if (column >= 0 && column + kTaps <= x_axis.size && row >= band_.begin && row + kTaps <= band_.end) {
        const int64_t offset = row * row_stride + column * kTogether;
        for (int plane = 0; plane < planes; ++plane) add_pixels(sums[plane] + offset, terms[plane], i);
        continue;
      }
      for (int r = 0; r < kTaps; ++r) {
        const int64_t to_row = tap_pixel<kTaps>(row + r, y_axis);
        if (!band_.contains(to_row)) continue;
        for (int k = 0; k < kTaps; ++k) {
          const int64_t to_column = tap_pixel<kTaps>(column + k, x_axis);
          if (to_column < 0) continue;
          const int64_t offset = to_row * row_stride + to_column * kTogether;
          for (int plane = 0; plane < planes; ++plane) {
            for (int c = 0; c < kTogether; ++c)
              sums[plane][offset + c] += terms[plane][r][k * kTogether + c][i];
          }
        }
      }
    }
  }

  // The gradients of the output, where they are not vectors in memory.
  HWY_NOINLINE void stage_gradients(int64_t first, int64_t count, Real (&to)[kFewChannels][kSamples]) const {
    if constexpr (kTogether > 1) {
      if (count == kSamples && has_plain_samples(grad_output_)) {
        V of_channels[kTogether];
        load_samples(D(), grad_output_, first, of_channels);
        for (int c = 0; c < kTogether; ++c) hn::Store(of_channels[c], D(), to[c]);
        return;
      }
    }
    load_pixels(grad_output_, 0, input_.channels, first, count, to[0], kSamples);
    for (int64_t c = 0; c < input_.channels; ++c) std::fill(to[c] + count, to[c] + kSamples, Real{0});
  }

  const bool wants_input_grad_;
  const bool wants_grid_grad_;
  const RowBand band_;
  const Image input_;
  const Image grid_;
  const Image grad_output_;
  const Image grid_grad_;
  const bool prefetches_;
  const bool reads_pairs_;  // whose coordinates are loaded from the grid
  const bool writes_pairs_;
  const bool has_plain_gradient_;
  const bool rows_follow_;  // of the sums
  Sums sums_;
  Pixels pixels_;
};

template <class T, int kTaps, int kTogether>
void differentiate_band(const Sampling& sampling, const SamplesLayout& layout, int64_t image, RowBand band,
                        bool has_spans, float* buffer) {
  FewChannels<T, kTaps, kTogether> task(sampling, image, band, layout.sums_of(sampling, image, band, buffer));
  if (!has_spans) task.differentiate(0, sampling.samples, true);
  for (int64_t chunk = 0; has_spans && chunk < layout.chunks; ++chunk) {
    const RowSpan span = layout.spans[image * layout.chunks + chunk];
    const int64_t first = chunk * kChunkSamples;
    if (span.meets(band))
      task.differentiate(first, std::min(first + kChunkSamples, sampling.samples),
                         span.first >= band.begin && span.last < band.end);
  }
  task.finish();
  if (layout.adds_in_buffer) {
    const int64_t width = sampling.x_axis().size, count = (band.end - band.begin) * width;
    store_pixels(sampling.input_grad[image], 0, sampling.channels, band.begin * width, count, buffer, count);
  }
}

template <class T, int kTaps, int kTogether>
void run(const Sampling& sampling, const SamplesLayout& layout) {
  const double nanoseconds = gradient_nanoseconds(sampling);
  if (!sampling.wants_input_grad) {
    constexpr int64_t kTaskSamples = 2048;
    const RowBand all{0, sampling.y_axis().size};
    const int64_t tasks = divide_up(sampling.samples, kTaskSamples);
    return parallel_for(sampling.batch * tasks, nanoseconds, [&](int64_t index) {
      const int64_t first = index % tasks * kTaskSamples;
      FewChannels<T, kTaps, kTogether>(sampling, index / tasks, all, Sums{})
          .differentiate(first, std::min(first + kTaskSamples, sampling.samples), true);
    });
  }
  Bands bands = layout.bands_for(thread_count(), sampling);
  const bool has_spans = bands.count() > 1;
  if (has_spans) {
    find_spans(sampling, 0, sampling.batch, kChunkSamples, 0.2 * nanoseconds, layout.spans);
    bands = layout.bands_of_spans(bands, thread_count(), sampling);
  }
  for_each_band(bands, sampling.batch, nanoseconds, [&](int64_t image, int64_t band, int64_t slot) {
    differentiate_band<T, kTaps, kTogether>(sampling, layout, image, bands.band(band), has_spans,
                                            layout.buffer(bands, slot));
  });
}

template <class T, int kTaps>
void run_interleaved(const Sampling& sampling, const SamplesLayout& layout) {
  if constexpr (std::is_same_v<T, float>) {
    if (has_interleaved_rows(sampling.input.first))
      return visit_interleaved(sampling.channels,
                               [&](auto channels) { run<T, kTaps, channels>(sampling, layout); });
  }
  run<T, kTaps, 1>(sampling, layout);
}

void run_few_channels(const Sampling& sampling, const SamplesLayout& layout) {
  visit_taps(sampling.interpolation, [&](auto taps) {
    visit_element_type(sampling.type, [&]<class T>(T) { run_interleaved<T, taps>(sampling, layout); });
  });
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_few_channels);

}  // namespace

void grad_few_channels(const Sampling& sampling, void* workspace) {
  WorkspaceAllocator allocator(workspace);
  const SamplesLayout layout(sampling, allocator);
  HWY_DYNAMIC_DISPATCH(run_few_channels)(sampling, layout);
}

}  // namespace aclgrad::ops::grid_sampler

#endif
