// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "ops/multi_scale_deformable_attention/grad_tasks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/multi_scale_deformable_attention/grad_tasks.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/past_caches-inl.h"
#include "base/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::multi_scale_deformable_attention::HWY_NAMESPACE {

using namespace aclgrad::HWY_NAMESPACE;

// One head's rows of grad_value.
template <class T>
struct OutputRows {
  T* first;
  int64_t stride;
  int64_t channels;
  bool past_caches;

  OutputRows(const Tensor& grad_value, int64_t batch, int64_t head)
      : first(static_cast<T*>(grad_value.data) + batch * grad_value.stride(0) + head * grad_value.stride(2)),
        stride(grad_value.stride(1)),
        channels(grad_value.size(3)) {
    past_caches = LineWriter<T>::writes(first, stride) && channels % kChunkChannels == 0;
  }

  // Asks for what will be stored in the caches.
  HWY_INLINE void prefetch(int64_t row) const {
    if (!past_caches) prefetch_lines(first + row * stride, channels * static_cast<int64_t>(sizeof(T)));
  }

  // Rounds a chunk to the output, past the caches, which have no use for it.
  HWY_INLINE void store(const Float16Lanes& chunk, int64_t row, int64_t channel,
                        LineWriter<T>& writer) const {
    T* to = first + row * stride + channel;
    if (past_caches) {
      writer.write16(chunk, to);
    } else if (channels - channel >= kChunkChannels) {
      store16(chunk, to);
    } else {
      store16(chunk, to, static_cast<size_t>(channels - channel));
    }
  }
};

// Adds the planes of all pieces of one head and rounds the sums to rows of grad_value. The planes are a copy, of which
// the compiler knows that no store changes it.
template <class T>
void store_typed(const Tensor& grad_value, int64_t batch, int64_t head, RowRange rows,
                 const GradPlanes planes) {
  const OutputRows<T> output(grad_value, batch, head);
  const auto store = [&](int64_t row, int64_t ahead) HWY_ATTR {
    output.prefetch(ahead);
    LineWriter<T> writer;
    for (int64_t c = 0; c < output.channels; c += kChunkChannels) {
      const float* from = planes.first + row * planes.row_stride + c;
      Float16Lanes sum = load16(from);
      for (int64_t piece = 1; piece < planes.count; ++piece)
        sum = add(sum, load16(from + piece * planes.stride));
      output.store(sum, row, c, writer);
    }
    writer.finish();
  };
  if (planes.is_touched == nullptr) {
    for (int64_t row = rows.begin; row < rows.end; ++row)
      store(row, std::min(row + kRowsAhead, rows.end - 1));
    return;
  }
  // The touched rows are listed without a branch on them, which nothing foretells.
  constexpr int64_t kListed = 1024;
  int64_t touched[kListed];
  for (int64_t first = rows.begin; first < rows.end; first += kListed) {
    int64_t count = 0;
    for (int64_t row = first; row < std::min(first + kListed, rows.end); ++row) {
      touched[count] = row;
      count += planes.is_touched[row] ? 1 : 0;
    }
    for (int64_t i = 0; i < count; ++i) store(touched[i], touched[std::min(i + kRowsAhead, count - 1)]);
  }
}

void store_rows_of_head(const Tensor& grad_value, int64_t batch, int64_t head, RowRange rows,
                        const GradPlanes& planes) {
  visit_float_type(grad_value.type,
                   [&]<class T>(T) { store_typed<T>(grad_value, batch, head, rows, planes); });
}

// Sets rows of all heads to zero in the order of memory, which is several times as fast as head by head. In most tensors
// they lie side by side, and go past the caches.
void clear_rows(const Tensor& grad_value, int64_t batch, RowRange rows) {
  const auto element = static_cast<int64_t>(size_of(grad_value.type));
  const int64_t channels = grad_value.size(3);
  const int64_t heads = grad_value.size(2);
  const auto at = [&](int64_t row, int64_t head) {
    const int64_t offset =
        batch * grad_value.stride(0) + row * grad_value.stride(1) + head * grad_value.stride(2);
    return static_cast<uint8_t*>(grad_value.data) + offset * element;
  };
  if (grad_value.stride(2) == channels && grad_value.stride(1) == heads * channels)
    return clear_past_caches(at(rows.begin, 0), at(rows.end, 0));
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    for (int64_t head = 0; head < heads; ++head)
      std::memset(at(row, head), 0, static_cast<size_t>(channels * element));
  }
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "base/parallel.h"

namespace aclgrad::ops::multi_scale_deformable_attention {
namespace {

HWY_EXPORT(store_rows_of_head);
HWY_EXPORT(clear_rows);

// Heads, over all batches, from which on the queries stay in one piece.
constexpr int64_t kEnoughHeads = 8;

// Rows that a task clears or adds.
constexpr int64_t kRowsPerTask = 256;

int64_t pieces_of(const MultiScaleDeformableSampling& problem) {
  const int64_t heads = problem.batches() * problem.heads();
  if (heads >= kEnoughHeads) return 1;
  // A plane costs about as much as two samples for each of its rows.
  const int64_t wanted = divide_up(kEnoughHeads, heads);
  const int64_t samples = problem.queries() * problem.levels() * problem.samples();
  const int64_t worthwhile = samples / (8 * std::max<int64_t>(1, problem.rows()));
  return std::clamp<int64_t>(worthwhile, 1, wanted);
}

}  // namespace

GradTasks::GradTasks(const MultiScaleDeformableSampling& problem, const GradNeeds& needs)
    : problem_(problem),
      needs_(needs),
      layout_(make_layout()),
      plane_bytes_(size_of_workspace<Plane>(layout_)) {}

GradTasks::Layout GradTasks::make_layout() const {
  const bool packs = packs_value(problem_);
  const bool sums = needs_.grad_value.defined();
  const int64_t sum_floats = chunks_of(problem_.channels()) * kChunkChannels;
  Layout layout{};
  layout.heads = problem_.batches() * problem_.heads();
  layout.pieces = pieces_of(problem_);
  layout.rows = problem_.rows();
  layout.value_bytes = packs && needs_.value ? packed_row_bytes(problem_) : 0;
  layout.sums_offset = layout.value_bytes;
  if (packs && needs_.grad_grad_value.defined()) layout.sums_offset += packed_row_bytes(problem_);
  layout.row_bytes = layout.sums_offset + (sums ? sum_floats * static_cast<int64_t>(sizeof(float)) : 0);
  layout.query_sums = needs_.query_sums ? sum_floats : 0;
  layout.is_sparse = sums && !packs;
  return layout;
}

// Cuts the rows of value into one range for each level, which holds all rows of that level. False where that
// cannot be, because levels overlap or lie in descending order.
bool GradTasks::share_rows() {
  if (problem_.levels() > static_cast<int64_t>(kMaxSharedLevels)) return false;
  int64_t end = 0;
  for (int64_t l = 0; l < problem_.levels(); ++l) {
    RowRange& range = level_rows_[static_cast<size_t>(l)];
    range = {end, end};
    const Level level(problem_, l);
    if (level.empty()) continue;
    const RowRange inside = level.rows_inside(problem_.rows());
    if (inside.begin < end) return false;
    end = range.end = inside.end;
  }
  level_rows_[static_cast<size_t>(problem_.levels() - 1)].end = problem_.rows();
  return true;
}

// Into how many tasks the levels of a head are shared out. More tasks make up for threads that are not
// equally fast, fewer read the points of a query together.
int64_t GradTasks::level_groups() {
  constexpr int64_t kTasksPerThread = 4;
  const int64_t wanted = kTasksPerThread * thread_count() / layout_.planes();
  if (needs_.query_sums || thread_count() == 1 || wanted <= 1 || !share_rows()) return 1;
  return std::min(wanted, problem_.levels());
}

GradTasks::Plane GradTasks::plane(int64_t index) const {
  WorkspaceAllocator allocator(workspace_ + static_cast<size_t>(index) * plane_bytes_);
  return {layout_, allocator};
}

GradPlanes GradTasks::grad_planes(const Plane& first) const {
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  return {reinterpret_cast<float*>(first.rows + layout_.sums_offset), layout_.row_bytes / kFloat,
          layout_.pieces, static_cast<int64_t>(plane_bytes_) / kFloat, first.is_touched};
}

// `share` numbers the pieces of all heads.
HeadTask GradTasks::task_of(int64_t share, int64_t group) const {
  const int64_t head = share / layout_.pieces;
  const int64_t piece = share % layout_.pieces;
  HeadTask task{};
  task.batch = head / problem_.heads();
  task.head = head % problem_.heads();
  task.first_query = problem_.queries() * piece / layout_.pieces;
  task.last_query = problem_.queries() * (piece + 1) / layout_.pieces;
  task.first_level = problem_.levels() * group / groups_;
  task.last_level = problem_.levels() * (group + 1) / groups_;
  return task;
}

RowRange GradTasks::rows_of(const HeadTask& task) const {
  if (groups_ == 1) return {0, problem_.rows()};
  return {level_rows_[static_cast<size_t>(task.first_level)].begin,
          level_rows_[static_cast<size_t>(task.last_level - 1)].end};
}

// Copies what the task reads, or tells where it lies, and sets the sums to zero.
void GradTasks::fill_plane(HeadTask& task, RowRange rows, const Plane& plane) const {
  const auto place = [&](const ConstTensor& tensor, int64_t offset, int64_t filled_end) {
    pack_rows(tensor, task.batch, task.head, rows, plane.rows + offset, layout_.row_bytes,
              filled_end - offset);
    return HeadRows{plane.rows + offset, layout_.row_bytes / static_cast<int64_t>(size_of(tensor.type))};
  };
  const auto leave = [&](const ConstTensor& tensor) {
    return HeadRows{first_of_head(tensor, task.batch, task.head), tensor.stride(1)};
  };
  const int64_t value_end = layout_.value_bytes;
  const bool packs_both = layout_.sums_offset > value_end;
  task.value = value_end == 0 ? leave(problem_.value)
                              : place(problem_.value, 0, packs_both ? value_end : layout_.row_bytes);
  if (needs_.grad_grad_value.defined()) {
    task.grad_grad_value = packs_both ? place(needs_.grad_grad_value, value_end, layout_.row_bytes)
                                      : leave(needs_.grad_grad_value);
  }
  if (layout_.is_sparse) {
    std::fill(plane.is_touched + rows.begin, plane.is_touched + rows.end, false);
  } else if (layout_.sums_offset == 0) {
    std::memset(plane.rows + rows.begin * layout_.row_bytes, 0,
                static_cast<size_t>((rows.end - rows.begin) * layout_.row_bytes));
  }
}

void GradTasks::run_task(int64_t share, int64_t group, const Plane& plane,
                         const Accumulate& accumulate) const {
  HeadTask task = task_of(share, group);
  const RowRange rows = rows_of(task);
  const GradPlanes grad = grad_planes(plane);
  fill_plane(task, rows, plane);
  accumulate(task, grad, plane.query_sums);
  if (layout_.pieces > 1 || !needs_.grad_value.defined()) return;
  HWY_DYNAMIC_DISPATCH(store_rows_of_head)(needs_.grad_value, task.batch, task.head, rows, grad);
}

void GradTasks::clear_grad_value() const {
  const int64_t blocks = divide_up(problem_.rows(), kRowsPerTask);
  const double elements =
      static_cast<double>(layout_.heads * problem_.rows()) * static_cast<double>(problem_.channels());
  parallel_for(problem_.batches() * blocks, 0.1 * elements, [&](int64_t task) {
    const int64_t begin = task % blocks * kRowsPerTask;
    HWY_DYNAMIC_DISPATCH(clear_rows)
    (needs_.grad_value, task / blocks, {begin, std::min(begin + kRowsPerTask, problem_.rows())});
  });
}

void GradTasks::add_pieces() const {
  const int64_t blocks = divide_up(problem_.rows(), kRowsPerTask);
  const double bytes = static_cast<double>(layout_.planes()) * static_cast<double>(plane_bytes_);
  parallel_for(layout_.heads * blocks, 0.1 * bytes, [&](int64_t task) {
    const int64_t head = task / blocks;
    const int64_t begin = task % blocks * kRowsPerTask;
    HWY_DYNAMIC_DISPATCH(store_rows_of_head)
    (needs_.grad_value, head / problem_.heads(), head % problem_.heads(),
     {begin, std::min(begin + kRowsPerTask, problem_.rows())}, grad_planes(plane(head * layout_.pieces)));
  });
}

void GradTasks::run(void* workspace, double nanoseconds, const Accumulate& accumulate) {
  workspace_ = static_cast<std::byte*>(workspace);
  if (layout_.is_sparse) clear_grad_value();
  groups_ = level_groups();
  const int64_t tasks = layout_.planes() * groups_;
  // A task that stores its own sums leaves its plane to the next task of the same thread, still in the
  // cache.
  const bool reuses_planes = layout_.pieces == 1 && thread_count() <= layout_.planes();
  parallel_for_with_slots(tasks, reuses_planes ? layout_.planes() : tasks, nanoseconds,
                          [&](int64_t task, int64_t slot) {
                            const int64_t share = task / groups_;
                            run_task(share, task % groups_, plane(reuses_planes ? slot : share), accumulate);
                          });
  if (layout_.pieces > 1 && needs_.grad_value.defined()) add_pieces();
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention

#endif  // HWY_ONCE
