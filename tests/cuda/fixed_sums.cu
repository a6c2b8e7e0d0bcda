// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "fixed_sums.h"

#include <cmath>

#include "cuda/sums.h"

namespace aclgrad::test {
namespace {

template <class Real>
__global__ void add_all(cuda::FixedSums<Real> sums, const Real* terms, int64_t count, Real* sum) {
  sums.begin();
  for (int64_t i = 0; i < count; ++i) sums.add(0, terms[i]);
  *sum = sums.value(0, 0);
}

// Memory that host and device share.
template <class T>
T* allocate(size_t count) {
  void* memory = nullptr;
  cuda::check(cudaHostAlloc(&memory, (count + 1) * sizeof(T), cudaHostAllocMapped), "cudaHostAlloc");
  return static_cast<T*>(memory);
}

}  // namespace

template <class Real>
Real fixed_sum(const std::vector<Real>& terms, int64_t max_terms, double largest) {
  WorkspaceAllocator sizes;
  cuda::FixedSums<Real>(1, max_terms, 0, sizes);
  auto* workspace = allocate<std::byte>(sizes.size());
  WorkspaceAllocator allocator(workspace);
  const cuda::FixedSums<Real> sums(1, max_terms, 0, allocator);
  sums.clear({});
  Real *values = allocate<Real>(terms.size()), *sum = allocate<Real>(1);
  std::copy(terms.begin(), terms.end(), values);
  for (Real term : terms) {
    if (std::isfinite(term)) largest = std::max(largest, std::fabs(static_cast<double>(term)));
  }
  *sums.largest() = {{std::bit_cast<unsigned long long>(largest), std::bit_cast<unsigned long long>(1.0)}};
  cuda::launch({}, 1, 1, 0, add_all<Real>, sums, values, static_cast<int64_t>(terms.size()), sum);
  cuda::check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  const Real result = *sum;
  for (void* memory : {static_cast<void*>(workspace), static_cast<void*>(values), static_cast<void*>(sum)})
    cudaFreeHost(memory);
  return result;
}

template float fixed_sum(const std::vector<float>&, int64_t, double);
template double fixed_sum(const std::vector<double>&, int64_t, double);

}  // namespace aclgrad::test
