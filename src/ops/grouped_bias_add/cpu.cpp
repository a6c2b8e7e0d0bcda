// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The grouped bias-add gradient on the CPU.
//
// The rows of each group are cut into tiles of 512, the columns into strips of at most 4096. A task sums one
// tile of one strip in a buffer that stays in the first-level cache. A group of one tile is then done; the
// tiles of a larger group leave partial sums in the workspace, which a second pass adds in order. So one huge
// group is shared by all threads, and no result depends on their number.
#include "ops/grouped_bias_add/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grouped_bias_add/cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "base/caches.h"
#include "base/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grouped_bias_add::HWY_NAMESPACE {

using namespace aclgrad::HWY_NAMESPACE;

HWY_INLINE Float16Lanes sum_of_8(const Float16Lanes (&row)[8]) {
  return add(add(add(row[0], row[1]), add(row[2], row[3])), add(add(row[4], row[5]), add(row[6], row[7])));
}

// Floats of a run are read from several lines of a row one after the other, as many as the registers allow, before the next
// row is: the hardware foresees that better than single lines of 8 rows in turn.
constexpr int64_t kRun = 4 * kLanes;
using RunSums = Float16Lanes[kRun / 16];

// The sums of kRows rows, added pairwise.
template <int kRows>
HWY_INLINE void sum_runs(const float* block, int64_t row_stride, RunSums& sums) {
  if constexpr (kRows == 1) {
    for (int64_t i = 0; i < kRun / 16; ++i) sums[i] = load16(block + 16 * i);
  } else {
    RunSums others;
    sum_runs<kRows / 2>(block, row_stride, sums);
    sum_runs<kRows / 2>(block + kRows / 2 * row_stride, row_stride, others);
    for (int64_t i = 0; i < kRun / 16; ++i) sums[i] = add(sums[i], others[i]);
  }
}

// sums[c] += the rows at column c: kRows of them added pairwise, or, if that is 1, `rows` of them one after the other.
// Side by side they are as many streams as the hardware prefetches. It does so within a page of memory only, so the rows
// from `next` on, which are read thereafter, are asked for ahead of it.
template <int kRows, class T>
void add_rows(const T* block, int64_t row_stride, int64_t rows, int64_t columns, const T* next, float* sums) {
  constexpr auto kLine = static_cast<int64_t>(64 / sizeof(T));
  constexpr int64_t kAhead = 24 * kLine;
  const auto with_rows = [&](Float16Lanes sum, int64_t c, auto... count) HWY_ATTR {
    if constexpr (kRows == 8) {
      Float16Lanes row[8];
      for (int r = 0; r < 8; ++r) row[r] = load16(block + r * row_stride + c, count...);
      return add(sum, sum_of_8(row));
    } else {
      for (int64_t r = 0; r < rows; ++r) sum = add(sum, load16(block + r * row_stride + c, count...));
      return sum;
    }
  };
  if (columns < 16) {
    const auto count = static_cast<size_t>(columns);
    store16(with_rows(load16(sums, count), 0, count), sums, count);
    return;
  }
  // Floats between them begin on cache lines: vectors that cross these take longer. The first and the last 16 columns overlap
  // the others, so they take the sums as they are now.
  const auto begin = static_cast<int64_t>(reinterpret_cast<uintptr_t>(block) / sizeof(T));
  const int64_t first = std::is_same_v<T, float> ? -begin & (kLine - 1) : 0;
  const int64_t last = columns - 16;
  const Float16Lanes sum_at_0 = first == 0 ? zero16() : with_rows(load16(sums), 0);
  const Float16Lanes sum_at_last = with_rows(load16(sums + last), last);
  int64_t rest = first;
  if constexpr (kRows == 8 && std::is_same_v<T, float>) {
    for (; rest + kRun <= last; rest += kRun) {
      RunSums run;
      sum_runs<8>(block + rest, row_stride, run);
      for (int64_t i = 0; i < kRun; i += 16)
        store16(add(load16(sums + rest + i), run[i / 16]), sums + rest + i);
    }
  }
  for (int64_t done = 0; rest + done < last; done += 16) {
    const int64_t c = rest + done;
    if (done % kLine == 0) {
      const int64_t ahead = c + kAhead;
      const T* line = ahead < columns ? block + ahead : next + std::min(ahead - columns, columns - 1);
      for (int r = 0; r < 8; ++r) prefetch_for_later(line + r * row_stride);
    }
    store16(with_rows(load16(sums + c), c), sums + c);
  }
  if (first > 0) store16(sum_at_0, sums);
  store16(sum_at_last, sums + last);
}

// sums[c] = the sum of `rows` rows at column c; `following` more lie behind them.
template <class T>
void sum_typed_rows(const T* block, int64_t row_stride, int64_t rows, int64_t following, int64_t columns,
                    float* sums) {
  std::fill_n(sums, columns, 0.0f);
  const auto behind = [&](int64_t count) {
    return rows + following >= count + 8 ? block + count * row_stride : block;
  };
  for (; rows >= 8; rows -= 8, block += 8 * row_stride) {
    add_rows<8>(block, row_stride, 8, columns, behind(8), sums);
  }
  if (rows > 0) add_rows<1>(block, row_stride, rows, columns, behind(rows), sums);
}

void sum_rows(DataType type, const void* first_row, int64_t row_stride, int64_t rows, int64_t following,
              int64_t columns, float* sums) {
  visit_float_type(type, [&]<class T>(T) {
    sum_typed_rows(static_cast<const T*>(first_row), row_stride, rows, following, columns, sums);
  });
}

// `columns` sums in another type.
void round_sums(DataType type, const float* sums, int64_t columns, void* to) {
  visit_float_type(type, [&]<class T>(T) HWY_ATTR {
    T* out = static_cast<T*>(to);
    int64_t c = 0;
    for (; c + 16 <= columns; c += 16) store16(load16(sums + c), out + c);
    const auto tail = static_cast<size_t>(columns - c);
    if (tail > 0) store16(load16(sums + c, tail), out + c, tail);
  });
}

}  // namespace aclgrad::ops::grouped_bias_add::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "base/parallel.h"
#include "base/workspace.h"

namespace aclgrad::ops::grouped_bias_add {
namespace {

HWY_EXPORT(sum_rows);
HWY_EXPORT(round_sums);

constexpr int64_t kRowsPerTile = 512;
constexpr int64_t kMaxColumnsPerStrip = 4096;
constexpr int64_t kMinColumnsPerStrip = 256;
constexpr int64_t kTargetTasks = 16;
constexpr int64_t kTilesPerBlock = 16;  // of the second pass

// Of a group.
int64_t tiles_of(const Rows& rows) {
  return std::max<int64_t>(1, divide_up(rows.size(), kRowsPerTile));
}

// One group of a batch.
struct Group {
  int64_t index;
  Rows rows;
  int64_t first_tile;  // number within the batch
};

struct Workspace {
  Workspace(const GroupedBiasAddBackward& problem, WorkspaceAllocator& allocator)
      : tiles(tile_capacity(problem, kRowsPerTile)),
        groups(allocator.take<Group>(problem.groups())),
        partials(allocator.take<float>(problem.rows() > kRowsPerTile ? tiles * problem.columns() : 0)) {}

  int64_t tiles;    // that have room; groups that overlap and need more are taken in several batches
  Group* groups;    // [problem.groups()]
  float* partials;  // [tiles, columns], if a group may have several tiles
};

// Memory is fastest where long pieces of each row are read, so strips are wide unless they are too few to
// share. The sum of a column does not depend on its strip.
int64_t columns_per_strip(const GroupedBiasAddBackward& problem) {
  const int64_t groups = problem.has_equal_groups() ? problem.groups() : 1;
  const int64_t tiles = groups * divide_up(problem.rows(), kRowsPerTile);
  int64_t columns = kMaxColumnsPerStrip;
  while (columns > kMinColumnsPerStrip && tiles * divide_up(problem.columns(), columns) < kTargetTasks) {
    columns /= 2;
  }
  return columns;
}

class Sum {
 public:
  Sum(const GroupedBiasAddBackward& problem, WorkspaceAllocator allocator)
      : problem_(problem),
        workspace_(problem, allocator),
        element_(static_cast<int64_t>(size_of(problem.grad_output.type))),
        columns_per_strip_(columns_per_strip(problem)),
        strips_(divide_up(problem.columns(), columns_per_strip_)) {}

  void run() {
    GroupReader reader(problem_.group_idx, problem_.kind, problem_.rows());
    int64_t tiles = 0;
    for (int64_t index = 0; index < problem_.groups(); ++index) {
      const Rows rows = reader.next();
      if (tiles + tiles_of(rows) > workspace_.tiles) {
        run_batch(tiles);
        tiles = 0;
        groups_ = 0;
      }
      workspace_.groups[groups_++] = {index, rows, tiles};
      tiles += tiles_of(rows);
    }
    run_batch(tiles);
  }

 private:
  void run_batch(int64_t tiles) {
    const double nanoseconds = kernel_nanoseconds(problem_);
    parallel_for(tiles * strips_, nanoseconds,
                 [&](int64_t task) { sum_tile(task / strips_, task % strips_); });
    if (tiles == groups_) return;
    parallel_for(groups_ * strips_, nanoseconds / static_cast<double>(kRowsPerTile),
                 [&](int64_t task) { add_tiles(workspace_.groups[task / strips_], task % strips_); });
  }

  int64_t strip_columns(int64_t strip) const {
    return std::min(columns_per_strip_, problem_.columns() - strip * columns_per_strip_);
  }

  void sum_tile(int64_t tile, int64_t strip) const {
    const Group& group =
        *std::prev(std::upper_bound(workspace_.groups, workspace_.groups + groups_, tile,
                                    [](int64_t t, const Group& g) { return t < g.first_tile; }));
    const int64_t begin = group.rows.begin + (tile - group.first_tile) * kRowsPerTile;
    const int64_t count = std::min(kRowsPerTile, group.rows.end - begin);
    const int64_t following = problem_.rows() - begin - count;
    const int64_t column = strip * columns_per_strip_;
    const int64_t columns = strip_columns(strip);
    const bool equal = problem_.has_equal_groups();
    const int64_t element =
        (equal ? group.index * problem_.grad_output.stride(0) : 0) + begin * row_stride_of(problem_) + column;
    const auto* first = static_cast<const std::byte*>(problem_.grad_output.data) + element * element_;
    const bool is_done = tiles_of(group.rows) == 1;
    alignas(64) float buffer[kMaxColumnsPerStrip];
    float* sums = is_done ? buffer : partial(tile, column);
    HWY_DYNAMIC_DISPATCH(sum_rows)
    (problem_.grad_output.type, first, row_stride_of(problem_), count, following, columns, sums);
    if (is_done) store(group.index, column, columns, sums);
  }

  void add_tiles(const Group& group, int64_t strip) const {
    if (tiles_of(group.rows) == 1) return;
    const int64_t column = strip * columns_per_strip_;
    const int64_t columns = strip_columns(strip);
    alignas(64) float sums[kMaxColumnsPerStrip] = {};
    alignas(64) float block[kMaxColumnsPerStrip];
    for (int64_t tile = 0; tile < tiles_of(group.rows); tile += kTilesPerBlock) {
      const int64_t count = std::min(kTilesPerBlock, tiles_of(group.rows) - tile);
      const float* first = partial(group.first_tile + tile, column);
      HWY_DYNAMIC_DISPATCH(sum_rows)(DataType::float32, first, problem_.columns(), count, 0, columns, block);
      for (int64_t c = 0; c < columns; ++c) sums[c] += block[c];
    }
    store(group.index, column, columns, sums);
  }

  float* partial(int64_t tile, int64_t column) const {
    return workspace_.partials + tile * problem_.columns() + column;
  }

  void store(int64_t group, int64_t column, int64_t columns, const float* sums) const {
    const int64_t element = group * problem_.columns() + column;
    auto* to = static_cast<std::byte*>(problem_.grad_bias.data) + element * element_;
    HWY_DYNAMIC_DISPATCH(round_sums)(problem_.grad_output.type, sums, columns, to);
  }

  const GroupedBiasAddBackward& problem_;
  Workspace workspace_;
  int64_t element_;
  int64_t columns_per_strip_;
  int64_t strips_;
  int64_t groups_ = 0;  // of the batch
};

}  // namespace

size_t kernel_workspace_size(const GroupedBiasAddBackward& problem) {
  return size_of_workspace<Workspace>(problem);
}

double kernel_nanoseconds(const GroupedBiasAddBackward& problem) {
  const int64_t rows = problem.has_equal_groups() ? problem.groups() * problem.rows() : problem.rows();
  const auto elements = static_cast<double>(rows) * static_cast<double>(problem.columns());
  return 0.1 * elements * static_cast<double>(size_of(problem.grad_output.type)) +
         20.0 * static_cast<double>(problem.groups());
}

void run_kernel(const GroupedBiasAddBackward& problem, void* workspace) {
  if (problem.groups() == 0 || problem.columns() == 0) return;
  Sum(problem, WorkspaceAllocator(workspace)).run();
}

}  // namespace aclgrad::ops::grouped_bias_add

#endif  // HWY_ONCE
