// Problems of the 3-D grid sampler and its gradient with any contents of device memory.
#include "fuzz/data.h"
#include "ops/grid_sampler/reference_3d.h"

namespace aclgrad::test {
namespace {

void fuzz(Bytes& bytes) {
  const DataType type =
      bytes.PickValueInArray({DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  const Contents contents = draw_contents(bytes);
  const Layout layout = draw_layout(bytes);
  reference::GridSampling3D sampling{};
  sampling.mode = bytes.ConsumeIntegralInRange(0, 1);
  sampling.padding = bytes.ConsumeIntegralInRange(0, 2);
  sampling.align_corners = bytes.ConsumeBool();
  sampling.positions_in_double = type == DataType::float64;
  sampling.batch = bytes.ConsumeIntegralInRange<int64_t>(0, 3);
  sampling.channels = bytes.ConsumeIntegralInRange<int64_t>(0, 20);
  for (int64_t* side : {&sampling.depth, &sampling.height, &sampling.width})
    *side = bytes.ConsumeIntegralInRange<int64_t>(1, 12);
  for (int64_t* side : {&sampling.output_depth, &sampling.output_height, &sampling.output_width})
    *side = bytes.ConsumeIntegralInRange<int64_t>(0, 9);
  const std::vector<bool> wanted = {bytes.ConsumeBool(), bytes.ConsumeBool()};
  const Shape volume{sampling.batch, sampling.channels, sampling.depth, sampling.height, sampling.width};
  const Shape positions{sampling.batch, sampling.output_depth, sampling.output_height, sampling.output_width,
                        3};
  const Shape sampled{sampling.batch, sampling.channels, sampling.output_depth, sampling.output_height,
                      sampling.output_width};
  const bool scattered = bytes.ConsumeBool();
  const TensorValue grid{positions, type,
                         scattered
                             ? uniform(element_count(positions), -1.2, 1.2, bytes.ConsumeIntegral<uint32_t>())
                             : draw_coordinates(bytes, positions)};
  const TensorValue input{volume, type, draw_values(bytes, volume, contents)};
  const TensorValue grad{sampled, type, draw_values(bytes, sampled, contents)};
  const Value mode = int64_t{sampling.mode}, padding = int64_t{sampling.padding},
              align_corners = int64_t{sampling.align_corners};

  const auto outputs = run_in_layouts(
      "aclnnGridSampler3D", {input, grid, mode, padding, align_corners, TensorValue{sampled, type}}, layout);
  const auto gradients = run_in_layouts("aclnnGridSampler3DBackward",
                                        {grad, input, grid, mode, padding, align_corners, wanted,
                                         TensorValue{volume, type}, TensorValue{positions, type}},
                                        layout);
  if (contents != Contents::whole_numbers || type != DataType::float32 || outputs[0].empty()) return;
  const auto expected = reference::grid_sampler_3d_backward(sampling, grad.values, input.values, grid.values);
  require_close(outputs[0], reference::grid_sampler_3d(sampling, input.values, grid.values), 1e-4 * 8 * 16,
                "3-D grid sampler: out as the reference");
  const auto points =
      static_cast<double>(sampling.output_depth * sampling.output_height * sampling.output_width);
  const auto channels = static_cast<double>(sampling.channels);
  if (wanted[0])
    require_close(gradients[0], expected.input, 1e-4 * 8 * 16 * points,
                  "3-D grid sampler: inputGrad as the reference");
  if (wanted[1])
    require_close(gradients[1], expected.grid, 1e-4 * 16 * 4 * 8 * channels * 12,
                  "3-D grid sampler: gridGrad as the reference");
}

const FuzzTarget kTarget(7, fuzz);

}  // namespace
}  // namespace aclgrad::test
