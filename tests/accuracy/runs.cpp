#include "accuracy/runs.h"

#include <array>

#include "aclgrad/grouped_bias_add.h"
#include "aclgrad/nsa_compress.h"
#include "base/data_type.h"
#include "ops/grid_sampler/cases.h"
#include "ops/grouped_bias_add/cases.h"
#include "ops/multi_scale_deformable_attention/cases.h"
#include "ops/nsa_compress/cases.h"

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
void run(const Problem& problem, void (*function)(const Problem&, const WorkspaceView&)) {
  function(problem, Workspace(workspace_size(problem)));
}

void visit_attention(const multi_scale_deformable_attention_cases::Sizes& sizes, DataType type,
                     const Visit& visit) {
  auto r = multi_scale_deformable_attention_cases::random_problem(sizes, type);
  Elements value(r.value, type), location(r.location, type), weight(r.attention_weight, type);
  Elements grad_output(r.grad_output, type), output(r.grad_output.size(), type);
  Elements grad_value(r.value.size(), type), grad_location(r.location.size(), type);
  Elements grad_weight(r.attention_weight.size(), type);
  namespace cases = multi_scale_deformable_attention_cases;
  auto backward = cases::problem_of<MultiScaleDeformableAttentionBackward>(
      r, type, value.data(), location.data(), weight.data(), r.spatial_shape.data(),
      r.level_start_index.data());
  backward.grad_output = {grad_output.data(), type, cases::output_shape(r)};
  backward.grad_value = {grad_value.data(), type, backward.value.shape};
  backward.grad_sampling_locations = {grad_location.data(), type, backward.sampling_locations.shape};
  backward.grad_attention_weights = {grad_weight.data(), type, backward.attention_weights.shape};
  run(backward, multi_scale_deformable_attention_backward);
  MultiScaleDeformableAttention forward;
  static_cast<MultiScaleDeformableSampling&>(forward) = backward;
  forward.output = {output.data(), type, cases::output_shape(r)};
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

template <class Backward, class Forward, class Sampling>
void run_both(const Sampling& s, DataType type, Sampled& tensors,
              void (*run_backward)(const Backward&, const WorkspaceView&),
              void (*run_forward)(const Forward&, const WorkspaceView&)) {
  namespace cases = grid_sampler_cases;
  auto backward = cases::problem_of<Backward>(s, type, tensors.input.data(), tensors.grid.data());
  backward.grad_output = {tensors.grad_output.data(), type, cases::output_extents(s)};
  backward.grad_input = {tensors.grad_input.data(), type, backward.input.shape};
  backward.grad_grid = {tensors.grad_grid.data(), type, backward.grid.shape};
  run(backward, run_backward);
  Forward forward;
  static_cast<GridSampling&>(forward) = backward;
  forward.output = {tensors.output.data(), type, cases::output_extents(s)};
  run(forward, run_forward);
}

void run_sampler(const grid_sampler_cases::Sampling& s, DataType type, Sampled& tensors) {
  run_both(s, type, tensors, grid_sampler_2d_backward, grid_sampler_2d);
}

void run_sampler(const grid_sampler_cases::Sampling3D& s, DataType type, Sampled& tensors) {
  run_both(s, type, tensors, grid_sampler_3d_backward, grid_sampler_3d);
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
  const aclgrad::Shape of_tokens = {tokens, sizes.heads, sizes.channels},
                       of_windows = {windows, sizes.heads, sizes.channels},
                       of_weight = {sizes.block, sizes.heads};
  NsaCompressBackward backward;
  backward.input = {input.data(), type, of_tokens};
  backward.weight = {weight.data(), type, of_weight};
  backward.stride = sizes.stride;
  backward.sequence_ends = {sizes.sequence_ends.data(), {static_cast<int64_t>(sizes.sequence_ends.size())}};
  backward.grad_output = {output_grad.data(), type, of_windows};
  backward.grad_input = {input_grad.data(), type, of_tokens};
  backward.grad_weight = {weight_grad.data(), type, of_weight};
  run(backward, nsa_compress_backward);
  NsaCompress forward;
  static_cast<NsaCompression&>(forward) = backward;
  forward.output = {output.data(), type, of_windows};
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
  const auto groups = static_cast<int64_t>(indices.size());
  GroupedBiasAddBackward problem;
  problem.grad_output = {rows.data(), type, {c.rows, c.columns}};
  problem.group_idx = {indices.data(), {groups}};
  problem.kind = static_cast<GroupKind>(c.group_idx_type);
  problem.grad_bias = {out.data(), type, {groups, c.columns}};
  run(problem, grouped_bias_add_backward);
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
