// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Problems of multi-scale deformable attention and its gradient with any contents of device memory.
#include <algorithm>
#include <cmath>

#include "fuzz/data.h"
#include "ops/multi_scale_deformable_attention/cases.h"

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

  constexpr DataType kType = DataType::float64;
  auto problem = multi_scale_deformable_attention_cases::problem_of<MultiScaleDeformableAttentionBackward>(
      expected, kType, expected.value.data(), expected.location.data(), expected.attention_weight.data(),
      expected.spatial_shape.data(), expected.level_start_index.data());
  const aclgrad::Shape of_output = multi_scale_deformable_attention_cases::output_shape(expected);
  problem.grad_output = {expected.grad_output.data(), kType, of_output};
  Values grad_value(expected.value.size()), grad_location(expected.location.size()),
      grad_weight(expected.attention_weight.size()), output(expected.grad_output.size());
  if (bytes.ConsumeBool()) problem.grad_value = {grad_value.data(), problem.value.shape};
  if (bytes.ConsumeBool())
    problem.grad_sampling_locations = {grad_location.data(), problem.sampling_locations.shape};
  if (bytes.ConsumeBool())
    problem.grad_attention_weights = {grad_weight.data(), problem.attention_weights.shape};
  multi_scale_deformable_attention_backward(problem, {});
  MultiScaleDeformableAttention forward;
  static_cast<MultiScaleDeformableSampling&>(forward) = problem;
  forward.output = {output.data(), of_output};
  multi_scale_deformable_attention(forward, {});

  expected.run();
  double largest_extent = 1;
  for (int64_t extent : expected.spatial_shape)
    largest_extent = std::max(largest_extent, std::fabs(static_cast<double>(extent)));
  require_close(output, expected.output, 1e-9, "attention in double: output as the reference");
  const auto close_if = [](bool wanted, const Values& found, const Values& reference, double scale,
                           const char* what) {
    require_close(found, wanted ? reference : Values(found.size(), 0.0), 1e-9 * scale, what);
  };
  close_if(problem.grad_value.defined(), grad_value, expected.grad_value, 1,
           "attention in double: grad_value as the reference");
  close_if(problem.grad_sampling_locations.defined(), grad_location, expected.grad_location, largest_extent,
           "attention in double: grad_location as the reference");
  close_if(problem.grad_attention_weights.defined(), grad_weight, expected.grad_attention_weight, 1,
           "attention in double: grad_attention_weight as the reference");
}

const FuzzTarget kTarget(3, fuzz), kInDouble(6, fuzz_in_double);

}  // namespace
}  // namespace aclgrad::test
