// What a call costs beside its work: each gradient operator with a tiny problem through the C interface, planned anew
// each time (phase 1, phase 2, synchronise) and planned once (phase 2 of a repeatable executor, synchronise).
#include <benchmark/benchmark.h>

#include <functional>

#include "aclnnop/aclnn_grid_sampler2d_backward.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attention_grad.h"
#include "aclnnop/aclnn_nsa_compress_grad.h"
#include "example.h"

namespace {

using example::check;
using example::Device;
using example::DeviceMemory;
using example::Operator;
using example::Tensor;
using Phase1 = std::function<aclnnStatus(uint64_t*, aclOpExecutor**)>;

const Device device;

void plan_and_run(benchmark::State& state, const Phase1& phase1, Operator::Phase2 phase2) {
  constexpr size_t kEnoughForTinyProblems = size_t{1} << 20;
  const DeviceMemory workspace(kEnoughForTinyProblems);
  for (auto _ : state) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    check(phase1(&size, &executor), "phase 1");
    check(phase2(workspace.data(), size, executor, device.stream()), "phase 2");
    device.synchronize();
  }
}

void run_again(benchmark::State& state, const Phase1& phase1, Operator::Phase2 phase2) {
  const Operator planned(device, "operator", phase2, phase1);
  for (auto _ : state) {
    planned.enqueue();
    device.synchronize();
  }
}

void measure(benchmark::State& state, bool repeatable, const Phase1& phase1, Operator::Phase2 phase2) {
  (repeatable ? run_again : plan_and_run)(state, phase1, phase2);
}

void grouped_bias(benchmark::State& state, bool repeatable) {
  const Tensor<float> grad_y({8, 16}), out({2, 16});
  const Tensor<int64_t> ends({2}, {3, 8});
  measure(
      state, repeatable,
      [&](uint64_t* size, aclOpExecutor** executor) {
        return aclnnGroupedBiasAddGradGetWorkspaceSize(grad_y, ends, out, size, executor);
      },
      aclnnGroupedBiasAddGrad);
}

void nsa_compress(benchmark::State& state, bool repeatable) {
  using example::Half;
  const Tensor<Half> output_grad({2, 1, 16}), input({48, 1, 16}), weight({32, 1});
  const Tensor<Half> input_grad({48, 1, 16}), weight_grad({32, 1});
  const int64_t ends[] = {48};
  const example::Handle<aclIntArray> lengths(aclCreateIntArray(ends, 1), aclDestroyIntArray);
  char layout[] = "TND";
  measure(
      state, repeatable,
      [&](uint64_t* size, aclOpExecutor** executor) {
        return aclnnNsaCompressGradGetWorkspaceSize(output_grad, input, weight, lengths, 32, 16, 0, layout,
                                                    input_grad, weight_grad, size, executor);
      },
      aclnnNsaCompressGrad);
}

void grid_sampler(benchmark::State& state, bool repeatable) {
  const Tensor<float> grad_output({1, 2, 4, 4}), input({1, 2, 4, 4}), grid({1, 4, 4, 2});
  const Tensor<float> input_grad({1, 2, 4, 4}), grid_grad({1, 4, 4, 2});
  const bool both[] = {true, true};
  const example::Handle<aclBoolArray> mask(aclCreateBoolArray(both, 2), aclDestroyBoolArray);
  measure(
      state, repeatable,
      [&](uint64_t* size, aclOpExecutor** executor) {
        return aclnnGridSampler2DBackwardGetWorkspaceSize(grad_output, input, grid, 0, 0, false, mask,
                                                          input_grad, grid_grad, size, executor);
      },
      aclnnGridSampler2DBackward);
}

void deformable_attention(benchmark::State& state, bool repeatable) {
  const Tensor<float> value({1, 16, 1, 16}), location({1, 4, 1, 1, 2, 2}), weight({1, 4, 1, 1, 2});
  const Tensor<float> grad_output({1, 4, 16});
  const Tensor<int64_t> shape({1, 2}, {4, 4}), start({1}, {0});
  const Tensor<float> grad_value({1, 16, 1, 16}), grad_location({1, 4, 1, 1, 2, 2}),
      grad_weight({1, 4, 1, 1, 2});
  measure(
      state, repeatable,
      [&](uint64_t* size, aclOpExecutor** executor) {
        return aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize(value, shape, start, location, weight,
                                                                      grad_output, grad_value, grad_location,
                                                                      grad_weight, size, executor);
      },
      aclnnMultiScaleDeformableAttentionGrad);
}

BENCHMARK_CAPTURE(deformable_attention, planned each time, false);
BENCHMARK_CAPTURE(deformable_attention, planned once, true);
BENCHMARK_CAPTURE(grid_sampler, planned each time, false);
BENCHMARK_CAPTURE(grid_sampler, planned once, true);
BENCHMARK_CAPTURE(nsa_compress, planned each time, false);
BENCHMARK_CAPTURE(nsa_compress, planned once, true);
BENCHMARK_CAPTURE(grouped_bias, planned each time, false);
BENCHMARK_CAPTURE(grouped_bias, planned once, true);

}  // namespace
