// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The grouped bias-add gradient as the tests see it.
#include <cmath>
#include <limits>

#include "aclgrad/grouped_bias_add.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "ops/grouped_bias_add/cases.h"
#include "support/function.h"

namespace aclgrad::test {
namespace {

using namespace grouped_bias_add_cases;

std::vector<double> grad_y_of(int64_t count, DataType type) {
  return rounded(uniform(count, -5, 5, 1), type);
}

// With a group index: gradY, groupIdxOptional, [groupIdxType,] out.
test::Case grouped_case(const grouped_bias_add_cases::Case& c, DataType type, DataType index_type,
                        bool has_type) {
  const auto groups = static_cast<int64_t>(c.group_idx.size());
  test::Case result;
  result.title = std::to_string(c.rows) + "x" + std::to_string(c.columns) + " in " + std::to_string(groups) +
                 " groups, index " + std::to_string(static_cast<int>(index_type));
  result.arguments = {TensorValue{{c.rows, c.columns}, type, grad_y_of(c.rows * c.columns, type)},
                      TensorValue{{groups}, index_type, c.group_idx}};
  if (has_type) result.arguments.push_back(c.group_idx_type);
  result.arguments.push_back(TensorValue{{groups, c.columns}, type});
  return result;
}

// The groups of a call on these rows; the number, where there is one, is the type of the index.
std::vector<reference::GroupRange> ranges_in(const std::vector<Value>& arguments, const Shape& rows) {
  const std::vector<int64_t> numbers = numbers_in(arguments);
  if (const TensorValue* index = tensors_in(arguments)[1])
    return ranges_of(index->values, numbers.empty() ? 0 : numbers[0], rows[0]);
  std::vector<reference::GroupRange> ranges;
  for (int64_t g = 0; g < rows[0]; ++g) ranges.push_back({g * rows[1], (g + 1) * rows[1]});
  return ranges;
}

Outputs outputs_of(const std::vector<Value>& arguments, bool) {
  const TensorValue& rows = *tensors_in(arguments)[0];
  return {Expected{
      reference::grouped_bias_add_grad(rows.values, rows.shape.back(), ranges_in(arguments, rows.shape)),
      tolerance(rows.type, false)}};
}

// Without: groups of equal size.
test::Case equal_case(const Shape& shape, DataType type, bool has_type) {
  test::Case result;
  result.title = text(shape) + " in groups of equal size";
  result.arguments = {TensorValue{shape, type, grad_y_of(element_count(shape), type)}, Null{}};
  if (has_type) result.arguments.push_back(int64_t{0});
  result.arguments.push_back(TensorValue{{shape[0], shape[2]}, type});
  return result;
}

template <bool has_type>
std::vector<test::Case> cases(DataType type) {
  std::vector<test::Case> result;
  for (const auto& c : kCases) {
    if (!has_type && c.group_idx_type != 0) continue;
    result.push_back(grouped_case(c, type, DataType::int64, has_type));
    const bool fits = std::all_of(c.group_idx.begin(), c.group_idx.end(), [](double v) { return v < 2e9; });
    if (fits) result.push_back(grouped_case(c, type, DataType::int32, has_type));
  }
  for (const Shape& shape :
       {Shape{1, 1, 1}, {3, 7, 31}, {5, 1, 64}, {2, 1030, 15}, {16, 2000, 128}, {1340, 19, 1}, {2049, 1, 4}})
    result.push_back(equal_case(shape, type, has_type));
  // Without rows the sums are zero.
  result.push_back(equal_case({3, 0, 8}, type, has_type));
  result.push_back(grouped_case({0, 8, {0, 0}, 0}, type, DataType::int64, has_type));
  result.push_back(grouped_case({4, 0, {2, 4}, 0}, type, DataType::int64, has_type));
  result.push_back(grouped_case({4, 8, {}, 0}, type, DataType::int64, has_type));
  return result;
}

template <bool has_type>
std::vector<test::Case> parallel_cases(DataType type) {
  return {grouped_case({3000, 1500, {1, 2900, 3000}, 0}, type, DataType::int64, has_type)};
}

template <bool has_type>
std::vector<test::Case> hard_cases(DataType type) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  test::Case not_finite = grouped_case({4, 3, {1, 4}, 0}, type, DataType::int32, has_type);
  std::get<TensorValue>(not_finite.arguments[0]).values = {
      1, 2, 3, std::nan(""), kInfinity, -kInfinity, 1, 1, kInfinity, 1, 1, 1};
  return {not_finite};
}

template <bool has_type>
std::vector<Mistake> mistakes() {
  constexpr DataType kFloat = DataType::float32;
  constexpr DataType kIndex = DataType::int64;
  std::vector<Mistake> result;
  const auto add = [&](std::string title, std::string parameter, Value grad_y, Value group_idx, Value out,
                       int64_t type = 0) {
    std::vector<Value> arguments{std::move(grad_y), std::move(group_idx)};
    if (has_type) arguments.push_back(type);
    arguments.push_back(std::move(out));
    result.push_back({std::move(title), std::move(arguments), 161002, std::move(parameter)});
  };
  const TensorValue rows{{6, 4}, kFloat}, groups{{2, 3, 4}, kFloat}, index{{2}, kIndex}, out{{2, 4}, kFloat};
  add("double", "gradY", TensorValue{{6, 4}, DataType::float64}, index,
      TensorValue{{2, 4}, DataType::float64});
  add("rank 2 without an index", "gradY", rows, Null{}, out);
  add("rank 3 with an index", "gradY", groups, index, out);
  add("2049 groups", "groupIdxOptional", rows, TensorValue{{2049}, kIndex}, TensorValue{{2049, 4}, kFloat});
  if (has_type) {
    add("type 2", "groupIdxType", rows, index, out, 2);
    add("type -1", "groupIdxType", rows, index, out, -1);
    add("out before the type", "out", rows, index, TensorValue{{3, 4}, kFloat}, 2);
  }
  return result;
}

template <bool has_type>
Operator operator_of(const char* name, auto phase1, Phase2 phase2) {
  std::vector<Parameter> parameters = {{"gradY", Role::input, {0}},
                                       {"groupIdxOptional", Role::optional_input}};
  if (has_type) parameters.push_back({"groupIdxType", Role::attribute});
  parameters.push_back({"out", Role::output});
  return {.name = name,
          .parameters = parameters,
          .types = {std::begin(kFloatTypes), std::end(kFloatTypes)},
          .phase1 = phase1,
          .phase2 = phase2,
          .expected = outputs_of,
          .cases = cases<has_type>,
          .parallel_cases = parallel_cases<has_type>,
          .hard_cases = hard_cases<has_type>,
          .mistakes = mistakes<has_type>};
}

const Registration kGrad(operator_of<false>(
    "aclnnGroupedBiasAddGrad",
    phase1_of<aclnnGroupedBiasAddGradGetWorkspaceSize, const aclTensor*, const aclTensor*, aclTensor*>,
    aclnnGroupedBiasAddGrad));

const Registration kGradV2(
    operator_of<true>("aclnnGroupedBiasAddGradV2",
                      phase1_of<aclnnGroupedBiasAddGradV2GetWorkspaceSize, const aclTensor*, const aclTensor*,
                                int64_t, aclTensor*>,
                      aclnnGroupedBiasAddGradV2));

// ---- The C++ interface

using P = GroupedBiasAddBackward;
using DoubleBackward = GroupedBiasAddDoubleBackward;

constexpr DataType kTypesOfSecond[] = {DataType::float32, DataType::float16, DataType::bfloat16,
                                       DataType::float64};

// The arguments of version 2, with the type last, and more groups than the documents allow.
std::vector<test::Case> function_cases(DataType type) {
  std::vector<test::Case> result = cases<true>(type);
  const grouped_bias_add_cases::Case many_groups{5000, 1, std::vector<double>(5000, 1), 1};
  result.push_back(grouped_case(many_groups, type, DataType::int32, true));
  for (test::Case& one : result) std::swap(one.arguments[2], one.arguments[3]);
  return result;
}

// The same problems, of which each row takes what its group has.
std::vector<test::Case> second_cases(DataType type) {
  std::vector<test::Case> result;
  for (const test::Case& first : function_cases(type)) {
    const auto& rows = std::get<TensorValue>(first.arguments[0]);
    const auto& groups = std::get<TensorValue>(first.arguments[2]);
    std::vector<double> bias = grad_y_of(element_count(groups.shape), type);
    for (double& value : bias)
      value = std::round(value);  // a row may lie in a few groups, whose sum is exact then
    result.push_back({first.title,
                      {TensorValue{groups.shape, type, bias}, first.arguments[1],
                       TensorValue{rows.shape, type}, first.arguments[3]}});
  }
  return result;
}

Outputs second_outputs(const std::vector<Value>& arguments, bool) {
  const std::vector<const TensorValue*> tensors = tensors_in(arguments);
  const Shape& rows = tensors[2]->shape;
  const int64_t row_count = tensors[1] == nullptr ? rows[0] * rows[1] : rows[0];
  return {Expected{reference::grouped_bias_add_double_backward(tensors[0]->values, row_count, rows.back(),
                                                               ranges_in(arguments, rows)),
                   0}};
}

std::vector<LargeCase> large_cases() {
  constexpr DataType kType = DataType::bfloat16;
  constexpr int64_t kRows = (int64_t{1} << 27) + 700, kColumns = 17, kLast = 40;
  static_assert(kRows * kColumns > int64_t{1} << 31);
  const auto arguments = [](int64_t rows, std::vector<double> grad_y) {
    const int64_t last_end = rows, first_end = last_end - kLast / 2;
    const std::vector<double> ends = {static_cast<double>(first_end), static_cast<double>(last_end)};
    return std::vector<Value>{TensorValue{{rows, kColumns}, kType, std::move(grad_y)},
                              TensorValue{{2}, DataType::int64, ends}, TensorValue{{2, kColumns}, kType},
                              int64_t{0}};
  };
  return {{"rows",
           arguments(kRows, {}),
           arguments(kLast, grad_y_of(kLast * kColumns, kType)),
           {{{kRows - kLast, 0}}, {}, {}}}};
}

const FunctionRegistration kFunction(FunctionOf<P>{
    .name = "grouped_bias_add_backward",
    .workspace_size = workspace_size,
    .workspace_size_on_gpu = cuda::workspace_size,
    .run = grouped_bias_add_backward,
    .run_on_gpu = cuda::grouped_bias_add_backward,
    .fields = {{"grad_output", Role::input, &P::grad_output, 1, {0, 1}},
               {"group_idx", Role::optional_input, &P::group_idx, kContiguous},
               {"grad_bias", Role::output, &P::grad_bias, kContiguous}},
    .attributes = {{"kind", [](P& p, int64_t v) { p.kind = GroupKind(v); }}},
    .types = {std::begin(kFloatTypes), std::end(kFloatTypes)},
    .expected = outputs_of,
    .cases = function_cases,
    .mistakes = {{"kind", [](P& p) { p.kind = GroupKind(2); }},
                 {"grad_output: expected data type", [](P& p) { p.grad_output.type = DataType::float64; }},
                 {"grad_bias: expected shape",
                  [](P& p) { ++p.grad_output.shape[p.has_equal_groups() ? 2 : 1]; }},
                 {"grad_output: expected at most",
                  [](P& p) { p.grad_output.shape[p.has_equal_groups() ? 1 : 0] = INT64_MAX; }},
                 {"grad_bias: expected at most",
                  [](P& p) {
                    p.grad_bias.shape = {1 << 30, 1 << 30};
                  }}},
    .large_cases = large_cases,
});

const FunctionRegistration kDoubleBackwardFunction(FunctionOf<DoubleBackward>{
    .name = "grouped_bias_add_double_backward",
    .workspace_size = workspace_size,
    .run = grouped_bias_add_double_backward,
    .fields = {{"grad_grad_bias", Role::input, &DoubleBackward::grad_grad_bias, kContiguous, {0}},
               {"group_idx", Role::optional_input, &DoubleBackward::group_idx, kContiguous},
               {"grad_grad_output", Role::output, &DoubleBackward::grad_grad_output, 1, {0, 1}}},
    .attributes = {{"kind", [](DoubleBackward& p, int64_t v) { p.kind = GroupKind(v); }}},
    .types = {std::begin(kTypesOfSecond), std::end(kTypesOfSecond)},
    .expected = second_outputs,
    .cases = second_cases,
    .mistakes = {{"kind", [](DoubleBackward& p) { p.kind = GroupKind(2); }},
                 {"grad_grad_bias: expected data type",
                  [](DoubleBackward& p) { p.grad_grad_bias.type = DataType::int32; }},
                 {"grad_grad_output: expected shape",
                  [](DoubleBackward& p) { ++p.grad_grad_output.shape[p.has_equal_groups() ? 2 : 1]; }}},
});

// Of the results in each type; others where the cases or the mathematics are others: test_determinism says which.
const HashRegistration kHashes({
    {"aclnnGroupedBiasAddGrad", {0x7DFFC926AD6541A8, 0xE6DFCF84F84EF713, 0x11525CDF84E2CDF2}},
    {"aclnnGroupedBiasAddGradV2", {0x122D8C0A83634637, 0x6A964BF070CE6BF4, 0x43F4D8852242F5C6}},
    {"grouped_bias_add_backward", {0x5F9F8BDE84B3A22A, 0x5A6A7B32165782D4, 0xF9E29854C60B5AA5}},
    {"grouped_bias_add_double_backward",
     {0x69D387D7A90B7415, 0x6B0D935CC4339522, 0x508975684F9D798, 0x52D3514AD09E4FE9}},
});

}  // namespace
}  // namespace aclgrad::test
