// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The elementwise product's gradient on the CPU. A task takes a tile of elements.
#include "aclgrad/new_operator.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/new_operator/cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::new_operator::HWY_NAMESPACE {

using namespace aclgrad::HWY_NAMESPACE;

template <class T>
void multiply_typed(const T* a, const T* b, int64_t count, T* out) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) store16(multiply(load16(a + i), load16(b + i)), out + i);
  if (const auto tail = static_cast<size_t>(count - i); tail > 0)
    store16(multiply(load16(a + i, tail), load16(b + i, tail)), out + i, tail);
}

void multiply_typed(const double* a, const double* b, int64_t count, double* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = a[i] * b[i];
}

// The elements [begin, begin + count).
void multiply_elements(const NewOperator& problem, int64_t begin, int64_t count) {
  visit_element_type(problem.grad_output.type, [&]<class T>(T) {
    multiply_typed(static_cast<const T*>(problem.grad_output.data) + begin,
                   static_cast<const T*>(problem.other.data) + begin, count,
                   static_cast<T*>(problem.grad_input.data) + begin);
  });
}

}  // namespace aclgrad::ops::new_operator::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <algorithm>

#include "base/divide.h"
#include "base/parallel.h"

namespace aclgrad::ops::new_operator {
namespace {

HWY_EXPORT(multiply_elements);

constexpr int64_t kElementsPerTile = 1 << 14;

}  // namespace

size_t kernel_workspace_size(const NewOperator&) {
  return 0;
}

double kernel_nanoseconds(const NewOperator& problem) {
  return 0.3 * static_cast<double>(problem.elements()) *
         static_cast<double>(size_of(problem.grad_output.type));
}

void run_kernel(const NewOperator& problem, void*) {
  parallel_for(divide_up(problem.elements(), kElementsPerTile), kernel_nanoseconds(problem),
               [&](int64_t tile) {
                 const int64_t begin = tile * kElementsPerTile;
                 HWY_DYNAMIC_DISPATCH(multiply_elements)
                 (problem, begin, std::min(kElementsPerTile, problem.elements() - begin));
               });
}

}  // namespace aclgrad::ops::new_operator

#endif  // HWY_ONCE
