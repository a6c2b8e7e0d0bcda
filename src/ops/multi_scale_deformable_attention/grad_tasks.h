// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The tasks of the gradient, and of the gradient of the gradient.
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
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/workspace.h"
#include "ops/multi_scale_deformable_attention/head.h"

namespace aclgrad::ops::multi_scale_deformable_attention {

// Sums of grad_value for one head, in `count` planes that are to be added.
struct GradPlanes {
  float* first;
  int64_t row_stride;  // floats from row to row
  int64_t count;
  int64_t stride;  // floats from plane to plane
  // Which rows a point has touched, where most never are: the others hold nothing. Null where all are summed.
  bool* is_touched;
};

// What tasks read and sum.
struct GradNeeds {
  bool value;
  ConstTensor grad_grad_value = {};  // if it is given
  Tensor grad_value = {};            // if it is wanted
  bool query_sums = false;           // over all levels, which then are not shared out
};

// One call of accumulate(task, sums of grad_value, room for the sums of one query's channels) for each task.
using Accumulate = std::function<void(const HeadTask&, const GradPlanes&, float*)>;

class GradTasks {
 public:
  GradTasks(const MultiScaleDeformableSampling& problem, const GradNeeds& needs);

  size_t workspace_bytes() const { return static_cast<size_t>(layout_.planes()) * plane_bytes_; }
  void run(void* workspace, double nanoseconds, const Accumulate& accumulate);

 private:
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

  // Levels that are told apart when they are shared out.
  static constexpr size_t kMaxSharedLevels = 64;

  Layout make_layout() const;
  bool share_rows();
  int64_t level_groups();
  Plane plane(int64_t index) const;
  GradPlanes grad_planes(const Plane& first) const;
  HeadTask task_of(int64_t share, int64_t group) const;
  RowRange rows_of(const HeadTask& task) const;
  void fill_plane(HeadTask& task, RowRange rows, const Plane& plane) const;
  void run_task(int64_t share, int64_t group, const Plane& plane, const Accumulate& accumulate) const;
  void clear_grad_value() const;
  void add_pieces() const;

  const MultiScaleDeformableSampling& problem_;
  GradNeeds needs_;
  Layout layout_;
  size_t plane_bytes_;
  std::byte* workspace_ = nullptr;
  int64_t groups_ = 1;  // of levels
  std::array<RowRange, kMaxSharedLevels> level_rows_{};
};

}  // namespace aclgrad::ops::multi_scale_deformable_attention
