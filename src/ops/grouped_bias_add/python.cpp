// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Grouped bias-add, its gradient, and that gradient's. The sum itself has no kernel in the library: adding one row to
// others is as fast as memory, and so is done here.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "binding.h"
#include "ops/grouped_bias_add/kernel.h"
#include "ops/grouped_bias_add/reference.h"

namespace aclgrad::python {
namespace {

using namespace ops::grouped_bias_add;
using reference::GroupRange;

// All are contiguous.
struct GroupedBiasAdd {
  ConstTensor x;     // as grad_output of the gradient
  ConstTensor bias;  // [groups, columns]
  ConstTensor group_idx;
  GroupKind kind = GroupKind::ends;
  Tensor output;  // as x
};

void check(const GroupedBiasAdd& p, Contract& contract) {
  const char* axes = p.group_idx.defined() ? "RH" : "GRH";
  contract.floats({DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  contract.input("x", p.x, axes, 0);
  if (p.group_idx.defined()) contract.integers("group_idx", p.group_idx, "G");
  contract.input("bias", p.bias, "GH", 0);
  contract.mode("kind", p.kind, {"ends", "counts"});
  contract.output("output", p.output, axes, 0);
}

// Rows are counted through all groups.
std::vector<GroupRange> ranges_of(const ConstTensor& rows, const ConstTensor& group_idx, GroupKind kind,
                                  int64_t groups) {
  const bool are_equal = !group_idx.defined();
  const int64_t rows_of_group = are_equal ? rows.size(1) : 0;
  GroupReader reader(group_idx, kind, rows.size(are_equal ? 1 : 0));
  std::vector<GroupRange> ranges;
  for (int64_t group = 0; group < groups; ++group) {
    const auto [begin, end] = reader.next();
    ranges.push_back({group * rows_of_group + begin, group * rows_of_group + end});
  }
  return ranges;
}

template <class T>
void add_bias(const GroupedBiasAdd& p) {
  constexpr int64_t kRowsPerTask = 64;
  const int64_t columns = p.bias.size(1), row_count = p.x.size(0) * (p.group_idx.defined() ? 1 : p.x.size(1));
  // The group of each row; where groups overlap, as wrong ends may make them, the last one.
  std::vector<int64_t> group_of(static_cast<size_t>(row_count), -1);
  int64_t groups = 0;
  for (const auto& [begin, end] : ranges_of(p.x, p.group_idx, p.kind, p.bias.size(0))) {
    std::fill(group_of.begin() + begin, group_of.begin() + end, groups);
    ++groups;
  }
  const double nanoseconds = 0.5 * static_cast<double>(row_count * columns);
  parallel_for(divide_up(row_count, kRowsPerTask), nanoseconds, [&](int64_t task) {
    const int64_t last = std::min(row_count, (task + 1) * kRowsPerTask);
    for (int64_t row = task * kRowsPerTask; row < last; ++row) {
      const int64_t group = group_of[static_cast<size_t>(row)];
      const T* x = static_cast<const T*>(p.x.data) + row * columns;
      T* y = static_cast<T*>(p.output.data) + row * columns;
      if (group < 0) {
        std::memmove(y, x, static_cast<size_t>(columns) * sizeof(T));
      } else {
        const T* bias = static_cast<const T*>(p.bias.data) + group * columns;
        for (int64_t i = 0; i < columns; ++i) y[i] = sum_of(x[i], bias[i]);
      }
    }
  });
}

// What `group_ends` holds must make sense, where it may be read.
void check_groups(const Call& call, const ConstTensor& group_idx, GroupKind kind, int64_t rows) {
  if (!group_idx.defined() || !call.reads_data()) return;
  const std::vector<int64_t> values = integers_of(group_idx);
  if (kind == GroupKind::ends) call.check_ends("group_ends", values);
  int64_t end = 0;
  for (size_t group = 0; group < values.size(); ++group) {
    const int64_t entry = values[group];
    const int64_t max = kind == GroupKind::ends ? rows : rows - end;
    if (entry < 0 || entry > max)
      call.refuse_entry("group_ends", group, fmt::format("0 to {}, of {} rows", max, rows), entry);
    end = kind == GroupKind::ends ? entry : end + entry;
  }
}

Array forward(const Argument& x, const Argument& bias, const Argument& group_ends, const Argument& kind,
              const Argument& out) {
  Call call(Call::Memory::cpu);
  GroupedBiasAdd p;
  call.input("x", x, p.x);
  call.input("bias", bias, p.bias);
  call.optional_indices("group_ends", group_ends, p.group_idx);
  call.mode("kind", kind, p.kind);
  call.output("out", out, p.output);
  check(p, call);
  check_groups(call, p.group_idx, p.kind, p.x.size(0));
  return only(call.compute([&] { visit_element_type(p.x.type, [&]<class T>(T) { add_bias<T>(p); }); }));
}

Results backward(const Argument& grad_output, const Argument& group_ends, const Argument& kind,
                 const Argument& output_mask, const Argument& out) {
  Call call(Call::Memory::cpu_or_gpu);
  GroupedBiasAddBackward p;
  call.input("grad_output", grad_output, p.grad_output);
  const std::vector<bool> wanted = call.flags("output_mask", output_mask, 1);
  call.optional_indices("group_ends", group_ends, p.group_idx);
  call.mode("kind", kind, p.kind);
  call.output("out", out, p.grad_bias);
  check(p, call);
  check_groups(call, p.group_idx, p.kind, p.grad_output.size(0));
  if (!wanted[0]) return {std::nullopt};
  return call.compute([&] {
    if (p.grad_output.type != DataType::float64) return call.launch(p);
    write_doubles(reference::grouped_bias_add_grad(doubles_of(p.grad_output), p.columns(),
                                                   ranges_of(p.grad_output, p.group_idx, p.kind, p.groups())),
                  p.grad_bias);
  });
}

// Of grad_output it is the shape that counts, as that of the result.
Array double_backward(const Argument& grad_output, const Argument& grad_grad_bias, const Argument& group_ends,
                      const Argument& kind, const Argument& out) {
  Call call(Call::Memory::cpu);
  GroupedBiasAddDoubleBackward p;
  ConstTensor rows;
  call.input("grad_output", grad_output, rows);
  call.input("grad_grad_bias", grad_grad_bias, p.grad_grad_bias);
  call.optional_indices("group_ends", group_ends, p.group_idx);
  call.mode("kind", kind, p.kind);
  call.output("out", out, p.grad_grad_output);
  call.floats({DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  call.unread_input("grad_output", rows, p.has_equal_groups() ? "GRH" : "RH", Shape::kMaxRank);
  if (!p.has_equal_groups()) call.integers("group_ends", p.group_idx, "G");
  check(p, call);
  check_groups(call, p.group_idx, p.kind, rows.size(0));
  return only(call.run(p));
}

const Binding kBinding([](nb::module_& module) {
  define(module, "grouped_bias_add", forward);
  define(module, "grouped_bias_add_backward", backward);
  define(module, "grouped_bias_add_double_backward", double_backward);
});

}  // namespace

}  // namespace aclgrad::python
