// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Runs one problem on the PTX machine, whose counts counts.py reads (PTX_COUNTS). `counts NAME TYPE [deterministic]`
// prints in how many parts the problem's work is counted.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/data_type.h"
#include "base/error.h"
#include "ops/grid_sampler/kernel.h"
#include "ops/grouped_bias_add/kernel.h"
#include "ops/multi_scale_deformable_attention/kernel.h"
#include "ops/nsa_compress/kernel.h"
#include "support/values.h"

namespace aclgrad::test {
namespace {

int64_t count_of(const aclgrad::Shape& shape) {
  return shape.contiguous_strides()[0] * shape[0];
}

void* device_memory(size_t bytes) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) != cudaSuccess) std::exit(1);
  return memory;
}

// Of the GPU, with what lies in memory of the host.
void* on_gpu(const void* host, size_t bytes) {
  void* memory = device_memory(bytes);
  if (cudaMemcpyAsync(memory, host, bytes, cudaMemcpyDefault, nullptr) != cudaSuccess) std::exit(1);
  return memory;
}

ConstTensor random_tensor(DataType type, const aclgrad::Shape& shape, double low, double high,
                          unsigned seed) {
  const int64_t count = count_of(shape);
  const auto values = uniform(count, low, high, seed);
  std::vector<std::byte> bytes(static_cast<size_t>(count) * size_of(type));
  write_elements(values.data(), count, type, bytes.data(), static_cast<int64_t>(size_of(type)));
  return {on_gpu(bytes.data(), bytes.size()), type, shape};
}

Tensor result(DataType type, const aclgrad::Shape& shape) {
  return {device_memory(static_cast<size_t>(count_of(shape)) * size_of(type)), type, shape};
}

const void* indices(std::initializer_list<int64_t> values) {
  return on_gpu(values.begin(), values.size() * sizeof(int64_t));
}

template <class Problem>
void run(const Problem& problem, bool deterministic) {
  const CudaLaunch on{.deterministic = deterministic};
  run_kernel(problem, device_memory(kernel_workspace_size(problem, on)), on);
  if (cudaStreamSynchronize(nullptr) != cudaSuccess) std::exit(1);
}

// An encoder's levels; samples anywhere in them.
constexpr int64_t kHeads = 8, kQueries = 64, kLevels = 4, kSamples = 4,
                  kRows = 40 * 40 + 20 * 20 + 10 * 10 + 5 * 5;

template <class Problem>
Problem attention(DataType type, int64_t channels) {
  Problem problem;
  problem.value = random_tensor(type, {1, kRows, kHeads, channels}, -1, 1, 1);
  problem.spatial_shapes = {indices({40, 40, 20, 20, 10, 10, 5, 5}), DataType::int64, {kLevels, 2}};
  problem.level_start_index = {indices({0, 1600, 2000, 2100}), DataType::int64, {kLevels}};
  problem.sampling_locations = random_tensor(type, {1, kQueries, kHeads, kLevels, kSamples, 2}, 0, 1, 2);
  problem.attention_weights = random_tensor(type, {1, kQueries, kHeads, kLevels, kSamples}, 0, 1, 3);
  return problem;
}

int64_t msda_forward(DataType type, bool) {
  auto problem = attention<MultiScaleDeformableAttention>(type, 32);
  problem.output = result(type, {1, kQueries, kHeads, 32});
  run(problem, false);
  return kQueries * kHeads * kLevels * kSamples * 8;
}

int64_t msda_gradient(DataType type, bool deterministic) {
  auto problem = attention<MultiScaleDeformableAttentionBackward>(type, 32);
  problem.grad_output = random_tensor(type, {1, kQueries, kHeads, 32}, -1, 1, 4);
  problem.grad_value = result(type, problem.value.shape);
  problem.grad_sampling_locations = result(type, problem.sampling_locations.shape);
  problem.grad_attention_weights = result(type, problem.attention_weights.shape);
  run(problem, deterministic);
  return kQueries * kHeads * kLevels * kSamples * 8;
}

template <class Problem>
Problem sampling(DataType type, const aclgrad::Shape& image, const aclgrad::Shape& grid) {
  Problem problem;
  problem.input = random_tensor(type, image, -1, 1, 1);
  problem.grid = random_tensor(type, grid, -1, 1, 2);
  return problem;
}

template <class Problem>
int64_t forward(DataType type, const aclgrad::Shape& image, const aclgrad::Shape& grid,
                const aclgrad::Shape& output) {
  auto problem = sampling<Problem>(type, image, grid);
  problem.output = result(type, output);
  run(problem, false);
  return count_of(output);
}

template <class Problem>
int64_t gradient(DataType type, const aclgrad::Shape& image, const aclgrad::Shape& grid,
                 const aclgrad::Shape& output, bool deterministic) {
  auto problem = sampling<Problem>(type, image, grid);
  problem.grad_output = random_tensor(type, output, -1, 1, 3);
  problem.grad_input = result(type, image);
  problem.grad_grid = result(type, grid);
  run(problem, deterministic);
  return count_of(output);
}

struct Run {
  const char* name;
  int64_t (*run)(DataType type, bool deterministic);
};

constexpr int64_t kSide = 64, kOut = 48;

const Run kRuns[] = {
    {"msda_forward", msda_forward},
    {"msda_gradient", msda_gradient},
    {"grid_forward_c32",
     [](DataType type, bool) {
       return forward<GridSampler2D>(type, {1, 32, kSide, kSide}, {1, kOut, kOut, 2}, {1, 32, kOut, kOut});
     }},
    {"grid_gradient_c32",
     [](DataType type, bool deterministic) {
       return gradient<GridSampler2DBackward>(type, {1, 32, kSide, kSide}, {1, kOut, kOut, 2},
                                              {1, 32, kOut, kOut}, deterministic);
     }},
    {"grid_gradient_c3",
     [](DataType type, bool deterministic) {
       return gradient<GridSampler2DBackward>(type, {1, 3, kSide, kSide}, {1, kOut, kOut, 2},
                                              {1, 3, kOut, kOut}, deterministic);
     }},
    {"volume_gradient_c4",
     [](DataType type, bool deterministic) {
       return gradient<GridSampler3DBackward>(type, {1, 4, 16, 16, 16}, {1, 12, 12, 12, 3},
                                              {1, 4, 12, 12, 12}, deterministic);
     }},
};

}  // namespace
}  // namespace aclgrad::test

int main(int argc, char** argv) {
  using namespace aclgrad;
  const std::string name = argc > 1 ? argv[1] : "", type = argc > 2 ? argv[2] : "";
  const bool deterministic = argc > 3 && std::string(argv[3]) == "deterministic";
  for (const auto& run : test::kRuns) {
    for (DataType each : {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64}) {
      if (run.name != name || name_of(each) != type) continue;
      std::printf("%lld\n", static_cast<long long>(run.run(each, deterministic)));
      return 0;
    }
  }
  std::printf("No problem %s of %s\n", name.c_str(), type.c_str());
  return 2;
}
