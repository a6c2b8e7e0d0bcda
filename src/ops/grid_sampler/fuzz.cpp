// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Problems of the grid samplers and their gradients with any contents of device memory.
#include "fuzz/data.h"
#include "ops/grid_sampler/cases.h"

namespace aclgrad::test {
namespace {

using namespace grid_sampler_cases;

// Where the samples lie, and so which code path they take and how many there may be.
enum class Grid { any, smooth, scattered };

// Each sample next to the one before, as most grids have them: a lattice, stretched and moved.
Values smooth_coordinates(Bytes& bytes, const Sampling& sampling) {
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

struct Call {
  DataType type;
  Contents contents;
  Layout layout;
  std::vector<bool> wanted;
};

// Runs both operators on the grid and draws what else they need.
template <class S>
void run_on_grid(Bytes& bytes, const S& s, const Call& call, Values positions) {
  constexpr bool kIs3D = std::is_same_v<S, Sampling3D>;
  const std::string name = kIs3D ? "aclnnGridSampler3D" : "aclnnGridSampler2D";
  const TensorValue grid{grid_shape(s), call.type, std::move(positions)};
  const TensorValue input{input_shape(s), call.type, draw_values(bytes, input_shape(s), call.contents)};
  const TensorValue grad{output_shape(s), call.type, draw_values(bytes, output_shape(s), call.contents)};
  const Value mode = int64_t{s.mode}, padding = int64_t{s.padding}, align_corners = int64_t{s.align_corners};

  const bool has_forward = call.type != DataType::float64 || s.mode != 2;
  std::vector<Values> outputs;
  if (has_forward) {
    const TensorValue output{output_shape(s), call.type};
    outputs = run_in_layouts(name, {input, grid, mode, padding, align_corners, output}, call.layout);
  }
  const auto gradients =
      run_in_layouts(name + "Backward",
                     {grad, input, grid, mode, padding, align_corners, call.wanted,
                      TensorValue{input.shape, call.type}, TensorValue{grid.shape, call.type}},
                     call.layout);
  if (call.contents != Contents::whole_numbers || call.type != DataType::float32) return;

  Inputs inputs(S{}, call.type, 1);
  inputs.grad_output = grad.values;
  inputs.input = input.values;
  inputs.grid = grid.values;
  constexpr double kTaps = kIs3D ? 8 : 4;
  require_close(outputs[0], sample(s, inputs), 1e-4 * kTaps * 16, name + ": out as the reference");
  if (outputs[0].empty()) return;
  const auto expected = gradients_of(s, inputs);
  const auto channels = static_cast<double>(s.channels);
  const auto points =
      static_cast<double>(grid.values.size()) / static_cast<double>(s.batch * grid.shape.back());
  if (call.wanted[0])
    require_close(gradients[0], expected.input, 1e-4 * kTaps * 16 * points,
                  name + ": inputGrad as the reference");
  if (call.wanted[1])
    require_close(gradients[1], expected.grid, 1e-4 * 16 * 4 * kTaps * channels * 12,
                  name + ": gridGrad as the reference");
}

// Up to where modes and sides go.
template <class S>
Call draw_call(Bytes& bytes, S& s, int last_mode) {
  Call call;
  call.type =
      bytes.PickValueInArray({DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  call.contents = draw_contents(bytes);
  call.layout = draw_layout(bytes);
  s.mode = bytes.ConsumeIntegralInRange(0, last_mode);
  s.padding = bytes.ConsumeIntegralInRange(0, 2);
  s.align_corners = bytes.ConsumeBool();
  s.positions_in_double = call.type == DataType::float64;
  s.batch = bytes.ConsumeIntegralInRange<int64_t>(0, 3);
  s.channels = bytes.ConsumeIntegralInRange<int64_t>(0, 20);
  return call;
}

template <Grid kind>
void fuzz_2d(Bytes& bytes) {
  Sampling s{};
  Call call = draw_call(bytes, s, 2);
  struct Limits {
    int64_t height, width, output_height, output_width;
  };
  const Limits limits = kind == Grid::any      ? Limits{12, 12, 5, 9}
                        : kind == Grid::smooth ? Limits{30, 50, 20, 40}
                                               : Limits{90, 90, 50, 70};
  s.height = bytes.ConsumeIntegralInRange<int64_t>(1, limits.height);
  s.width = bytes.ConsumeIntegralInRange<int64_t>(1, limits.width);
  s.output_height = bytes.ConsumeIntegralInRange<int64_t>(0, limits.output_height);
  s.output_width = bytes.ConsumeIntegralInRange<int64_t>(0, limits.output_width);
  call.wanted = {bytes.ConsumeBool(), bytes.ConsumeBool()};
  const Shape shape = grid_shape(s);
  run_on_grid(bytes, s, call,
              kind == Grid::any ? draw_coordinates(bytes, shape)
              : kind == Grid::smooth
                  ? smooth_coordinates(bytes, s)
                  : uniform(element_count(shape), -1.2, 1.2, bytes.ConsumeIntegral<uint32_t>()));
}

void fuzz_3d(Bytes& bytes) {
  Sampling3D s{};
  Call call = draw_call(bytes, s, 1);
  for (int64_t* side : {&s.depth, &s.height, &s.width}) *side = bytes.ConsumeIntegralInRange<int64_t>(1, 12);
  for (int64_t* side : {&s.output_depth, &s.output_height, &s.output_width})
    *side = bytes.ConsumeIntegralInRange<int64_t>(0, 9);
  call.wanted = {bytes.ConsumeBool(), bytes.ConsumeBool()};
  const Shape shape = grid_shape(s);
  const bool scattered = bytes.ConsumeBool();
  run_on_grid(bytes, s, call,
              scattered ? uniform(element_count(shape), -1.2, 1.2, bytes.ConsumeIntegral<uint32_t>())
                        : draw_coordinates(bytes, shape));
}

const FuzzTarget kAny(2, fuzz_2d<Grid::any>), kSmooth(4, fuzz_2d<Grid::smooth>),
    kScattered(5, fuzz_2d<Grid::scattered>), kVolumes(7, fuzz_3d);

}  // namespace
}  // namespace aclgrad::test
