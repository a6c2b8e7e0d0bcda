// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of the grouped bias-add's gradient on the CPU: each row is that of its group.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/parallel.h"
#include "ops/grouped_bias_add/kernel.h"

namespace aclgrad::ops::grouped_bias_add {
namespace {

// Each task reads all groups, so that there are few tasks.
constexpr int64_t kMaxTasks = 64;
constexpr int64_t kMinRowsPerTask = 64;

// The rows [rows.begin, rows.end) of `to`. Groups follow each other, so that they touch the rows from 0 up to
// the furthest end; behind a falling end, some rows are in several groups and get their sum.
template <class T>
void spread_groups(GroupReader reader, int64_t groups, const T* from, int64_t columns, Rows rows, T* to,
                   int64_t row_stride) {
  const auto bytes = static_cast<size_t>(columns) * sizeof(T);
  int64_t touched = rows.begin;  // rows before this one hold a sum
  for (int64_t group = 0; group < groups; ++group, from += columns) {
    const Rows all = reader.next();
    const int64_t end = std::min(all.end, rows.end);
    for (int64_t row = std::max(all.begin, rows.begin); row < end; ++row) {
      T* sums = to + row * row_stride;
      if (row >= touched) {
        std::memcpy(sums, from, bytes);
      } else {
        for (int64_t c = 0; c < columns; ++c) sums[c] = sum_of(sums[c], from[c]);
      }
    }
    touched = std::max(touched, end);
  }
  for (int64_t row = touched; row < rows.end; ++row) std::memset(to + row * row_stride, 0, bytes);
}

template <class T>
void spread(const GroupedBiasAddDoubleBackward& problem) {
  const auto* from = static_cast<const T*>(problem.grad_grad_bias.data);
  const Tensor& output = problem.grad_grad_output;
  const bool equal = problem.has_equal_groups();
  const int64_t batches = equal ? problem.groups() : 1;  // of rows that have groups of their own
  const int64_t groups = equal ? 1 : problem.groups();
  const int64_t rows_per_task = std::max(kMinRowsPerTask, divide_up(problem.rows(), kMaxTasks));
  const int64_t blocks = divide_up(problem.rows(), rows_per_task);
  parallel_for(batches * blocks, kernel_nanoseconds(problem), [&](int64_t task) {
    const int64_t batch = task / blocks;
    const int64_t begin = task % blocks * rows_per_task;
    T* first = static_cast<T*>(output.data) + (equal ? batch * output.stride(0) : 0);
    spread_groups<T>({problem.group_idx, problem.kind, problem.rows()}, groups,
                     from + batch * problem.columns(), problem.columns(),
                     {begin, std::min(begin + rows_per_task, problem.rows())}, first,
                     output.stride(equal ? 1 : 0));
  });
}

}  // namespace

size_t kernel_workspace_size(const GroupedBiasAddDoubleBackward&) {
  return 0;
}

double kernel_nanoseconds(const GroupedBiasAddDoubleBackward& problem) {
  const int64_t rows = problem.has_equal_groups() ? problem.groups() * problem.rows() : problem.rows();
  return 0.1 * static_cast<double>(rows * problem.columns()) *
         static_cast<double>(size_of(problem.grad_grad_bias.type));
}

void run_kernel(const GroupedBiasAddDoubleBackward& problem, void*) {
  if (problem.columns() == 0) return;
  visit_element_type(problem.grad_grad_bias.type, [&]<class T>(T) { spread<T>(problem); });
}

}  // namespace aclgrad::ops::grouped_bias_add
