// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What a GPU can do at most: bytes that memory moves, and numbers that its second-level cache adds up. The benchmarks of
// the kernels are held against these.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda/kernel.h"

namespace aclgrad::cuda {
namespace {

constexpr int kRuns = 20;

template <class Run>
double seconds_of(Run&& run) {
  cudaEvent_t start, end;
  check(cudaEventCreateWithFlags(&start, 0), "cudaEventCreateWithFlags");
  check(cudaEventCreateWithFlags(&end, 0), "cudaEventCreateWithFlags");
  for (int i = 0; i < 3; ++i) run();
  check(cudaEventRecord(start, nullptr), "cudaEventRecord");
  for (int i = 0; i < kRuns; ++i) run();
  check(cudaEventRecord(end, nullptr), "cudaEventRecord");
  check(cudaEventSynchronize(end), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start, end), "cudaEventElapsedTime");
  return milliseconds / 1e3 / kRuns;
}

__global__ void __launch_bounds__(kThreads) copy(const float4* from, float4* to, int64_t count) {
  for (int64_t i = thread_index(); i < count; i += thread_count_of_grid()) to[i] = from[i];
}

// Each group of 8 threads adds to one row of 32 numbers; rows come in an order that caches cannot foresee. Nothing is
// divided, which would take longer than the additions.
__device__ int64_t row_of(int64_t group, int64_t rows) {
  return __umulhi(static_cast<uint32_t>(group) * 0x9E3779B1u, static_cast<uint32_t>(rows));
}

__global__ void __launch_bounds__(kThreads) add_fours(float* sums, int64_t rows, int64_t adds) {
  for (int64_t i = thread_index(); i < adds * 8; i += thread_count_of_grid()) {
    add_four(sums + row_of(i / 8, rows) * 32 + i % 8 * 4, 1, 1, 1, 1);
  }
}

// The same numbers one at a time, a warp for each row.
template <class T>
__global__ void __launch_bounds__(kThreads) add_ones(T* sums, int64_t rows, int64_t adds) {
  for (int64_t i = thread_index(); i < adds * 32; i += thread_count_of_grid()) {
    atomicAdd(sums + row_of(i / 32, rows) * 32 + i % 32, T{1});
  }
}

void print_rate(const char* what, int64_t rows, double numbers, double seconds) {
  std::printf("%-28s rows %8lld  %8.1f thousand million numbers a second\n", what,
              static_cast<long long>(rows), numbers / seconds / 1e9);
}

void measure() {
  const CudaLaunch on;
  constexpr int64_t kBytes = int64_t{1} << 30;
  void *from = nullptr, *to = nullptr;
  check(cudaMalloc(&from, kBytes), "cudaMalloc");
  check(cudaMalloc(&to, kBytes), "cudaMalloc");
  zero(on, from, kBytes);
  zero(on, to, kBytes);
  const double copied = seconds_of([&] {
    launch(on, 132 * 16, kThreads, 0, copy, static_cast<const float4*>(from), static_cast<float4*>(to),
           kBytes / 16);
  });
  std::printf("memory, read and written: %.0f GB/s\n", 2.0 * kBytes / copied / 1e9);

  constexpr int64_t kAdds = int64_t{1} << 21;
  // As many pixels as the levels of a detector's pyramid have, all heads together, and fewer, which collide.
  for (int64_t rows : {int64_t{142568}, int64_t{33600}, int64_t{2184}, int64_t{64}}) {
    const double numbers = 32.0 * kAdds;
    print_rate("float, four at a time", rows, numbers, seconds_of([&] {
                 launch_for_each(on, kAdds * 8, add_fours, static_cast<float*>(to), rows, kAdds);
               }));
    print_rate("float, one at a time", rows, numbers, seconds_of([&] {
                 launch_for_each(on, kAdds * 32, add_ones<float>, static_cast<float*>(to), rows, kAdds);
               }));
    print_rate("64-bit integer", rows, numbers, seconds_of([&] {
                 launch_for_each(on, kAdds * 32, add_ones<unsigned long long>,
                                 static_cast<unsigned long long*>(to), rows, kAdds);
               }));
  }
  cudaFree(from);
  cudaFree(to);
}

}  // namespace
}  // namespace aclgrad::cuda

int main() {
  try {
    aclgrad::cuda::measure();
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
