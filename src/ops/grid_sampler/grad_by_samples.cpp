// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of grid sampling, vectorised over samples: images are read where they lie, and nothing is packed or listed
// before. What samples read is found in registers; for more than a few channels it is kept for a chunk of samples, which
// then goes through a few channels at a time: so their pixels stay in the cache.
#include <array>
#include <bit>
#include <utility>

#include "ops/grid_sampler/grad_bands.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/grad_by_samples.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/images-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

// Differentiates at the samples.
template <class T, int kTaps, int kTogether, bool kAreScattered>
class GradBySamples : public ImagesBySamples<T, kTaps, kTogether, kAreScattered> {
  using Base = ImagesBySamples<T, kTaps, kTogether, kAreScattered>;
  using Base::kAll, Base::kGroup, Base::kSamples, Base::band_, Base::grad_output_, Base::grid_, Base::input_,
      Base::pixels_, Base::sums_, Base::wants_input_grad_, Base::store_slopes, Base::sums_of,
      Base::with_gradients;
  using typename Base::Channels, typename Base::D, typename Base::Pixels, typename Base::Real,
      typename Base::Taps, typename Base::V, typename Base::Vector;

 public:
  GradBySamples(const Sampling& sampling, int64_t image, RowBand band, const Sums& sums)
      : Base(sampling, sampling.input[image], image, band, sums),
        prefetches_(outgrows_cache(sampling)),
        adds_alike_(!kAreScattered && sampling.adds_alike),
        rows_follow_(sums.rows.row_stride == sums.rows.width * kTogether) {}

  // Samples [first, end), all of them inside of the band or not.
  void differentiate(int64_t first, int64_t end, bool is_inside) {
    if constexpr (kAreScattered) return differentiate_chunks(first, end, is_inside);
    if constexpr (kTogether == 1 && std::is_same_v<T, Real>) {
      if (input_.channels > kGroup) return differentiate_chunks(first, end, is_inside);
    }
    if constexpr (!kAreScattered) {
      for (; first < end; first += kSamples)
        differentiate_vector({first, std::min(kSamples, end - first), is_inside});
    }
  }

 private:
  static constexpr int kProducts = kTaps == 4 ? 16 : 4;

  // Some neighbouring samples of a vector that lie in a line: lane i, of any line, would have its first tap at `at` +
  // i * kTogether.
  struct Run {
    int64_t at;
    int64_t row;
    uint32_t bits;
  };

  struct Runs {
    int count = 0;
    Run run[4];
  };

  // What is found once for all channels.
  struct Found {
    Pixels pixels;
    Taps taps[2];
    Reach reach;
    Vector vector;
    Runs runs;
    alignas(64) Real products[kProducts][kSamples];
  };

  // ---- Few channels: all in registers

  HWY_INLINE void differentiate_vector(const Vector& vector) {
    V coordinates[2];
    grid_.load(vector.first, vector.count, coordinates);
    Taps taps[2];
    const Reach reach = pixels_.find(coordinates, taps);
    if (HWY_LIKELY(reach == Reach::line)) return differentiate_few<Reach::line>(taps, vector);
    if (reach == Reach::lines) return differentiate_few<Reach::lines>(taps, vector);
    if (HWY_LIKELY(reach == Reach::interior)) return differentiate_few<Reach::interior>(taps, vector);
    const Taps of_edge[2] = {taps[0], taps[1]};  // copies, so that the others need no memory
    differentiate_edge(of_edge, vector);
  }

  HWY_NOINLINE void differentiate_edge(const Taps (&taps)[2], Vector vector) {
    differentiate_few<Reach::edge>(taps, vector);
  }

  template <Reach kReach>
  HWY_INLINE void differentiate_few(const Taps (&taps)[2], Vector vector) {
    if (!this->template find_bits<kReach>(pixels_, taps[1], vector)) return;
    const Channels all{0, input_.channels};
    with_gradients(vector, all, [&](const auto& gradient) HWY_ATTR {
      if (vector.owned != 0) {
        prefetch_next_row<kReach>(pixels_, all);
        if constexpr (kTaps == 2) {
          V sums[4];
          sum_differences<kReach>(pixels_, all, gradient, sums);
          store_slopes(bilinear_slopes(taps, sums), vector);
        }
        if constexpr (kTaps == 4) {
          const auto products_of = [&](int row, V(&products)[4]) HWY_ATTR {
            sum_products<kReach>(pixels_, row, all, gradient, products);
          };
          store_slopes(bicubic_slopes(taps, products_of), vector);
        }
      }
      if (!wants_input_grad_ || vector.bits == 0) return;
      if (HWY_UNLIKELY(!adds_alike_)) {
        const Taps copies[2] = {taps[0], taps[1]};
        return add_apart(copies, vector, all);
      }
      Runs runs;
      find_runs<kReach>(pixels_, taps, vector, runs);
      add_to_sums<kReach>(pixels_, taps, vector, runs, all, gradient);
    });
  }

  // ---- Any number of channels: chunk by chunk of samples

  template <size_t... kIndex>
  std::array<Found, sizeof...(kIndex)> room_for_chunk(std::index_sequence<kIndex...>) const {
    return {((void)kIndex, Found{pixels_, {}, {}, {}, {}, {}})...};
  }

  HWY_NOINLINE void differentiate_chunks(int64_t first, int64_t end, bool is_inside) {
    auto chunk = room_for_chunk(std::make_index_sequence<kChunkSamples / kSamples>());
    while (first < end) {
      const int64_t end_of_chunk = std::min(first + kChunkSamples, end);
      int64_t vectors = 0;
      for (; first < end_of_chunk; first += kSamples) {
        chunk[vectors].vector = {first, std::min(kSamples, end_of_chunk - first), is_inside};
        if (find(chunk[vectors])) ++vectors;
      }
      for (int64_t channel = 0; channel < input_.channels; channel += kGroup) {
        const Channels group{channel, std::min(channel + kGroup, input_.channels)};
        for (int64_t k = 0; k < vectors; ++k) differentiate_group(chunk[k], group);
      }
      for (int64_t k = 0; k < vectors; ++k) {
        if (chunk[k].vector.owned != 0) store_slopes_of(chunk[k]);
      }
    }
  }

  // Returns whether the samples have to do with the band.
  HWY_INLINE bool find(Found& found) {
    V coordinates[2];
    grid_.load(found.vector.first, found.vector.count, coordinates);
    found.reach = found.pixels.find(coordinates, found.taps);
    std::memset(found.products, 0, sizeof found.products);
    bool is_of_band = false;
    visit_reach<!kAreScattered>(found.reach, [&](auto reach) HWY_ATTR {
      is_of_band = this->template find_bits<reach>(found.pixels, found.taps[1], found.vector);
      if (is_of_band && wants_input_grad_)
        find_runs<reach>(found.pixels, found.taps, found.vector, found.runs);
    });
    return is_of_band;
  }

  HWY_NOINLINE void differentiate_group(Found& found, Channels channels) {
    const bool adds = wants_input_grad_ && found.vector.bits != 0;
    if (!kAreScattered && adds && !adds_alike_) add_apart(found.taps, found.vector, channels);
    visit_reach<!kAreScattered>(found.reach, [&](auto reach) HWY_ATTR {
      with_gradients(found.vector, channels, [&](const auto& gradient) HWY_ATTR {
        if (found.vector.owned != 0) {
          prefetch_next_row<reach>(found.pixels, channels);
          add_products<reach>(found, channels, gradient);
        }
        if (adds && (kAreScattered || adds_alike_))
          add_to_sums<reach>(found.pixels, found.taps, found.vector, found.runs, channels, gradient);
      });
    });
  }

  template <Reach kReach, class Gradient>
  HWY_INLINE void add_products(Found& found, Channels channels, const Gradient& gradient) const {
    const D d;
    V products[4];
    for (int first = 0; first < kProducts; first += 4) {
      if constexpr (kTaps == 2) sum_differences<kReach>(found.pixels, channels, gradient, products);
      if constexpr (kTaps == 4) sum_products<kReach>(found.pixels, first / 4, channels, gradient, products);
      for (int k = 0; k < 4; ++k) {
        Real* to = found.products[first + k];
        hn::Store(hn::Add(hn::Load(d, to), products[k]), d, to);
      }
    }
  }

  void store_slopes_of(const Found& found) const {
    const auto load_products = [&](int row, V(&products)[4]) HWY_ATTR {
      for (int k = 0; k < 4; ++k) products[k] = hn::Load(D(), found.products[4 * row + k]);
    };
    if constexpr (kTaps == 2) {
      V sums[4];
      load_products(0, sums);
      store_slopes(bilinear_slopes(found.taps, sums), found.vector);
    }
    if constexpr (kTaps == 4) store_slopes(bicubic_slopes(found.taps, load_products), found.vector);
  }

  // ---- By the grid

  template <Reach kReach>
  HWY_INLINE void prefetch_next_row(const Pixels& pixels, Channels channels) const {
    for (int64_t channel = channels.begin; prefetches_ && channel < channels.end; channel += kTogether)
      pixels.template prefetch_next_row<kReach>(input_.template channel<T>(channel));
  }

  // Of products with the differences of neighbouring pixels, which are exact where the products would cancel: right minus
  // left, above and below, then below minus above, left and right.
  template <Reach kReach, class Gradient>
  HWY_INLINE void sum_differences(const Pixels& pixels, Channels channels, const Gradient& gradient,
                                  V (&sums)[4]) const {
    for (V& sum : sums) sum = hn::Zero(D());
    const T* from = input_.template channel<T>(channels.begin);
    for (int64_t channel = channels.begin; channel < channels.end; channel += kTogether) {
      V above[2 * kTogether], below[2 * kTogether];
      pixels.template load_row<kReach>(from, 0, above);
      pixels.template load_row<kReach>(from, 1, below);
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
  }

  static HWY_INLINE Slopes<V> bilinear_slopes(const Taps (&taps)[2], V (&sums)[4]) {
    const auto& [x, y] = taps;
    for (V& sum : sums) sum = hn::Add(sum, hn::Zero(D()));  // a product that vanished leaves no sign
    const V x_slope = hn::MulAdd(y.weight[1], sums[1], hn::Mul(y.weight[0], sums[0]));
    const V y_slope = hn::MulAdd(x.weight[1], sums[3], hn::Mul(x.weight[0], sums[2]));
    return {hn::Mul(x_slope, x.scale), hn::Mul(y_slope, y.scale)};
  }

  // Of products with the pixels of one row.
  template <Reach kReach, class Gradient>
  HWY_INLINE void sum_products(const Pixels& pixels, int row, Channels channels, const Gradient& gradient,
                               V (&products)[4]) const {
    for (V& product : products) product = hn::Zero(D());
    const T* from = input_.template channel<T>(channels.begin);
    for (int64_t channel = channels.begin; channel < channels.end; channel += kTogether) {
      V of_row[4 * kTogether];
      pixels.template load_row<kReach>(from, row, of_row);
      for (int c = 0; c < kTogether; ++c) {
        const V of_channel = gradient(channel + c);
        for (int k = 0; k < 4; ++k)
          products[k] = hn::MulAdd(of_channel, of_row[k * kTogether + c], products[k]);
      }
      from += input_.channel_stride;
    }
    for (int k = 0; kReach == Reach::edge && k < 4; ++k)  // infinity times zero is no zero
      products[k] = hn::IfThenElseZero(pixels.is_pixel(row, k), products[k]);
  }

  template <class ProductsOf>
  static HWY_INLINE Slopes<V> bicubic_slopes(const Taps (&taps)[2], ProductsOf&& products_of) {
    const D d;
    const auto& [x, y] = taps;
    V x_slopes[4], y_slopes[4];
    find_slopes(d, x.fraction, x_slopes);
    find_slopes(d, y.fraction, y_slopes);
    V x_sum = hn::Zero(d), y_sum = hn::Zero(d);
    for (int row = 0; row < 4; ++row) {
      V products[4];
      products_of(row, products);
      V of_row = hn::Zero(d), slope_of_row = hn::Zero(d);
      for (int k = 0; k < 4; ++k) {
        of_row = hn::MulAdd(x.weight[k], products[k], of_row);
        slope_of_row = hn::MulAdd(x_slopes[k], products[k], slope_of_row);
      }
      x_sum = hn::MulAdd(y.weight[row], slope_of_row, x_sum);
      y_sum = hn::MulAdd(y_slopes[row], of_row, y_sum);
    }
    return {hn::Mul(x_sum, x.scale), hn::Mul(y_sum, y.scale)};
  }

  // ---- By the input

  // Finds the runs that the samples make up. None, if there are too many, or what the lanes of one would add to lies
  // outside of the band.
  template <Reach kReach>
  HWY_INLINE void find_runs(const Pixels& pixels, const Taps (&taps)[2], const Vector& vector,
                            Runs& runs) const {
    runs.count = 0;
    if constexpr (kTaps == 2 && !kAreScattered) {
      if (vector.is_inside && vector.count == kSamples && adds_alike_)
        runs.count = find_runs<kReach>(pixels, taps, runs.run);
    }
  }

  template <Reach kReach, size_t kMostRuns>
  HWY_INLINE int find_runs(const Pixels& pixels, const Taps (&taps)[2], Run (&runs)[kMostRuns]) const {
    const D d;
    const auto& [x, y] = taps;
    if (kReach == Reach::line) {
      runs[0] = {pixels.line(), 0, kAll};
      return 1;
    }
    if (!rows_follow_) return 0;
    alignas(64) Real rows[kSamples];
    alignas(64) typename Pixels::Offset starts[kSamples];
    hn::Store(y.first, d, rows);
    const auto of_lanes = pixels.template starts_of_lines<kReach>(x, y);
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
      if (count == int{kMostRuns} || (from_first & (from_first + 1)) != 0) return 0;
      runs[count++] = {starts[first], static_cast<int64_t>(rows[first]), bits};
      rest &= ~bits;
      // Few are worth it.
      if (count == 2 && static_cast<int64_t>(std::popcount(rest)) > kSamples / 2) return 0;
    }
    const int64_t row_stride = sums_.rows.row_stride;
    for (int k = 0; k < count; ++k) {
      const int64_t begin = runs[k].at + std::max<int64_t>(0, -runs[k].row) * row_stride;
      const int64_t end = runs[k].at +
                          std::min<int64_t>(kTaps - 1, pixels.y_axis().size - 1 - runs[k].row) * row_stride +
                          (kSamples + kTaps - 1) * kTogether;
      if (begin < band_.begin * row_stride || end > band_.end * row_stride) return 0;
    }
    return count;
  }

  // A pixel gets the right term of the sample before its own, then the left one of its own. Lanes of other runs, and taps
  // that are no pixels, add zero.
  template <Reach kReach, class Gradient>
  HWY_INLINE void add_run(const Pixels& pixels, const Run& run, bool is_alone, const Taps (&taps)[2],
                          Channels channels, const Gradient& gradient) const {
    const D d;
    const auto& [x, y] = taps;
    constexpr bool kAtEdge = kReach == Reach::edge;
    constexpr int64_t kLast = kSamples - 1;
    const auto is_in_run = mask_of(d, run.bits);
    const bool has_last = (run.bits >> kLast & 1) != 0;
    V left[kTaps], right[kTaps];
    Real last_right[kTaps];
    for (int row = 0; row < kTaps; ++row) {
      left[row] = hn::Mul(y.weight[row], x.weight[0]);
      right[row] = hn::Mul(y.weight[row], x.weight[kTaps - 1]);
      last_right[row] = hn::ExtractLane(right[row], kLast);
      if (!kAtEdge) right[row] = previous_lanes(d, right[row]);
    }
    for (int64_t channel = channels.begin; channel < channels.end; channel += kTogether) {
      V gradients[kTogether], before[kTogether];
      Real last_gradient[kTogether];
      for (int c = 0; c < kTogether; ++c) {
        gradients[c] = gradient(channel + c);
        if (kAtEdge || !is_alone) gradients[c] = hn::IfThenElseZero(is_in_run, gradients[c]);
        before[c] = previous_lanes(d, gradients[c]);
        last_gradient[c] = hn::ExtractLane(gradients[c], kLast);
      }
      Real* to = sums_of(channel) + run.at;
      for (int row = 0; row < kTaps; ++row, to += sums_.rows.row_stride) {
        if (kAtEdge && !is_row(run.row + row)) continue;
        V sums[kTogether];
        load_interleaved(d, to, sums);
        for (int c = 0; c < kTogether; ++c) {
          if constexpr (kAtEdge) {
            const V terms =
                hn::IfThenElseZero(pixels.is_pixel(row, kTaps - 1), hn::Mul(right[row], gradients[c]));
            sums[c] = hn::Add(sums[c], previous_lanes(d, terms));
            sums[c] = hn::Add(sums[c],
                              hn::IfThenElseZero(pixels.is_pixel(row, 0), hn::Mul(left[row], gradients[c])));
          } else {
            sums[c] = hn::Add(sums[c], hn::Mul(right[row], before[c]));
            sums[c] = hn::Add(sums[c], hn::Mul(left[row], gradients[c]));
          }
        }
        if constexpr (kTogether == 1) {
          hn::StoreU(sums[0], d, to);
        } else {
          store_interleaved(d, sums, to);
        }
        if (!has_last || (kAtEdge && (bits_of(d, pixels.is_pixel(row, kTaps - 1)) >> kLast & 1) == 0))
          continue;
        for (int c = 0; c < kTogether; ++c)
          to[kSamples * kTogether + c] += last_right[row] * last_gradient[c];
      }
    }
  }

  HWY_INLINE bool is_row(int64_t row) const { return row >= 0 && row < pixels_.y_axis().size; }

  // Adds what the samples give to some channels.
  template <Reach kReach, class Gradient>
  HWY_INLINE void add_to_sums(const Pixels& pixels, const Taps (&taps)[2], const Vector& vector,
                              [[maybe_unused]] const Runs& runs, Channels channels,
                              const Gradient& gradient) const {
    if constexpr (kTaps == 2 && !kAreScattered) {
      for (int k = 0; k < runs.count; ++k)
        add_run<kReach>(pixels, runs.run[k], runs.count == 1, taps, channels, gradient);
      if (runs.count != 0) return;
    }
    add_terms<kReach>(pixels, taps, vector, channels, gradient);
  }

  // Where the sums do not lie as the pixels do.
  HWY_NOINLINE void add_apart(const Taps (&taps)[2], Vector vector, Channels channels) const {
    with_gradients(vector, channels, [&](const auto& gradient) HWY_ATTR {
      add_terms<Reach::edge>(pixels_, taps, vector, channels, gradient);
    });
  }

  template <Reach kReach, class Gradient>
  HWY_INLINE void add_terms(const Pixels& pixels, const Taps (&taps)[2], const Vector& vector,
                            Channels channels, const Gradient& gradient) const {
    const D d;
    const auto& [x, y] = taps;
    const bool is_inside = vector.is_inside;
    uint32_t bits = vector.bits;
    alignas(64) Real columns[kSamples], rows[kSamples];
    if (kReach == Reach::edge || kAreScattered || !is_inside) {
      hn::Store(x.whole, d, columns);
      hn::Store(y.whole, d, rows);
    }
    constexpr int kPlanes = kGroup / kTogether;
    alignas(64) Terms terms[kPlanes];
    Real* sums[kPlanes] = {};
    int planes = 0;
    for (int64_t channel = channels.begin; channel < channels.end; channel += kTogether, ++planes) {
      sums[planes] = sums_of(channel);
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
    if constexpr (kReach == Reach::edge || kAreScattered) {
      add_anywhere(sums, planes, bits, columns, rows, terms);
    } else {
      const auto add = [&](int64_t i) HWY_ATTR {
        const int64_t offset = kReach == Reach::line ? pixels.line() + i * kTogether : pixels.offsets()[i];
        for (int plane = 0; plane < planes; ++plane) add_pixels(sums[plane] + offset, terms[plane], i);
      };
      if (HWY_LIKELY(is_inside && bits == kAll)) {
        for (int64_t i = 0; i < kSamples; ++i) add(i);
        return;
      }
      // Of the others some may have a row outside of the band.
      const uint32_t inside = is_inside
                                  ? bits
                                  : pixels.template first_rows_from<kReach>(y, band_.begin) &
                                        ~pixels.template first_rows_from<kReach>(y, band_.end - (kTaps - 1));
      for (; bits != 0; bits &= bits - 1) {
        const int i = __builtin_ctz(bits);
        if (HWY_LIKELY(inside >> i & 1)) {
          add(i);
        } else {
          add_anywhere(sums, planes, uint32_t{1} << i, columns, rows, terms);
        }
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

  // The same where their elements do not lie side by side.
  HWY_INLINE void add_apart_pixels(Real* to, const Terms& terms, int64_t i) const {
    const Image& rows = sums_.rows;
    for (int c = 0; c < kTogether; ++c, to += rows.channel_stride) {
      for (int row = 0; row < kTaps; ++row) {
        for (int k = 0; k < kTaps; ++k)
          to[row * rows.row_stride + k * rows.column_stride] += terms[row][k * kTogether + c][i];
      }
    }
  }

  HWY_NOINLINE void add_anywhere(Real* const* sums, int planes, uint32_t bits, const Real* columns,
                                 const Real* rows, const Terms* terms) const {
    const Axis &x_axis = pixels_.x_axis(), &y_axis = pixels_.y_axis();
    const Image& rows_of_sums = sums_.rows;
    for (; bits != 0; bits &= bits - 1) {
      const int i = __builtin_ctz(bits);
      const int64_t column = static_cast<int64_t>(columns[i]) - kTapsBefore<kTaps>;
      const int64_t row = static_cast<int64_t>(rows[i]) - kTapsBefore<kTaps>;
      if (column >= 0 && column + kTaps <= x_axis.size && row >= band_.begin && row + kTaps <= band_.end) {
        const int64_t offset = rows_of_sums.offset(row, column);
        for (int plane = 0; plane < planes; ++plane) {
          if (adds_alike_) {
            add_pixels(sums[plane] + offset, terms[plane], i);
          } else {
            add_apart_pixels(sums[plane] + offset, terms[plane], i);
          }
        }
        continue;
      }
      for (int r = 0; r < kTaps; ++r) {
        const int64_t to_row = tap_pixel<kTaps>(row + r, y_axis);
        if (!band_.contains(to_row)) continue;
        for (int k = 0; k < kTaps; ++k) {
          const int64_t to_column = tap_pixel<kTaps>(column + k, x_axis);
          if (to_column < 0) continue;
          const int64_t offset = rows_of_sums.offset(to_row, to_column);
          for (int plane = 0; plane < planes; ++plane) {
            for (int c = 0; c < kTogether; ++c)
              sums[plane][offset + c * rows_of_sums.channel_stride] += terms[plane][r][k * kTogether + c][i];
          }
        }
      }
    }
  }

  const bool prefetches_;
  const bool adds_alike_;   // the offsets of pixels are those of their sums
  const bool rows_follow_;  // of the sums
};

template <class Kernel>
void run(const Sampling& sampling, const SamplesLayout& layout) {
  differentiate_images<Kernel>(sampling, layout, gradient_nanoseconds(sampling));
}

template <class T, int kTaps>
void run_with_rows(const Sampling& sampling, const SamplesLayout& layout) {
  const Image& input = sampling.input.first;
  const bool has_few_channels = sampling.channels <= kFewChannels;
  if constexpr (std::is_same_v<T, float>) {
    if (sampling.has_plain_rows && has_interleaved_rows(input)) {
      return visit_interleaved(sampling.channels, [&](auto channels) {
        run<GradBySamples<T, kTaps, channels, false>>(sampling, layout);
      });
    }
    if (!has_few_channels && input.channel_stride == 1 && sampling.channels % 4 == 0)
      return run<GradBySamples<T, kTaps, 4, true>>(sampling, layout);
  }
  // The 16-bit types are loaded one by one in any case.
  if (sampling.has_plain_rows && (sizeof(T) != 2 || has_few_channels))
    return run<GradBySamples<T, kTaps, 1, false>>(sampling, layout);
  run<GradBySamples<T, kTaps, 1, true>>(sampling, layout);
}

void run_by_samples(const Sampling& sampling, const SamplesLayout& layout) {
  visit_element_type(sampling.type, [&]<class T>(T) {
    sampling.interpolation == Interpolation::bicubic ? run_with_rows<T, 4>(sampling, layout)
                                                     : run_with_rows<T, 2>(sampling, layout);
  });
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_by_samples);

}  // namespace

size_t grad_by_samples_workspace_size(const Sampling& sampling) {
  if (sampling.axis_count == 3) return grad_volumes_by_samples_workspace_size(sampling);
  return size_of_workspace<SamplesLayout>(sampling);
}

void grad_by_samples(const Sampling& sampling, void* workspace) {
  if (sampling.axis_count == 3) return grad_volumes_by_samples(sampling, workspace);
  WorkspaceAllocator allocator(workspace);
  const SamplesLayout layout(sampling, allocator);
  HWY_DYNAMIC_DISPATCH(run_by_samples)(sampling, layout);
}

}  // namespace aclgrad::ops::grid_sampler

#endif
