// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Multi-scale deformable attention, its gradient, and that gradient's.
#include "ops/multi_scale_deformable_attention/kernel.h"

#include <fmt/format.h>

#include "binding.h"
#include "ops/multi_scale_deformable_attention/reference.h"

namespace aclgrad::python {
namespace {

using ops::multi_scale_deformable_attention::split_heads;

// The levels must lie within `value`. On a GPU looking would mean to wait; kernels skip there what lies outside.
void check_levels(const Call& call, const MultiScaleDeformableSampling& p) {
  if (!call.reads_data()) return;
  const std::vector<int64_t> sides = integers_of(p.spatial_shapes);
  const std::vector<int64_t> starts = integers_of(p.level_start_index);
  const int64_t rows = p.rows();
  for (size_t level = 0; level < starts.size(); ++level) {
    const int64_t start = starts[level], height = sides[2 * level], width = sides[2 * level + 1];
    if (start < 0 || start > rows) {
      call.refuse_entry("level_start_index", level, fmt::format("0 to {}, the rows of value", rows), start);
    }
    const bool is_level = height >= 0 && width >= 0;
    if (is_level && (height == 0 || width <= (rows - start) / height)) continue;
    call.check(false, fmt::format("spatial_shapes[{}]", level),
               is_level ? fmt::format("a level of at most {} pixels, the rows of value from {} on",
                                      rows - start, start)
                        : "a height and a width of at least 0",
               fmt::format("[{}, {}]", height, width));
  }
}

// The arguments that the operator and its gradients share.
void read_sampling(Call& call, const Argument& value, const Argument& spatial_shapes,
                   const Argument& level_start_index, const Argument& locations, const Argument& weights,
                   MultiScaleDeformableSampling& p) {
  call.input("value", value, p.value);
  call.indices("spatial_shapes", spatial_shapes, p.spatial_shapes);
  call.indices("level_start_index", level_start_index, p.level_start_index);
  call.input("sampling_locations", locations, p.sampling_locations);
  call.input("attention_weights", weights, p.attention_weights);
}

// ---- The reference. It takes float64, but finds positions as the type did that the arrays had before they were widened.
reference::MultiScaleDeformableAttention reference_of(const MultiScaleDeformableSampling& p,
                                                      bool positions_in_double) {
  return {p.batches(),
          p.rows(),
          p.heads(),
          p.channels(),
          p.queries(),
          p.levels(),
          p.samples(),
          positions_in_double,
          integers_of(p.spatial_shapes),
          integers_of(p.level_start_index),
          doubles_of(p.value),
          doubles_of(p.sampling_locations),
          doubles_of(p.attention_weights)};
}

void write_gradients(const reference::MultiScaleDeformableAttention& expected, const auto& p) {
  write_doubles(expected.grad_value, p.grad_value);
  write_doubles(expected.grad_location, p.grad_sampling_locations);
  write_doubles(expected.grad_attention_weight, p.grad_attention_weights);
}

void compute_reference(const MultiScaleDeformableAttention& p, bool in_double) {
  auto expected = reference_of(p, in_double);
  expected.run();
  write_doubles(expected.output, p.output);
}

void compute_reference(const MultiScaleDeformableAttentionBackward& p, bool in_double) {
  auto expected = reference_of(p, in_double);
  expected.grad_output = doubles_of(p.grad_output);
  expected.run();
  write_gradients(expected, p);
}

void compute_reference(const MultiScaleDeformableAttentionDoubleBackward& p, bool in_double) {
  auto expected = reference_of(p, in_double);
  expected.grad_output = doubles_of(p.grad_output);
  expected.grad_grad_value = doubles_of(p.grad_grad_value);
  expected.grad_grad_location = doubles_of(p.grad_grad_sampling_locations);
  expected.grad_grad_attention_weight = doubles_of(p.grad_grad_attention_weights);
  expected.run_double_backward();
  write_doubles(expected.grad_grad_output, p.grad_grad_output);
  write_gradients(expected, p);
}

// ---- The functions

Array forward(const Argument& value, const Argument& spatial_shapes, const Argument& level_start_index,
              const Argument& locations, const Argument& weights, const Argument& out) {
  Call call(Call::Memory::cpu_or_gpu);
  MultiScaleDeformableAttention p;
  read_sampling(call, value, spatial_shapes, level_start_index, locations, weights, p);
  call.output("out", out, p.output);
  check(p, call);
  check_levels(call, p);
  split_heads(p.output, p.heads());
  return only(call.run(p, compute_reference));
}

Results backward(const Argument& grad_output, const Argument& value, const Argument& spatial_shapes,
                 const Argument& level_start_index, const Argument& locations, const Argument& weights,
                 const Argument& output_mask, const Argument& out) {
  Call call(Call::Memory::cpu_or_gpu);
  MultiScaleDeformableAttentionBackward p;
  const std::vector<bool> wanted = call.flags("output_mask", output_mask, 3);
  call.input("grad_output", grad_output, p.grad_output);
  read_sampling(call, value, spatial_shapes, level_start_index, locations, weights, p);
  call.outputs(out, wanted, {&p.grad_value, &p.grad_sampling_locations, &p.grad_attention_weights});
  check(p, call);
  check_levels(call, p);
  split_heads(p.grad_output, p.heads());
  return call.run(p, compute_reference);
}

// The gradient of the gradient, on CPUs. Of what the gradients are multiplied with there, None stands for zeros.
Results double_backward(const Argument& grad_output, const Argument& value, const Argument& spatial_shapes,
                        const Argument& level_start_index, const Argument& locations, const Argument& weights,
                        const Argument& grad_grad_value, const Argument& grad_grad_locations,
                        const Argument& grad_grad_weights, const Argument& output_mask, const Argument& out) {
  Call call(Call::Memory::cpu);
  MultiScaleDeformableAttentionDoubleBackward p;
  const std::vector<bool> wanted = call.flags("output_mask", output_mask, 4);
  call.input("grad_output", grad_output, p.grad_output);
  read_sampling(call, value, spatial_shapes, level_start_index, locations, weights, p);
  call.optional_input("grad_grad_value", grad_grad_value, p.grad_grad_value);
  call.optional_input("grad_grad_sampling_locations", grad_grad_locations, p.grad_grad_sampling_locations);
  call.optional_input("grad_grad_attention_weights", grad_grad_weights, p.grad_grad_attention_weights);
  call.outputs(out, wanted,
               {&p.grad_grad_output, &p.grad_value, &p.grad_sampling_locations, &p.grad_attention_weights});
  check(p, call);
  check_levels(call, p);
  split_heads(p.grad_output, p.heads());
  if (p.grad_grad_output.defined()) split_heads(p.grad_grad_output, p.heads());
  return call.run(p, compute_reference);
}

const Binding kBinding([](nb::module_& module) {
  define_with_reference(module, "msda_forward", forward);
  define_with_reference(module, "msda_backward", backward);
  define_with_reference(module, "msda_double_backward", double_backward);
});

}  // namespace

}  // namespace aclgrad::python
