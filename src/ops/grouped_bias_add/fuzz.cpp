// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Problems of the grouped bias-add gradient with any contents of device memory.
#include "fuzz/data.h"
#include "ops/grouped_bias_add/cases.h"

namespace aclgrad::test {
namespace {

void fuzz(Bytes& bytes) {
  const DataType type = bytes.PickValueInArray(kFloatTypes);
  const Contents contents = draw_contents(bytes);
  const Layout layout = draw_layout(bytes);
  const bool grouped = bytes.ConsumeBool();
  const auto kind = static_cast<int64_t>(bytes.ConsumeBool());
  const auto groups = bytes.ConsumeIntegralInRange<int64_t>(0, 9);
  const auto rows = bytes.ConsumeIntegralInRange<int64_t>(0, 300);
  const auto columns = bytes.ConsumeIntegralInRange<int64_t>(0, 70);
  const TensorValue group_idx = draw_indices(bytes, {groups}, kind == 1 ? 30 : rows + 2);
  const Shape shape = grouped ? Shape{rows, columns} : Shape{groups, rows, columns};
  const Values grad_y = draw_values(bytes, shape, contents);
  const auto results =
      run_in_layouts("aclnnGroupedBiasAddGradV2",
                     {TensorValue{shape, type, grad_y}, grouped ? Value(group_idx) : Value(Null{}), kind,
                      TensorValue{{groups, columns}, type}},
                     layout);
  if (contents != Contents::whole_numbers) return;

  // Sums of these counts are exact in double.
  const auto is_exact = [](double count) { return std::abs(count) < 0x1p40; };
  if (kind == 1 && !std::all_of(group_idx.values.begin(), group_idx.values.end(), is_exact)) return;
  grouped_bias_add_cases::Ranges ranges = grouped_bias_add_cases::ranges_of(group_idx.values, kind, rows);
  for (int64_t g = 0; g < groups && !grouped; ++g) {
    ranges.begin[static_cast<size_t>(g)] = g * rows;
    ranges.end[static_cast<size_t>(g)] = (g + 1) * rows;
  }
  require_exact(results[0], reference::grouped_bias_add_grad(grad_y, columns, ranges.begin, ranges.end), type,
                "grouped bias: as the reference");
}

const FuzzTarget kTarget(0, fuzz);

}  // namespace
}  // namespace aclgrad::test
