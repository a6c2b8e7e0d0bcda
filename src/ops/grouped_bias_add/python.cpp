// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Grouped bias-add, its gradient, and that gradient's. The sum itself has no kernel in the library: adding one row to
// others is as fast as memory, and so is done here.
#include "ops/grouped_bias_add/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "arguments.h"
#include "base/parallel.h"
#include "binding.h"
#include "operand.h"
#include "ops/grouped_bias_add/reference.h"

namespace aclgrad::python {
namespace {

// The rows of x or grad_output, as [rows, columns], or as [groups, rows, columns] where there are no group_ends.
struct Grouping {
  GroupKind kind = GroupKind::ends;
  std::optional<Array> group_idx;  // none where the groups are equal
  int64_t groups = 0;
  int64_t rows = 0;  // of each group where they are equal, else in all
  int64_t columns = 0;
};

void check_groups(const Arguments& arguments, GroupKind kind, const std::vector<int64_t>& group_idx,
                  int64_t rows) {
  if (kind == GroupKind::ends) arguments.check_ends("group_ends", group_idx);
  int64_t end = 0;
  for (size_t group = 0; group < group_idx.size(); ++group) {
    const int64_t entry = group_idx[group];
    const int64_t most = kind == GroupKind::ends ? rows : rows - end;
    const bool fits = entry >= 0 && entry <= most;
    if (!fits) {
      arguments.check_entry(false, "group_ends", group, fmt::format("0 to {}, of {} rows", most, rows),
                            entry);
    }
    end = kind == GroupKind::ends ? entry : end + entry;
  }
}

Grouping read_grouping(const Arguments& arguments, const Array& rows, const Argument& group_ends,
                       const Argument& kind) {
  const auto named_kind = arguments.choice<GroupKind>("kind", kind, {"ends", "counts"});
  if (group_ends.is_none()) {
    arguments.check_rank(rows, 3);
    return {named_kind, std::nullopt, rows.size(0), rows.size(1), rows.size(2)};
  }
  const Array idx = arguments.integers("group_ends", group_ends);
  arguments.check_same_device(rows, {&idx});
  arguments.check_rank(rows, 2);
  arguments.check_rank(idx, 1);
  if (!idx.on_gpu()) check_groups(arguments, named_kind, integers_of(idx.view), rows.size(0));
  return {named_kind, idx, idx.size(0), rows.size(0), rows.size(1)};
}

struct Ranges {
  std::vector<int64_t> begin;
  std::vector<int64_t> end;
};

// The rows of each group, counted through all of them. Contents that make no sense are clamped, by the rule of the
// gradient's kernel.
Ranges ranges_of(const Grouping& grouping) {
  const int64_t row_count = !grouping.group_idx ? grouping.groups * grouping.rows : grouping.rows;
  const std::vector<int64_t> group_idx =
      grouping.group_idx ? integers_of(grouping.group_idx->view) : std::vector<int64_t>();
  Ranges ranges;
  int64_t end = 0;  // as given, not clamped
  for (int64_t group = 0; group < grouping.groups; ++group) {
    const int64_t start = end;
    if (!grouping.group_idx) {
      end += grouping.rows;
    } else if (grouping.kind == GroupKind::ends) {
      end = group_idx[static_cast<size_t>(group)];
    } else if (__builtin_add_overflow(start, group_idx[static_cast<size_t>(group)], &end)) {
      end = start < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
    }
    const int64_t begin = std::clamp<int64_t>(start, 0, row_count);
    ranges.begin.push_back(begin);
    ranges.end.push_back(std::max(begin, std::clamp<int64_t>(end, 0, row_count)));
  }
  return ranges;
}

template <class T>
void add_row(const T* x, const T* bias, T* y, int64_t columns) {
  for (int64_t i = 0; i < columns; ++i) {
    if constexpr (std::is_same_v<T, double>) {
      y[i] = x[i] + bias[i];
    } else {
      y[i] = from_float<T>(to_float(x[i]) + to_float(bias[i]));
    }
  }
}

// x and y are contiguous, [all rows, columns].
template <class T>
void add_bias(const Grouping& grouping, int64_t row_count, const T* x, const T* bias, T* y) {
  constexpr int64_t kRowsPerTask = 64;
  const Ranges ranges = ranges_of(grouping);
  // The group of each row; where groups overlap, as wrong ends may make them, the last one.
  std::vector<int64_t> group_of(static_cast<size_t>(row_count), -1);
  for (size_t group = 0; group < ranges.begin.size(); ++group) {
    for (int64_t row = ranges.begin[group]; row < ranges.end[group]; ++row) {
      group_of[static_cast<size_t>(row)] = static_cast<int64_t>(group);
    }
  }
  const int64_t columns = grouping.columns;
  const double nanoseconds = 0.5 * static_cast<double>(row_count * columns);
  parallel_for((row_count + kRowsPerTask - 1) / kRowsPerTask, nanoseconds, [&](int64_t task) {
    const int64_t last = std::min(row_count, (task + 1) * kRowsPerTask);
    for (int64_t row = task * kRowsPerTask; row < last; ++row) {
      const int64_t group = group_of[static_cast<size_t>(row)];
      const T* x_row = x + row * columns;
      T* y_row = y + row * columns;
      if (group < 0) {
        std::memmove(y_row, x_row, static_cast<size_t>(columns) * sizeof(T));
      } else {
        add_row(x_row, bias + group * columns, y_row, columns);
      }
    }
  });
}

void compute_forward(const Place& place, const Grouping& grouping, const Array& x, const Array& bias,
                     const Array& y) {
  if (y.empty()) return;
  const Operand x_operand = Operand::read(place, x.view, 0);
  const Operand bias_operand = Operand::read(place, bias.view, 0);
  const Operand y_operand = Operand::write(place, y.view, 0);
  const int64_t row_count = x.view.size() / grouping.columns;
  const auto add = [&](auto element) {
    using T = decltype(element);
    add_bias(grouping, row_count, static_cast<const T*>(x_operand.data()),
             static_cast<const T*>(bias_operand.data()), static_cast<T*>(y_operand.data()));
  };
  if (x.type() == DataType::float64) {
    add(double{});
  } else {
    visit_float_type(x.type(), add);
  }
  y_operand.finish();
}

void compute_backward(const Place& place, const Grouping& grouping, const Array& grad_output,
                      const Array& grad_bias) {
  if (grad_bias.empty()) return;
  if (grad_output.empty()) return place.fill_zero(grad_bias.view);
  if (grad_output.type() == DataType::float64) {
    const Ranges ranges = ranges_of(grouping);
    return write_doubles(reference::grouped_bias_add_grad(doubles_of(grad_output.view), grouping.columns,
                                                          ranges.begin, ranges.end),
                         grad_bias.view);
  }
  const bool equal = !grouping.group_idx;
  const Operand grad_output_operand = Operand::read(place, grad_output.view, equal ? 2 : 1);
  const Operand out = Operand::write(place, grad_bias.view, 0);
  GroupedBiasAddBackward problem;
  problem.grad_output = grad_output_operand.tensor();
  problem.kind = grouping.kind;
  if (!equal) problem.group_idx = Operand::read(place, grouping.group_idx->view, 0).tensor();
  problem.grad_bias = out.tensor();
  place.run(problem);
  out.finish();
}

void compute_double_backward(const Place& place, const Grouping& grouping, const Array& grad_grad_bias,
                             const Array& grad_grad_output) {
  if (grad_grad_output.empty()) return;
  const bool equal = !grouping.group_idx;
  const Operand grad_grad_bias_operand = Operand::read(place, grad_grad_bias.view, 0);
  const Operand out = Operand::write(place, grad_grad_output.view, equal ? 2 : 1);
  GroupedBiasAddDoubleBackward problem;
  problem.grad_grad_bias = grad_grad_bias_operand.tensor();
  problem.kind = grouping.kind;
  if (!equal) problem.group_idx = Operand::read(place, grouping.group_idx->view, 0).tensor();
  problem.grad_grad_output = out.tensor();
  place.run(problem);
  out.finish();
}

Array forward(const Argument& x_object, const Argument& bias_object, const Argument& group_ends,
              const Argument& kind, const Argument& out) {
  const Arguments arguments("grouped_bias_add");
  const Array x = arguments.floats("x", x_object);
  const Array bias = arguments.floats("bias", bias_object);
  arguments.check_same_type(x, {&bias});
  const Grouping grouping = read_grouping(arguments, x, group_ends, kind);
  arguments.check_shape(bias, {grouping.groups, grouping.columns});
  const Array y = !grouping.group_idx
                      ? arguments.result("out", x, {grouping.groups, grouping.rows, grouping.columns}, out)
                      : arguments.result("out", x, {grouping.rows, grouping.columns}, out);
  const Place place(arguments, x, {&bias, &y});
  arguments.claim({&y}, {&x, &bias, grouping.group_idx ? &*grouping.group_idx : nullptr});
  place.compute([&] { compute_forward(place, grouping, x, bias, y); });
  return y;
}

Results backward(const Argument& grad_output_object, const Argument& group_ends, const Argument& kind,
                 const Argument& output_mask, const Argument& out) {
  const Arguments arguments("grouped_bias_add_backward", Arguments::Memory::cpu_or_gpu);
  const Array grad_output = arguments.floats("grad_output", grad_output_object);
  arguments.check_type_on_gpu(grad_output);
  const std::vector<bool> needs = arguments.flags("output_mask", output_mask, 1);
  const Grouping grouping = read_grouping(arguments, grad_output, group_ends, kind);
  const Array grad_bias = arguments.result("out", grad_output, {grouping.groups, grouping.columns}, out);
  if (!needs[0]) return {std::nullopt};
  const Place place(arguments, grad_output, {&grad_bias});
  arguments.claim({&grad_bias}, {&grad_output, grouping.group_idx ? &*grouping.group_idx : nullptr});
  place.compute([&] { compute_backward(place, grouping, grad_output, grad_bias); });
  return {grad_bias};
}

Array double_backward(const Argument& grad_output_object, const Argument& grad_grad_bias_object,
                      const Argument& group_ends, const Argument& kind, const Argument& out) {
  const Arguments arguments("grouped_bias_add_double_backward");
  const Array grad_output = arguments.floats("grad_output", grad_output_object);
  const Array grad_grad_bias = arguments.floats("grad_grad_bias", grad_grad_bias_object);
  arguments.check_same_type(grad_output, {&grad_grad_bias});
  const Grouping grouping = read_grouping(arguments, grad_output, group_ends, kind);
  arguments.check_shape(grad_grad_bias, {grouping.groups, grouping.columns});
  const Shape shape(grad_output.view.shape.data(), grad_output.view.rank);
  const Array grad_grad_output = arguments.result("out", grad_output, shape, out);
  const Place place(arguments, grad_output, {&grad_grad_bias, &grad_grad_output});
  arguments.claim({&grad_grad_output},
                  {&grad_output, &grad_grad_bias, grouping.group_idx ? &*grouping.group_idx : nullptr});
  place.compute([&] { compute_double_backward(place, grouping, grad_grad_bias, grad_grad_output); });
  return grad_grad_output;
}

const Binding kBinding([](nb::module_& module) {
  define(module, "grouped_bias_add", forward);
  define(module, "grouped_bias_add_backward", backward);
  define(module, "grouped_bias_add_double_backward", double_backward);
});

}  // namespace

}  // namespace aclgrad::python
