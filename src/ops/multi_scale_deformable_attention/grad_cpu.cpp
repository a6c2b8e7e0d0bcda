// The gradient of multi-scale deformable attention on the CPU.
//
// A task owns one head of one batch: no other task adds to its rows of grad_value. It copies the head's rows
// of value to a plane of the workspace, where they lie side by side, sums grad_value in floats beside them,
// and rounds that to the output at the end. In the tensors the rows of a head are mostly a power of two of
// bytes apart, which would leave them a small part of each cache. A thread uses one plane for all its tasks,
// so that the plane stays in the cache.
//
// With few heads for each thread, the levels of a head are shared out between tasks, as long as none overlap;
// this leaves the order of every sum as it is. With few heads in all, the queries are cut into pieces, by the
// problem's shape alone; each piece sums in a plane of its own, and a second pass adds the planes in order.
#include "ops/multi_scale_deformable_attention/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/multi_scale_deformable_attention/grad_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd-inl.h"
#include "ops/multi_scale_deformable_attention/sampling-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::multi_scale_deformable_attention::HWY_NAMESPACE {

// ---- A query's row of grad_output, in chunks of 16 channels

template <int kChunks>
struct RegisterRow {
  Float16Lanes chunks[kChunks];

  template <class T>
  HWY_INLINE RegisterRow(const T* from, int64_t) {
    for (int64_t i = 0; i < kChunks; ++i) chunks[i] = load16(from + kChunkChannels * i);
  }
  static constexpr int64_t size() { return kChunks; }
  HWY_INLINE const Float16Lanes& operator[](int64_t i) const { return chunks[i]; }
};

template <class T>
struct MemoryRow {
  const T* from;
  int64_t chunks;
  Float16Lanes last;

  HWY_INLINE MemoryRow(const T* row, int64_t channels) : from(row), chunks(chunks_of(channels)) {
    const T* last_chunk = from + kChunkChannels * (chunks - 1);
    const auto count = static_cast<size_t>(from + channels - last_chunk);
    last = count == kChunkChannels ? load16(last_chunk) : load16(last_chunk, count);
  }
  int64_t size() const { return chunks; }
  HWY_INLINE Float16Lanes operator[](int64_t i) const {
    return i + 1 < chunks ? load16(from + kChunkChannels * i) : last;
  }
};

// ---- Points

// Which gradients a kernel computes: those of value, and those of the points' locations and attention weights.
enum class Gradients { all, of_value, of_points };

// One row of a head, of value and of the sums of its gradient.
template <class T>
struct Pixel {
  const T* value;
  float* grad_value;
};

// The rows of a head where they may lie any distance apart.
template <class T>
struct StridedPixels {
  const T* value;
  int64_t value_stride;
  float* grad_value;
  int64_t grad_stride;

  StridedPixels(const HeadTask& task, const GradPlanes& planes)
      : value(static_cast<const T*>(task.value)),
        value_stride(task.value_stride),
        grad_value(planes.first),
        grad_stride(planes.row_stride) {}

  HWY_INLINE Pixel<T> operator[](int64_t row) const {
    return {value + row * value_stride, grad_value + row * grad_stride};
  }
  HWY_INLINE Pixel<T> right_of(const Pixel<T>& pixel) const {
    return {pixel.value + value_stride, pixel.grad_value + grad_stride};
  }
};

// The rows of a head in a plane, each of value beside its sums: all addresses of a point follow from two, by distances that
// the compiler knows.
template <class T, int64_t kChunks>
struct PackedPixels {
  static constexpr int64_t kChannels = kChunks * kChunkChannels;
  static constexpr int64_t kValueBytes = kChannels * static_cast<int64_t>(sizeof(T));
  static constexpr int64_t kRowBytes = kValueBytes + kChannels * static_cast<int64_t>(sizeof(float));

  std::byte* first;

  PackedPixels(const HeadTask&, const GradPlanes& planes)
      : first(reinterpret_cast<std::byte*>(planes.first) - kValueBytes) {}

  HWY_INLINE Pixel<T> operator[](int64_t row) const {
    std::byte* at = first + row * kRowBytes;
    return {reinterpret_cast<const T*>(at), reinterpret_cast<float*>(at + kValueBytes)};
  }
  HWY_INLINE Pixel<T> right_of(const Pixel<T>& pixel) const {
    return {pixel.value + kRowBytes / sizeof(T), pixel.grad_value + kRowBytes / sizeof(float)};
  }
};

// One corner of a point: adds weight * row to the gradient of its pixel. Returns row * value, a chunk's lanes summed over
// the chunks.
template <Gradients kGradients, class Row, class T>
HWY_INLINE Float16Lanes visit_corner(const Row& row, float weight, const Pixel<T>& pixel) {
  const Float16Lanes weights = broadcast16(weight);
  Float16Lanes product = zero16();
  for (int64_t i = 0; i < row.size(); ++i) {
    const Float16Lanes& chunk = row[i];
    if constexpr (kGradients != Gradients::of_value) {
      const Float16Lanes v = load16(pixel.value + kChunkChannels * i);
      product = i == 0 ? multiply(chunk, v) : multiply_add(chunk, v, product);
    }
    if constexpr (kGradients != Gradients::of_points) {
      float* sums = pixel.grad_value + kChunkChannels * i;
      store16(multiply_add(weights, chunk, load16(sums)), sums);
    }
  }
  return product;
}

// The inner products of a query's row with the four corners of point i, each as four partial sums.
template <Gradients kGradients, class Row, class Pixels>
HWY_INLINE Float16Lanes visit_point(const Row& row, const Samples& samples, int64_t i, const Pixels& pixels) {
  if (HWY_LIKELY(samples.is_interior[i] != 0)) {
    const auto above = pixels[samples.row[0][i]];
    const auto below = pixels[samples.row[2][i]];
    const auto product0 = visit_corner<kGradients>(row, samples.weight[0][i], above);
    const auto product1 = visit_corner<kGradients>(row, samples.weight[1][i], pixels.right_of(above));
    const auto product2 = visit_corner<kGradients>(row, samples.weight[2][i], below);
    const auto product3 = visit_corner<kGradients>(row, samples.weight[3][i], pixels.right_of(below));
    return sum16_to_4(product0, product1, product2, product3);
  }
  Float16Lanes products[4];
  for (int corner = 0; corner < 4; ++corner) {
    const int64_t pixel = samples.row[corner][i];
    products[corner] =
        pixel < 0 ? zero16() : visit_corner<kGradients>(row, samples.weight[corner][i], pixels[pixel]);
  }
  return sum16_to_4(products[0], products[1], products[2], products[3]);
}

// The inner products of each point with its corners, a run of points for each corner, from four partial sums for each.
using CornerProducts = float[4][kBlockPoints];

HWY_INLINE void add_partial_sums(const float* partial, int64_t count, CornerProducts& products) {
  for (int64_t i = 0; i < count; i += 4, partial += 64) {
    HWY_ALIGN float sums[16];
    store16(sum4(load16(partial), load16(partial + 16), load16(partial + 32), load16(partial + 48)), sums);
    for (int corner = 0; corner < 4; ++corner) std::memcpy(products[corner] + i, sums + 4 * corner, 16);
  }
}

// From the inner products of each point with its corners, grad_location in place of location and
// grad_attention_weight in place of attention.
HWY_INLINE void finish_points(const CornerProducts& products, int64_t count, Samples& samples) {
  const FloatTag d;
  const auto one = hn::Set(d, 1.0f);
  for (int64_t i = 0; i < count; i += kLanes) {
    const auto above_left = hn::Load(d, products[0] + i);
    const auto above_right = hn::Load(d, products[1] + i);
    const auto below_left = hn::Load(d, products[2] + i);
    const auto below_right = hn::Load(d, products[3] + i);
    const auto right = hn::Load(d, samples.x_fraction + i);
    const auto below = hn::Load(d, samples.y_fraction + i);
    const auto left = hn::Sub(one, right);
    const auto above = hn::Sub(one, below);
    const auto attention = hn::Load(d, samples.attention + i);
    const auto x_slope =
        hn::MulAdd(below, hn::Sub(below_right, below_left), hn::Mul(above, hn::Sub(above_right, above_left)));
    const auto y_slope =
        hn::MulAdd(right, hn::Sub(below_right, above_right), hn::Mul(left, hn::Sub(below_left, above_left)));
    const auto x_scale = hn::Mul(attention, hn::Load(d, samples.width + i));
    const auto y_scale = hn::Mul(attention, hn::Load(d, samples.height + i));
    hn::StoreInterleaved2(hn::Mul(x_scale, x_slope), hn::Mul(y_scale, y_slope), d, samples.location + 2 * i);
    const auto value_above = hn::MulAdd(right, above_right, hn::Mul(left, above_left));
    const auto value_below = hn::MulAdd(right, below_right, hn::Mul(left, below_left));
    hn::Store(hn::MulAdd(below, value_below, hn::Mul(above, value_above)), d, samples.attention + i);
  }
}

// Where few rows are ever sampled: sets those to zero that the points are the first to touch, and asks for
// their values, which no cache holds yet.
template <class T>
HWY_INLINE void touch_rows(const Samples& samples, int64_t points, int64_t channels,
                           const StridedPixels<T>& pixels, bool* is_touched) {
  constexpr auto kLine = static_cast<int64_t>(64 / sizeof(T));
  for (int64_t i = 0; i < points; ++i) {
    for (const auto& rows : samples.row) {
      const int64_t row = rows[i];
      if (row < 0 || is_touched[row]) continue;
      is_touched[row] = true;
      const auto [value, grad_value] = pixels[row];
      for (int64_t c = 0; c < channels; c += kLine) hwy::Prefetch(value + c);
      for (int64_t c = 0; c < channels; c += kChunkChannels) store16(zero16(), grad_value + c);
    }
  }
}

template <class T, Gradients kGradients, class Row, class Pixels>
void accumulate_typed(const MultiScaleDeformableAttentionBackward& problem, const HeadTask& task,
                      const GradPlanes& planes) {
  const auto grad_output = runs_of<T>(problem.grad_output, task, 0, problem.channels());
  HWY_ALIGN float partial_sums[16 * kBlockPoints] = {};
  HWY_ALIGN CornerProducts products = {};
  for_each_block<T>(problem, task, [&](const Block& block, Samples& samples) HWY_ATTR {
    // Copies of its own, or the compiler would read them again after each store.
    const Pixels pixels(task, planes);
    const auto [first_query, queries, first_point, points] = block;
    if constexpr (std::is_same_v<Pixels, StridedPixels<T>>) {
      if (planes.is_touched != nullptr)
        touch_rows(samples, queries * points, problem.channels(), pixels, planes.is_touched);
    }
    prefetch_runs<T>(grad_output, first_query + queries,
                     std::min(first_query + 2 * queries, task.last_query));
    for (int64_t q = 0; q < queries; ++q) {
      const Row row(grad_output.of(first_query + q), problem.channels());
      for (int64_t p = 0; p < points; ++p) {
        const int64_t i = q * points + p;
        store16(visit_point<kGradients>(row, samples, i, pixels), partial_sums + 16 * i);
      }
    }
    if (kGradients == Gradients::of_value) return;
    add_partial_sums(partial_sums, queries * points, products);
    finish_points(products, queries * points, samples);
    if (problem.grad_sampling_locations.defined()) {
      write_runs<T>(samples.location,
                    runs_of<T>(problem.grad_sampling_locations, task, 2 * first_point, 2 * points),
                    first_query, queries);
    }
    if (problem.grad_attention_weights.defined()) {
      write_runs<T>(samples.attention, runs_of<T>(problem.grad_attention_weights, task, first_point, points),
                    first_query, queries);
    }
  });
}

template <class T, Gradients kGradients>
void accumulate_gradients(const MultiScaleDeformableAttentionBackward& problem, const HeadTask& task,
                          const GradPlanes& planes) {
  const auto in_registers = [&]<int64_t kChunks>(std::integral_constant<int64_t, kChunks>) {
    using Row = RegisterRow<kChunks>;
    if constexpr (kGradients == Gradients::all) {
      if (packs_value(problem))
        return accumulate_typed<T, kGradients, Row, PackedPixels<T, kChunks>>(problem, task, planes);
    }
    accumulate_typed<T, kGradients, Row, StridedPixels<T>>(problem, task, planes);
  };
  switch (problem.channels()) {
    case 16:
      return in_registers(std::integral_constant<int64_t, 1>());
    case 32:
      return in_registers(std::integral_constant<int64_t, 2>());
    case 64:
      return in_registers(std::integral_constant<int64_t, 4>());
    default:
      return accumulate_typed<T, kGradients, MemoryRow<T>, StridedPixels<T>>(problem, task, planes);
  }
}

void accumulate(const MultiScaleDeformableAttentionBackward& problem, const HeadTask& task,
                const GradPlanes& planes) {
  visit_float_type(problem.value.type, [&]<class T>(T) {
    if (!wants_samples(problem)) {
      accumulate_gradients<T, Gradients::of_value>(problem, task, planes);
    } else if (!problem.grad_value.defined()) {
      accumulate_gradients<T, Gradients::of_points>(problem, task, planes);
    } else {
      accumulate_gradients<T, Gradients::all>(problem, task, planes);
    }
  });
}

// ---- Output

// One head's rows of grad_value.
template <class T>
struct OutputRows {
  T* first;
  int64_t stride;
  int64_t channels;
  bool has_whole_lines;

  OutputRows(const MultiScaleDeformableAttentionBackward& problem, int64_t batch, int64_t head)
      : first(static_cast<T*>(problem.grad_value.data) + batch * problem.grad_value.stride(0) +
              head * problem.grad_value.stride(2)),
        stride(problem.grad_value.stride(1)),
        channels(problem.channels()) {
    constexpr auto kLine = static_cast<int64_t>(64 / sizeof(T));
    has_whole_lines =
        reinterpret_cast<uintptr_t>(first) % 64 == 0 && stride % kLine == 0 && channels % kLine == 0;
  }

  // Rounds a chunk to the output. Whole lines of 64 bytes go past the caches, which have no use for them.
  HWY_INLINE void store(const Float16Lanes& chunk, int64_t row, int64_t channel) const {
    T* to = first + row * stride + channel;
    if (has_whole_lines) {
      stream16(chunk, to);
    } else if (channels - channel >= kChunkChannels) {
      store16(chunk, to);
    } else {
      store16(chunk, to, static_cast<size_t>(channels - channel));
    }
  }
};

// Adds the planes of all pieces of one head and rounds the sums to rows of grad_value.
template <class T>
void store_typed(const MultiScaleDeformableAttentionBackward& problem, int64_t batch, int64_t head,
                 RowRange rows, const GradPlanes& planes) {
  const OutputRows<T> output(problem, batch, head);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    if (planes.is_touched != nullptr && !planes.is_touched[row]) continue;
    for (int64_t c = 0; c < problem.channels(); c += kChunkChannels) {
      const float* from = planes.first + row * planes.row_stride + c;
      Float16Lanes sum = load16(from);
      for (int64_t piece = 1; piece < planes.count; ++piece)
        sum = add(sum, load16(from + piece * planes.stride));
      output.store(sum, row, c);
    }
  }
  hwy::FlushStream();
}

void store_rows_of_head(const MultiScaleDeformableAttentionBackward& problem, int64_t batch, int64_t head,
                        RowRange rows, const GradPlanes& planes) {
  visit_float_type(problem.value.type,
                   [&]<class T>(T) { store_typed<T>(problem, batch, head, rows, planes); });
}

// Sets rows of all heads to zero in the order of memory, which is several times as fast as head by head.
template <class T>
void clear_typed(const MultiScaleDeformableAttentionBackward& problem, int64_t batch, RowRange rows) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    for (int64_t head = 0; head < problem.heads(); ++head) {
      const OutputRows<T> output(problem, batch, head);
      for (int64_t c = 0; c < problem.channels(); c += kChunkChannels) output.store(zero16(), row, c);
    }
  }
  hwy::FlushStream();
}

void clear_rows(const MultiScaleDeformableAttentionBackward& problem, int64_t batch, RowRange rows) {
  visit_float_type(problem.value.type, [&]<class T>(T) { clear_typed<T>(problem, batch, rows); });
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <array>
#include <cstring>

#include "base/divide.h"
#include "base/parallel.h"
#include "ops/multi_scale_deformable_attention/double_cpu.h"

namespace aclgrad::ops::multi_scale_deformable_attention {
namespace {

HWY_EXPORT(accumulate);
HWY_EXPORT(store_rows_of_head);
HWY_EXPORT(clear_rows);

// Heads, over all batches, from which on the queries stay in one piece.
constexpr int64_t kEnoughHeads = 8;

// Levels that are told apart when they are shared out.
constexpr size_t kMaxSharedLevels = 64;

// How the workspace is used. Depends on the problem's shape alone.
struct Layout {
  int64_t heads;   // over all batches
  int64_t pieces;  // of the queries
  // Of value in a row of a plane, 0 if value stays in the tensor or is not read. The sums of grad_value come
  // after it.
  int64_t value_bytes;
  int64_t row_bytes;
  // Most rows of grad_value are never touched. Which ones are is noted behind the rows of a plane.
  bool is_sparse;
  int64_t plane_bytes;

  explicit Layout(const MultiScaleDeformableAttentionBackward& problem)
      : heads(problem.batches() * problem.heads()), pieces(1) {
    const int64_t samples = problem.queries() * problem.levels() * problem.samples();
    if (heads < kEnoughHeads) {
      // A plane costs about as much as two samples for each of its rows.
      const int64_t wanted = divide_up(kEnoughHeads, heads);
      const int64_t worthwhile = samples / (8 * std::max<int64_t>(1, problem.rows()));
      pieces = std::clamp<int64_t>(worthwhile, 1, wanted);
    }
    value_bytes = wants_samples(problem) && packs_value(problem) ? packed_row_bytes(problem) : 0;
    row_bytes = value_bytes;
    if (problem.grad_value.defined()) {
      row_bytes += chunks_of(problem.channels()) * kChunkChannels * static_cast<int64_t>(sizeof(float));
    }
    is_sparse = problem.grad_value.defined() && !packs_value(problem);
    const int64_t bytes = problem.rows() * (row_bytes + (is_sparse ? static_cast<int64_t>(sizeof(bool)) : 0));
    plane_bytes = divide_up(bytes, 64) * 64;
  }

  int64_t planes() const { return heads * pieces; }
};

// Cuts the rows of value into one range for each level, which holds all rows of that level. False where that
// cannot be, because levels overlap or lie in descending order.
bool share_rows(const MultiScaleDeformableSampling& problem, std::array<RowRange, kMaxSharedLevels>& ranges) {
  if (problem.levels() > static_cast<int64_t>(kMaxSharedLevels)) return false;
  int64_t end = 0;
  for (int64_t l = 0; l < problem.levels(); ++l) {
    RowRange& range = ranges[static_cast<size_t>(l)];
    range = {end, end};
    const Level level(problem, l);
    if (level.empty()) continue;
    const RowRange inside = level.rows_inside(problem.rows());
    if (inside.begin < end) return false;
    end = range.end = inside.end;
  }
  ranges[static_cast<size_t>(problem.levels() - 1)].end = problem.rows();
  return true;
}

class Gradient {
 public:
  Gradient(const MultiScaleDeformableAttentionBackward& problem, void* workspace)
      : problem_(problem), layout_(problem), workspace_(static_cast<std::byte*>(workspace)) {}

  void run() {
    if (layout_.is_sparse) clear_grad_value();
    groups_ = level_groups();
    const int64_t tasks = layout_.planes() * groups_;
    // A task that stores its own sums leaves its plane to the next task of the same thread, still in the
    // cache.
    const bool reuses_planes = layout_.pieces == 1 && thread_count() <= layout_.planes();
    parallel_for_with_slots(tasks, reuses_planes ? layout_.planes() : tasks, kernel_nanoseconds(problem_),
                            [&](int64_t task, int64_t slot) {
                              const int64_t share = task / groups_;
                              run_task(share, task % groups_, plane(reuses_planes ? slot : share));
                            });
    if (layout_.pieces > 1 && problem_.grad_value.defined()) add_pieces();
  }

 private:
  // Into how many tasks the levels of a head are shared out. More tasks make up for threads that are not
  // equally fast, fewer read the points of a query together.
  int64_t level_groups() {
    constexpr int64_t kTasksPerThread = 4;
    const int64_t wanted = kTasksPerThread * thread_count() / layout_.planes();
    if (thread_count() == 1 || wanted <= 1 || !share_rows(problem_, level_rows_)) return 1;
    return std::min(wanted, problem_.levels());
  }

  std::byte* plane(int64_t index) const { return workspace_ + index * layout_.plane_bytes; }

  GradPlanes grad_planes(std::byte* first_plane) const {
    const auto floats = [](int64_t bytes) { return bytes / static_cast<int64_t>(sizeof(float)); };
    auto* is_touched = reinterpret_cast<bool*>(first_plane + problem_.rows() * layout_.row_bytes);
    return {reinterpret_cast<float*>(first_plane + layout_.value_bytes), floats(layout_.row_bytes),
            layout_.pieces, floats(layout_.plane_bytes), layout_.is_sparse ? is_touched : nullptr};
  }

  // `share` numbers the pieces of all heads.
  void run_task(int64_t share, int64_t group, std::byte* plane) const {
    const int64_t head = share / layout_.pieces;
    const int64_t piece = share % layout_.pieces;
    HeadTask task{};
    task.batch = head / problem_.heads();
    task.head = head % problem_.heads();
    task.first_query = problem_.queries() * piece / layout_.pieces;
    task.last_query = problem_.queries() * (piece + 1) / layout_.pieces;
    task.first_level = problem_.levels() * group / groups_;
    task.last_level = problem_.levels() * (group + 1) / groups_;
    RowRange rows{0, problem_.rows()};
    if (groups_ > 1) {
      rows.begin = level_rows_[static_cast<size_t>(task.first_level)].begin;
      rows.end = level_rows_[static_cast<size_t>(task.last_level - 1)].end;
    }
    const GradPlanes grad = grad_planes(plane);
    if (layout_.value_bytes > 0) {
      pack_rows(problem_, task.batch, task.head, rows, plane, layout_.row_bytes);
      task.value = plane;
      task.value_stride = layout_.row_bytes / static_cast<int64_t>(size_of(problem_.value.type));
    } else {
      task.value = value_of_head(problem_, task.batch, task.head);
      task.value_stride = problem_.value.stride(1);
      if (layout_.is_sparse) {
        std::fill(grad.is_touched + rows.begin, grad.is_touched + rows.end, false);
      } else {
        std::memset(plane + rows.begin * layout_.row_bytes, 0,
                    static_cast<size_t>((rows.end - rows.begin) * layout_.row_bytes));
      }
    }
    HWY_DYNAMIC_DISPATCH(accumulate)(problem_, task, grad);
    if (layout_.pieces > 1 || !problem_.grad_value.defined()) return;
    HWY_DYNAMIC_DISPATCH(store_rows_of_head)(problem_, task.batch, task.head, rows, grad);
  }

  void clear_grad_value() const {
    constexpr int64_t kRows = 256;
    const int64_t blocks = divide_up(problem_.rows(), kRows);
    const double elements =
        static_cast<double>(layout_.heads * problem_.rows()) * static_cast<double>(problem_.channels());
    parallel_for(problem_.batches() * blocks, 0.1 * elements, [&](int64_t task) {
      const int64_t begin = task % blocks * kRows;
      HWY_DYNAMIC_DISPATCH(clear_rows)
      (problem_, task / blocks, {begin, std::min(begin + kRows, problem_.rows())});
    });
  }

  void add_pieces() const {
    constexpr int64_t kRows = 256;
    const int64_t blocks = divide_up(problem_.rows(), kRows);
    const double bytes = static_cast<double>(layout_.planes()) * static_cast<double>(layout_.plane_bytes);
    parallel_for(layout_.heads * blocks, 0.1 * bytes, [&](int64_t task) {
      const int64_t head = task / blocks;
      const int64_t begin = task % blocks * kRows;
      HWY_DYNAMIC_DISPATCH(store_rows_of_head)
      (problem_, head / problem_.heads(), head % problem_.heads(),
       {begin, std::min(begin + kRows, problem_.rows())}, grad_planes(plane(head * layout_.pieces)));
    });
  }

  const MultiScaleDeformableAttentionBackward& problem_;
  Layout layout_;
  std::byte* workspace_;
  int64_t groups_ = 1;  // of levels
  std::array<RowRange, kMaxSharedLevels> level_rows_{};
};

}  // namespace

size_t kernel_workspace_size(const MultiScaleDeformableAttentionBackward& problem) {
  if (problem.value.type == DataType::float64) return 0;
  const Layout layout(problem);
  return static_cast<size_t>(layout.planes() * layout.plane_bytes);
}

double kernel_nanoseconds(const MultiScaleDeformableAttentionBackward& problem) {
  const auto heads = static_cast<double>(problem.batches() * problem.heads());
  const auto channels = static_cast<double>(problem.channels());
  const double points = heads * static_cast<double>(problem.queries() * problem.levels() * problem.samples());
  return points * (8.0 + 0.5 * channels) + 0.5 * heads * static_cast<double>(problem.rows()) * channels;
}

void run_kernel(const MultiScaleDeformableAttentionBackward& problem, void* workspace) {
  if (problem.value.type == DataType::float64) return attend_backward_in_double(problem);
  if (!problem.grad_value.defined() && !wants_samples(problem)) return;
  Gradient(problem, workspace).run();
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention

#endif  // HWY_ONCE
