#include "accuracy/runs.h"

#include <array>

#include "base/data_type.h"
#include "ops/grid_sampler/cases.h"
#include "ops/grid_sampler/problem.h"
#include "ops/grouped_bias_add/cases.h"
#include "ops/grouped_bias_add/problem.h"
#include "ops/multi_scale_deformable_attention/cases.h"
#include "ops/multi_scale_deformable_attention/problem.h"
#include "ops/nsa_compress/cases.h"
#include "ops/nsa_compress/problem.h"
#include "support/workspace.h"

namespace aclgrad::test {
namespace {

using Visit = std::function<void(const CaseRun&)>;

constexpr DataType kAllTypes[] = {DataType::float32, DataType::float16, DataType::bfloat16,
                                  DataType::float64};

// Elements of a type in memory.
class Elements {
 public:
  Elements(size_t count, DataType type) : type_(type), bytes_(count * size_of(type)) {}
  Elements(const std::vector<double>& values, DataType type) : Elements(values.size(), type) {
    for (size_t i = 0; i < values.size(); ++i) write_element(values[i], &bytes_[i * size_of(type)], type);
  }

  void* data() { return bytes_.data(); }
  std::vector<double> values() const {
    std::vector<double> values(bytes_.size() / size_of(type_));
    for (size_t i = 0; i < values.size(); ++i) values[i] = read_element(&bytes_[i * size_of(type_)], type_);
    return values;
  }

 private:
  DataType type_;
  std::vector<std::byte> bytes_;
};

template <class Problem>
void run(const Problem& problem, void (*function)(const Problem&, void*)) {
  Workspace workspace(workspace_size(problem));
  function(problem, workspace.data());
}

void visit_attention(const multi_scale_deformable_attention_cases::Sizes& sizes, DataType type,
                     const Visit& visit) {
  auto r = multi_scale_deformable_attention_cases::random_problem(sizes, type);
  Elements value(r.value, type), location(r.location, type), weight(r.attention_weight, type);
  Elements grad_output(r.grad_output, type), output(r.grad_output.size(), type);
  Elements grad_value(r.value.size(), type), grad_location(r.location.size(), type);
  Elements grad_weight(r.attention_weight.size(), type);
  MultiScaleDeformableAttentionGrad problem;
  problem.type = type;
  problem.batches = r.batches, problem.rows = r.rows, problem.heads = r.heads, problem.channels = r.channels;
  problem.queries = r.queries, problem.levels = r.levels, problem.points = r.points;
  problem.spatial_shape = {r.spatial_shape.data(), DataType::int64};
  problem.level_start_index = {r.level_start_index.data(), DataType::int64};
  const auto blocks = [&](int64_t rows, int64_t size) {
    return BlockStrides::contiguous(rows, r.heads, size);
  };
  const int64_t samples = r.levels * r.points;
  problem.value = value.data(), problem.grad_value = grad_value.data();
  problem.value_strides = problem.grad_value_strides = blocks(r.rows, r.channels);
  problem.location = location.data(), problem.grad_location = grad_location.data();
  problem.location_strides = problem.grad_location_strides = blocks(r.queries, 2 * samples);
  problem.attention_weight = weight.data(), problem.grad_attention_weight = grad_weight.data();
  problem.attention_weight_strides = problem.grad_attention_weight_strides = blocks(r.queries, samples);
  problem.grad_output = grad_output.data(), problem.grad_output_strides = blocks(r.queries, r.channels);
  run(problem, multi_scale_deformable_attention_grad);
  MultiScaleDeformableAttention forward;
  static_cast<MultiScaleDeformableSampling&>(forward) = problem;
  forward.output = output.data(), forward.output_strides = problem.grad_output_strides;
  run(forward, multi_scale_deformable_attention);

  // The product of a location in 16 bits and the size of a level is exact in float.
  const bool jumps = type == DataType::float32;
  auto in_double = r;
  r.positions_in_double = type == DataType::float64;
  in_double.positions_in_double = true;
  r.run();
  in_double.run();
  visit({"multi-scale deformable attention",
         type,
         true,
         {{"spatial_shapes", r.spatial_shape}},
         {{"value", {r.batches, r.rows, r.heads, r.channels}, r.value},
          {"locations", {r.batches, r.queries, r.heads, r.levels, r.points, 2}, r.location},
          {"weights", {r.batches, r.queries, r.heads, r.levels, r.points}, r.attention_weight},
          {"grad_output", {r.batches, r.queries, r.heads * r.channels}, r.grad_output}},
         {{"output", output.values(), r.output, in_double.output, false},
          {"grad_value", grad_value.values(), r.grad_value, in_double.grad_value, false},
          {"grad_locations", grad_location.values(), r.grad_location, in_double.grad_location, jumps},
          {"grad_weights", grad_weight.values(), r.grad_attention_weight, in_double.grad_attention_weight,
           false}}});
}

// The tensors of a gradient and of the forward operator.
struct Sampled {
  Elements input, grid, grad_output, output, grad_input, grad_grid;

  Sampled(const grid_sampler_cases::Inputs& inputs, DataType type)
      : input(inputs.input, type),
        grid(inputs.grid, type),
        grad_output(inputs.grad_output, type),
        output(inputs.grad_output.size(), type),
        grad_input(inputs.input.size(), type),
        grad_grid(inputs.grid.size(), type) {}
};

// What images and volumes have in common.
template <class Problem, class Sampling>
void describe(Problem& problem, const Sampling& s, DataType type, Sampled& tensors) {
  problem.type = type;
  problem.interpolation = static_cast<Interpolation>(s.mode);
  problem.padding = static_cast<Padding>(s.padding);
  problem.align_corners = s.align_corners;
  problem.batch = s.batch, problem.channels = s.channels, problem.height = s.height, problem.width = s.width;
  problem.output_height = s.output_height, problem.output_width = s.output_width;
  problem.input = tensors.input.data(), problem.input_grad = tensors.grad_input.data();
  problem.grid = tensors.grid.data(), problem.grid_grad = tensors.grad_grid.data();
  problem.grad_output = tensors.grad_output.data();
}

void run_sampler(const grid_sampler_cases::Sampling& s, DataType type, Sampled& tensors) {
  const auto contiguous = [](int64_t a, int64_t b, int64_t c) {
    return GridSampling::Strides{a * b * c, b * c, c, 1};
  };
  GridSampler2DBackward problem;
  describe(problem, s, type, tensors);
  problem.input_strides = problem.input_grad_strides = contiguous(s.channels, s.height, s.width);
  problem.grid_strides = problem.grid_grad_strides = contiguous(s.output_height, s.output_width, 2);
  problem.grad_output_strides = contiguous(s.channels, s.output_height, s.output_width);
  run(problem, grid_sampler_2d_backward);
  GridSampler2D forward;
  static_cast<GridSampling&>(forward) = problem;
  forward.output = tensors.output.data(), forward.output_strides = problem.grad_output_strides;
  run(forward, grid_sampler_2d);
}

void run_sampler(const grid_sampler_cases::Sampling3D& s, DataType type, Sampled& tensors) {
  const auto contiguous = [](int64_t a, int64_t b, int64_t c, int64_t d) {
    return GridSampling3D::Strides{a * b * c * d, b * c * d, c * d, d, 1};
  };
  GridSampler3DBackward problem;
  describe(problem, s, type, tensors);
  problem.depth = s.depth, problem.output_depth = s.output_depth;
  problem.input_strides = problem.input_grad_strides = contiguous(s.channels, s.depth, s.height, s.width);
  problem.grid_strides = problem.grid_grad_strides =
      contiguous(s.output_depth, s.output_height, s.output_width, 3);
  problem.grad_output_strides = contiguous(s.channels, s.output_depth, s.output_height, s.output_width);
  run(problem, grid_sampler_3d_backward);
  GridSampler3D forward;
  static_cast<GridSampling3D&>(forward) = problem;
  forward.output = tensors.output.data(), forward.output_strides = problem.grad_output_strides;
  run(forward, grid_sampler_3d);
}

// The reference's output and gradients.
std::array<std::vector<double>, 3> reference_of(const grid_sampler_cases::Sampling& s,
                                                const grid_sampler_cases::Inputs& inputs) {
  auto gradients = reference::grid_sampler_2d_backward(s, inputs.grad_output, inputs.input, inputs.grid);
  return {reference::grid_sampler_2d(s, inputs.input, inputs.grid), std::move(gradients.input),
          std::move(gradients.grid)};
}

std::array<std::vector<double>, 3> reference_of(const grid_sampler_cases::Sampling3D& s,
                                                const grid_sampler_cases::Inputs& inputs) {
  auto gradients = reference::grid_sampler_3d_backward(s, inputs.grad_output, inputs.input, inputs.grid);
  return {reference::grid_sampler_3d(s, inputs.input, inputs.grid), std::move(gradients.input),
          std::move(gradients.grid)};
}

template <class Sampling>
void visit_sampler(const char* title, Sampling s, DataType type, const Visit& visit) {
  namespace cases = grid_sampler_cases;
  const cases::Inputs inputs(s, type, 1.3);
  Sampled tensors(inputs, type);
  run_sampler(s, type, tensors);
  const auto defined = [&](bool positions_in_double) {
    s.positions_in_double = positions_in_double;
    return reference_of(s, inputs);
  };
  const auto expected = defined(type == DataType::float64);
  const auto in_double = defined(true);
  const bool jumps = s.mode == 1;
  CaseRun result{std::string("grid sampler, ") + title,
                 type,
                 true,
                 {{"mode", {s.mode}}, {"padding", {s.padding}}, {"align_corners", {s.align_corners}}},
                 {{"input", cases::input_shape(s), inputs.input},
                  {"grid", cases::grid_shape(s), inputs.grid},
                  {"grad_output", cases::output_shape(s), inputs.grad_output}},
                 {{"output", tensors.output.values(), expected[0], in_double[0], jumps},
                  {"grad_input", tensors.grad_input.values(), expected[1], in_double[1], jumps}}};
  if (s.mode != 1) {
    result.outputs.push_back(
        {"grad_grid", tensors.grad_grid.values(), expected[2], in_double[2], s.mode == 0});
  }
  visit(result);
}

void visit_compress(const reference::NsaSizes& sizes, DataType type, const Visit& visit) {
  const nsa_compress_cases::Values values(sizes, type);
  const int64_t windows = nsa_compress_cases::windows_of(sizes),
                tokens = nsa_compress_cases::tokens_of(sizes);
  Elements input(values.input, type), weight(values.weight, type), output_grad(values.output_grad, type);
  Elements input_grad(values.input.size(), type), weight_grad(values.weight.size(), type);
  Elements output(values.output_grad.size(), type);
  const int64_t row = sizes.heads * sizes.channels;
  NsaCompressGrad problem;
  problem.type = type;
  problem.windows = {.tokens = tokens,
                     .block = sizes.block,
                     .stride = sizes.stride,
                     .sequence_ends = sizes.sequence_ends.data(),
                     .sequences = static_cast<int64_t>(sizes.sequence_ends.size())};
  problem.window_count = windows;
  problem.heads = sizes.heads, problem.channels = sizes.channels;
  problem.output_grad = {output_grad.data(), row, sizes.channels};
  problem.input = {input.data(), row, sizes.channels};
  problem.weight = weight.data();
  problem.input_grad = {input_grad.data(), row, sizes.channels};
  problem.weight_grad = weight_grad.data();
  run(problem, nsa_compress_grad);
  NsaCompress forward;
  forward.type = type, forward.windows = problem.windows, forward.window_count = windows;
  forward.heads = sizes.heads, forward.channels = sizes.channels;
  forward.input = problem.input, forward.weight = problem.weight;
  forward.output = {output.data(), row, sizes.channels};
  run(forward, nsa_compress);

  const auto y = reference::nsa_compress(sizes, values.input, values.weight);
  const auto gradients = reference::nsa_compress_grad(sizes, values.output_grad, values.input, values.weight);
  visit({"NSA compress",
         type,
         false,
         {{"ends", sizes.sequence_ends}, {"block", {sizes.block}}, {"stride", {sizes.stride}}},
         {{"x", {tokens, sizes.heads, sizes.channels}, values.input},
          {"weight", {sizes.block, sizes.heads}, values.weight},
          {"grad_output", {windows, sizes.heads, sizes.channels}, values.output_grad}},
         {{"output", output.values(), y, y, false},
          {"grad_x", input_grad.values(), gradients.input, gradients.input, false},
          {"grad_weight", weight_grad.values(), gradients.weight, gradients.weight, false}}});
}

void visit_bias(const grouped_bias_add_cases::Case& c, DataType type, const Visit& visit) {
  const auto ranges = grouped_bias_add_cases::ranges_of(c.group_idx, c.group_idx_type, c.rows);
  const std::vector<int64_t> indices(c.group_idx.begin(), c.group_idx.end());
  const auto grad_y = rounded(uniform(c.rows * c.columns, -5, 5, 1), type);
  const auto expected = reference::grouped_bias_add_grad(grad_y, c.columns, ranges.begin, ranges.end);
  Elements rows(grad_y, type), out(expected.size(), type);
  using Groups = GroupedBiasAddGrad::Groups;
  GroupedBiasAddGrad problem;
  problem.type = type;
  problem.kind = c.group_idx_type == 0 ? Groups::ends : Groups::counts;
  problem.groups = static_cast<int64_t>(indices.size());
  problem.rows = c.rows, problem.columns = problem.row_stride = c.columns;
  problem.grad_y = rows.data(), problem.out = out.data();
  problem.group_idx = {indices.data(), DataType::int64};
  run(problem, grouped_bias_add_grad);
  visit({"grouped bias-add",
         type,
         false,
         {{"begin", ranges.begin}, {"end", ranges.end}},
         {{"grad_y", {c.rows, c.columns}, grad_y}},
         {{"grad_bias", out.values(), expected, expected, false}}});
}

}  // namespace

void for_each_run(const Visit& visit) {
  for (DataType type : kAllTypes) {
    for (const auto& sizes : multi_scale_deformable_attention_cases::kCases)
      visit_attention(sizes, type, visit);
    for (grid_sampler_cases::Sampling s : grid_sampler_cases::kSizes) {
      for (int mode = 0; mode < 18; ++mode) {
        s.mode = mode % 3, s.padding = mode / 3 % 3, s.align_corners = mode >= 9;
        constexpr const char* kTitles[] = {"bilinear", "nearest", "bicubic"};
        visit_sampler(kTitles[s.mode], s, type, visit);
      }
    }
    for (grid_sampler_cases::Sampling3D s : grid_sampler_cases::kSizes3D) {
      for (int mode = 0; mode < 12; ++mode) {
        s.mode = mode % 2, s.padding = mode / 2 % 3, s.align_corners = mode >= 6;
        visit_sampler(s.mode == 0 ? "trilinear" : "nearest in 3-D", s, type, visit);
      }
    }
    if (type == DataType::float64) continue;  // which the others do not take
    for (const auto& sizes : nsa_compress_cases::kDocumentedSizes) visit_compress(sizes, type, visit);
    for (const auto& sizes : nsa_compress_cases::kAnySizes) visit_compress(sizes, type, visit);
    for (const auto& c : grouped_bias_add_cases::kCases) visit_bias(c, type, visit);
  }
}

double error_of(const std::vector<double>& ours, const std::vector<double>& expected) {
  return grid_sampler_cases::gradient_error(ours, expected);
}

}  // namespace aclgrad::test
