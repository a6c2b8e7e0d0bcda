// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// src/cuda/instructions.h in plain C++.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

#include "base/data_type.h"

namespace aclgrad::cuda {

inline double widen(double value) {
  return value;
}
template <class T>
float widen(T value) {
  return to_float(value);
}

template <class T>
T narrow(float value) {
  return from_float<T>(value);
}
template <class T>
T narrow(double value) {
  static_assert(std::is_same_v<T, double>);
  return value;
}

inline void add_four(float* to, float a, float b, float c, float d) {
  struct alignas(16) Four {
    float value[4];
  };
  Four& four = *reinterpret_cast<Four*>(to);  // lets the sanitizer see where it is not aligned
  const float terms[4] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) four.value[i] = emulation::add_to_memory(four.value[i], terms[i]);
}

template <class T>
T* launched_shared_memory() {
  return static_cast<T*>(emulation::shared_memory());
}

}  // namespace aclgrad::cuda
