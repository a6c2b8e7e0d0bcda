// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Multi-scale deformable attention and its gradient as the tests see them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "aclgrad/multi_scale_deformable_attention.h"
#include "aclnnop/aclnn_multi_scale_deformable_attention_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attn_function.h"
#include "ops/multi_scale_deformable_attention/cases.h"
#include "support/function.h"

namespace aclgrad::test {
namespace {

using namespace multi_scale_deformable_attention_cases;

TensorValue index_tensor(const Shape& shape, DataType type, const std::vector<int64_t>& values) {
  return {shape, type, std::vector<double>(values.begin(), values.end())};
}

enum class Kind { forward, grad, second };  // the last one is the gradient of the gradient

// How the same problem may be said.
struct Form {
  DataType index_type = DataType::int64;
  bool joined = true;  // heads and channels are one axis of the queries' tensor
};

template <Kind kind>
std::vector<Value> arguments_of(const Reference& r, DataType type, Form form = {}) {
  const auto tensor = [&](const Shape& shape, const std::vector<double>& values = {}) {
    return TensorValue{shape, type, values};
  };
  const Shape value = value_shape(r), location = location_shape(r), attention = attention_shape(r),
              rows = query_shape(r, form.joined);
  std::vector<Value> arguments = {tensor(value, r.value),
                                  index_tensor({r.levels, 2}, form.index_type, r.spatial_shape),
                                  index_tensor({r.levels}, form.index_type, r.level_start_index),
                                  tensor(location, r.location), tensor(attention, r.attention_weight)};
  const auto add = [&](std::initializer_list<Value> more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
  };
  if (kind != Kind::forward) add({tensor(rows, r.grad_output)});
  if (kind == Kind::second)
    add({tensor(value, r.grad_grad_value), tensor(location, r.grad_grad_location),
         tensor(attention, r.grad_grad_attention_weight)});
  if (kind != Kind::grad) add({tensor(rows)});
  if (kind != Kind::forward) add({tensor(value), tensor(location), tensor(attention)});
  return arguments;
}

template <Kind kind>
Outputs outputs_of(const std::vector<Value>& arguments, bool positions_in_double) {
  const std::vector<const TensorValue*> tensors = tensors_in(arguments);
  const DataType type = tensors[0]->type;
  const Shape &value = tensors[0]->shape, &location = tensors[3]->shape;
  Reference r{value[0], value[1], value[2], value[3], location[1], location[3], location[4]};
  r.positions_in_double = positions_in_double || type == DataType::float64;
  r.value = tensors[0]->values;
  r.spatial_shape = integers_of(tensors[1]->values);
  r.level_start_index = integers_of(tensors[2]->values);
  r.location = tensors[3]->values;
  r.attention_weight = tensors[4]->values;
  r.grad_output = tensors[5]->values;
  if (kind == Kind::second) {
    const auto values = [&](size_t i) {
      return tensors[i] != nullptr ? tensors[i]->values : std::vector<double>();
    };
    r.grad_grad_value = values(6);
    r.grad_grad_location = values(7);
    r.grad_grad_attention_weight = values(8);
    r.run_double_backward();
  } else {
    r.run();
  }
  const double allowed = tolerance(type, true);
  if (kind == Kind::forward) return {Expected{r.output, allowed}};
  if (r.grad_output.empty()) {  // nor are there gradients
    r.grad_value.resize(r.value.size());
    r.grad_location.resize(r.location.size());
    r.grad_attention_weight.resize(r.attention_weight.size());
  }
  // The product of a location in 16 bits and the size of a level is exact in float.
  const bool jumps = type == DataType::float32;
  Outputs gradients = {Expected{r.grad_value, allowed},
                       Expected{r.grad_location, allowed, relative_error, jumps},
                       Expected{r.grad_attention_weight, allowed}};
  if (kind == Kind::second) gradients.insert(gradients.begin(), Expected{r.grad_grad_output, allowed});
  return gradients;
}

template <Kind kind>
Case case_of(const Reference& r, DataType type, Form form = {}) {
  const std::string levels = text(r.spatial_shape);
  return {"batches, heads, channels, queries, points " +
              text({r.batches, r.heads, r.channels, r.queries, r.points}) + ", levels " + levels +
              (form.joined ? ", joined" : ""),
          arguments_of<kind>(r, type, form)};
}

template <Kind kind>
std::vector<Case> cases(DataType type) {
  std::vector<Case> result;
  for (const Sizes& sizes : kCases) {
    const Reference r = random_problem(sizes, type);
    result.push_back(case_of<kind>(r, type, {DataType::int32, true}));
    result.push_back(case_of<kind>(r, type, {DataType::int64, false}));
  }
  // Levels that share rows add up; rows outside of all levels get zeros.
  Reference overlapping = random_problem({1, 2, 32, 200, 4, {6, 6, 6, 6, 3, 3}}, type);
  overlapping.level_start_index = {30, 10, 0};
  result.push_back(case_of<kind>(overlapping, type));
  Reference apart = random_problem({1, 2, 16, 20, 4, {3, 3, 2, 2, 20, 1}}, type);
  apart.levels = 2;
  apart.spatial_shape = {3, 3, 2, 2};
  apart.level_start_index = {5, 25};
  apart.location.resize(static_cast<size_t>(element_count(location_shape(apart))));
  apart.attention_weight.resize(static_cast<size_t>(element_count(attention_shape(apart))));
  result.push_back(case_of<kind>(apart, type));
  return result;
}

// Index tensors that no program should send, samples that do not count, and values that are not finite.
template <Kind kind>
std::vector<Case> hard_problems(DataType type, Form form) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<Case> all;
  const auto add = [&](const Reference& r) { all.push_back(case_of<kind>(r, type, form)); };
  const double bad_locations[] = {kNan, kInfinity, -kInfinity, 3e38, -3e38, 1e300,
                                  1e10, -1e10,     6e4,        1.5,  -0.5};
  // Usual, empty, negative, with a positive product, absurd, beyond what floats can count.
  const std::vector<int64_t> spatial_shapes[] = {{4, 5, 2, 3},
                                                 {0, 5, 2, 0},
                                                 {-4, 5, 2, -3},
                                                 {0, 5, -2, 3},
                                                 {-4, -5, kMin, kMin},
                                                 {int64_t{1} << 30, int64_t{1} << 30, 2, 3},
                                                 {1, kHuge, kHuge, 1},
                                                 {kHuge, kHuge, kMax, kMax},
                                                 {kMax, kMax, 3, kMax},
                                                 {kMax, kMax, kMin, 3},
                                                 {1, int64_t{1} << 25, int64_t{1} << 25, 1}};
  // Levels that lie behind each other, leave the tensor, begin before it, share rows, or are nowhere.
  const std::vector<int64_t> starts[] = {{0, 20}, {0, 22},       {-7, 20},     {10, 0},
                                         {0, 0},  {1000, -1000}, {kMin, kMax}, {kMax, kMin}};
  const auto add_levels = [&](const std::vector<int64_t>& spatial_shape, const std::vector<int64_t>& start) {
    Reference r = random_problem({1, 2, 16, 40, 3, {4, 5, 2, 3}}, type);
    r.spatial_shape = spatial_shape;
    r.level_start_index = start;
    add(r);
    const std::vector<double> locations = r.location;
    for (size_t i = 0; i < locations.size(); i += 5)
      r.location[i] = rounded(bad_locations[i / 5 % std::size(bad_locations)], type);
    add(r);
    // Near zero, huge levels are hit in their first few pixels. No result of 16 bits has room for their slopes.
    if (type == DataType::float16 || type == DataType::bfloat16) return;
    for (size_t i = 0; i < locations.size(); ++i) {
      const auto size = static_cast<double>(spatial_shape[2 * (i / 6 % 2) + 1 - i % 2]);
      r.location[i] = rounded(locations[i] * 6 / std::max(1.0, std::fabs(size)), type);
    }
    add(r);
  };
  for (const auto& spatial_shape : spatial_shapes) {
    for (const auto& start : starts) add_levels(spatial_shape, start);
  }

  // An infinite weight shows whether a sample is left out or only weighted with zero.
  for (double bad : bad_locations) {
    if (std::isfinite(bad) && std::isinf(rounded(bad, type))) continue;
    for (size_t axis : {0u, 1u}) {
      Reference r = random_problem({1, 1, 16, 3, 4, {4, 5}}, type);
      for (size_t sample : {0u, 5u, 11u}) {
        r.location[2 * sample + axis] = rounded(bad, type);
        r.attention_weight[sample] = kInfinity;
        r.grad_grad_attention_weight[sample] = r.grad_grad_location[2 * sample + axis] = kInfinity;
      }
      add(r);
    }
  }
  for (double special : {kNan, kInfinity, -kInfinity}) {
    for (auto values : {&Reference::value, &Reference::attention_weight, &Reference::grad_output}) {
      Reference r = random_problem({2, 2, 24, 9, 3, {4, 5, 2, 3}}, type);
      for (size_t i = 3; i < (r.*values).size(); i += (r.*values).size() / 5) (r.*values)[i] = special;
      add(r);
      all.back().mixes_infinities = true;
    }
  }
  return all;
}

// The C interface takes tensors without elements, too.
template <Kind kind>
std::vector<Case> hard_cases(DataType type) {
  std::vector<Case> result = hard_problems<kind>(type, {});
  for (auto axis : {&Reference::batches, &Reference::rows, &Reference::heads, &Reference::queries,
                    &Reference::levels, &Reference::points, &Reference::channels}) {
    Reference r = random_problem({2, 2, 8, 5, 3, {2, 3}}, type);
    r.*axis = 0;
    if (r.levels == 0) r.spatial_shape = r.level_start_index = {};
    r.value.resize(static_cast<size_t>(element_count(value_shape(r))));
    r.location.resize(static_cast<size_t>(element_count(location_shape(r))));
    r.attention_weight.resize(static_cast<size_t>(element_count(attention_shape(r))));
    r.grad_output.resize(static_cast<size_t>(element_count(query_shape(r, false))));
    result.push_back(case_of<kind>(r, type, {}));
  }
  return result;
}

template <Kind kind>
std::vector<Case> parallel_cases(DataType type) {
  std::vector<Case> result;
  for (const Sizes& sizes : {
           Sizes{1, 8, 32, 400, 4, {20, 30, 10, 15, 5, 8, 3, 4}},  // heads or levels
           Sizes{1, 1, 16, 2000, 4, {8, 8, 4, 4}},                 // pieces of the queries
           Sizes{2, 2, 24, 300, 4, {8, 9, 4, 5}},                  // pieces, levels, a part of a chunk
           Sizes{1, 3, 64, 50, 2, {30, 40, 20, 20}},               // value in place
       }) {
    result.push_back(case_of<kind>(random_problem(sizes, type), type, {}));
  }
  return result;
}

template <Kind kind>
std::vector<Mistake> mistakes() {
  const auto wrong = [](const char* title, const char* parameter, const Reference& r,
                        DataType type = DataType::float32) {
    return Mistake{title, arguments_of<kind>(r, type), 161002, parameter};
  };
  std::vector<Mistake> all = {wrong("double", "value", {2, 6, 4, 16, 40, 1, 3}, DataType::float64),
                              wrong("channels 12", "value", {2, 6, 4, 12, 40, 1, 3}),
                              wrong("channels 264", "value", {1, 6, 1, 264, 4, 1, 1}),
                              wrong("17 heads", "value", {1, 6, 17, 8, 4, 1, 1}),
                              wrong("17 levels", "", {1, 6, 1, 8, 4, 17, 1}),
                              wrong("17 points", "", {1, 6, 1, 8, 4, 1, 17})};
  if (kind == Kind::grad) all.push_back(wrong("500000 queries", "location", {1, 6, 1, 8, 500000, 1, 1}));
  return all;
}

template <Kind kind>
Operator operator_of(const char* name, const std::vector<Parameter>& parameters, auto phase1, Phase2 phase2) {
  return {.name = name,
          .parameters = parameters,
          .types = {std::begin(kFloatTypes), std::end(kFloatTypes)},
          .phase1 = phase1,
          .phase2 = phase2,
          .expected = outputs_of<kind>,
          .cases = cases<kind>,
          .parallel_cases = parallel_cases<kind>,
          .hard_cases = hard_cases<kind>,
          .mistakes = mistakes<kind>,
          .adds_in_any_order = kind == Kind::grad};
}

const Registration kForward(operator_of<Kind::forward>(
    "aclnnMultiScaleDeformableAttnFunction",
    {{"value", Role::input, {1}},
     {"spatialShape", Role::input},
     {"levelStartIndex", Role::input, {0}},
     {"location", Role::input},
     {"attnWeight", Role::input},
     {"output", Role::output}},
    phase1_of<aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize, const aclTensor*, const aclTensor*,
              const aclTensor*, const aclTensor*, const aclTensor*, aclTensor*>,
    aclnnMultiScaleDeformableAttnFunction));

const Registration kGrad(
    operator_of<Kind::grad>("aclnnMultiScaleDeformableAttentionGrad",
                            {{"value", Role::input},
                             {"spatialShape", Role::input},
                             {"levelStartIndex", Role::input},
                             {"location", Role::input},
                             {"attnWeight", Role::input},
                             {"gradOutput", Role::input},
                             {"gradValue", Role::output},
                             {"gradLocation", Role::output},
                             {"gradAttnWeight", Role::output}},
                            phase1_of<aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize,
                                      const aclTensor*, const aclTensor*, const aclTensor*, const aclTensor*,
                                      const aclTensor*, const aclTensor*, aclTensor*, aclTensor*, aclTensor*>,
                            aclnnMultiScaleDeformableAttentionGrad));

// ---- The C++ interface

constexpr Form kOfFunctions{DataType::int64, false};
constexpr DataType kTypes[] = {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64};

// Also beyond the documents'.
std::vector<Sizes> function_sizes() {
  std::vector<int64_t> many_levels;
  for (int64_t l = 0; l < 70; ++l) many_levels.insert(many_levels.end(), {1 + l % 4, 1 + l % 3});
  std::vector<Sizes> all(std::begin(kCases), std::end(kCases));
  all.insert(all.end(), {{1, 17, 1, 5, 1, {3, 3}},
                         {1, 1, 7, 20, 2, {3, 4, 2, 2}},
                         {1, 2, 300, 3, 2, {3, 4}},
                         {2, 1, 33, 9, 100, {3, 3}},
                         {1, 8, 48, 3, 2, {12, 10}},
                         {1, 2, 16, 11, 3, many_levels},
                         {1, 1, 1000, 40, 1, {2, 2}}});
  return all;
}

template <Kind kind>
std::vector<Case> function_cases(DataType type) {
  std::vector<Case> result;
  for (const Sizes& sizes : function_sizes())
    result.push_back(case_of<kind>(random_problem(sizes, type), type, kOfFunctions));
  // What the first gradients are multiplied with may be left out.
  for (size_t tangent : {6u, 7u, 8u}) {
    if (kind != Kind::second) break;
    result.push_back(case_of<kind>(random_problem({2, 3, 16, 7, 3, {5, 4, 3, 2}}, type), type, kOfFunctions));
    result.back().arguments[tangent] = Null{};
  }
  return result;
}

// What no operator of the C interface has.
template <Kind kind>
std::vector<Case> hard_function_cases(DataType type) {
  if (kind != Kind::second && type != DataType::float64) return {};
  return hard_problems<kind>(type, kOfFunctions);
}

// A level that is the last of many rows.
template <Kind kind>
std::vector<LargeCase> large_cases() {
  constexpr bool is_grad = kind == Kind::grad;
  constexpr DataType kType = is_grad ? DataType::bfloat16 : DataType::float16;
  constexpr int64_t kRows = (int64_t{1} << (is_grad ? 22 : 31)) + 1000;
  const Reference small =
      random_problem(is_grad ? Sizes{1, 8, 64, 5, 2, {6, 10}} : Sizes{1, 2, 16, 5, 2, {6, 10}}, kType);
  Reference large = small;
  large.rows = kRows;
  large.level_start_index = {kRows - small.rows};
  large.value.clear();
  const LargeCase::Part level{{0, kRows - small.rows, 0, 0}};
  std::vector<LargeCase::Part> parts = {level, {}, {}, {}, {}, {}};
  if (is_grad) parts.insert(parts.end(), {level, {}, {}});
  return {{"rows", arguments_of<kind>(large, kType, kOfFunctions),
           arguments_of<kind>(small, kType, kOfFunctions), parts, int64_t{is_grad ? 6 : 1} << 30}};
}

template <Kind kind, class P>
FunctionOf<P> function_of(const char* name, auto run, auto run_on_gpu) {
  const std::vector<size_t> free_of_value =
      kind == Kind::forward ? std::vector<size_t>{1} : std::vector<size_t>{};
  FunctionOf<P> of{
      .name = name,
      .workspace_size = workspace_size,
      .run = run,
      .run_on_gpu = run_on_gpu,
      .fields = {{"value", Role::input, &P::value, 1, free_of_value},
                 {"spatial_shapes", Role::input, &P::spatial_shapes, kContiguous},
                 {"level_start_index", Role::input, &P::level_start_index, kContiguous},
                 {"sampling_locations", Role::input, &P::sampling_locations, 3},
                 {"attention_weights", Role::input, &P::attention_weights, 2}},
      .attributes = {},
      .types = {std::begin(kTypes), std::end(kTypes)},
      .expected = outputs_of<kind>,
      .uses_positions = kind != Kind::second,
      .cases = function_cases<kind>,
      .hard_cases = hard_function_cases<kind>,
      .mistakes = {
          {"value: expected data type", [](P& p) { p.value.type = DataType::int64; }},
          {"value: expected at most", [](P& p) { p.value.shape[1] = p.value.shape[3] = int64_t{1} << 40; }},
          {"value.shape[0]", [](P& p) { p.value.shape[0] = 0; }},
          {"value.shape[2]", [](P& p) { p.value.shape[2] = 0; }},
          {"value.shape[3]", [](P& p) { p.value.shape[3] = 0; }},
          {"spatial_shapes: expected shape", [](P& p) { p.spatial_shapes.shape[1] = 1; }},
          {"sampling_locations: expected at most",
           [](P& p) { p.sampling_locations.shape[3] = p.sampling_locations.shape[4] = 1 << 30; }},
          {"sampling_locations.shape[1]", [](P& p) { p.sampling_locations.shape[1] = 0; }},
          {"sampling_locations.shape[3]", [](P& p) { p.sampling_locations.shape[3] = 0; }},
          {"sampling_locations.shape[4]", [](P& p) { p.sampling_locations.shape[4] = 0; }},
      }};
  if constexpr (kind == Kind::forward) {
    of.fields.push_back({"output", Role::output, &P::output, 1});
  } else {
    of.fields.push_back({"grad_output", Role::input, &P::grad_output, 1});
    if constexpr (kind == Kind::second)
      of.fields.insert(
          of.fields.end(),
          {{"grad_grad_value", Role::optional_input, &P::grad_grad_value, 1},
           {"grad_grad_sampling_locations", Role::optional_input, &P::grad_grad_sampling_locations, 3},
           {"grad_grad_attention_weights", Role::optional_input, &P::grad_grad_attention_weights, 2},
           {"grad_grad_output", Role::optional_output, &P::grad_grad_output, 1}});
    of.fields.insert(of.fields.end(),
                     {{"grad_value", Role::optional_output, &P::grad_value, 1},
                      {"grad_sampling_locations", Role::optional_output, &P::grad_sampling_locations, 3},
                      {"grad_attention_weights", Role::optional_output, &P::grad_attention_weights, 2}});
  }
  if constexpr (kind != Kind::second) {
    of.workspace_size_on_gpu = cuda::workspace_size;
    of.large_cases = large_cases<kind>;
  }
  return of;
}

const FunctionRegistration kFunction(function_of<Kind::forward, MultiScaleDeformableAttention>(
    "multi_scale_deformable_attention", multi_scale_deformable_attention,
    cuda::multi_scale_deformable_attention));
const FunctionRegistration kBackwardFunction(function_of<Kind::grad, MultiScaleDeformableAttentionBackward>(
    "multi_scale_deformable_attention_backward", multi_scale_deformable_attention_backward,
    cuda::multi_scale_deformable_attention_backward));
const FunctionRegistration kDoubleBackwardFunction(
    function_of<Kind::second, MultiScaleDeformableAttentionDoubleBackward>(
        "multi_scale_deformable_attention_double_backward", multi_scale_deformable_attention_double_backward,
        nullptr));

// Of the results in each type; others where the cases or the mathematics are others: test_determinism says which.
const HashRegistration kHashes({
    {"aclnnMultiScaleDeformableAttentionGrad", {0xEA3E19F13AB49EBA, 0x71FD6747B16AC325, 0x6FE5263927E98899}},
    {"aclnnMultiScaleDeformableAttnFunction", {0x452B77D7FA19F9EF, 0x8C8E4A730E205579, 0xA36E59F0D08F47BB}},
    {"multi_scale_deformable_attention",
     {0xEC8875DFF45EE0B3, 0x7CCC1E5EDFA70CC1, 0xEB7BD42F16A55BD0, 0x160DEDBB1E4A92B6}},
    {"multi_scale_deformable_attention_backward",
     {0x4997E8417D09A3BE, 0x604EDA5934943D87, 0x7DD447A18C8537E3, 0xBA4E3BB581870E2F}},
    {"multi_scale_deformable_attention_double_backward",
     {0x45637FCDA33E7179, 0xA64978FB4C0BDDA5, 0xB64EE2E8769ACDB6, 0x07FBD2E664CC9DBF}},
});

}  // namespace
}  // namespace aclgrad::test
