// Problems of multi-scale deformable attention and its gradient with any contents of device memory.
#include <algorithm>
#include <cmath>

#include "fuzz/data.h"
#include "ops/multi_scale_deformable_attention/problem.h"
#include "ops/multi_scale_deformable_attention/reference.h"

namespace aclgrad::test {
namespace {

void fuzz(Bytes& bytes) {
  const DataType type = bytes.PickValueInArray(kFloatTypes);
  const Contents contents = draw_contents(bytes);
  const Layout layout = draw_layout(bytes);
  const auto batches = bytes.ConsumeIntegralInRange<int64_t>(0, 2);
  const auto rows = bytes.ConsumeIntegralInRange<int64_t>(0, 60);
  const auto heads = bytes.ConsumeIntegralInRange<int64_t>(1, 4);
  const auto channels = 8 * bytes.ConsumeIntegralInRange<int64_t>(1, 9);
  const auto queries = bytes.ConsumeIntegralInRange<int64_t>(0, 7);
  const auto levels = bytes.ConsumeIntegralInRange<int64_t>(1, 4);
  const auto points = bytes.ConsumeIntegralInRange<int64_t>(1, 5);
  const bool joined = bytes.ConsumeBool();
  const Shape value_shape{batches, rows, heads, channels};
  const Shape attention{batches, queries, heads, levels, points};
  const Shape location{batches, queries, heads, levels, points, 2};
  const Shape query =
      joined ? Shape{batches, queries, heads * channels} : Shape{batches, queries, heads, channels};
  std::vector<int64_t> extents;
  for (int64_t i = 0; i < 2 * levels; ++i) extents.push_back(draw_index(bytes, 8));
  const TensorValue spatial_shape{{levels, 2}, DataType::int64, to_values(extents)};
  const TensorValue level_start = draw_indices(bytes, {levels}, rows);
  const TensorValue locations{location, type, draw_coordinates(bytes, location)};
  const TensorValue value{value_shape, type, draw_values(bytes, value_shape, contents)};
  const TensorValue weights{attention, type, draw_values(bytes, attention, contents)};
  const TensorValue grad{query, type, draw_values(bytes, query, contents)};
  const auto outputs = run_in_layouts(
      "aclnnMultiScaleDeformableAttnFunction",
      {value, spatial_shape, level_start, locations, weights, TensorValue{query, type}}, layout);
  const auto gradients = run_in_layouts(
      "aclnnMultiScaleDeformableAttentionGrad",
      {value, spatial_shape, level_start, locations, weights, grad, TensorValue{value_shape, type},
       TensorValue{location, type}, TensorValue{attention, type}},
      layout);
  if (contents != Contents::whole_numbers) return;
  for (const Values* result : {&outputs[0], &gradients[0], &gradients[2]}) {
    require(std::all_of(result->begin(), result->end(), [](double x) { return std::isfinite(x); }),
            "attention: finite values give finite results");
  }
}

// float64, which only the C++ interface has. The sums of whole numbers are exact but for the weights of the corners.
void fuzz_in_double(Bytes& bytes) {
  reference::MultiScaleDeformableAttention expected{};
  expected.positions_in_double = true;
  expected.batches = bytes.ConsumeIntegralInRange<int64_t>(1, 2);
  expected.rows = bytes.ConsumeIntegralInRange<int64_t>(1, 60);
  expected.heads = bytes.ConsumeIntegralInRange<int64_t>(1, 4);
  expected.channels = bytes.ConsumeIntegralInRange<int64_t>(1, 20);
  expected.queries = bytes.ConsumeIntegralInRange<int64_t>(1, 7);
  expected.levels = bytes.ConsumeIntegralInRange<int64_t>(1, 4);
  expected.points = bytes.ConsumeIntegralInRange<int64_t>(1, 5);
  for (int64_t i = 0; i < 2 * expected.levels; ++i) expected.spatial_shape.push_back(draw_index(bytes, 8));
  for (int64_t i = 0; i < expected.levels; ++i)
    expected.level_start_index.push_back(draw_index(bytes, expected.rows));
  const int64_t heads = expected.batches * expected.queries * expected.heads;
  const int64_t samples = expected.levels * expected.points;
  constexpr auto kWhole = Contents::whole_numbers;
  expected.value =
      draw_values(bytes, {expected.batches, expected.rows, expected.heads, expected.channels}, kWhole);
  expected.location = draw_coordinates(bytes, {heads, samples, 2});
  expected.attention_weight = draw_values(bytes, {heads, samples}, kWhole);
  expected.grad_output = draw_values(bytes, {heads, expected.channels}, kWhole);

  MultiScaleDeformableAttentionGrad problem;
  problem.type = DataType::float64;
  problem.batches = expected.batches;
  problem.rows = expected.rows;
  problem.heads = expected.heads;
  problem.channels = expected.channels;
  problem.queries = expected.queries;
  problem.levels = expected.levels;
  problem.points = expected.points;
  problem.value = expected.value.data();
  problem.value_strides = BlockStrides::contiguous(problem.rows, problem.heads, problem.channels);
  problem.spatial_shape = {expected.spatial_shape.data(), DataType::int64};
  problem.level_start_index = {expected.level_start_index.data(), DataType::int64};
  problem.location = expected.location.data();
  problem.location_strides = BlockStrides::contiguous(problem.queries, problem.heads, samples * 2);
  problem.attention_weight = expected.attention_weight.data();
  problem.attention_weight_strides = BlockStrides::contiguous(problem.queries, problem.heads, samples);
  const BlockStrides of_output = BlockStrides::contiguous(problem.queries, problem.heads, problem.channels);
  problem.grad_output = expected.grad_output.data();
  problem.grad_output_strides = of_output;
  Values grad_value(expected.value.size()), grad_location(expected.location.size()),
      grad_weight(expected.attention_weight.size()), output(expected.grad_output.size());
  problem.grad_value = grad_value.data();
  problem.grad_value_strides = problem.value_strides;
  problem.grad_location = grad_location.data();
  problem.grad_location_strides = problem.location_strides;
  problem.grad_attention_weight = grad_weight.data();
  problem.grad_attention_weight_strides = problem.attention_weight_strides;
  problem.wants_grad_value = bytes.ConsumeBool();
  problem.wants_grad_location = bytes.ConsumeBool();
  problem.wants_grad_attention_weight = bytes.ConsumeBool();
  multi_scale_deformable_attention_grad(problem, nullptr);
  MultiScaleDeformableAttention forward;
  static_cast<MultiScaleDeformableSampling&>(forward) = problem;
  forward.output = output.data();
  forward.output_strides = of_output;
  multi_scale_deformable_attention(forward, nullptr);

  expected.run();
  double largest_extent = 1;
  for (int64_t extent : expected.spatial_shape)
    largest_extent = std::max(largest_extent, std::fabs(static_cast<double>(extent)));
  require_close(output, expected.output, 1e-9, "attention in double: output as the reference");
  const auto close_if = [](bool wanted, const Values& found, const Values& reference, double scale,
                           const char* what) {
    require_close(found, wanted ? reference : Values(found.size(), 0.0), 1e-9 * scale, what);
  };
  close_if(problem.wants_grad_value, grad_value, expected.grad_value, 1,
           "attention in double: grad_value as the reference");
  close_if(problem.wants_grad_location, grad_location, expected.grad_location, largest_extent,
           "attention in double: grad_location as the reference");
  close_if(problem.wants_grad_attention_weight, grad_weight, expected.grad_attention_weight, 1,
           "attention in double: grad_attention_weight as the reference");
}

const FuzzTarget kTarget(3, fuzz), kInDouble(6, fuzz_in_double);

}  // namespace
}  // namespace aclgrad::test
