// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#include <cuda_runtime.h>

namespace ptx::test {
namespace {

__global__ void store_each_kernel(float* to) {
  to[threadIdx.x] = static_cast<float>(threadIdx.x);
}

__global__ void store_in_steps_kernel(float* to, int count) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) to[i] = 1;
}

__global__ void store_to_one_kernel(float* to) {
  to[0] = 1;
}

__global__ void add_to_one_kernel(float* to) {
  atomicAdd(to, 1.0f);
}

__global__ void add_and_store_kernel(float* to) {
  if (threadIdx.x == 0) {
    atomicAdd(to, 1.0f);
  } else {
    *to = 2;
  }
}

__global__ void load_at_kernel(const char* from, long offset, float* to) {
  *to = *reinterpret_cast<const float*>(from + offset);
}

__global__ void copy_each_kernel(const float* from, float* to) {
  to[threadIdx.x] = from[threadIdx.x];
}

__global__ void branch_on_kernel(const float* from, float* to) {
  if (*from > 0) {
    atomicAdd(to, 1.0f);
  } else {
    *to = 2;
  }
}

__global__ void load_shared_unwritten_kernel(float* to) {
  __shared__ float memory[2];
  memory[0] = 1;
  __syncthreads();
  to[threadIdx.x] = memory[threadIdx.x];
}

template <Barrier kBarrier>
__global__ void reverse_kernel(float* values) {
  __shared__ float memory[256];
  memory[threadIdx.x] = values[threadIdx.x];
  if constexpr (kBarrier == Barrier::of_half_warps) __syncwarp(threadIdx.x % 32 < 16 ? 0xFFFFu : 0xFFFF0000u);
  if constexpr (kBarrier == Barrier::of_warp) __syncwarp();
  if constexpr (kBarrier == Barrier::of_block) __syncthreads();
  values[threadIdx.x] = memory[blockDim.x - 1 - threadIdx.x];
}

__global__ void count_equals_kernel(int* values) {
  values[threadIdx.x] = __popc(__match_any_sync(~0u, values[threadIdx.x]));
}

__global__ void end_before_barrier_kernel(float* to) {
  __shared__ float memory;
  if (threadIdx.x == 40) return;
  if (threadIdx.x == 0) memory = 1;
  __syncthreads();
  to[threadIdx.x] = memory;
}

__global__ void exchange_kernel(float* values, unsigned mask, int last_lane) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane <= last_lane) values[lane] = __shfl_xor_sync(mask, values[lane], 1);
}

__global__ void divide_kernel(const int* values, int* quotient) {
  *quotient = values[0] / values[1];
}

__global__ void count_down_kernel(int* values) {
  int rounds = 0;
  for (int left = values[threadIdx.x]; left > 0; left = left % 3 == 0 ? left / 3 : left - 1) ++rounds;
  values[threadIdx.x] = rounds;
}

__global__ void compute_kernel(const float* given, Arithmetic* result) {
  const float large = given[0], minus_one = given[1], number = given[2];
  result->int_of_float = static_cast<int>(large);
  result->long_of_double = static_cast<long long>(static_cast<double>(-large));
  result->shifted = 7u << static_cast<unsigned>(number);
  result->quotient = -7 / static_cast<int>(given[3]);
  const float infinite = large * large;
  result->not_a_number = infinite - infinite;
  result->exact_product = fmaf(number, number, minus_one);
}

}  // namespace

void store_each(float* to, int threads) {
  store_each_kernel<<<1, threads>>>(to);
}
void store_each_in_blocks(float* to, int blocks) {
  store_in_steps_kernel<<<blocks, 32>>>(to, blocks * 32);
}
void store_to_one(float* to, int blocks) {
  store_to_one_kernel<<<blocks, 1>>>(to);
}
void add_to_one(float* to, int blocks) {
  add_to_one_kernel<<<blocks, 32>>>(to);
}
void add_and_store(float* to) {
  add_and_store_kernel<<<1, 2>>>(to);
}
void load_at(const char* from, long offset, float* to) {
  load_at_kernel<<<1, 1>>>(from, offset, to);
}
void copy_each(const float* from, float* to, int threads) {
  copy_each_kernel<<<1, threads>>>(from, to);
}
void branch_on(const float* from, float* to) {
  branch_on_kernel<<<1, 1>>>(from, to);
}
void load_shared_unwritten(float* to) {
  load_shared_unwritten_kernel<<<1, 2>>>(to);
}
void reverse_in_shared(float* values, int threads, Barrier barrier) {
  if (barrier == Barrier::none) reverse_kernel<Barrier::none><<<1, threads>>>(values);
  if (barrier == Barrier::of_half_warps) reverse_kernel<Barrier::of_half_warps><<<1, threads>>>(values);
  if (barrier == Barrier::of_warp) reverse_kernel<Barrier::of_warp><<<1, threads>>>(values);
  if (barrier == Barrier::of_block) reverse_kernel<Barrier::of_block><<<1, threads>>>(values);
}
void count_equals(int* values) {
  count_equals_kernel<<<1, 32>>>(values);
}
void end_before_barrier(float* to, int threads) {
  end_before_barrier_kernel<<<1, threads>>>(to);
}
void exchange(float* values, unsigned mask, int last_lane) {
  exchange_kernel<<<1, 32>>>(values, mask, last_lane);
}
void divide(const int* values, int* quotient) {
  divide_kernel<<<1, 1>>>(values, quotient);
}
void count_down(int* values, int threads) {
  count_down_kernel<<<1, threads>>>(values);
}
void compute(const float* given, Arithmetic* result) {
  compute_kernel<<<1, 1>>>(given, result);
}

}  // namespace ptx::test
