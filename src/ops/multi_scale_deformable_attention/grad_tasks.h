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

#include <cstddef>
#include <cstdint>
#include <functional>

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

size_t grad_workspace_bytes(const MultiScaleDeformableSampling& problem, const GradNeeds& needs);
void run_grad_tasks(const MultiScaleDeformableSampling& problem, const GradNeeds& needs, void* workspace,
                    double nanoseconds, const Accumulate& accumulate);

}  // namespace aclgrad::ops::multi_scale_deformable_attention
