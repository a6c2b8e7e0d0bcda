// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of grid sampling, vectorised over samples: images are read where they lie, and nothing is packed or listed
// before. What samples read is found in registers; for more than a few channels it is kept for a chunk of samples, which
// then goes through a few channels at a time: so their pixels stay in the cache.
#include "ops/grid_sampler/grad_bands.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/grad_by_samples.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

// Differentiates at the samples.
template <class T, int kTaps, int kTogether, bool kAreScattered, int kAxes, bool kFollow = false>
class GradBySamples : public SumsBySamples<RealOf<T>, kTaps, kTogether, kAreScattered, kAxes, kFollow> {
 protected:
  using Real = RealOf<T>;
  using Base = SumsBySamples<Real, kTaps, kTogether, kAreScattered, kAxes, kFollow>;
  using Base::kGroup, Base::kSamples, Base::grad_output_, Base::grid_, Base::has_plain_gradient_,
      Base::input_, Base::pixels_, Base::wants_input_grad_;
  using typename Base::Channels, typename Base::D, typename Base::Pixels, typename Base::Runs,
      typename Base::Taps, typename Base::V, typename Base::Vector;

 public:
  GradBySamples(const Sampling& sampling, int64_t image, RowBand band, const Sums& sums)
      : Base(sampling, sampling.input[image], image, band, sums),
        prefetches_(outgrows_cache(sampling)),
        takes_pairs_(kTakesPairs && (!wants_input_grad_ || band.end - band.begin >= 2)) {}

  // Samples [first, end), all of them inside of the band or not.
  void differentiate(int64_t first, int64_t end, bool is_inside) {
    constexpr int64_t kMaxVectors = kChunkSamples / kSamples;
    if constexpr (kAreScattered) return this->differentiate_chunks(*this, first, end, is_inside, kMaxVectors);
    if constexpr (!kFollow && kTogether == 1 && (kAxes == 3 || std::is_same_v<T, Real>)) {
      if (input_.channels > kGroup)
        return this->differentiate_chunks(*this, first, end, is_inside, kMaxVectors);
    }
    if constexpr (!kAreScattered) {
      for (; first < end; first += kSamples)
        differentiate_vector({first, std::min(kSamples, end - first), is_inside});
    }
  }

 protected:
  // Between scattered pixels the processor does not foresee the gradients.
  template <Reach kReach>
  HWY_INLINE void prefetch_gradients(const Vector& vector) const {
    constexpr int64_t kAheadSamples = 64;
    if (kReach == Reach::line || kReach == Reach::lines || !has_plain_gradient_) return;
    for (int64_t c = 0; c < input_.channels; ++c)
      __builtin_prefetch(grad_output_.template channel<T>(c) + vector.first + kAheadSamples);
  }

  static HWY_INLINE Slopes<V> slopes_of(const Taps (&taps)[kAxes], const V (&sums)[4]) {
    const auto& [x, y] = taps;
    const V x_slope = hn::MulAdd(y.weight[1], sums[1], hn::Mul(y.weight[0], sums[0]));
    const V y_slope = hn::MulAdd(x.weight[1], sums[3], hn::Mul(x.weight[0], sums[2]));
    return scaled(taps, {x_slope, y_slope});
  }

  static HWY_INLINE Slopes<V, kAxes> scaled(const Taps (&taps)[kAxes], Slopes<V, kAxes> slopes) {
    for (int k = 0; k < kAxes; ++k) slopes.along[k] = hn::Mul(slopes.along[k], taps[k].scale);
    return slopes;
  }

 private:
  static constexpr bool kTakesPairs = kTaps == 2 && kAxes == 2;
  static constexpr int kRows = Pixels::kRows;
  static constexpr int kProducts = kAxes == 3 ? 3 : kTaps == 4 ? 16 : 4;

  // What is found once for all channels.
  struct Found {
    Pixels pixels;
    alignas(V) Real products[kProducts][kSamples];
    Taps taps[kAxes];
    Reach reach = Reach::edge;
    Vector vector;
    Runs runs;

    explicit Found(const Pixels& first) : pixels(first) {}  // to clear arrays takes long
  };

  // ---- Few channels: all in registers

  HWY_INLINE void differentiate_vector(const Vector& vector) {
    V coordinates[kAxes];
    grid_.load(vector.first, vector.count, coordinates);
    Taps taps[kAxes];
    // Of pairs all lanes add to both pixels, of which none may be in another band.
    const bool may_be_pairs = takes_pairs_ && vector.is_inside && vector.count == kSamples;
    const Reach reach = pixels_.find(coordinates, taps, may_be_pairs);
    if (HWY_LIKELY(reach == Reach::line)) return differentiate_few<Reach::line>(taps, vector);
    if (reach == Reach::lines) return differentiate_few<Reach::lines>(taps, vector);
    if (HWY_LIKELY(reach == Reach::interior)) return differentiate_few<Reach::interior>(taps, vector);
    if constexpr (kTakesPairs) {
      if (HWY_UNLIKELY(reach == Reach::pairs)) return differentiate_few<Reach::pairs>(taps, vector);
    }
    Taps of_edge[kAxes];  // copies, so that the others need no memory
    for (int axis = 0; axis < kAxes; ++axis) of_edge[axis] = taps[axis];
    differentiate_edge(of_edge, vector.first, vector.count, vector.is_inside);
  }

  HWY_NOINLINE void differentiate_edge(const Taps (&taps)[kAxes], int64_t first, int64_t count,
                                       bool is_inside) {
    differentiate_few<Reach::edge>(taps, {first, count, is_inside});
  }

  template <Reach kReach>
  HWY_INLINE void differentiate_few(const Taps (&taps)[kAxes], Vector vector) {
    if (!this->template find_bits<kReach>(pixels_, taps, vector)) return;
    const Channels all{0, input_.channels};
    prefetch_gradients<kReach>(vector);
    // As a function of its own it would find all of this in memory.
    this->template with_gradients<T>(
        vector, all, [&](const auto& gradient) HWY_ATTR __attribute__((always_inline)) {
          if (vector.owned != 0) {
            prefetch_next_row<kReach>(pixels_, all);
            if constexpr (kAxes == 3) {
              Slopes<V, 3> sums{hn::Zero(D()), hn::Zero(D()), hn::Zero(D())};
              add_slopes<kReach>(pixels_, weights_of(taps), all, gradient, sums);
              this->template store_slopes<T>(scaled(taps, sums), vector);
            } else if constexpr (kTaps == 2) {
              V sums[4];
              sum_differences<kReach>(pixels_, all, gradient, sums);
              if constexpr (kReach == Reach::pairs) {
                this->template store_slopes<T>(slopes_of_pairs(taps, sums), vector);
              } else {
                this->template store_slopes<T>(bilinear_slopes(taps, sums), vector);
              }
            }
            if constexpr (kTaps == 4) {
              const auto products_of = [&](int row, V(&products)[4]) HWY_ATTR {
                sum_products<kReach>(pixels_, row, all, gradient, products);
              };
              this->template store_slopes<T>(bicubic_slopes(taps, products_of), vector);
            }
          }
          if (!wants_input_grad_ || vector.bits == 0) return;
          Runs runs;
          this->template find_runs<kReach>(pixels_, taps, vector, kReach == Reach::line, runs);
          add_to_sums<kReach>(pixels_, taps, vector, runs, all, gradient);
        });
  }

  // ---- Any number of channels: chunk by chunk of samples

  friend Base;

  Found nothing_found() const { return Found(pixels_); }

  // Returns whether the samples have to do with the band.
  HWY_INLINE bool find(Found& found) {
    V coordinates[kAxes];
    grid_.load(found.vector.first, found.vector.count, coordinates);
    found.reach = found.pixels.find(coordinates, found.taps);
    if constexpr (!kAreScattered) {
      if (found.reach == Reach::line) found.pixels.find_offsets_of_line();
    }
    set_to_zero(found.products);
    bool is_of_band = false;
    visit_interior_or_edge(found.reach, [&](auto reach) HWY_ATTR {
      is_of_band = this->template find_bits<reach>(found.pixels, found.taps, found.vector);
      if (is_of_band && wants_input_grad_)
        this->template find_runs<reach>(found.pixels, found.taps, found.vector, found.reach == Reach::line,
                                        found.runs);
    });
    return is_of_band;
  }

  HWY_NOINLINE void differentiate_group(Found& found, const Channels& channels) {
    const bool adds = wants_input_grad_ && found.vector.bits != 0;
    this->template with_gradients<T>(found.vector, channels, [&](const auto& gradient) HWY_ATTR {
      if (found.vector.owned != 0) {
        visit_reach<!kAreScattered>(found.reach, [&](auto reach) HWY_ATTR {
          prefetch_next_row<reach>(found.pixels, channels);
          add_products<reach>(found, channels, gradient);
        });
      }
      if (!adds) return;
      visit_interior_or_edge(found.reach, [&](auto reach) HWY_ATTR {
        add_to_sums<reach>(found.pixels, found.taps, found.vector, found.runs, channels, gradient);
      });
    });
  }

  template <Reach kReach, class Gradient>
  HWY_INLINE void add_products(Found& found, const Channels& channels, const Gradient& gradient) const {
    const D d;
    if constexpr (kAxes == 3) {
      Slopes<V, 3> sums = load_sums(found);
      add_slopes<kReach>(found.pixels, weights_of(found.taps), channels, gradient, sums);
      for (int k = 0; k < 3; ++k) hn::Store(sums.along[k], d, found.products[k]);
    } else {
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
  }

  static HWY_INLINE Slopes<V, 3> load_sums(const Found& found) {
    const D d;
    return {hn::Load(d, found.products[0]), hn::Load(d, found.products[1]), hn::Load(d, found.products[2])};
  }

  void store_slopes_of(const Found& found) const {
    if constexpr (kAxes == 3)
      return this->template store_slopes<T>(scaled(found.taps, load_sums(found)), found.vector);
    const auto load_products = [&](int row, V(&products)[4]) HWY_ATTR {
      for (int k = 0; k < 4; ++k) products[k] = hn::Load(D(), found.products[4 * row + k]);
    };
    if constexpr (kTaps == 2 && kAxes == 2) {
      V sums[4];
      load_products(0, sums);
      this->template store_slopes<T>(bilinear_slopes(found.taps, sums), found.vector);
    }
    if constexpr (kTaps == 4)
      this->template store_slopes<T>(bicubic_slopes(found.taps, load_products), found.vector);
  }

  template <Reach kReach, class Gradient>
  HWY_INLINE void add_to_sums(const Pixels& pixels, const Taps (&taps)[kAxes], const Vector& vector,
                              const Runs& runs, const Channels& channels, const Gradient& gradient) const {
    const auto weights = weights_of(taps);
    this->template add_terms<kReach>(
        pixels, taps, [&](int tap) HWY_ATTR { return weights.of(TapIndex<kTaps>(tap)); }, vector, runs,
        channels, gradient);
  }

  // ---- By the grid

  template <Reach kReach>
  HWY_INLINE void prefetch_next_row(const Pixels& pixels, const Channels& channels) const {
    for (int64_t channel = channels.begin; prefetches_ && channel < channels.end; channel += kTogether)
      pixels.template prefetch_next_row<kReach>(input_.template channel<T>(channel));
  }

  // The derivatives of a volume by the place, times the gradients.
  template <Reach kReach, class Gradient>
  HWY_INLINE void add_slopes(const Pixels& pixels, const TapWeights<D, 2, 3>& weights,
                             const Channels& channels, const Gradient& gradient, Slopes<V, 3>& sums) const {
    const T* from = input_.template channel<T>(channels.begin);
    for (int64_t channel = channels.begin; channel < channels.end; channel += kTogether) {
      V rows[kRows][2 * kTogether];
      for (int row = 0; row < kRows; ++row) load_any_row<kReach>(pixels, from, row, rows[row]);
      for (int c = 0; c < kTogether; ++c) {
        const auto value = [&](int k) HWY_ATTR { return rows[k / 2][k % 2 * kTogether + c]; };
        const Slopes<V, 3> slopes = trilinear_slopes(D(), weights, value);
        const V of_channel = gradient(channel + c);
        for (int k = 0; k < 3; ++k) sums.along[k] = hn::MulAdd(of_channel, slopes.along[k], sums.along[k]);
      }
      from += input_.channel_stride;
    }
    clear_unread<kReach>(pixels, sums.along);
  }

  // Of products with the differences of neighbouring pixels, which are exact where the products would cancel: right minus
  // left, above and below, then below minus above, left and right.
  template <Reach kReach, class Gradient>
  HWY_INLINE void sum_differences(const Pixels& pixels, const Channels& channels, const Gradient& gradient,
                                  V (&sums)[4]) const {
    set_to_zero(sums);
    const T* from = input_.template channel<T>(channels.begin);
    for (int64_t channel = channels.begin; channel < channels.end; channel += kTogether) {
      V above[2 * kTogether], below[2 * kTogether];
      if (kTogether > 1) load_again();
      load_any_row<kReach>(pixels, from, 0, above);
      load_any_row<kReach>(pixels, from, 1, below);
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
    clear_unread<kReach>(pixels, sums);
  }

  // Those of samples that read nothing: infinity times zero is no zero.
  template <Reach kReach, size_t kSums>
  static HWY_INLINE void clear_unread(const Pixels& pixels, V (&sums)[kSums]) {
    if constexpr (kReach == Reach::edge || kReach == Reach::pairs || kReach == Reach::line_at_edge) {
      const auto reads = mask_of(D(), pixels.samples_with_pixels());
      for (V& sum : sums) sum = hn::IfThenElseZero(reads, sum);
    }
  }

  static HWY_INLINE Slopes<V> bilinear_slopes(const Taps (&taps)[kAxes], V (&sums)[4]) {
    for (V& sum : sums) sum = hn::Add(sum, hn::Zero(D()));  // a product that vanished leaves no sign
    return slopes_of(taps, sums);
  }

  // Where a tap is the other pixel of a pair, the differences have the other sign, and the sums change places with those
  // of the tap that is no pixel.
  HWY_INLINE Slopes<V> slopes_of_pairs(const Taps (&pairs)[kAxes], V (&sums)[4]) const {
    const D d;
    Taps taps[kAxes] = {pairs[0], pairs[1]};
    const auto exchange = [](auto is_moved, V& a, V& b) HWY_ATTR {
      const V first = hn::IfThenElse(is_moved, b, a);
      b = hn::IfThenElse(is_moved, a, b);
      a = first;
    };
    const auto x_moved = pixels_.is_moved(0), y_moved = pixels_.is_moved(1);
    exchange(x_moved, taps[0].weight[0], taps[0].weight[1]);
    exchange(y_moved, taps[1].weight[0], taps[1].weight[1]);
    exchange(y_moved, sums[0], sums[1]);
    exchange(x_moved, sums[2], sums[3]);
    const V one = hn::Set(d, Real{1}), minus_one = hn::Neg(one);  // by which a NaN stays as it is
    for (int k = 0; k < 2; ++k) {
      sums[k] = hn::Mul(sums[k], hn::IfThenElse(x_moved, minus_one, one));
      sums[2 + k] = hn::Mul(sums[2 + k], hn::IfThenElse(y_moved, minus_one, one));
    }
    return bilinear_slopes(taps, sums);
  }

  // Of products with the pixels of one row.
  template <Reach kReach, class Gradient>
  HWY_INLINE void sum_products(const Pixels& pixels, int row, const Channels& channels,
                               const Gradient& gradient, V (&products)[4]) const {
    set_to_zero(products);
    const T* from = input_.template channel<T>(channels.begin);
    for (int64_t channel = channels.begin; channel < channels.end; channel += kTogether) {
      V of_row[4 * kTogether];
      load_any_row<kReach>(pixels, from, row, of_row);
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
  static HWY_INLINE Slopes<V> bicubic_slopes(const Taps (&taps)[kAxes], ProductsOf&& products_of) {
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
    return scaled(taps, {x_sum, y_sum});
  }

  const bool prefetches_;
  const bool takes_pairs_;  // both pixels of a pair are in the band if one is
};

// The gradient of the grid alone with the sums of by channels, which takes longer.
class GradOfLanes : public GradBySamples<float, 2, 1, false, 2> {
  static constexpr int kLanes = 4;

 public:
  using GradBySamples::GradBySamples;

  void differentiate(int64_t first, int64_t end, bool /*is_inside*/) {
    for (; first < end; first += kSamples)
      differentiate_vector({first, std::min(kSamples, end - first), true});
  }

 private:
  HWY_INLINE void differentiate_vector(Vector vector) {
    V coordinates[2];
    grid_.load(vector.first, vector.count, coordinates);
    Taps taps[2];
    visit_reach<true>(pixels_.find(coordinates, taps), [&](auto reach) HWY_ATTR {
      find_bits<reach>(pixels_, taps, vector);
      prefetch_gradients<reach>(vector);
      V lanes[4][kLanes];  // of each tap
      for (auto& of_tap : lanes) set_to_zero(of_tap);
      for (int64_t first = 0; first < 2 * kLanes; first += kLanes)
        add_to_lanes<reach>(vector, {first, std::min(first + kLanes, input_.channels)}, lanes);
      V sums[4];
      for (int tap = 0; tap < 4; ++tap) {
        const auto& of = lanes[tap];
        sums[tap] = hn::Add(hn::Add(of[0], of[2]), hn::Add(of[1], of[3]));
        if (reach == Reach::edge)
          sums[tap] = hn::IfThenElseZero(pixels_.is_pixel(tap / 2, tap % 2), sums[tap]);
      }
      store_slopes(slopes_of(taps, {hn::Sub(sums[1], sums[0]), hn::Sub(sums[3], sums[2]),
                                    hn::Sub(sums[2], sums[0]), hn::Sub(sums[3], sums[1])}),
                   vector);
    });
  }

  template <Reach kReach>
  HWY_INLINE void add_to_lanes(const Vector& vector, const Channels& group, V (&lanes)[4][kLanes]) const {
    with_gradients<float>(vector, group, [&](const auto& gradient) HWY_ATTR {
      for (int64_t k = 0; k < kLanes; ++k) {
        V pixels[2][2], of_channel = hn::Zero(D());
        for (auto& of_row : pixels) set_to_zero(of_row);
        if (const int64_t channel = group.begin + k; channel < group.end) {  // or zeros are added
          of_channel = gradient(channel);
          const float* from = input_.template channel<float>(channel);
          for (int row = 0; row < 2; ++row) load_any_row<kReach>(pixels_, from, row, pixels[row]);
        }
        for (int tap = 0; tap < 4; ++tap)
          lanes[tap][k] = hn::MulAdd(of_channel, pixels[tap / 2][tap % 2], lanes[tap][k]);
      }
    });
  }
};

template <class Kernel>
void run(const Sampling& sampling, const SamplesLayout& layout) {
  differentiate_images(sampling, layout, gradient_nanoseconds(sampling),
                       differentiate_band<Kernel, Sampling>);
}

template <class T, int kTaps, int kAxes>
void run_with_rows(const Sampling& sampling, const SamplesLayout& layout) {
  if constexpr (std::is_same_v<T, float> && kTaps == 2 && kAxes == 2) {
    if (sums_lanes(sampling)) return run<GradOfLanes>(sampling, layout);
  }
  if constexpr (kTellsLayouts) {
    const Image& input = sampling.input.first;
    const bool has_few_channels = sampling.channels <= kFewChannels;
    const bool has_plain_columns = sampling.has_plain_rows && input.column_stride == 1;
    if constexpr (std::is_same_v<T, float>) {
      if (sampling.has_plain_rows && has_interleaved_rows(input)) {
        return visit_interleaved(sampling.channels, [&](auto channels) {
          run<GradBySamples<T, kTaps, channels, false, kAxes>>(sampling, layout);
        });
      }
      if (!has_few_channels && input.channel_stride == 1 && sampling.channels % 4 == 0)
        return run<GradBySamples<T, kTaps, 4, true, kAxes>>(sampling, layout);
      if constexpr (kTaps == 2 && kAxes == 2) {
        // The sums of more channels are added in turn, so that none waits long. To look at the grid takes a part of the time
        // that few samples take.
        constexpr int64_t kMaxChannels = 2, kMinSamples = 1 << 15;
        const bool may_follow = has_plain_columns && sampling.channels <= kMaxChannels &&
                                sampling.wants_input_grad && sampling.batch * sampling.samples >= kMinSamples;
        if (may_follow && is_grid_turned(sampling))
          return run<GradBySamples<T, kTaps, 1, false, kAxes, true>>(sampling, layout);
      }
    }
    // Of images the 16-bit types are loaded one by one in any case.
    if (has_plain_columns && (kAxes == 3 || sizeof(T) != 2 || has_few_channels))
      return run<GradBySamples<T, kTaps, 1, false, kAxes>>(sampling, layout);
  } else if constexpr (std::is_same_v<T, float>) {
    if (sampling.has_plain_rows && sampling.input.first.column_stride == 1)
      return run<GradBySamples<T, kTaps, 1, false, kAxes>>(sampling, layout);
  }
  run<GradBySamples<T, kTaps, 1, true, kAxes>>(sampling, layout);
}

void run_by_samples(const Sampling& sampling, const SamplesLayout& layout) {
  visit_element_type(sampling.type, [&]<class T>(T) {
    if (sampling.axis_count == 3) return run_with_rows<T, 2, 3>(sampling, layout);
    sampling.interpolation == Interpolation::bicubic ? run_with_rows<T, 4, 2>(sampling, layout)
                                                     : run_with_rows<T, 2, 2>(sampling, layout);
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
  return size_of_workspace<SamplesLayout>(sampling);
}

void grad_by_samples(const Sampling& sampling, void* workspace) {
  WorkspaceAllocator allocator(workspace);
  const SamplesLayout layout(sampling, allocator);
  run_alike(sampling, [&](const Sampling& alike) { HWY_DYNAMIC_DISPATCH(run_by_samples)(alike, layout); });
}

}  // namespace aclgrad::ops::grid_sampler

#endif
