// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What CUDA kernels need beyond C++ and the runtime's header: conversions and vector reductions.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <bit>

#include "base/data_type.h"

namespace aclgrad::cuda {

__device__ inline double widen(double value) {
  return value;
}
__device__ inline float widen(float value) {
  return value;
}
__device__ inline float widen(Half value) {
  return __half2float(__ushort_as_half(value.bits));
}
__device__ inline float widen(BFloat16 value) {
  return std::bit_cast<float>(uint32_t{value.bits} << 16);
}

// Rounds to nearest even.
template <class T>
__device__ T narrow(float value) {
  static_assert(std::is_same_v<T, float>);
  return value;
}
template <class T>
__device__ T narrow(double value) {
  static_assert(std::is_same_v<T, double>);
  return value;
}
template <>
__device__ inline Half narrow<Half>(float value) {
  return {__half_as_ushort(__float2half_rn(value))};
}
template <>
__device__ inline BFloat16 narrow<BFloat16>(float value) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
}

// Whether memory takes the additions of add_four() as one.
#if __CUDA_ARCH__ >= 900
inline constexpr bool kAddsFourAtOnce = true;
#else
inline constexpr bool kAddsFourAtOnce = false;
#endif

// Atomically adds four floats, 16-byte aligned in global memory: in no fixed order.
__device__ inline void add_four(float* to, float a, float b, float c, float d) {
#if __CUDA_ARCH__ >= 900
  // Without the clobber of memory, which would keep later loads behind it: no kernel reads what it adds to.
  asm volatile(
      "red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "f"(a),
      "f"(b), "f"(c), "f"(d));
#else
  atomicAdd(to, a);
  atomicAdd(to + 1, b);
  atomicAdd(to + 2, c);
  atomicAdd(to + 3, d);
#endif
}

}  // namespace aclgrad::cuda
