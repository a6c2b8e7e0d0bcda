// Multi-scale deformable attention and its gradient as the tests see them.
#include "aclnnop/aclnn_multi_scale_deformable_attention_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attn_function.h"
#include "ops/multi_scale_deformable_attention/cases.h"
#include "support/operator.h"

namespace aclgrad::test {
namespace {

using namespace multi_scale_deformable_attention_cases;

TensorValue index_tensor(const Shape& shape, DataType type, const std::vector<int64_t>& values) {
  return {shape, type, std::vector<double>(values.begin(), values.end())};
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

template <bool is_grad>
Case case_of(const Reference& r, DataType type, Form form) {
  const std::string levels = text(r.spatial_shape);
  return {"batches, heads, channels, queries, points " +
              text({r.batches, r.heads, r.channels, r.queries, r.points}) + ", levels " + levels +
              (form.joined ? ", joined" : ""),
          arguments_of<is_grad>(r, type, form), [r, type] {
            Reference run = r;
            run.run();
            const double allowed = tolerance(type, true);
            if (!is_grad) return std::vector<std::optional<Expected>>{Expected{run.output, allowed}};
            return std::vector<std::optional<Expected>>{Expected{run.grad_value, allowed},
                                                        Expected{run.grad_location, allowed},
                                                        Expected{run.grad_attention_weight, allowed}};
          }};
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
    {"value", Role::input},    {"spatialShape", Role::input}, {"levelStartIndex", Role::input},
    {"location", Role::input}, {"attnWeight", Role::input},   {"output", Role::output}};
const std::vector<Parameter> kGradParameters = {
    {"value", Role::input},      {"spatialShape", Role::input},  {"levelStartIndex", Role::input},
    {"location", Role::input},   {"attnWeight", Role::input},    {"gradOutput", Role::input},
    {"gradValue", Role::output}, {"gradLocation", Role::output}, {"gradAttnWeight", Role::output}};

// Sizes of a call that need not have memory for its values.
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

template <bool is_grad>
std::vector<Mistake> mistakes() {
  constexpr DataType kFloat = DataType::float32;
  const std::vector<Parameter>& parameters = is_grad ? kGradParameters : kForwardParameters;
  const Reference good = sizes_only(2, 6, 4, 16, 40, 1, 3);
  std::vector<Mistake> result;
  const auto add = [&](std::string title, std::string parameter, std::vector<Value> arguments) {
    result.push_back({std::move(title), std::move(arguments), 161002, std::move(parameter)});
  };
  const auto change = [&](const std::string& title, size_t index, Shape shape,
                          DataType type = DataType::float32) {
    std::vector<Value> arguments = arguments_of<is_grad>(good, kFloat);
    arguments.at(index) = TensorValue{std::move(shape), type};
    add(title + " of " + parameters[index].name, "", std::move(arguments));
  };
  const auto sizes = [&](const std::string& title, const std::string& parameter, const Reference& r) {
    add(title, parameter, arguments_of<is_grad>(r, kFloat));
  };
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto tensor = std::get<TensorValue>(arguments_of<is_grad>(good, kFloat)[i]);
    // Every axis that another tensor or the documents fix. The rows of value are its own, but for gradValue.
    for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
      const std::string name = parameters[i].name;
      if ((name == "value" && axis == 1 && !is_grad) || (name == "levelStartIndex" && !is_grad)) continue;
      Shape shape = tensor.shape;
      ++shape[axis];
      change("axis " + std::to_string(axis), i, shape, tensor.type);
    }
  }
  add("double", "value", arguments_of<is_grad>(good, DataType::float64));
  sizes("channels 12", "value", sizes_only(2, 6, 4, 12, 40, 1, 3));
  sizes("channels 264", "value", sizes_only(1, 6, 1, 264, 4, 1, 1));
  sizes("17 heads", "value", sizes_only(1, 6, 17, 8, 4, 1, 1));
  sizes("17 levels", "", sizes_only(1, 6, 1, 8, 4, 17, 1));
  sizes("17 points", "", sizes_only(1, 6, 1, 8, 4, 1, 17));
  return result;
}

const Registration kForward({
    .name = "aclnnMultiScaleDeformableAttnFunction",
    .said_name = "aclnnMultiScaleDeformableAttnFunction",
    .parameters = kForwardParameters,
    .types = {std::begin(kFloatTypes), std::end(kFloatTypes)},
    .phase1 = phase1_of<aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize, const aclTensor*,
                        const aclTensor*, const aclTensor*, const aclTensor*, const aclTensor*, aclTensor*>,
    .phase2 = aclnnMultiScaleDeformableAttnFunction,
    .cases = cases<false>,
    .parallel_cases = parallel_cases<false>,
    .mistakes = mistakes<false>,
});

const Registration kGrad({
    .name = "aclnnMultiScaleDeformableAttentionGrad",
    .said_name = "aclnnMultiScaleDeformableAttentionGrad",
    .parameters = kGradParameters,
    .types = {std::begin(kFloatTypes), std::end(kFloatTypes)},
    .phase1 = phase1_of<aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize, const aclTensor*,
                        const aclTensor*, const aclTensor*, const aclTensor*, const aclTensor*,
                        const aclTensor*, aclTensor*, aclTensor*, aclTensor*>,
    .phase2 = aclnnMultiScaleDeformableAttentionGrad,
    .cases = cases<true>,
    .parallel_cases = parallel_cases<true>,
    .mistakes = mistakes<true>,
    .adds_in_any_order = true,
});

}  // namespace
}  // namespace aclgrad::test
