// Problems of the grid sampler and its gradient with any contents of device memory.
#include "fuzz/data.h"
#include "ops/grid_sampler/reference.h"

namespace aclgrad::test {
namespace {

// Where the samples lie, and so which code path they take and how many there may be.
enum class Grid { any, smooth, scattered };

// Each sample next to the one before, as most grids have them: a lattice, stretched and moved.
Values smooth_coordinates(Bytes& bytes, const reference::GridSampling& sampling) {
  const double x_scale = bytes.ConsumeIntegralInRange(-80, 80) / 64.0;
  const double y_scale = bytes.ConsumeIntegralInRange(-80, 80) / 64.0;
  const double x_shift = bytes.ConsumeIntegralInRange(-80, 80) / 64.0;
  const double y_shift = bytes.ConsumeIntegralInRange(-80, 80) / 64.0;
  const auto in_lattice = [](int64_t i, int64_t size) {
    return static_cast<double>(2 * i + 1 - size) / static_cast<double>(size);
  };
  Values values;
  for (int64_t n = 0; n < sampling.batch; ++n) {
    for (int64_t i = 0; i < sampling.output_height; ++i) {
      for (int64_t j = 0; j < sampling.output_width; ++j) {
        values.push_back(x_scale * in_lattice(j, sampling.output_width) + x_shift);
        values.push_back(y_scale * in_lattice(i, sampling.output_height) + y_shift);
      }
    }
  }
  return values;
}

template <Grid kind>
void fuzz(Bytes& bytes) {
  const DataType type =
      bytes.PickValueInArray({DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  const Contents contents = draw_contents(bytes);
  const Layout layout = draw_layout(bytes);
  reference::GridSampling sampling;
  sampling.mode = bytes.ConsumeIntegralInRange(0, 2);
  sampling.padding = bytes.ConsumeIntegralInRange(0, 2);
  sampling.align_corners = bytes.ConsumeBool();
  sampling.positions_in_double = type == DataType::float64;
  sampling.batch = bytes.ConsumeIntegralInRange<int64_t>(0, 3);
  sampling.channels = bytes.ConsumeIntegralInRange<int64_t>(0, 20);
  struct Limits {
    int64_t height, width, output_height, output_width;
  };
  const Limits limits = kind == Grid::any      ? Limits{12, 12, 5, 9}
                        : kind == Grid::smooth ? Limits{30, 50, 20, 40}
                                               : Limits{90, 90, 50, 70};
  sampling.height = bytes.ConsumeIntegralInRange<int64_t>(1, limits.height);
  sampling.width = bytes.ConsumeIntegralInRange<int64_t>(1, limits.width);
  sampling.output_height = bytes.ConsumeIntegralInRange<int64_t>(0, limits.output_height);
  sampling.output_width = bytes.ConsumeIntegralInRange<int64_t>(0, limits.output_width);
  const std::vector<bool> wanted = {bytes.ConsumeBool(), bytes.ConsumeBool()};
  const Shape image{sampling.batch, sampling.channels, sampling.height, sampling.width};
  const Shape positions{sampling.batch, sampling.output_height, sampling.output_width, 2};
  const Shape sampled{sampling.batch, sampling.channels, sampling.output_height, sampling.output_width};
  const TensorValue grid{positions, type,
                         kind == Grid::any      ? draw_coordinates(bytes, positions)
                         : kind == Grid::smooth ? smooth_coordinates(bytes, sampling)
                                                : uniform(element_count(positions), -1.2, 1.2,
                                                          bytes.ConsumeIntegral<uint32_t>())};
  const TensorValue input{image, type, draw_values(bytes, image, contents)};
  const TensorValue grad{sampled, type, draw_values(bytes, sampled, contents)};
  const Value mode = int64_t{sampling.mode}, padding = int64_t{sampling.padding},
              align_corners = int64_t{sampling.align_corners};

  const bool has_forward = type != DataType::float64 || sampling.mode != 2;
  std::vector<Values> outputs;
  if (has_forward)
    outputs = run_in_layouts("aclnnGridSampler2D",
                             {input, grid, mode, padding, align_corners, TensorValue{sampled, type}}, layout);
  const auto gradients = run_in_layouts("aclnnGridSampler2DBackward",
                                        {grad, input, grid, mode, padding, align_corners, wanted,
                                         TensorValue{image, type}, TensorValue{positions, type}},
                                        layout);
  if (contents != Contents::whole_numbers || type != DataType::float32) return;
  const auto expected = reference::grid_sampler_2d_backward(sampling, grad.values, input.values, grid.values);
  require_close(outputs[0], reference::grid_sampler_2d(sampling, input.values, grid.values), 1e-4 * 4 * 16,
                "grid sampler: out as the reference");
  if (outputs[0].empty()) return;
  const auto points = static_cast<double>(sampling.output_height * sampling.output_width);
  const auto channels = static_cast<double>(sampling.channels);
  if (wanted[0])
    require_close(gradients[0], expected.input, 1e-4 * 4 * 16 * points,
                  "grid sampler: inputGrad as the reference");
  if (wanted[1])
    require_close(gradients[1], expected.grid, 1e-4 * 16 * 4 * 4 * channels * 12,
                  "grid sampler: gridGrad as the reference");
}

const FuzzTarget kAny(2, fuzz<Grid::any>), kSmooth(4, fuzz<Grid::smooth>),
    kScattered(5, fuzz<Grid::scattered>);

}  // namespace
}  // namespace aclgrad::test
