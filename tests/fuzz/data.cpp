// Valid calls of every operator with any contents of device memory: coordinates, grids, level shapes, indices and
// values from raw bytes. Nothing may leave its tensor, results must not depend on strides, and where the values are
// small whole numbers they must be those of the definition.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

#include "aclnnop/aclnn_grid_sampler2d.h"
#include "aclnnop/aclnn_grid_sampler2d_backward.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attention_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attn_function.h"
#include "aclnnop/aclnn_nsa_compress.h"
#include "aclnnop/aclnn_nsa_compress_grad.h"
#include "base/data_type.h"
#include "ops/grid_sampler_2d/reference.h"
#include "ops/grouped_bias_add/reference.h"
#include "ops/multi_scale_deformable_attention/problem.h"
#include "ops/multi_scale_deformable_attention/reference.h"
#include "ops/nsa_compress/reference.h"
#include "support/test_tensor.h"

namespace aclgrad::test {
namespace {

using Bytes = FuzzedDataProvider;
using Values = std::vector<double>;

void require(bool holds, const char* what) {
  if (holds) return;
  const char* message = aclGetRecentErrMsg();
  std::fprintf(stderr, "does not hold: %s\n%s\n", what, message != nullptr ? message : "");
  std::abort();
}

// What the values are drawn from.
enum class Contents { whole_numbers, any_bits };

double any_float(Bytes& bytes) {
  return static_cast<double>(std::bit_cast<float>(bytes.ConsumeIntegral<uint32_t>()));
}

double value(Bytes& bytes, Contents contents) {
  return contents == Contents::any_bits ? any_float(bytes) : bytes.ConsumeIntegralInRange(-4, 4);
}

Values values(Bytes& bytes, const Shape& shape, Contents contents) {
  Values values(static_cast<size_t>(element_count(shape)));
  // The bytes may not last, so that what they give is repeated.
  const size_t drawn = std::min<size_t>(values.size(), 64);
  for (size_t i = 0; i < drawn; ++i) values[i] = value(bytes, contents);
  for (size_t i = drawn; i < values.size(); ++i) values[i] = values[(i * 7) % drawn];
  return values;
}

// Where to sample: most places near the image, some anywhere.
Values coordinates(Bytes& bytes, const Shape& shape, double scale) {
  Values values(static_cast<size_t>(element_count(shape)));
  for (double& value : values) {
    value = bytes.ConsumeBool() ? bytes.ConsumeIntegralInRange(-80, 80) / 64.0 * scale : any_float(bytes);
  }
  return values;
}

// Each sample next to the one before, as most grids have them: a lattice, stretched and moved.
Values smooth_coordinates(Bytes& bytes, const reference::GridSampling& sampling) {
  const double x_scale = bytes.ConsumeIntegralInRange(-80, 80) / 64.0;
  const double y_scale = bytes.ConsumeIntegralInRange(-80, 80) / 64.0;
  const double x_shift = bytes.ConsumeIntegralInRange(-80, 80) / 64.0;
  const double y_shift = bytes.ConsumeIntegralInRange(-80, 80) / 64.0;
  Values values;
  for (int64_t n = 0; n < sampling.batch; ++n) {
    for (int64_t i = 0; i < sampling.output_height; ++i) {
      for (int64_t j = 0; j < sampling.output_width; ++j) {
        values.push_back(x_scale * static_cast<double>(2 * j + 1 - sampling.output_width) /
                             static_cast<double>(sampling.output_width) +
                         x_shift);
        values.push_back(y_scale * static_cast<double>(2 * i + 1 - sampling.output_height) /
                             static_cast<double>(sampling.output_height) +
                         y_shift);
      }
    }
  }
  return values;
}

int64_t index(Bytes& bytes, int64_t usual_last) {
  return bytes.ConsumeProbability<float>() < 0.7f ? bytes.ConsumeIntegralInRange<int64_t>(-1, usual_last)
                                                  : bytes.ConsumeIntegral<int64_t>();
}

// A tensor of indices; raw, as doubles do not hold all of them.
class IndexTensor {
 public:
  IndexTensor(Bytes& bytes, int64_t count, int64_t usual_last)
      : type_(bytes.ConsumeBool() ? DataType::int64 : DataType::int32), tensor_({count}, type_) {
    for (int64_t i = 0; i < count; ++i) set(i, index(bytes, usual_last));
  }
  IndexTensor(const Shape& shape, const std::vector<int64_t>& values)
      : type_(DataType::int64), tensor_(shape, type_) {
    for (size_t i = 0; i < values.size(); ++i) set(static_cast<int64_t>(i), values[i]);
  }

  operator aclTensor*() const { return tensor_; }
  const std::vector<int64_t>& values() const { return values_; }

 private:
  void set(int64_t i, int64_t value) {
    if (type_ == DataType::int64) {
      static_cast<int64_t*>(tensor_.data())[i] = value;
    } else {
      value = static_cast<int32_t*>(tensor_.data())[i] = static_cast<int32_t>(value);
    }
    values_.push_back(value);
  }

  DataType type_;
  TestTensor tensor_;
  std::vector<int64_t> values_;
};

// Both phases, with a workspace of exactly the size that phase 1 asks for.
void run_exactly(const Phase1& phase1, Phase2 phase2) {
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  require(phase1(&size, &executor) == OK, "phase 1 takes valid arguments");
  const std::unique_ptr<void, decltype(&std::free)> workspace(size > 0 ? std::malloc(size) : nullptr,
                                                              &std::free);
  require(phase2(workspace.get(), size, executor, nullptr) == OK, "phase 2 takes valid arguments");
  require(aclrtSynchronizeStream(nullptr) == ACL_SUCCESS, "the operator succeeds");
}

bool same(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

void require_same(const TestTensor& a, const TestTensor& b, const char* what) {
  const Values first = a.values();
  const Values second = b.values();
  require(std::equal(first.begin(), first.end(), second.begin(), second.end(), same), what);
}

// Of whole numbers the sums are exact, so that the result is the definition's, rounded once.
void require_exact(const TestTensor& actual, const Values& expected, const char* what) {
  const Values found = actual.values();
  const Values wanted = rounded(expected, actual.type());
  require(found == wanted, what);  // 0 == -0
}

// Positions are computed in float: close, against the largest sum that there can be.
void require_close(const TestTensor& actual, const Values& expected, double largest, const char* what) {
  const Values found = actual.values();
  for (size_t i = 0; i < found.size(); ++i) {
    require(std::fabs(found[i] - expected[i]) <= 1e-4 * largest, what);
  }
}

Layout other_layout(Bytes& bytes) {
  return bytes.ConsumeBool() ? Layout::gapped : Layout::transposed;
}

constexpr Layout kContiguous = Layout::contiguous;

void fuzz_grouped_bias_add(Bytes& bytes) {
  const DataType type = bytes.PickValueInArray(kFloatTypes);
  const Contents contents = bytes.PickValueInArray({Contents::whole_numbers, Contents::any_bits});
  const Layout layout = other_layout(bytes);
  const bool grouped = bytes.ConsumeBool();
  const auto counts = static_cast<int64_t>(bytes.ConsumeBool());
  const auto groups = bytes.ConsumeIntegralInRange<int64_t>(0, 9);
  const auto rows = bytes.ConsumeIntegralInRange<int64_t>(0, 300);
  const auto columns = bytes.ConsumeIntegralInRange<int64_t>(0, 70);
  const IndexTensor group_idx(bytes, groups, counts == 1 ? 30 : rows + 2);
  const Shape shape = grouped ? Shape{rows, columns} : Shape{groups, rows, columns};
  const Values grad_y = values(bytes, shape, contents);

  const auto run = [&](Layout in, TestTensor& out) {
    const TestTensor grad(shape, type, in, grad_y);
    run_exactly(
        [&](auto* size, auto* executor) {
          return aclnnGroupedBiasAddGradV2GetWorkspaceSize(grad, grouped ? group_idx : nullptr, counts, out,
                                                           size, executor);
        },
        aclnnGroupedBiasAddGradV2);
    require(out.holes_untouched(), "grouped bias: holes are left alone");
  };
  TestTensor plain({groups, columns}, type);
  TestTensor strided({groups, columns}, type, layout);
  run(kContiguous, plain);
  run(layout, strided);
  require_same(plain, strided, "grouped bias: strides do not matter");
  if (contents != Contents::whole_numbers) return;

  std::vector<int64_t> begin, end;
  int64_t last = 0;
  for (int64_t g = 0; g < groups; ++g) {
    if (!grouped) {
      begin.push_back(g * rows);
      end.push_back((g + 1) * rows);
      continue;
    }
    const int64_t entry = group_idx.values()[static_cast<size_t>(g)];
    begin.push_back(last);
    const int64_t stop = counts == 1 ? (entry > rows ? rows : last + std::max<int64_t>(entry, 0)) : entry;
    last = std::clamp<int64_t>(stop, 0, rows);
    end.push_back(last);
  }
  require_exact(plain, reference::grouped_bias_add_grad(grad_y, columns, begin, end),
                "grouped bias: as the definition");
}

void fuzz_nsa_compress(Bytes& bytes) {
  const DataType type = bytes.ConsumeBool() ? DataType::float16 : DataType::bfloat16;
  const Contents contents = bytes.PickValueInArray({Contents::whole_numbers, Contents::any_bits});
  const Layout layout = other_layout(bytes);
  const bool ends_on_device = bytes.ConsumeBool();
  reference::NsaSizes sizes;
  sizes.heads = bytes.ConsumeIntegralInRange<int64_t>(1, 3);
  sizes.channels = 16 * bytes.ConsumeIntegralInRange<int64_t>(1, 3);
  sizes.stride = 16 * bytes.ConsumeIntegralInRange<int64_t>(1, 2);
  sizes.block = sizes.stride + 16 * bytes.ConsumeIntegralInRange<int64_t>(0, 3);
  const auto sequences = bytes.ConsumeIntegralInRange<int64_t>(1, 4);
  int64_t tokens = 0;
  for (int64_t i = 0; i < sequences; ++i) {
    tokens += bytes.ConsumeIntegralInRange<int64_t>(0, 90);
    sizes.sequence_ends.push_back(tokens);
  }
  const auto windows = static_cast<int64_t>(reference::window_starts(sizes).size());
  if (windows == 0) return;
  const Shape rows{tokens, sizes.heads, sizes.channels};
  const Shape compressed{windows, sizes.heads, sizes.channels};
  const Shape weights{sizes.block, sizes.heads};
  const Values input = values(bytes, rows, contents);
  const Values weight = values(bytes, weights, contents);
  const Values grad = values(bytes, compressed, contents);
  // The device's copy of the ends may hold anything, whatever the sizes of the tensors say.
  std::vector<int64_t> device_ends = sizes.sequence_ends;
  const bool wrong_ends = ends_on_device && bytes.ConsumeBool();
  if (wrong_ends) {
    for (int64_t& end : device_ends) end = index(bytes, tokens + 2);
  }
  const IndexTensor ends_tensor({sequences}, device_ends);
  const std::unique_ptr<const aclIntArray, decltype(&aclDestroyIntArray)> ends(
      aclCreateIntArray(sizes.sequence_ends.data(), sizes.sequence_ends.size()), &aclDestroyIntArray);
  char tnd[] = "TND";

  const auto run = [&](Layout in, TestTensor& output, TestTensor& input_grad, TestTensor& weight_grad) {
    const TestTensor x(rows, type, in, input);
    const TestTensor w(weights, type, in, weight);
    const TestTensor dy(compressed, type, in, grad);
    run_exactly(
        [&](auto* size, auto* executor) {
          return aclnnNsaCompressGetWorkspaceSize(x, w, ends.get(), tnd, sizes.block, sizes.stride, 0, output,
                                                  size, executor);
        },
        aclnnNsaCompress);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    const aclnnStatus planned =
        ends_on_device
            ? aclnnNsaCompressGradTensorGetWorkspaceSize(dy, x, w, ends_tensor, sizes.block, sizes.stride, 0,
                                                         nullptr, input_grad, weight_grad, &size, &executor)
            : aclnnNsaCompressGradGetWorkspaceSize(dy, x, w, ends.get(), sizes.block, sizes.stride, 0,
                                                   nullptr, input_grad, weight_grad, &size, &executor);
    require(planned == OK, "NSA: phase 1 takes valid arguments");
    const std::unique_ptr<void, decltype(&std::free)> workspace(size > 0 ? std::malloc(size) : nullptr,
                                                                &std::free);
    aclrtStream stream = nullptr;
    require(aclrtCreateStream(&stream) == ACL_SUCCESS, "a stream can be made");
    require(aclnnNsaCompressGrad(workspace.get(), size, executor, stream) == OK,
            "NSA: phase 2 takes its executor");
    const aclError status = aclrtSynchronizeStream(stream);
    require(status == ACL_SUCCESS || wrong_ends, "NSA: right ends succeed");
    require(aclrtDestroyStream(stream) == ACL_SUCCESS, "a stream can be destroyed");
    aclGetRecentErrMsg();
    require(output.holes_untouched() && input_grad.holes_untouched() && weight_grad.holes_untouched(),
            "NSA: holes are left alone");
  };
  TestTensor output(compressed, type), input_grad(rows, type), weight_grad(weights, type);
  TestTensor output_2(compressed, type, layout), input_grad_2(rows, type, layout),
      weight_grad_2(weights, type, layout);
  run(kContiguous, output, input_grad, weight_grad);
  run(layout, output_2, input_grad_2, weight_grad_2);
  require_same(output, output_2, "NSA: strides do not matter to the output");
  if (wrong_ends) return;
  require_same(input_grad, input_grad_2, "NSA: strides do not matter to inputGrad");
  require_same(weight_grad, weight_grad_2, "NSA: strides do not matter to weightGrad");
  if (contents != Contents::whole_numbers) return;
  const reference::NsaGradients expected = reference::nsa_compress_grad(sizes, grad, input, weight);
  require_exact(output, reference::nsa_compress(sizes, input, weight), "NSA: output as the definition");
  require_exact(input_grad, expected.input, "NSA: inputGrad as the definition");
  require_exact(weight_grad, expected.weight, "NSA: weightGrad as the definition");
}

// Where the samples lie, and so which code path they take and how many there may be.
enum class Grid { any, smooth, scattered };

void fuzz_grid_sampler(Bytes& bytes, Grid kind) {
  const DataType type =
      bytes.PickValueInArray({DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  const Contents contents = bytes.PickValueInArray({Contents::whole_numbers, Contents::any_bits});
  const Layout layout = other_layout(bytes);
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
  const bool wanted[] = {bytes.ConsumeBool(), bytes.ConsumeBool()};
  const Shape image{sampling.batch, sampling.channels, sampling.height, sampling.width};
  const Shape places{sampling.batch, sampling.output_height, sampling.output_width, 2};
  const Shape sampled{sampling.batch, sampling.channels, sampling.output_height, sampling.output_width};
  const Values grid = kind == Grid::any ? coordinates(bytes, places, 1.0)
                      : kind == Grid::smooth
                          ? smooth_coordinates(bytes, sampling)
                          : uniform(element_count(places), -1.2, 1.2, bytes.ConsumeIntegral<uint32_t>());
  const Values input = values(bytes, image, contents);
  const Values grad = values(bytes, sampled, contents);
  const std::unique_ptr<const aclBoolArray, decltype(&aclDestroyBoolArray)> mask(
      aclCreateBoolArray(wanted, 2), &aclDestroyBoolArray);
  const bool has_forward = type != DataType::float64 || sampling.mode != 2;

  const auto run = [&](Layout in, TestTensor& out, TestTensor& input_grad, TestTensor& grid_grad) {
    const TestTensor x(image, type, in, input);
    const TestTensor g(places, type, in, grid);
    const TestTensor dy(sampled, type, in, grad);
    if (has_forward) {
      run_exactly(
          [&](auto* size, auto* executor) {
            return aclnnGridSampler2DGetWorkspaceSize(x, g, sampling.mode, sampling.padding,
                                                      sampling.align_corners, out, size, executor);
          },
          aclnnGridSampler2D);
    }
    run_exactly(
        [&](auto* size, auto* executor) {
          return aclnnGridSampler2DBackwardGetWorkspaceSize(dy, x, g, sampling.mode, sampling.padding,
                                                            sampling.align_corners, mask.get(), input_grad,
                                                            grid_grad, size, executor);
        },
        aclnnGridSampler2DBackward);
    require(out.holes_untouched() && input_grad.holes_untouched() && grid_grad.holes_untouched(),
            "grid sampler: holes are left alone");
  };
  TestTensor out(sampled, type), input_grad(image, type), grid_grad(places, type);
  TestTensor out_2(sampled, type, layout), input_grad_2(image, type, layout),
      grid_grad_2(places, type, layout);
  run(kContiguous, out, input_grad, grid_grad);
  run(layout, out_2, input_grad_2, grid_grad_2);
  require_same(out, out_2, "grid sampler: strides do not matter to out");
  require_same(input_grad, input_grad_2, "grid sampler: strides do not matter to inputGrad");
  require_same(grid_grad, grid_grad_2, "grid sampler: strides do not matter to gridGrad");
  if (contents != Contents::whole_numbers || type != DataType::float32) return;
  const Values expected_out = reference::grid_sampler_2d(sampling, input, grid);
  const auto expected = reference::grid_sampler_2d_backward(sampling, grad, input, grid);
  require_close(out, expected_out, 4 * 16, "grid sampler: out as the definition");
  const auto points = static_cast<double>(sampling.output_height * sampling.output_width);
  if (wanted[0] && !out.values().empty())
    require_close(input_grad, expected.input, 4 * 16 * points, "grid sampler: inputGrad as the definition");
  const auto largest = static_cast<double>(16 * 4 * 4 * sampling.channels * 12);
  if (wanted[1] && !out.values().empty())
    require_close(grid_grad, expected.grid, largest, "grid sampler: gridGrad as the definition");
}

void fuzz_deformable_attention(Bytes& bytes) {
  const DataType type = bytes.PickValueInArray(kFloatTypes);
  const Contents contents = bytes.PickValueInArray({Contents::whole_numbers, Contents::any_bits});
  const Layout layout = other_layout(bytes);
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
  for (int64_t i = 0; i < 2 * levels; ++i) extents.push_back(index(bytes, 8));
  const IndexTensor spatial_shape({levels, 2}, extents);
  const IndexTensor level_start(bytes, levels, rows);
  const Values places = coordinates(bytes, location, 1.0);
  const Values input = values(bytes, value_shape, contents);
  const Values weights = values(bytes, attention, contents);
  const Values grad = values(bytes, query, contents);

  const auto run = [&](Layout in, TestTensor& output, TestTensor& grad_value, TestTensor& grad_location,
                       TestTensor& grad_weight) {
    const TestTensor v(value_shape, type, in, input);
    const TestTensor l(location, type, in, places);
    const TestTensor a(attention, type, in, weights);
    const TestTensor dy(query, type, in, grad);
    run_exactly(
        [&](auto* size, auto* executor) {
          return aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(v, spatial_shape, level_start, l, a,
                                                                       output, size, executor);
        },
        aclnnMultiScaleDeformableAttnFunction);
    run_exactly(
        [&](auto* size, auto* executor) {
          return aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize(v, spatial_shape, level_start, l, a,
                                                                        dy, grad_value, grad_location,
                                                                        grad_weight, size, executor);
        },
        aclnnMultiScaleDeformableAttentionGrad);
    require(output.holes_untouched() && grad_value.holes_untouched() && grad_location.holes_untouched() &&
                grad_weight.holes_untouched(),
            "attention: holes are left alone");
  };
  TestTensor output(query, type), grad_value(value_shape, type), grad_location(location, type),
      grad_weight(attention, type);
  TestTensor output_2(query, type, layout), grad_value_2(value_shape, type, layout),
      grad_location_2(location, type, layout), grad_weight_2(attention, type, layout);
  run(kContiguous, output, grad_value, grad_location, grad_weight);
  run(layout, output_2, grad_value_2, grad_location_2, grad_weight_2);
  require_same(output, output_2, "attention: strides do not matter to output");
  require_same(grad_value, grad_value_2, "attention: strides do not matter to gradValue");
  require_same(grad_location, grad_location_2, "attention: strides do not matter to gradLocation");
  require_same(grad_weight, grad_weight_2, "attention: strides do not matter to gradAttnWeight");
  if (contents != Contents::whole_numbers) return;
  for (const TestTensor* result : {&output, &grad_value, &grad_weight}) {
    const Values found = result->values();
    require(std::all_of(found.begin(), found.end(), [](double x) { return std::isfinite(x); }),
            "attention: finite values give finite results");
  }
}

// float64, which only the C++ interface has. The sums of whole numbers are exact but for the weights of the corners.
void fuzz_attention_in_double(Bytes& bytes) {
  reference::MultiScaleDeformableAttention expected{};
  expected.positions_in_double = true;
  expected.batches = bytes.ConsumeIntegralInRange<int64_t>(1, 2);
  expected.rows = bytes.ConsumeIntegralInRange<int64_t>(1, 60);
  expected.heads = bytes.ConsumeIntegralInRange<int64_t>(1, 4);
  expected.channels = bytes.ConsumeIntegralInRange<int64_t>(1, 20);
  expected.queries = bytes.ConsumeIntegralInRange<int64_t>(1, 7);
  expected.levels = bytes.ConsumeIntegralInRange<int64_t>(1, 4);
  expected.points = bytes.ConsumeIntegralInRange<int64_t>(1, 5);
  for (int64_t i = 0; i < 2 * expected.levels; ++i) expected.spatial_shape.push_back(index(bytes, 8));
  for (int64_t i = 0; i < expected.levels; ++i)
    expected.level_start_index.push_back(index(bytes, expected.rows));
  const int64_t heads = expected.batches * expected.queries * expected.heads;
  const int64_t samples = expected.levels * expected.points;
  constexpr auto kWhole = Contents::whole_numbers;
  expected.value =
      values(bytes, {expected.batches, expected.rows, expected.heads, expected.channels}, kWhole);
  expected.location = coordinates(bytes, {heads, samples, 2}, 1.0);
  expected.attention_weight = values(bytes, {heads, samples}, kWhole);
  expected.grad_output = values(bytes, {heads, expected.channels}, kWhole);

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
  const auto close = [&](const Values& found, const Values& wanted, double scale, const char* what) {
    for (size_t i = 0; i < found.size(); ++i) require(std::fabs(found[i] - wanted[i]) <= 1e-9 * scale, what);
  };
  double largest_extent = 1;
  for (int64_t extent : expected.spatial_shape)
    largest_extent = std::max(largest_extent, std::fabs(static_cast<double>(extent)));
  close(output, expected.output, 1, "attention in double: output as the reference");
  const auto close_if = [&](bool wanted, const Values& found, const Values& reference, double scale,
                            const char* what) {
    close(found, wanted ? reference : Values(found.size(), 0.0), scale, what);
  };
  close_if(problem.wants_grad_value, grad_value, expected.grad_value, 1,
           "attention in double: grad_value as the reference");
  close_if(problem.wants_grad_location, grad_location, expected.grad_location, largest_extent,
           "attention in double: grad_location as the reference");
  close_if(problem.wants_grad_attention_weight, grad_weight, expected.grad_attention_weight, 1,
           "attention in double: grad_attention_weight as the reference");
}

}  // namespace
}  // namespace aclgrad::test

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  return aclInit(nullptr) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS ? 0 : 1;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace aclgrad::test;
  Bytes bytes(data, size);
  switch (bytes.ConsumeIntegral<uint8_t>() % 7) {
    case 0:
      fuzz_grouped_bias_add(bytes);
      break;
    case 1:
      fuzz_nsa_compress(bytes);
      break;
    case 2:
      fuzz_grid_sampler(bytes, Grid::any);
      break;
    case 3:
      fuzz_deformable_attention(bytes);
      break;
    case 4:
      fuzz_grid_sampler(bytes, Grid::smooth);
      break;
    case 5:
      fuzz_grid_sampler(bytes, Grid::scattered);
      break;
    default:
      fuzz_attention_in_double(bytes);
  }
  return 0;
}
