// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "ops/multi_scale_deformable_attention/grad_tasks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/multi_scale_deformable_attention/grad_tasks.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/multi_scale_deformable_attention/sampling-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::multi_scale_deformable_attention::HWY_NAMESPACE {

// Adds the planes of all pieces of one head and rounds the sums to rows of grad_value. The planes are a copy, of which
// the compiler knows that no store changes it.
template <class T>
void store_typed(const Tensor& grad_value, const HeadTask& task, RowRange rows, const GradPlanes planes) {
  const int64_t channels = grad_value.size(3);
  const Runs<T> output = runs_of<T>(grad_value, task, 0, channels);
  const bool past_caches = go_past_caches(output);
  const auto store = [&](int64_t row, int64_t ahead) HWY_ATTR {
    if (!past_caches) prefetch_runs<kSecondLevel>(output, ahead, ahead + 1);
    LineWriter<T> writer;
    for (int64_t c = 0; c < channels; c += kChunkChannels) {
      const float* from = planes.first + row * planes.row_stride + c;
      Float16Lanes sum = load16(from);
      for (int64_t piece = 1; piece < planes.count; ++piece)
        sum = add(sum, load16(from + piece * planes.stride));
      store_chunk(sum, output.of(row) + c, channels - c, past_caches, writer);
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

void store_rows_of_head(const Tensor& grad_value, const HeadTask& task, RowRange rows,
                        const GradPlanes& planes) {
  visit_float_type(grad_value.type, [&]<class T>(T) { store_typed<T>(grad_value, task, rows, planes); });
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

#include <array>

#include "base/parallel.h"
#include "base/workspace.h"

namespace aclgrad::ops::multi_scale_deformable_attention {
namespace {

HWY_EXPORT(store_rows_of_head);
HWY_EXPORT(clear_rows);

// Heads, over all batches, from which on the queries stay in one piece.
constexpr int64_t kTargetHeads = 8;

// Rows that a task clears or adds.
constexpr int64_t kRowsPerTask = 256;

int64_t pieces_of(const MultiScaleDeformableSampling& problem) {
  const int64_t heads = problem.batches() * problem.heads();
  if (heads >= kTargetHeads) return 1;
  // A plane costs about as much as two samples for each of its rows.
  const int64_t wanted = divide_up(kTargetHeads, heads);
  const int64_t samples = problem.queries() * problem.levels() * problem.samples();
  const int64_t worthwhile = samples / (8 * std::max<int64_t>(1, problem.rows()));
  return std::clamp<int64_t>(worthwhile, 1, wanted);
}

// How the workspace is used. Depends on the problem's shape alone.
struct Layout {
  int64_t heads;        // over all batches
  int64_t pieces;       // of the queries
  int64_t rows;         // of a plane
  int64_t value_bytes;  // of a row of value in a plane, 0 if it stays in the tensor
  int64_t sums_offset;  // of the sums of grad_value in a row of a plane: behind all that is copied
  int64_t row_bytes;
  int64_t query_sums;
  bool is_sparse;  // most rows of grad_value are never touched

  Layout(const MultiScaleDeformableSampling& problem, const GradNeeds& needs)
      : heads(problem.batches() * problem.heads()), pieces(pieces_of(problem)), rows(problem.rows()) {
    const bool packs = packs_value(problem), sums = needs.grad_value.defined();
    const int64_t sum_floats = chunks_of(problem.channels()) * kChunkChannels;
    value_bytes = packs && needs.value ? packed_row_bytes(problem) : 0;
    sums_offset = value_bytes + (packs && needs.grad_grad_value.defined() ? packed_row_bytes(problem) : 0);
    row_bytes = sums_offset + (sums ? sum_floats * static_cast<int64_t>(sizeof(float)) : 0);
    query_sums = needs.query_sums ? sum_floats : 0;
    is_sparse = sums && !packs;
  }

  int64_t planes() const { return heads * pieces; }
};

struct Plane {
  std::byte* rows;
  float* query_sums;
  bool* is_touched;  // for each row; null where all are summed

  Plane(const Layout& layout, WorkspaceAllocator& allocator)
      : rows(allocator.take<std::byte>(layout.rows * layout.row_bytes)),
        query_sums(allocator.take<float>(layout.query_sums)),
        is_touched(layout.is_sparse ? allocator.take<bool>(layout.rows) : nullptr) {}
};

class GradTasks {
 public:
  GradTasks(const MultiScaleDeformableSampling& problem, const GradNeeds& needs, void* workspace)
      : problem_(problem),
        needs_(needs),
        layout_(problem, needs),
        plane_bytes_(size_of_workspace<Plane>(layout_)),
        workspace_(static_cast<std::byte*>(workspace)) {}

  void run(double nanoseconds, const Accumulate& accumulate) {
    if (layout_.is_sparse) clear_grad_value();
    groups_ = level_groups();
    const int64_t tasks = layout_.planes() * groups_;
    // A task that stores its own sums leaves its plane to the next task of the same thread, still in the
    // cache.
    const bool reuses_planes = layout_.pieces == 1 && thread_count() <= layout_.planes();
    parallel_for_with_slots(
        tasks, reuses_planes ? layout_.planes() : tasks, nanoseconds, [&](int64_t task, int64_t slot) {
          const int64_t share = task / groups_;
          run_task(share, task % groups_, plane(reuses_planes ? slot : share), accumulate);
        });
    if (layout_.pieces > 1 && needs_.grad_value.defined()) add_pieces();
  }

 private:
  // Levels that are told apart when they are shared out.
  static constexpr size_t kMaxSharedLevels = 64;

  // Cuts the rows of value into one range for each level, which holds all rows of that level. False where that
  // cannot be, because levels overlap or lie in descending order.
  bool share_rows() {
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
  int64_t level_groups() {
    constexpr int64_t kTasksPerThread = 4;
    const int64_t wanted = kTasksPerThread * thread_count() / layout_.planes();
    if (needs_.query_sums || thread_count() == 1 || wanted <= 1 || !share_rows()) return 1;
    return std::min(wanted, problem_.levels());
  }

  Plane plane(int64_t index) const {
    WorkspaceAllocator allocator(workspace_ + static_cast<size_t>(index) * plane_bytes_);
    return {layout_, allocator};
  }

  GradPlanes grad_planes(const Plane& first) const {
    constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
    return {reinterpret_cast<float*>(first.rows + layout_.sums_offset), layout_.row_bytes / kFloat,
            layout_.pieces, static_cast<int64_t>(plane_bytes_) / kFloat, first.is_touched};
  }

  RowRange rows_of(const HeadTask& task) const {
    if (groups_ == 1) return {0, problem_.rows()};
    return {level_rows_[static_cast<size_t>(task.first_level)].begin,
            level_rows_[static_cast<size_t>(task.last_level - 1)].end};
  }

  // Copies what the task reads, or tells where it lies, and sets the sums to zero.
  void fill_plane(HeadTask& task, RowRange rows, const Plane& plane) const {
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

  // `share` numbers the pieces of all heads.
  void run_task(int64_t share, int64_t group, const Plane& plane, const Accumulate& accumulate) const {
    const int64_t piece = share % layout_.pieces;
    HeadTask task = task_of_head(problem_, share / layout_.pieces);
    task.first_query = problem_.queries() * piece / layout_.pieces;
    task.last_query = problem_.queries() * (piece + 1) / layout_.pieces;
    task.first_level = problem_.levels() * group / groups_;
    task.last_level = problem_.levels() * (group + 1) / groups_;
    const RowRange rows = rows_of(task);
    const GradPlanes grad = grad_planes(plane);
    fill_plane(task, rows, plane);
    accumulate(task, grad, plane.query_sums);
    if (layout_.pieces > 1 || !needs_.grad_value.defined()) return;
    HWY_DYNAMIC_DISPATCH(store_rows_of_head)(needs_.grad_value, task, rows, grad);
  }

  // Calls body(i, rows) for some rows of each of `count` batches or heads, on several threads.
  template <class Body>
  void for_rows_of_each(int64_t count, double nanoseconds, Body&& body) const {
    const int64_t blocks = divide_up(problem_.rows(), kRowsPerTask);
    parallel_for(count * blocks, nanoseconds, [&](int64_t task) {
      const int64_t begin = task % blocks * kRowsPerTask;
      body(task / blocks, RowRange{begin, std::min(begin + kRowsPerTask, problem_.rows())});
    });
  }

  void clear_grad_value() const {
    const double elements =
        static_cast<double>(layout_.heads * problem_.rows()) * static_cast<double>(problem_.channels());
    for_rows_of_each(problem_.batches(), 0.1 * elements, [&](int64_t batch, RowRange rows) {
      HWY_DYNAMIC_DISPATCH(clear_rows)(needs_.grad_value, batch, rows);
    });
  }

  void add_pieces() const {
    const double bytes = static_cast<double>(layout_.planes()) * static_cast<double>(plane_bytes_);
    for_rows_of_each(layout_.heads, 0.1 * bytes, [&](int64_t head, RowRange rows) {
      HWY_DYNAMIC_DISPATCH(store_rows_of_head)
      (needs_.grad_value, task_of_head(problem_, head), rows, grad_planes(plane(head * layout_.pieces)));
    });
  }

  const MultiScaleDeformableSampling& problem_;
  const GradNeeds& needs_;
  const Layout layout_;
  const size_t plane_bytes_;
  std::byte* const workspace_;
  int64_t groups_ = 1;  // of levels
  std::array<RowRange, kMaxSharedLevels> level_rows_{};
};

}  // namespace

size_t grad_workspace_bytes(const MultiScaleDeformableSampling& problem, const GradNeeds& needs) {
  const Layout layout(problem, needs);
  return static_cast<size_t>(layout.planes()) * size_of_workspace<Plane>(layout);
}

void run_grad_tasks(const MultiScaleDeformableSampling& problem, const GradNeeds& needs, void* workspace,
                    double nanoseconds, const Accumulate& accumulate) {
  GradTasks(problem, needs, workspace).run(nanoseconds, accumulate);
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention

#endif  // HWY_ONCE
