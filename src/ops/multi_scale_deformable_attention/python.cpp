// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Multi-scale deformable attention, its gradient, and that gradient's.
#include "ops/multi_scale_deformable_attention/kernel.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "arguments.h"
#include "binding.h"
#include "operand.h"
#include "ops/multi_scale_deformable_attention/reference.h"

namespace aclgrad::python {
namespace {

// The arguments that the operator and its gradient share.
struct Sampling {
  Array value;
  Array spatial_shapes;
  Array level_start_index;
  Array locations;
  Array weights;

  int64_t batches() const { return value.size(0); }
  int64_t rows() const { return value.size(1); }
  int64_t heads() const { return value.size(2); }
  int64_t channels() const { return value.size(3); }
  int64_t queries() const { return locations.size(1); }
  int64_t levels() const { return locations.size(3); }
  int64_t points() const { return locations.size(4); }

  bool empty() const { return value.empty() || locations.empty(); }
};

// The levels must lie within `value`. On a GPU looking would mean to wait; kernels skip there what lies outside.
void check_levels(const Arguments& arguments, const Sampling& sampling) {
  if (sampling.spatial_shapes.on_gpu() || sampling.level_start_index.on_gpu()) return;
  const std::vector<int64_t> sides = integers_of(sampling.spatial_shapes.view);
  const std::vector<int64_t> starts = integers_of(sampling.level_start_index.view);
  const int64_t rows = sampling.rows();
  for (size_t level = 0; level < starts.size(); ++level) {
    const int64_t start = starts[level], height = sides[2 * level], width = sides[2 * level + 1];
    if (start < 0 || start > rows) {
      arguments.check_entry(false, "level_start_index", level,
                            fmt::format("0 to {}, the rows of value", rows), start);
    }
    const bool is_level = height >= 0 && width >= 0;
    if (is_level && (height == 0 || width <= (rows - start) / height)) continue;
    arguments.check(false, fmt::format("spatial_shapes[{}]", level).c_str(),
                    is_level ? fmt::format("a level of at most {} pixels, the rows of value from {} on",
                                           rows - start, start)
                             : "a height and a width of at least 0",
                    fmt::format("[{}, {}]", height, width));
  }
}

Place place_of(const Arguments& arguments, const Sampling& sampling) {
  return {arguments,
          sampling.value,
          {&sampling.spatial_shapes, &sampling.level_start_index, &sampling.locations, &sampling.weights}};
}

Sampling read_sampling(const Arguments& arguments, const Argument& value, const Argument& spatial_shapes,
                       const Argument& level_start_index, const Argument& locations,
                       const Argument& weights) {
  Sampling sampling{arguments.floats("value", value), arguments.integers("spatial_shapes", spatial_shapes),
                    arguments.integers("level_start_index", level_start_index),
                    arguments.floats("sampling_locations", locations),
                    arguments.floats("attention_weights", weights)};
  arguments.check_same_type(sampling.value, {&sampling.locations, &sampling.weights});
  arguments.check_rank(sampling.value, 4);
  arguments.check_rank(sampling.locations, 6);
  const int64_t batches = sampling.batches(), heads = sampling.heads();
  const int64_t queries = sampling.queries(), levels = sampling.levels(), points = sampling.points();
  arguments.check_shape(sampling.locations, {batches, queries, heads, levels, points, 2});
  arguments.check_shape(sampling.weights, {batches, queries, heads, levels, points});
  arguments.check_shape(sampling.spatial_shapes, {levels, 2});
  arguments.check_shape(sampling.level_start_index, {levels});
  check_levels(arguments, sampling);
  return sampling;
}

// [batches, queries, heads * channels], or [batches, queries, heads, channels].
TensorView per_head(const Array& array, int64_t heads) {
  return array.view.rank == 3 ? split_last_axis(array.view, heads) : array.view;
}

void check_per_head(const Arguments& arguments, const Array& array, const Sampling& sampling) {
  const int64_t batches = sampling.batches(), queries = sampling.queries();
  const int64_t heads = sampling.heads(), channels = sampling.channels();
  if (array.view.rank == 4) return arguments.check_shape(array, {batches, queries, heads, channels});
  arguments.check_shape(array, {batches, queries, heads * channels});
}

// The shared arguments as the kernels take them.
struct SamplingOperands {
  Operand value;
  Operand spatial_shapes;
  Operand level_start_index;
  Operand locations;
  Operand weights;

  SamplingOperands(const Place& place, const Sampling& sampling)
      : value(Operand::read(place, sampling.value.view, 3)),
        spatial_shapes(Operand::read(place, sampling.spatial_shapes.view, 0)),
        level_start_index(Operand::read(place, sampling.level_start_index.view, 0)),
        locations(Operand::read(place, sampling.locations.view, 3)),
        weights(Operand::read(place, sampling.weights.view, 3)) {}

  void describe(MultiScaleDeformableSampling& problem) const {
    problem.value = value.tensor();
    problem.spatial_shapes = spatial_shapes.tensor();
    problem.level_start_index = level_start_index.tensor();
    problem.sampling_locations = locations.tensor();
    problem.attention_weights = weights.tensor();
  }
};

// The reference takes float64, but finds positions as the type did that the arrays had before they were widened.
reference::MultiScaleDeformableAttention reference_of(const Sampling& sampling, bool positions_in_double) {
  reference::MultiScaleDeformableAttention call{};
  call.positions_in_double = positions_in_double;
  call.batches = sampling.batches();
  call.rows = sampling.rows();
  call.heads = sampling.heads();
  call.channels = sampling.channels();
  call.queries = sampling.queries();
  call.levels = sampling.levels();
  call.points = sampling.points();
  call.spatial_shape = integers_of(sampling.spatial_shapes.view);
  call.level_start_index = integers_of(sampling.level_start_index.view);
  call.value = doubles_of(sampling.value.view);
  call.location = doubles_of(sampling.locations.view);
  call.attention_weight = doubles_of(sampling.weights.view);
  return call;
}

void compute_forward(const Place& place, const Sampling& sampling, const Array& output) {
  const TensorView output_view = per_head(output, sampling.heads());
  if (sampling.empty()) return place.fill_zero(output_view);
  const SamplingOperands operands(place, sampling);
  const Operand output_operand = Operand::write(place, output_view, 3);
  MultiScaleDeformableAttention problem;
  operands.describe(problem);
  problem.output = output_operand.tensor();
  place.run(problem);
  output_operand.finish();
}

// Which gradients are wanted; the others' arrays keep undefined contents.
struct Needs {
  bool value = true;
  bool locations = true;
  bool weights = true;
};

void compute_backward(const Place& place, const Sampling& sampling, const Array& grad_output,
                      const Array& grad_value, const Array& grad_locations, const Array& grad_weights,
                      const Needs& needs) {
  if (sampling.empty()) {
    for (const Array* gradient : {&grad_value, &grad_locations, &grad_weights})
      place.fill_zero(gradient->view);
    return;
  }
  const TensorView grad_output_view = per_head(grad_output, sampling.heads());
  const SamplingOperands operands(place, sampling);
  const Operand grad_output_operand = Operand::read(place, grad_output_view, 3);
  const Operand value_operand = Operand::write(place, grad_value.view, 3);
  const Operand locations_operand = Operand::write(place, grad_locations.view, 3);
  const Operand weights_operand = Operand::write(place, grad_weights.view, 3);
  MultiScaleDeformableAttentionBackward problem;
  operands.describe(problem);
  problem.grad_output = grad_output_operand.tensor();
  if (needs.value) problem.grad_value = value_operand.tensor();
  if (needs.locations) problem.grad_sampling_locations = locations_operand.tensor();
  if (needs.weights) problem.grad_attention_weights = weights_operand.tensor();
  place.run(problem);
  for (const Operand* operand : {&value_operand, &locations_operand, &weights_operand}) operand->finish();
}

Array new_output(const Arguments& arguments, const Sampling& sampling, const Argument& out) {
  return arguments.result("out", sampling.value,
                          {sampling.batches(), sampling.queries(), sampling.heads() * sampling.channels()},
                          out);
}

// An entry of `out`; None where the result is not needed.
Argument entry_of(const Arguments& arguments, const Argument& out, size_t count, size_t index, bool needed) {
  const Argument given = arguments.entry("out", out, count, index);
  return needed ? given : Argument();
}

std::optional<Array> if_needed(const Array& array, bool needed) {
  return needed ? std::optional(array) : std::nullopt;
}

// The last three of `count` results.
struct Gradients {
  Array value;
  Array locations;
  Array weights;

  Gradients(const Arguments& arguments, const Sampling& sampling, const Argument& out, const Needs& needs,
            size_t count = 3) {
    constexpr std::array kNames{"out[0]", "out[1]", "out[2]", "out[3]"};
    const auto result = [&](size_t i, const Shape& shape, bool needed) {
      const size_t index = count - 3 + i;
      return arguments.result(kNames[index], sampling.value, shape,
                              entry_of(arguments, out, count, index, needed));
    };
    const int64_t batches = sampling.batches(), rows = sampling.rows(), heads = sampling.heads();
    const int64_t queries = sampling.queries(), levels = sampling.levels(), points = sampling.points();
    value = result(0, {batches, rows, heads, sampling.channels()}, needs.value);
    locations = result(1, {batches, queries, heads, levels, points, 2}, needs.locations);
    weights = result(2, {batches, queries, heads, levels, points}, needs.weights);
  }
};

Array forward(const Argument& value, const Argument& spatial_shapes, const Argument& level_start_index,
              const Argument& locations, const Argument& weights, const Argument& out) {
  const Arguments arguments("msda_forward", Arguments::Memory::cpu_or_gpu);
  const Sampling sampling =
      read_sampling(arguments, value, spatial_shapes, level_start_index, locations, weights);
  const Array output = new_output(arguments, sampling, out);
  const Place place = place_of(arguments, sampling);
  arguments.check_same_device(sampling.value, {&output});
  arguments.claim({&output}, {&sampling.value, &sampling.spatial_shapes, &sampling.level_start_index,
                              &sampling.locations, &sampling.weights});
  place.compute([&] { compute_forward(place, sampling, output); });
  return output;
}

Results backward(const Argument& grad_output_object, const Argument& value, const Argument& spatial_shapes,
                 const Argument& level_start_index, const Argument& locations, const Argument& weights,
                 const Argument& output_mask, const Argument& out) {
  const Arguments arguments("msda_backward", Arguments::Memory::cpu_or_gpu);
  const Array grad_output = arguments.floats("grad_output", grad_output_object);
  const Sampling sampling =
      read_sampling(arguments, value, spatial_shapes, level_start_index, locations, weights);
  arguments.check_same_type(sampling.value, {&grad_output});
  check_per_head(arguments, grad_output, sampling);
  const std::vector<bool> needed = arguments.flags("output_mask", output_mask, 3);
  const Needs needs{needed[0], needed[1], needed[2]};
  const Gradients gradients(arguments, sampling, out, needs);
  const Place place = place_of(arguments, sampling);
  arguments.check_same_device(sampling.value,
                              {&grad_output, &gradients.value, &gradients.locations, &gradients.weights});
  arguments.claim({&gradients.value, &gradients.locations, &gradients.weights},
                  {&grad_output, &sampling.value, &sampling.spatial_shapes, &sampling.level_start_index,
                   &sampling.locations, &sampling.weights});
  place.compute([&] {
    compute_backward(place, sampling, grad_output, gradients.value, gradients.locations, gradients.weights,
                     needs);
  });
  return {if_needed(gradients.value, needs.value), if_needed(gradients.locations, needs.locations),
          if_needed(gradients.weights, needs.weights)};
}

// ---- The gradient of the gradient, on CPUs

Shape shape_of(const Array& array) {
  return {array.view.shape.data(), array.view.rank};
}

// The gradients with respect to the results of msda_backward; None stands for zeros.
struct Tangents {
  std::optional<Array> value;
  std::optional<Array> locations;
  std::optional<Array> weights;

  Tangents(const Arguments& arguments, const Sampling& sampling, const Argument& value_object,
           const Argument& locations_object, const Argument& weights_object) {
    const auto read = [&](const char* name, const Argument& object,
                          const Array& like) -> std::optional<Array> {
      if (object.is_none()) return std::nullopt;
      Array array = arguments.floats(name, object);
      arguments.check_same_type(sampling.value, {&array});
      arguments.check_shape(array, shape_of(like));
      return array;
    };
    value = read("grad_grad_value", value_object, sampling.value);
    locations = read("grad_grad_sampling_locations", locations_object, sampling.locations);
    weights = read("grad_grad_attention_weights", weights_object, sampling.weights);
  }
};

const Array* address_of(const std::optional<Array>& array) {
  return array ? &*array : nullptr;
}

void compute_double_backward(const Place& place, const Sampling& sampling, const Array& grad_output,
                             const Tangents& tangents, const Array& grad_grad_output,
                             const Gradients& gradients, bool needs_grad_output, const Needs& needs) {
  const Array* const results[] = {&grad_grad_output, &gradients.value, &gradients.locations,
                                  &gradients.weights};
  if (sampling.empty()) {
    for (const Array* result : results) place.fill_zero(result->view);
    return;
  }
  const SamplingOperands operands(place, sampling);
  const auto read = [&](const TensorView& view) { return Operand::read(place, view, 3); };
  MultiScaleDeformableAttentionDoubleBackward problem;
  operands.describe(problem);
  problem.grad_output = read(per_head(grad_output, sampling.heads())).tensor();
  if (tangents.value) problem.grad_grad_value = read(tangents.value->view).tensor();
  if (tangents.locations) problem.grad_grad_sampling_locations = read(tangents.locations->view).tensor();
  if (tangents.weights) problem.grad_grad_attention_weights = read(tangents.weights->view).tensor();
  const Operand outputs[] = {Operand::write(place, per_head(grad_grad_output, sampling.heads()), 3),
                             Operand::write(place, gradients.value.view, 3),
                             Operand::write(place, gradients.locations.view, 3),
                             Operand::write(place, gradients.weights.view, 3)};
  if (needs_grad_output) problem.grad_grad_output = outputs[0].tensor();
  if (needs.value) problem.grad_value = outputs[1].tensor();
  if (needs.locations) problem.grad_sampling_locations = outputs[2].tensor();
  if (needs.weights) problem.grad_attention_weights = outputs[3].tensor();
  place.run(problem);
  for (const Operand& output : outputs) output.finish();
}

Results double_backward(const Argument& grad_output_object, const Argument& value,
                        const Argument& spatial_shapes, const Argument& level_start_index,
                        const Argument& locations, const Argument& weights, const Argument& grad_grad_value,
                        const Argument& grad_grad_locations, const Argument& grad_grad_weights,
                        const Argument& output_mask, const Argument& out) {
  const Arguments arguments("msda_double_backward");
  const Array grad_output = arguments.floats("grad_output", grad_output_object);
  const Sampling sampling =
      read_sampling(arguments, value, spatial_shapes, level_start_index, locations, weights);
  arguments.check_same_type(sampling.value, {&grad_output});
  check_per_head(arguments, grad_output, sampling);
  const Tangents tangents(arguments, sampling, grad_grad_value, grad_grad_locations, grad_grad_weights);
  const std::vector<bool> needed = arguments.flags("output_mask", output_mask, 4);
  const Needs needs{needed[1], needed[2], needed[3]};
  const Array grad_grad_output = arguments.result("out[0]", sampling.value, shape_of(grad_output),
                                                  entry_of(arguments, out, 4, 0, needed[0]));
  const Gradients gradients(arguments, sampling, out, needs, 4);
  const Place place = place_of(arguments, sampling);
  arguments.claim({&grad_grad_output, &gradients.value, &gradients.locations, &gradients.weights},
                  {&grad_output, &sampling.value, &sampling.spatial_shapes, &sampling.level_start_index,
                   &sampling.locations, &sampling.weights, address_of(tangents.value),
                   address_of(tangents.locations), address_of(tangents.weights)});
  place.compute([&] {
    compute_double_backward(place, sampling, grad_output, tangents, grad_grad_output, gradients, needed[0],
                            needs);
  });
  return {if_needed(grad_grad_output, needed[0]), if_needed(gradients.value, needs.value),
          if_needed(gradients.locations, needs.locations), if_needed(gradients.weights, needs.weights)};
}

// ---- The reference

Array reference_forward(const Argument& value, const Argument& spatial_shapes,
                        const Argument& level_start_index, const Argument& locations, const Argument& weights,
                        bool positions_in_double) {
  const Arguments arguments("reference.msda_forward");
  const Sampling sampling =
      read_sampling(arguments, value, spatial_shapes, level_start_index, locations, weights);
  const Array output = new_output(arguments, sampling, {});
  {
    const Unlocked unlocked;
    auto expected = reference_of(sampling, positions_in_double);
    expected.run();
    write_doubles(expected.output, per_head(output, sampling.heads()));
  }
  return output;
}

Results reference_backward(const Argument& grad_output_object, const Argument& value,
                           const Argument& spatial_shapes, const Argument& level_start_index,
                           const Argument& locations, const Argument& weights, bool positions_in_double) {
  const Arguments arguments("reference.msda_backward");
  const Array grad_output = arguments.floats("grad_output", grad_output_object);
  const Sampling sampling =
      read_sampling(arguments, value, spatial_shapes, level_start_index, locations, weights);
  check_per_head(arguments, grad_output, sampling);
  const Gradients gradients(arguments, sampling, {}, Needs{});
  {
    const Unlocked unlocked;
    auto expected = reference_of(sampling, positions_in_double);
    expected.grad_output = doubles_of(per_head(grad_output, sampling.heads()));
    expected.run();
    write_doubles(expected.grad_value, gradients.value.view);
    write_doubles(expected.grad_location, gradients.locations.view);
    write_doubles(expected.grad_attention_weight, gradients.weights.view);
  }
  return {gradients.value, gradients.locations, gradients.weights};
}

Results reference_double_backward(const Argument& grad_output_object, const Argument& value,
                                  const Argument& spatial_shapes, const Argument& level_start_index,
                                  const Argument& locations, const Argument& weights,
                                  const Argument& grad_grad_value, const Argument& grad_grad_locations,
                                  const Argument& grad_grad_weights, bool positions_in_double) {
  const Arguments arguments("reference.msda_double_backward");
  const Array grad_output = arguments.floats("grad_output", grad_output_object);
  const Sampling sampling =
      read_sampling(arguments, value, spatial_shapes, level_start_index, locations, weights);
  check_per_head(arguments, grad_output, sampling);
  const Tangents tangents(arguments, sampling, grad_grad_value, grad_grad_locations, grad_grad_weights);
  const Array grad_grad_output =
      arguments.result("grad_grad_output", sampling.value, shape_of(grad_output), {});
  const Gradients gradients(arguments, sampling, {}, Needs{});
  {
    const Unlocked unlocked;
    auto expected = reference_of(sampling, positions_in_double);
    expected.grad_output = doubles_of(per_head(grad_output, sampling.heads()));
    if (tangents.value) expected.grad_grad_value = doubles_of(tangents.value->view);
    if (tangents.locations) expected.grad_grad_location = doubles_of(tangents.locations->view);
    if (tangents.weights) expected.grad_grad_attention_weight = doubles_of(tangents.weights->view);
    expected.run_double_backward();
    write_doubles(expected.grad_grad_output, per_head(grad_grad_output, sampling.heads()));
    write_doubles(expected.grad_value, gradients.value.view);
    write_doubles(expected.grad_location, gradients.locations.view);
    write_doubles(expected.grad_attention_weight, gradients.weights.view);
  }
  return {grad_grad_output, gradients.value, gradients.locations, gradients.weights};
}

const Binding kBinding([](nb::module_& module) {
  define(module, "msda_forward", forward);
  define(module, "msda_backward", backward);
  define(module, "reference_msda_forward", reference_forward);
  define(module, "reference_msda_backward", reference_backward);
  define(module, "msda_double_backward", double_backward);
  define(module, "reference_msda_double_backward", reference_double_backward);
});

}  // namespace

}  // namespace aclgrad::python
