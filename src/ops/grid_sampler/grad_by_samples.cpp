// The gradient of grid sampling, vectorised over samples.
//
// Each task takes a band of rows of an image and goes through the samples that have to do with it, 16 at a time: with
// vectors of neighbouring pixels where the samples lie in lines, else with gathers and one sum after the other, which
// gives the same bits. float and double add up in input_grad itself; the 16-bit types in a buffer of floats, which is
// rounded in the end.
#include "ops/grid_sampler/grad.h"
#include "ops/grid_sampler/layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/grad_by_samples.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/lines-inl.h"
#include "ops/grid_sampler/samples-inl.h"
#include "ops/grid_sampler/sampling-inl.h"

#ifndef ACLGRAD_OPS_GRID_SAMPLER_2D_GRAD_BY_SAMPLES_
#define ACLGRAD_OPS_GRID_SAMPLER_2D_GRAD_BY_SAMPLES_
namespace aclgrad::ops::grid_sampler {

// Sizes that follow from the shape.
struct SamplesLayout {
  int64_t chunks;       // of samples, in an image
  int64_t bands;        // of an image
  int64_t band_floats;  // of the buffer of one band, for 16-bit types
  int64_t slots;        // bands that are worked on at the same time, at most

  explicit SamplesLayout(const GridSampler2DBackward& problem) {
    constexpr int64_t kEnoughTasks = 32;
    constexpr int64_t kLeastRows = 8;         // of a band: a sample next to its end is planned twice
    constexpr int64_t kLeastElements = 8192;  // of a band
    constexpr int64_t kMostSlots = 16;        // of 16-bit types

    const int64_t elements = problem.channels * std::max(samples_of(problem), pixels_of(problem));
    chunks = divide_up(samples_of(problem), kChunkSamples);
    bands = std::min(
        {divide_up(kEnoughTasks, problem.batch), problem.height / kLeastRows, elements / kLeastElements});
    bands = std::max<int64_t>(bands, 1);
    const bool adds_in_buffer = size_of(problem.type) == 2;
    slots = problem.batch * bands;
    if (adds_in_buffer) slots = std::min(slots, kMostSlots);
    band_floats = adds_in_buffer ? divide_up(problem.height, bands) * problem.width * problem.channels : 0;
  }
};

}  // namespace aclgrad::ops::grid_sampler
#endif

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

template <class T, int kTaps>
class GradBySamples {
 public:
  using Real = RealOf<T>;
  using Group = SampleGroup<Real, kTaps>;
  using Tag = GroupTag<Real>;
  using V = hn::Vec<Tag>;
  static constexpr bool kInPlace = std::is_same_v<T, Real>;
  static constexpr bool kDifferences = kTaps == 2;
  // Channels whose sums are updated side by side, each waiting for its own.
  static constexpr int64_t kBlock = 4;

  GradBySamples(const GridSampler2DBackward& problem, WorkspaceAllocator& allocator)
      : problem_(problem),
        layout_(problem),
        x_axis_(x_axis_of(problem, false)),
        y_axis_(y_axis_of(problem, false)),
        samples_(samples_of(problem)),
        gathers_(has_small_channels<Real>(input_image(0))) {
    if (!problem.wants_input_grad) return;
    ranges_ = allocator.take<RowSpan>(problem.batch * layout_.chunks);
    buffers_ = allocator.take<Real>(layout_.slots * layout_.band_floats);
  }

  void run() const {
    if (!problem_.wants_grid_grad) {
      differentiate<false>();
    } else if constexpr (kTaps > 1) {
      problem_.wants_input_grad ? differentiate<true>() : differentiate_grid();
    }
  }

 private:
  // An image of sums whose rows start at `first_row` of the image. They become zero when the samples come to them: so
  // they are in the cache when they are added to.
  struct Sums {
    Image<Real> rows;
    int64_t first_row;
    RowBand missing;  // rows yet to come

    int64_t offset(int64_t row, int64_t column) const { return rows.offset(row - first_row, column); }

    void zero_to(int64_t last_row) {
      const int64_t end = std::min(last_row + 1, missing.end);
      if (end <= missing.begin) return;
      zero_rows(rows, RowBand{missing.begin - first_row, end - first_row});
      missing.begin = end;
    }
  };

  // A band of rows of one image.
  struct Task {
    Image<const T> input;
    Image<const T> grad_output;
    Image<const T> grid;
    Image<T> grid_grad;
    RowBand band;
    Sums sums;
    bool is_contiguous;  // all of them
  };

  Task task_of(int64_t image, RowBand band, Sums sums) const {
    Task task{input_image(image),
              grad_output_image(image),
              grid_image(image),
              grid_grad_image(image),
              band,
              sums,
              false};
    task.is_contiguous = task.grad_output.has_contiguous_channels() &&
                         (!problem_.wants_grid_grad || task.input.column_stride == 1) &&
                         (!problem_.wants_input_grad || sums.rows.column_stride == 1);
    return task;
  }

  Image<const T> input_image(int64_t image) const {
    return image_of(static_cast<const T*>(problem_.input), problem_.input_strides, image, problem_.channels,
                    problem_.height, problem_.width);
  }

  Image<const T> grad_output_image(int64_t image) const {
    return image_of(static_cast<const T*>(problem_.grad_output), problem_.grad_output_strides, image,
                    problem_.channels, problem_.output_height, problem_.output_width);
  }

  Image<T> input_grad_image(int64_t image) const {
    return image_of(static_cast<T*>(problem_.input_grad), problem_.input_grad_strides, image,
                    problem_.channels, problem_.height, problem_.width);
  }

  Image<const T> grid_image(int64_t image) const {
    return grid_of(static_cast<const T*>(problem_.grid), problem_.grid_strides, image, problem_.output_height,
                   problem_.output_width);
  }

  Image<T> grid_grad_image(int64_t image) const {
    return grid_of(static_cast<T*>(problem_.grid_grad), problem_.grid_grad_strides, image,
                   problem_.output_height, problem_.output_width);
  }

  template <bool kGrid>
  void differentiate() const {
    // The fewer bands, the fewer samples lie in two; one thread needs none.
    constexpr int64_t kBandsPerThread = 4;
    const int64_t threads = thread_count();
    int64_t bands = layout_.bands;
    if (kInPlace)
      bands = threads == 1 ? 1 : std::min(bands, divide_up(threads * kBandsPerThread, problem_.batch));
    if (bands > 1) find_ranges();
    parallel_for_with_slots(problem_.batch * bands, layout_.slots, kernel_nanoseconds(problem_),
                            [&](int64_t task, int64_t slot) HWY_ATTR {
                              const int64_t image = task / bands;
                              const RowBand band = row_band(problem_.height, bands, task % bands);
                              differentiate_band<kGrid>(image, band, bands > 1,
                                                        buffers_ + slot * layout_.band_floats);
                            });
  }

  template <bool kGrid>
  void differentiate_band(int64_t image, RowBand band, bool has_ranges, Real* buffer) const {
    const Image<T> input_grad = input_grad_image(image);
    const int64_t rows = band.end - band.begin;
    const int64_t width = problem_.width;
    Sums sums;
    if constexpr (kInPlace) {
      sums = {input_grad, 0, band};
    } else {
      sums = {Image<Real>{buffer, problem_.channels, rows, width, rows * width, width, 1}, band.begin, band};
    }
    Task task = task_of(image, band, sums);
    for (int64_t chunk = 0; chunk < layout_.chunks; ++chunk) {
      const RowSpan range = has_ranges ? ranges_[image * layout_.chunks + chunk] : RowSpan{0, 0};
      if (!range.meets(band)) continue;
      go_through<true, kGrid>(task, chunk, range.first >= band.begin && range.last < band.end);
    }
    task.sums.zero_to(band.end - 1);
    if constexpr (!kInPlace) {
      for (int64_t channel = 0; channel < problem_.channels; ++channel) {
        T* to = input_grad.data + channel * input_grad.channel_stride;
        store_pixels(input_grad, to, band.begin * width, rows * width, buffer + channel * rows * width);
      }
    }
  }

  void differentiate_grid() const {
    parallel_for(problem_.batch * layout_.chunks, kernel_nanoseconds(problem_), [&](int64_t index) HWY_ATTR {
      Task task = task_of(index / layout_.chunks, RowBand{0, problem_.height}, Sums{});
      go_through<false, true>(task, index % layout_.chunks, true);
    });
  }

  void find_ranges() const {
    parallel_for(problem_.batch * layout_.chunks, 0.2 * kernel_nanoseconds(problem_),
                 [&](int64_t task) HWY_ATTR {
                   const int64_t first = task % layout_.chunks * kChunkSamples;
                   ranges_[task] = rows_of_samples<kTaps>(grid_image(task / layout_.chunks), y_axis_, first,
                                                          std::min(kChunkSamples, samples_ - first));
                 });
  }

  // A group with what its samples have to do. products[tap][sample] are sums of grad_output times the pixel of the tap,
  // or, bilinear, times the differences of neighbouring pixels: those are exact where the products would cancel.
  struct GroupTask {
    Group group;
    GroupLines<Tag, kTaps> lines;
    bool has_lines;
    int64_t first;  // sample
    int64_t count;
    uint32_t bits;   // of the samples that add to the band
    uint32_t owned;  // whose own gradients are wanted
    alignas(64) Real products[kTaps * kTaps][kGroup];
  };

  // Differentiates at the samples of a chunk, as far as they have to do with the band. Few channels at a time: so their
  // pixels stay in the cache from one group to the next.
  template <bool kInput, bool kGrid>
  void go_through(Task& task, int64_t chunk, bool is_inside) const {
    const int64_t begin = chunk * kChunkSamples;
    const int64_t end = std::min(samples_, begin + kChunkSamples);
    GroupTask groups[kChunkSamples / kGroup];
    // Planned all at once, so that the processor need not wait for one plan after the other.
    for (int64_t first = begin; first < end; first += kGroup) {
      plan<kInput, kGrid>(task, first, std::min<int64_t>(kGroup, end - first), is_inside,
                          groups[(first - begin) / kGroup]);
    }
    const GroupTask* groups_end = groups + divide_up(end - begin, kGroup);
    for (int64_t block = 0; block < problem_.channels; block += kBlock) {
      const int64_t channels = std::min(kBlock, problem_.channels - block);
      for (GroupTask* group = groups; group != groups_end; ++group) {
        if (group->has_lines) {
          differentiate_lines<kInput, kGrid>(task, *group, block, channels);
        } else if ((group->bits | group->owned) == 0) {
          continue;
        } else if (gathers_) {
          differentiate_group<kInput, kGrid, OffsetOf<Real>>(task, *group, block, channels);
        } else {
          differentiate_group<kInput, kGrid, int64_t>(task, *group, block, channels);
        }
      }
    }
    if constexpr (kGrid) {
      for (const GroupTask* group = groups; group != groups_end; ++group) {
        if (group->owned != 0) store_gradients(task, *group);
      }
    }
  }

  template <bool kInput, bool kGrid>
  HWY_INLINE void plan(Task& task, int64_t first, int64_t count, bool is_inside, GroupTask& group) const {
    const Axis x_axis = x_axis_;
    const Axis y_axis = y_axis_;
    plan_group(task.grid, x_axis, y_axis, first, count, group.group);
    group.first = first;
    group.count = count;
    const uint32_t all = (1u << count) - 1;
    const uint32_t bits = is_inside ? all : samples_of_band(group.group, count, task.band);
    group.bits = kInput ? bits : 0;
    group.owned = !kGrid ? 0 : is_inside ? all : bits & samples_owned(group.group, task.band);
    group.has_lines = false;
    if ((group.bits | group.owned) == 0) return;
    if constexpr (kInput) task.sums.zero_to(last_row_of(group.group));
    if constexpr (kGrid) {
      const Tag d;
      for (auto& of_tap : group.products) {
        for (size_t lane = 0; lane < kGroup; lane += hn::Lanes(d)) hn::Store(hn::Zero(d), d, of_tap + lane);
      }
    }
    if (kTaps == 4 || !task.is_contiguous || group.group.interior != kAllSamples) return;
    group.has_lines = group.lines.find(group.group, problem_.width);
    if (group.has_lines) prefetch<kInput, kGrid>(task, group.group, first);
  }

  // Asks for what the last sample of a group reads and adds to, where the grid is new to that: below, on the right.
  template <bool kInput, bool kGrid>
  static HWY_INLINE void prefetch(const Task& task, const Group& group, int64_t first) {
    const int64_t row = group.y.first[kGroup - 1] + kTaps - 1;
    const int64_t column = group.x.first[kGroup - 1] + kTaps - 1;
    for (int64_t c = 0; c < std::min(kBlock, task.grad_output.channels); ++c) {
      hwy::Prefetch(task.grad_output.data + c * task.grad_output.channel_stride + first + kGroup - 1);
      if constexpr (kGrid) {
        hwy::Prefetch(task.input.data + c * task.input.channel_stride + task.input.offset(row, column));
      }
      if constexpr (kInput) {
        if (!task.band.contains(row)) continue;
        const Image<Real>& sums = task.sums.rows;
        hwy::Prefetch(sums.data + c * sums.channel_stride + task.sums.offset(row, column));
      }
    }
  }

  // ---- Here the arithmetic is.

  // Adds gradient * differences of the 2 x 2 pixels value(row, column), in the order of bilinear_gradients().
  template <class V, class Value>
  static HWY_INLINE void add_differences(V gradient, V (&sums)[4], Value&& value) {
    const auto above_left = value(0, 0), above_right = value(0, 1);
    const auto below_left = value(1, 0), below_right = value(1, 1);
    sums[0] = hn::MulAdd(gradient, hn::Sub(above_right, above_left), sums[0]);
    sums[1] = hn::MulAdd(gradient, hn::Sub(below_right, below_left), sums[1]);
    sums[2] = hn::MulAdd(gradient, hn::Sub(below_left, above_left), sums[2]);
    sums[3] = hn::MulAdd(gradient, hn::Sub(below_right, above_right), sums[3]);
  }

  // Differentiates at the samples of a group by channels [block, block + channels).
  template <bool kInput, bool kGrid, class Offset>
  HWY_NOINLINE void differentiate_group(const Task& task, GroupTask& of, int64_t block,
                                        int64_t channels) const {
    const GroupTag<Real> d;
    const Group& group = of.group;
    const Image<const T>& input = task.input;
    const Image<const T>& grad_output = task.grad_output;
    const GroupPixels<Real, kTaps, Offset> pixels(group, input, x_axis_, y_axis_);
    alignas(64) Real terms[kBlock][kTaps][kTaps][kGroup];
    alignas(64) Real gradients[kBlock][kGroup];
    const T* first_gradients = grad_output.data + block * grad_output.channel_stride;
    if (channels == kBlock && of.count == kGroup) {
      load_four_channels(grad_output, first_gradients, of.first, gradients);
    } else {
      for (int64_t c = 0; c < channels; ++c) {
        load_pixels(grad_output, first_gradients + c * grad_output.channel_stride, of.first, of.count,
                    gradients[c]);
        std::fill(gradients[c] + of.count, gradients[c] + kGroup, Real{0});
      }
    }
    for (size_t lane = 0; lane < kGroup; lane += hn::Lanes(d)) {
      const auto weights = load_weights<GroupTag<Real>, kTaps>(d, group, lane);
      const T* first_channel = input.data + block * input.channel_stride;
      if constexpr (kGrid && kDifferences) {
        V differences[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
        V values[kBlock][kTaps][kTaps];
        pixels.load_channels(d, input, first_channel, channels, lane, values);
        for (int64_t c = 0; c < channels; ++c) {
          add_differences(hn::Load(d, gradients[c] + lane), differences,
                          [&](int row, int column) HWY_ATTR { return values[c][row][column]; });
        }
        for (int k = 0; k < 4; ++k) {
          hn::Store(hn::Add(hn::Load(d, of.products[k] + lane), differences[k]), d, of.products[k] + lane);
        }
      }
      for (int row = 0; row < kTaps; ++row) {
        for (int column = 0; column < kTaps; ++column) {
          auto product = hn::Zero(d);
          for (int64_t c = 0; c < channels; ++c) {
            const auto gradient = hn::Load(d, gradients[c] + lane);
            if constexpr (kGrid && !kDifferences) {
              const T* channel = first_channel + c * input.channel_stride;
              product = hn::MulAdd(gradient, pixels.gather_tap(d, channel, row, column, lane), product);
            }
            if constexpr (kInput) {
              hn::Store(hn::Mul(weights.of(row, column), gradient), d, terms[c][row][column] + lane);
            }
          }
          if constexpr (kGrid && !kDifferences) {
            Real* total = of.products[row * kTaps + column] + lane;
            // Infinity times zero is no zero.
            product = hn::IfThenElseZero(pixels.is_pixel(d, row, column, lane), product);
            hn::Store(hn::Add(hn::Load(d, total), product), d, total);
          }
        }
      }
    }
    if constexpr (kInput) add_terms(group, of.bits, task.band, block, channels, terms, task.sums);
  }

  // The same where the samples lie in lines.
  template <bool kInput, bool kGrid>
  HWY_INLINE static void differentiate_lines(const Task& task, GroupTask& of, int64_t block,
                                             int64_t channels) {
    const Tag d;
    for (size_t lane = 0; lane < kGroup; lane += hn::Lanes(d)) {
      of.lines.visit(lane, [&]([[maybe_unused]] const auto& lines) HWY_ATTR {
        if constexpr (kGrid && kDifferences) add_products(task, of, lines, lane, block, channels);
        if constexpr (kInput && kTaps <= 2) add_lines(task, of, lines, lane, block, channels);
      });
    }
  }

  template <int kLines>
  static HWY_INLINE void add_products(const Task& task, GroupTask& of, const Lines<Tag, kLines>& lines,
                                      size_t lane, int64_t block, int64_t channels) {
    const Tag d;
    const T* channel = task.input.data + block * task.input.channel_stride;
    const T* gradients = task.grad_output.data + block * task.grad_output.channel_stride + of.first + lane;
    V differences[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    for (int64_t c = 0; c < channels; ++c) {
      add_differences(load_lanes(d, gradients), differences, [&](int row, int column) HWY_ATTR {
        return lines.load_tap(d, channel, task.input.row_stride, row, column);
      });
      channel += task.input.channel_stride;
      gradients += task.grad_output.channel_stride;
    }
    for (int k = 0; k < 4; ++k) {
      Real* product = of.products[k] + lane;
      hn::Store(hn::Add(hn::Load(d, product), differences[k]), d, product);
    }
  }

  // A pixel of a line gets the right term of the sample before its own, then the left one of its own.
  template <int kLines>
  static HWY_INLINE void add_lines(const Task& task, const GroupTask& of, const Lines<Tag, kLines>& lines,
                                   size_t lane, int64_t block, int64_t channels) {
    const Tag d;
    const Group& group = of.group;
    const T* gradients = task.grad_output.data + block * task.grad_output.channel_stride + of.first + lane;
    constexpr auto kLast = hn::MaxLanes(Tag()) - 1;
    const Image<Real>& rows = task.sums.rows;
    const auto weights = load_weights<Tag, kTaps>(d, group, lane);
    V left[kTaps], right[kTaps];
    Real last_right[kTaps];
    for (int row = 0; row < kTaps; ++row) {
      left[row] = weights.of(row, 0);
      right[row] = previous_lanes(d, weights.of(row, kTaps - 1));
      last_right[row] = group.y.weight[row][lane + kLast] * group.x.weight[kTaps - 1][lane + kLast];
    }
    for (int k = 0; k < kLines; ++k) {
      const Line<Tag>& line = lines.line[k];
      bool has_row[kTaps];
      for (int row = 0; row < kTaps; ++row) has_row[row] = task.band.contains(line.row + row);
      Real* first_row = rows.data + block * rows.channel_stride + task.sums.offset(line.row, line.column);
      for (int64_t c = 0; c < channels; ++c, first_row += rows.channel_stride) {
        const T* of_channel = gradients + c * task.grad_output.channel_stride;
        const V gradient = lines.keep(k, load_lanes(d, of_channel));
        const V gradient_before = previous_lanes(d, gradient);
        for (int row = 0; row < kTaps; ++row) {
          if (!has_row[row]) continue;
          Real* to = first_row + row * rows.row_stride;
          V sum = hn::LoadU(d, to);
          if constexpr (kTaps == 2) sum = hn::Add(sum, hn::Mul(right[row], gradient_before));
          hn::StoreU(hn::Add(sum, hn::Mul(left[row], gradient)), d, to);
          if (kTaps == 2 && line.has_last_sample) {
            to[kLast + 1] += last_right[row] * to_real(of_channel[kLast]);
          }
        }
      }
    }
  }

  // Adds to input_grad what the samples whose bits are set give to channels [block, block + channels) of the band.
  void add_terms(const Group& group, uint32_t bits, RowBand band, int64_t block, int64_t channels,
                 const Real (&terms)[kBlock][kTaps][kTaps][kGroup], const Sums& sums) const {
    const int64_t row_stride = sums.rows.row_stride;
    const int64_t column_stride = sums.rows.column_stride;
    Real* first_channel = sums.rows.data + block * sums.rows.channel_stride;
    for (; bits != 0; bits &= bits - 1) {
      const auto i = static_cast<size_t>(__builtin_ctz(bits));
      const int64_t first_row = group.y.first[i];
      Real* to = first_channel;
      if ((group.interior >> i & 1) != 0 && first_row >= band.begin && first_row + kTaps <= band.end) {
        to += sums.offset(first_row, group.x.first[i]);
        for (int64_t c = 0; c < channels; ++c, to += sums.rows.channel_stride) {
          for (int row = 0; row < kTaps; ++row) {
            for (int column = 0; column < kTaps; ++column) {
              to[row * row_stride + column * column_stride] += terms[c][row][column][i];
            }
          }
        }
        continue;
      }
      const SampleTaps<kTaps> taps = sample_taps<kTaps>(group, i, x_axis_, y_axis_);
      for (int64_t c = 0; c < channels; ++c, to += sums.rows.channel_stride) {
        for (int row = 0; row < kTaps; ++row) {
          if (!band.contains(taps.row[row])) continue;
          for (int column = 0; column < kTaps; ++column) {
            if (taps.column[column] < 0) continue;
            to[sums.offset(taps.row[row], taps.column[column])] += terms[c][row][column][i];
          }
        }
      }
    }
  }

  static void store_gradients(const Task& task, const GroupTask& of) {
    const Tag d;
    alignas(64) Real x[kGroup];
    alignas(64) Real y[kGroup];
    for (size_t lane = 0; lane < kGroup; lane += hn::Lanes(d)) {
      const auto slopes = [&]() HWY_ATTR {
        if constexpr (kDifferences) {
          return bilinear_gradients(d, of.group, lane,
                                    [&](int k) HWY_ATTR { return hn::Load(d, of.products[k] + lane); });
        } else {
          return grid_gradients<kTaps>(d, of.group, lane, [&](int row, int column) HWY_ATTR {
            return hn::Load(d, of.products[row * kTaps + column] + lane);
          });
        }
      }();
      hn::Store(slopes.x, d, x + lane);
      hn::Store(slopes.y, d, y + lane);
    }
    store_grid_grad(task.grid_grad, of.first, of.owned, x, y);
  }

  const GridSampler2DBackward& problem_;
  const SamplesLayout layout_;
  const Axis x_axis_;
  const Axis y_axis_;
  const int64_t samples_;
  const bool gathers_;
  RowSpan* ranges_ = nullptr;  // [batch, chunks]
  Real* buffers_ = nullptr;    // [slots, band_floats]
};

template <class Function>
void visit_problem(const GridSampler2DBackward& problem, WorkspaceAllocator& allocator, Function&& function) {
  visit_element_type(problem.type, [&]<class T>(T) {
    visit_taps(problem.interpolation,
               [&](auto taps) { function(GradBySamples<T, taps>(problem, allocator)); });
  });
}

void run_by_samples(const GridSampler2DBackward& problem, void* workspace) {
  WorkspaceAllocator allocator(workspace);
  visit_problem(problem, allocator, [](auto&& grad) { grad.run(); });
}

size_t size_by_samples(const GridSampler2DBackward& problem) {
  WorkspaceAllocator allocator;
  visit_problem(problem, allocator, [](auto&&) {});
  return allocator.size();
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_by_samples);
HWY_EXPORT(size_by_samples);

}  // namespace

void grad_by_samples(const GridSampler2DBackward& problem, void* workspace) {
  HWY_DYNAMIC_DISPATCH(run_by_samples)(problem, workspace);
}

size_t grad_by_samples_workspace_size(const GridSampler2DBackward& problem) {
  return HWY_DYNAMIC_DISPATCH(size_by_samples)(problem);
}

}  // namespace aclgrad::ops::grid_sampler

#endif
