// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Multi-scale deformable attention and its gradient as the tests see them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

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

// Sizes of a call without its values.
Reference sizes_only(int64_t batches, int64_t rows, int64_t heads, int64_t channels, int64_t queries,
                     int64_t levels, int64_t points) {
  Reference r{};
  r.batches = batches;
  r.rows = rows;
  r.heads = heads;
  r.channels = channels;
  r.queries = queries;
  r.levels = levels;
  r.points = points;
  return r;
}

// How the same problem may be said.
struct Form {
  DataType index_type = DataType::int64;
  bool joined = true;  // heads and channels are one axis of the queries' tensor
};

std::vector<Value> inputs_of(const Reference& r, DataType type, Form form) {
  return {TensorValue{value_shape(r), type, r.value},
          index_tensor({r.levels, 2}, form.index_type, r.spatial_shape),
          index_tensor({r.levels}, form.index_type, r.level_start_index),
          TensorValue{location_shape(r), type, r.location},
          TensorValue{attention_shape(r), type, r.attention_weight}};
}

std::vector<Value> forward_arguments(const Reference& r, DataType type, Form form) {
  std::vector<Value> arguments = inputs_of(r, type, form);
  arguments.push_back(TensorValue{query_shape(r, form.joined), type});
  return arguments;
}

std::vector<Value> grad_arguments(const Reference& r, DataType type, Form form) {
  std::vector<Value> arguments = inputs_of(r, type, form);
  arguments.push_back(TensorValue{query_shape(r, form.joined), type, r.grad_output});
  arguments.push_back(TensorValue{value_shape(r), type});
  arguments.push_back(TensorValue{location_shape(r), type});
  arguments.push_back(TensorValue{attention_shape(r), type});
  return arguments;
}

template <bool is_grad>
std::vector<Value> arguments_of(const Reference& r, DataType type, Form form = {}) {
  return is_grad ? grad_arguments(r, type, form) : forward_arguments(r, type, form);
}

// The reference of a call, whose gradient or result is the sixth tensor.
Reference reference_of(const std::vector<const TensorValue*>& tensors, bool positions_in_double) {
  const Shape &value = tensors[0]->shape, &location = tensors[3]->shape;
  Reference r = sizes_only(value[0], value[1], value[2], value[3], location[1], location[3], location[4]);
  r.positions_in_double = positions_in_double || tensors[0]->type == DataType::float64;
  r.value = tensors[0]->values;
  r.spatial_shape = integers_of(tensors[1]->values);
  r.level_start_index = integers_of(tensors[2]->values);
  r.location = tensors[3]->values;
  r.attention_weight = tensors[4]->values;
  r.grad_output = tensors[5]->values;
  return r;
}

template <bool is_grad>
Outputs outputs_of(const std::vector<Value>& arguments, bool positions_in_double) {
  const std::vector<const TensorValue*> tensors = tensors_in(arguments);
  const DataType type = tensors[0]->type;
  Reference r = reference_of(tensors, positions_in_double);
  r.run();
  if (r.grad_output.empty()) {  // nor are there gradients
    r.grad_value.resize(r.value.size());
    r.grad_location.resize(r.location.size());
    r.grad_attention_weight.resize(r.attention_weight.size());
  }
  const double allowed = tolerance(type, true);
  if (!is_grad) return {Expected{r.output, allowed}};
  // The product of a location in 16 bits and the size of a level is exact in float.
  const bool jumps = type == DataType::float32;
  return {Expected{r.grad_value, allowed}, Expected{r.grad_location, allowed, relative_error, jumps},
          Expected{r.grad_attention_weight, allowed}};
}

template <bool is_grad>
Case case_of(const Reference& r, DataType type, Form form) {
  const std::string levels = text(r.spatial_shape);
  return {"batches, heads, channels, queries, points " +
              text({r.batches, r.heads, r.channels, r.queries, r.points}) + ", levels " + levels +
              (form.joined ? ", joined" : ""),
          arguments_of<is_grad>(r, type, form)};
}

template <bool is_grad>
std::vector<Case> cases(DataType type) {
  std::vector<Case> result;
  for (const Sizes& sizes : kCases) {
    const Reference r = random_problem(sizes, type);
    result.push_back(case_of<is_grad>(r, type, {DataType::int32, true}));
    result.push_back(case_of<is_grad>(r, type, {DataType::int64, false}));
  }
  // Levels that share rows add up; rows outside of all levels get zeros.
  Reference overlapping = random_problem({1, 2, 32, 200, 4, {6, 6, 6, 6, 3, 3}}, type);
  overlapping.level_start_index = {30, 10, 0};
  result.push_back(case_of<is_grad>(overlapping, type, {}));
  Reference apart = random_problem({1, 2, 16, 20, 4, {3, 3, 2, 2, 20, 1}}, type);
  apart.levels = 2;
  apart.spatial_shape = {3, 3, 2, 2};
  apart.level_start_index = {5, 25};
  apart.location.resize(static_cast<size_t>(element_count(location_shape(apart))));
  apart.attention_weight.resize(static_cast<size_t>(element_count(attention_shape(apart))));
  result.push_back(case_of<is_grad>(apart, type, {}));
  return result;
}

// Index tensors that no program should send, samples that do not count, and values that are not finite. `make` makes a
// problem of sizes and a type, and `case_of` its case.
template <class Make, class CaseOf>
std::vector<Case> hard_cases_of(DataType type, Make&& make, CaseOf&& case_of) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<Case> all;
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
    Reference r = make({1, 2, 16, 40, 3, {4, 5, 2, 3}});
    r.spatial_shape = spatial_shape;
    r.level_start_index = start;
    all.push_back(case_of(r));
    const std::vector<double> locations = r.location;
    for (size_t i = 0; i < locations.size(); i += 5)
      r.location[i] = rounded(bad_locations[i / 5 % std::size(bad_locations)], type);
    all.push_back(case_of(r));
    // Near zero, huge levels are hit in their first few pixels. No result of 16 bits has room for their slopes.
    if (type == DataType::float16 || type == DataType::bfloat16) return;
    for (size_t i = 0; i < locations.size(); ++i) {
      const auto size = static_cast<double>(spatial_shape[2 * (i / 6 % 2) + 1 - i % 2]);
      r.location[i] = rounded(locations[i] * 6 / std::max(1.0, std::fabs(size)), type);
    }
    all.push_back(case_of(r));
  };
  for (const auto& spatial_shape : spatial_shapes) {
    for (const auto& start : starts) add_levels(spatial_shape, start);
  }

  // An infinite weight shows whether a sample is left out or only weighted with zero.
  for (double bad : bad_locations) {
    if (std::isfinite(bad) && std::isinf(rounded(bad, type))) continue;
    for (size_t axis : {0u, 1u}) {
      Reference r = make({1, 1, 16, 3, 4, {4, 5}});
      for (size_t sample : {0u, 5u, 11u}) {
        r.location[2 * sample + axis] = rounded(bad, type);
        r.attention_weight[sample] = kInfinity;
        if (!r.grad_grad_value.empty())
          r.grad_grad_attention_weight[sample] = r.grad_grad_location[2 * sample + axis] = kInfinity;
      }
      all.push_back(case_of(r));
    }
  }
  for (double special : {kNan, kInfinity, -kInfinity}) {
    for (auto values : {&Reference::value, &Reference::attention_weight, &Reference::grad_output}) {
      Reference r = make({2, 2, 24, 9, 3, {4, 5, 2, 3}});
      for (size_t i = 3; i < (r.*values).size(); i += (r.*values).size() / 5) (r.*values)[i] = special;
      all.push_back(case_of(r));
      all.back().mixes_infinities = true;
    }
  }
  return all;
}

template <bool is_grad>
std::vector<Case> hard_problems(DataType type, Form form) {
  return hard_cases_of(
      type, [&](const Sizes& sizes) { return random_problem(sizes, type); },
      [&](const Reference& r) { return case_of<is_grad>(r, type, form); });
}

// The C interface takes tensors without elements, too.
template <bool is_grad>
std::vector<Case> hard_cases(DataType type) {
  std::vector<Case> result = hard_problems<is_grad>(type, {});
  for (auto axis : {&Reference::batches, &Reference::rows, &Reference::heads, &Reference::queries,
                    &Reference::levels, &Reference::points, &Reference::channels}) {
    Reference r = random_problem({2, 2, 8, 5, 3, {2, 3}}, type);
    r.*axis = 0;
    if (r.levels == 0) r.spatial_shape = r.level_start_index = {};
    r.value.resize(static_cast<size_t>(element_count(value_shape(r))));
    r.location.resize(static_cast<size_t>(element_count(location_shape(r))));
    r.attention_weight.resize(static_cast<size_t>(element_count(attention_shape(r))));
    r.grad_output.resize(static_cast<size_t>(element_count(query_shape(r, false))));
    result.push_back(case_of<is_grad>(r, type, {}));
  }
  return result;
}

template <bool is_grad>
std::vector<Case> parallel_cases(DataType type) {
  std::vector<Case> result;
  for (const Sizes& sizes : {
           Sizes{1, 8, 32, 400, 4, {20, 30, 10, 15, 5, 8, 3, 4}},  // heads or levels
           Sizes{1, 1, 16, 2000, 4, {8, 8, 4, 4}},                 // pieces of the queries
           Sizes{2, 2, 24, 300, 4, {8, 9, 4, 5}},                  // pieces, levels, a part of a chunk
           Sizes{1, 3, 64, 50, 2, {30, 40, 20, 20}},               // value in place
       }) {
    result.push_back(case_of<is_grad>(random_problem(sizes, type), type, {}));
  }
  return result;
}

const std::vector<Parameter> kForwardParameters = {
    {"value", Role::input, {1}}, {"spatialShape", Role::input}, {"levelStartIndex", Role::input, {0}},
    {"location", Role::input},   {"attnWeight", Role::input},   {"output", Role::output}};
const std::vector<Parameter> kGradParameters = {
    {"value", Role::input},      {"spatialShape", Role::input},  {"levelStartIndex", Role::input},
    {"location", Role::input},   {"attnWeight", Role::input},    {"gradOutput", Role::input},
    {"gradValue", Role::output}, {"gradLocation", Role::output}, {"gradAttnWeight", Role::output}};

template <bool is_grad>
std::vector<Mistake> mistakes() {
  const auto wrong = [](const char* title, const char* parameter, const Reference& r,
                        DataType type = DataType::float32) {
    return Mistake{title, arguments_of<is_grad>(r, type), 161002, parameter};
  };
  std::vector<Mistake> all = {wrong("double", "value", sizes_only(2, 6, 4, 16, 40, 1, 3), DataType::float64),
                              wrong("channels 12", "value", sizes_only(2, 6, 4, 12, 40, 1, 3)),
                              wrong("channels 264", "value", sizes_only(1, 6, 1, 264, 4, 1, 1)),
                              wrong("17 heads", "value", sizes_only(1, 6, 17, 8, 4, 1, 1)),
                              wrong("17 levels", "", sizes_only(1, 6, 1, 8, 4, 17, 1)),
                              wrong("17 points", "", sizes_only(1, 6, 1, 8, 4, 1, 17))};
  if (is_grad) all.push_back(wrong("500000 queries", "location", sizes_only(1, 6, 1, 8, 500000, 1, 1)));
  return all;
}

const Registration kForward({
    .name = "aclnnMultiScaleDeformableAttnFunction",
    .parameters = kForwardParameters,
    .types = {std::begin(kFloatTypes), std::end(kFloatTypes)},
    .phase1 = phase1_of<aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize, const aclTensor*,
                        const aclTensor*, const aclTensor*, const aclTensor*, const aclTensor*, aclTensor*>,
    .phase2 = aclnnMultiScaleDeformableAttnFunction,
    .expected = outputs_of<false>,
    .cases = cases<false>,
    .parallel_cases = parallel_cases<false>,
    .hard_cases = hard_cases<false>,
    .mistakes = mistakes<false>,
});

const Registration kGrad({
    .name = "aclnnMultiScaleDeformableAttentionGrad",
    .parameters = kGradParameters,
    .types = {std::begin(kFloatTypes), std::end(kFloatTypes)},
    .phase1 = phase1_of<aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize, const aclTensor*,
                        const aclTensor*, const aclTensor*, const aclTensor*, const aclTensor*,
                        const aclTensor*, aclTensor*, aclTensor*, aclTensor*>,
    .phase2 = aclnnMultiScaleDeformableAttentionGrad,
    .expected = outputs_of<true>,
    .cases = cases<true>,
    .parallel_cases = parallel_cases<true>,
    .hard_cases = hard_cases<true>,
    .mistakes = mistakes<true>,
    .adds_in_any_order = true,
});

// ---- The C++ interface

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

template <bool is_grad>
std::vector<Case> function_cases(DataType type) {
  std::vector<Case> result;
  for (const Sizes& sizes : function_sizes())
    result.push_back(case_of<is_grad>(random_problem(sizes, type), type, {DataType::int64, false}));
  return result;
}

// Of the type that the C interface does not have.
template <bool is_grad>
std::vector<Case> hard_function_cases(DataType type) {
  if (type != DataType::float64) return {};
  return hard_problems<is_grad>(type, {DataType::int64, false});
}

// The gradient of the gradient.
Case second_case(const Reference& r, DataType type) {
  std::vector<Value> arguments = inputs_of(r, type, {DataType::int64, false});
  const auto add = [&](const Shape& shape, const std::vector<double>& values = {}) {
    arguments.push_back(TensorValue{shape, type, values});
  };
  add(query_shape(r, false), r.grad_output);
  add(value_shape(r), r.grad_grad_value);
  add(location_shape(r), r.grad_grad_location);
  add(attention_shape(r), r.grad_grad_attention_weight);
  add(query_shape(r, false));
  add(value_shape(r));
  add(location_shape(r));
  add(attention_shape(r));
  return {text({r.batches, r.heads, r.channels, r.queries, r.points}) + ", levels " + text(r.spatial_shape),
          arguments};
}

Outputs second_outputs(const std::vector<Value>& arguments, bool positions_in_double) {
  const std::vector<const TensorValue*> tensors = tensors_in(arguments);
  Reference r = reference_of(tensors, positions_in_double);
  if (tensors[6] != nullptr) r.grad_grad_value = tensors[6]->values;
  if (tensors[7] != nullptr) r.grad_grad_location = tensors[7]->values;
  if (tensors[8] != nullptr) r.grad_grad_attention_weight = tensors[8]->values;
  r.run_double_backward();
  const double allowed = tolerance(tensors[0]->type, true);
  return {Expected{r.grad_grad_output, allowed}, Expected{r.grad_value, allowed},
          Expected{r.grad_location, allowed}, Expected{r.grad_attention_weight, allowed}};
}

std::vector<Case> second_cases(DataType type) {
  std::vector<Case> result;
  for (const Sizes& sizes : function_sizes()) result.push_back(second_case(random_twice(sizes, type), type));
  // What the first gradients are multiplied with may be left out.
  for (size_t tangent : {6u, 7u, 8u}) {
    result.push_back(second_case(random_twice({2, 3, 16, 7, 3, {5, 4, 3, 2}}, type), type));
    result.back().arguments[tangent] = Null{};
  }
  return result;
}

std::vector<Case> hard_second_cases(DataType type) {
  return hard_cases_of(
      type, [&](const Sizes& sizes) { return random_twice(sizes, type); },
      [&](const Reference& r) { return second_case(r, type); });
}

// A level that begins at `start`, the last of `rows` rows.
std::vector<Value> last_level(bool is_grad, DataType type, int64_t rows, int64_t start, const Reference& r,
                              bool has_values) {
  Reference placed = r;
  placed.rows = rows;
  placed.level_start_index = {start};
  if (!has_values) placed.value.clear();
  const Form form{DataType::int64, false};
  return is_grad ? grad_arguments(placed, type, form) : forward_arguments(placed, type, form);
}

LargeCase large_case(bool is_grad, DataType type, int64_t rows, const Sizes& sizes, int64_t memory) {
  const Reference r = random_problem(sizes, type);
  const LargeCase::Part level{{0, rows - r.rows, 0, 0}};
  std::vector<LargeCase::Part> parts = {level, {}, {}, {}, {}, {}};
  if (is_grad) parts.insert(parts.end(), {level, {}, {}});
  return {"rows", last_level(is_grad, type, rows, rows - r.rows, r, false),
          last_level(is_grad, type, r.rows, 0, r, true), parts, memory};
}

std::vector<LargeCase> large_forward_cases() {
  constexpr int64_t kRows = (int64_t{1} << 31) + 1000;
  return {large_case(false, DataType::float16, kRows, {1, 2, 16, 5, 2, {6, 10}}, int64_t{1} << 30)};
}

std::vector<LargeCase> large_backward_cases() {
  constexpr int64_t kRows = (int64_t{1} << 22) + 1000;
  return {large_case(true, DataType::bfloat16, kRows, {1, 8, 64, 5, 2, {6, 10}}, int64_t{6} << 30)};
}

template <class P>
inline constexpr bool kIsSecond = std::is_same_v<P, MultiScaleDeformableAttentionDoubleBackward>;

template <class P>
FunctionOf<P> function_of(const char* name, auto run, auto run_on_gpu) {
  constexpr bool is_grad = requires(P p) {
    p.grad_output;
  };
  const std::vector<size_t> free_of_value = is_grad ? std::vector<size_t>{} : std::vector<size_t>{1};
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
      .expected = outputs_of<is_grad>,
      .uses_positions = !kIsSecond<P>,
      .cases = function_cases<is_grad>,
      .hard_cases = hard_function_cases<is_grad>,
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
  if constexpr (is_grad) {
    of.fields.push_back({"grad_output", Role::input, &P::grad_output, 1});
    if constexpr (kIsSecond<P>) {
      of.expected = second_outputs;
      of.cases = second_cases;
      of.hard_cases = hard_second_cases;
      of.fields.push_back({"grad_grad_value", Role::optional_input, &P::grad_grad_value, 1});
      of.fields.push_back(
          {"grad_grad_sampling_locations", Role::optional_input, &P::grad_grad_sampling_locations, 3});
      of.fields.push_back(
          {"grad_grad_attention_weights", Role::optional_input, &P::grad_grad_attention_weights, 2});
      of.fields.push_back({"grad_grad_output", Role::optional_output, &P::grad_grad_output, 1});
    }
    of.fields.push_back({"grad_value", Role::optional_output, &P::grad_value, 1});
    of.fields.push_back({"grad_sampling_locations", Role::optional_output, &P::grad_sampling_locations, 3});
    of.fields.push_back({"grad_attention_weights", Role::optional_output, &P::grad_attention_weights, 2});
    if (!kIsSecond<P>) of.large_cases = large_backward_cases;
  } else {
    of.fields.push_back({"output", Role::output, &P::output, 1});
    of.large_cases = large_forward_cases;
  }
  if constexpr (!kIsSecond<P>) of.workspace_size_on_gpu = cuda::workspace_size;
  return of;
}

const FunctionRegistration kFunction(function_of<MultiScaleDeformableAttention>(
    "multi_scale_deformable_attention", multi_scale_deformable_attention,
    cuda::multi_scale_deformable_attention));
const FunctionRegistration kBackwardFunction(function_of<MultiScaleDeformableAttentionBackward>(
    "multi_scale_deformable_attention_backward", multi_scale_deformable_attention_backward,
    cuda::multi_scale_deformable_attention_backward));
const FunctionRegistration kDoubleBackwardFunction(function_of<MultiScaleDeformableAttentionDoubleBackward>(
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
