// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient's gradient, vectorised over samples. What a vector of them reads is found once for all channels, and for
// both images where these lie alike: the input and grad_grad_input.
#include <limits>

#include "ops/grid_sampler/grad_bands.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/double_backward_by_samples.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/double_backward-inl.h"
#include "ops/grid_sampler/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

bool lie_alike(const Image& a, const Image& b) {
  return a.row_stride == b.row_stride && a.column_stride == b.column_stride &&
         (a.depth == 1 || a.slice_stride == b.slice_stride);
}

// The one of which the base finds the pixels.
const Images& first_source(const DoubleBackward& sampling) {
  return sampling.has_grad_grad_grid ? sampling.input : sampling.grad_grad_input;
}

// One channel at a time: to read several together, where they lie side by side, gains less than a tenth with AVX-512, and at
// most a fifth with AVX2.
template <class Real, int kTaps, bool kAreScattered, int kAxes>
class DoubleBackwardBySamples : public SumsBySamples<Real, kTaps, 1, kAreScattered, kAxes> {
  using Base = SumsBySamples<Real, kTaps, 1, kAreScattered, kAxes>;
  using Base::kGroup, Base::kSamples, Base::grid_, Base::input_, Base::pixels_, Base::wants_input_grad_,
      Base::store_slopes;
  using typename Base::Channels, typename Base::D, typename Base::Pixels, typename Base::Runs,
      typename Base::Taps, typename Base::V, typename Base::Vector;

 public:
  DoubleBackwardBySamples(const DoubleBackward& sampling, int64_t image, RowBand band, const Sums& sums)
      : Base(sampling, first_source(sampling)[image], image, band, sums),
        along_(sampling.grad_grad_grid[image]),
        others_(sampling.grad_grad_input[image], sampling.axes, sampling.goes_up),  // NOLINT: as in the base
        sampling_(sampling),
        results_(sampling.grad_grad_output[image]),
        sources_{{sampling.has_grad_grad_grid, sampling.input[image]},
                 {sampling.has_grad_grad_input, sampling.grad_grad_input[image]}},
        prefetches_(outgrows_cache(sampling)),
        has_others_(sources_[0].given && sources_[1].given && !lie_alike(input_, sources_[1].image)) {}

  // Samples [first, end), all of them inside of the band or not.
  void differentiate(int64_t first, int64_t end, bool is_inside) {
    const int64_t max_vectors = input_.channels > kGroup ? kChunkSamples / kSamples : 1;
    this->differentiate_chunks(*this, first, end, is_inside, max_vectors);
  }

 private:
  static constexpr int kTapCount = kTapsOfSample<kTaps, kAxes>;
  using Curves = SampleCurves<D, kTaps, kAxes>;
  using Lanes = Real[kGroup][kSamples];

  // One of the two images that a sample reads.
  struct Source {
    bool given;
    Image image;
  };

  // What is found once for all channels.
  struct Work {
    Pixels pixels[2];  // of the sources, the first ones' if both lie alike
    Vector vector;
    Taps taps[kAxes];
    V along[kAxes];
    Runs runs;
    Reach reach[2];                                     // of the sources
    alignas(64) Real weights[2][kTapCount][kSamples];   // by which they are weighted
    alignas(64) Real products[2][kTapCount][kSamples];  // of grad_output and their pixels

    Work(const Pixels& first, const Pixels& second) : pixels{first, second} {}
  };

  friend Base;

  Work nothing_found() const { return Work(pixels_, others_); }

  // Returns whether the samples have to do with the band.
  HWY_NOINLINE bool find(Work& work) {
    const D d;
    V coordinates[kAxes];
    grid_.load(work.vector.first, work.vector.count, coordinates);
#pragma GCC unroll 1  // or it is compiled twice
    for (int source = has_others_ ? 1 : 0; source >= 0; --source)
      work.reach[source] = work.pixels[source].find(coordinates, work.taps);
    if (!has_others_) work.reach[1] = work.reach[0];
    if constexpr (!kAreScattered) {
      if (work.reach[0] == Reach::line) work.pixels[0].find_offsets_of_line();
    }
    bool is_of_band = false;
    visit_interior_or_edge(work.reach[0], [&](auto reach) HWY_ATTR {
      is_of_band = this->template find_bits<reach>(work.pixels[0], work.taps, work.vector);
      if (is_of_band && wants_input_grad_)
        this->template find_runs<reach>(work.pixels[0], work.taps, work.vector, work.reach[0] == Reach::line,
                                        work.runs);
    });
    if (!is_of_band) return false;
    find_tangents_of(work, work.along);
    if (!are_moderate(work.along)) work.runs.count = 0;
    const Curves curves(d, work.taps, work.along);
    for (int k = 0; k < kTapCount; ++k) {
      hn::Store(curves.weight_along(TapIndex<kTaps>(k)), d, work.weights[0][k]);
      hn::Store(curves.weight(TapIndex<kTaps>(k)), d, work.weights[1][k]);
    }
    for (auto& products : work.products) set_to_zero(products);
    return true;
  }

  HWY_NOINLINE void differentiate_group(Work& work, const Channels& channels) const {
    const Vector& vector = work.vector;
    alignas(64) Lanes gradients, results;
    set_to_zero(results);
    visit_type<Real>(sampling_.type, [&]<class T>(T) HWY_ATTR {
      this->template with_gradients<T>(vector, channels, [&](const auto& gradient) HWY_ATTR {
        for (int64_t c = channels.begin; c < channels.end; ++c)
          hn::Store(gradient(c), D(), gradients[c - channels.begin]);
      });
      for (int source = 0; vector.owned != 0 && source < 2; ++source) {
        if (sources_[source].given) read<T>(work, source, channels, gradients, results);
      }
    });
    if (vector.owned != 0 && sampling_.wants_grad_grad_output) store_results(vector, channels, results);
    if (vector.bits == 0 || !wants_input_grad_) return;
    visit_interior_or_edge(work.reach[0], [&](auto reach) HWY_ATTR {
      this->template add_terms<reach>(
          work.pixels[0], work.taps, [&](int tap) HWY_ATTR { return hn::Load(D(), work.weights[0][tap]); },
          vector, work.runs, channels,
          [&](int64_t c) HWY_ATTR { return hn::Load(D(), gradients[c - channels.begin]); });
    });
  }

  HWY_NOINLINE void store_slopes_of(const Work& work) const {
    if (!sampling_.wants_grid_grad) return;
    const auto products_of = [&](int source) HWY_ATTR {
      return [&work, source](int k) HWY_ATTR { return hn::Load(D(), work.products[source][k]); };
    };
    const Curves curves(D(), work.taps, work.along);
    store_slopes(curves.grid_gradient(D(), products_of(0), products_of(1)), work.vector);
  }

  // grad_grad_grid in pixels. A sample that reads nothing has none, and neither has one along an axis on which it is
  // clipped, whatever grad_grad_grid is: infinity times zero is no zero.
  HWY_INLINE void find_tangents_of(const Work& work, V (&along)[kAxes]) {
    const D d;
    set_to_zero(along);
    if (sampling_.has_grad_grad_grid) along_.load(work.vector.first, work.vector.count, along);
    for (int axis = 0; axis < kAxes; ++axis) {
      const V scale = work.taps[axis].scale;
      const auto moves = hn::And(mask_of(d, work.vector.bits), hn::Ne(scale, hn::Zero(d)));
      along[axis] = hn::IfThenElseZero(moves, hn::Mul(scale, along[axis]));
    }
  }

  // Whether all weights are finite, so that lanes of other runs add zero: infinity times zero is no zero.
  static HWY_INLINE bool are_moderate(const V (&along)[kAxes]) {
    constexpr Real kMax = std::numeric_limits<Real>::max() / 4;
    bool are_small = true;
    for (const V& of_axis : along)
      are_small &= hn::AllTrue(D(), hn::Lt(hn::Abs(of_axis), hn::Set(D(), kMax)));
    return are_small;
  }

  // What a source gives to the results and to the products.
  template <class T>
  HWY_NOINLINE void read(Work& work, int source, const Channels& channels, const Lanes& gradients,
                         Lanes& results) const {
    const D d;
    const Pixels& pixels = work.pixels[has_others_ ? source : 0];
    const Image& image = sources_[source].image;
    visit_reach<!kAreScattered>(work.reach[source], [&](auto reach) HWY_ATTR {
      for (int64_t channel = channels.begin; prefetches_ && channel < channels.end; ++channel)
        pixels.template prefetch_next_row<reach>(image.template channel<T>(channel));
      for (int row = 0; row < Pixels::kRows; ++row) {
        const Real(*weights)[kSamples] = work.weights[source] + row * kTaps;
        V products[kTaps];
        set_to_zero(products);
        for (int64_t channel = channels.begin; channel < channels.end; ++channel) {
          V of_row[kTaps];
          load_any_row<reach>(pixels, image.template channel<T>(channel), row, of_row);
          const int64_t k = channel - channels.begin;
          const V gradient = hn::Load(d, gradients[k]);
          V result = hn::Load(d, results[k]);
          for (int tap = 0; tap < kTaps; ++tap) {
            products[tap] = hn::MulAdd(gradient, of_row[tap], products[tap]);
            result = hn::MulAdd(hn::Load(d, weights[tap]), of_row[tap], result);
          }
          hn::Store(result, d, results[k]);
        }
        for (int tap = 0; tap < kTaps; ++tap) {
          // Infinity times zero is no zero.
          if (reach == Reach::edge)
            products[tap] = hn::IfThenElseZero(pixels.is_pixel(row, tap), products[tap]);
          Real* total = work.products[source][row * kTaps + tap];
          hn::Store(hn::Add(hn::Load(d, total), products[tap]), d, total);
        }
      }
    });
  }

  void store_results(const Vector& vector, const Channels& channels, const Lanes& results) const {
    const int64_t count = channels.end - channels.begin;
    const auto store = [&](int64_t first, int64_t samples) {
      store_pixels(results_, channels.begin, count, vector.first + first, samples, results[0] + first,
                   kSamples);
    };
    if (vector.owned == (uint64_t{1} << vector.count) - 1) return store(0, vector.count);
    for (uint32_t bits = vector.owned; bits != 0; bits &= bits - 1) store(__builtin_ctz(bits), 1);
  }

  GridReader<Real, kAxes> along_;
  Pixels others_;
  const DoubleBackward& sampling_;
  const Image results_;
  const Source sources_[2];
  const bool prefetches_;
  const bool has_others_;  // whose offsets are not those of the first
};

template <class Real, int kTaps, int kAxes>
void run_with_rows(const DoubleBackward& sampling, const SamplesLayout& layout) {
  const auto run = [&](auto are_scattered) {
    using Kernel = DoubleBackwardBySamples<Real, kTaps, are_scattered, kAxes>;
    differentiate_images(sampling, layout, double_backward_nanoseconds(sampling),
                         differentiate_band<Kernel, DoubleBackward>);
  };
  if constexpr (kTellsLayouts) {
    const auto has_plain_columns = [](const Image& image) {
      return image.column_stride == 1 && has_plain_rows(image);
    };
    if ((!sampling.has_grad_grad_grid || has_plain_columns(sampling.input.first)) &&
        (!sampling.has_grad_grad_input || has_plain_columns(sampling.grad_grad_input.first)))
      return run(std::false_type());
  }
  run(std::true_type());
}

void run_double_backward_by_samples(const DoubleBackward& sampling, const SamplesLayout& layout) {
  const auto run = [&]<class Real>(Real) {
    if (sampling.axis_count == 3) return run_with_rows<Real, 2, 3>(sampling, layout);
    sampling.interpolation == Interpolation::bicubic ? run_with_rows<Real, 4, 2>(sampling, layout)
                                                     : run_with_rows<Real, 2, 2>(sampling, layout);
  };
  sampling.type == DataType::float64 ? run(double{}) : run(float{});
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_double_backward_by_samples);

}  // namespace

size_t double_backward_by_samples_workspace_size(const DoubleBackward& sampling) {
  return size_of_workspace<SamplesLayout>(sampling);
}

void double_backward_by_samples(const DoubleBackward& sampling, void* workspace) {
  WorkspaceAllocator allocator(workspace);
  const SamplesLayout layout(sampling, allocator);
  run_alike(sampling, [&](const DoubleBackward& alike) {
    HWY_DYNAMIC_DISPATCH(run_double_backward_by_samples)(alike, layout);
  });
}

}  // namespace aclgrad::ops::grid_sampler

#endif
