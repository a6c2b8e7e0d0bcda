// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The kernels behind both interfaces. They trust their problem, which whoever calls them has checked. An operator has, for
// each of its problems, found by argument-dependent lookup:
//
//   void check(const Problem& problem, Contract& contract);      what it expects of a problem, in contract.cpp
//   size_t kernel_workspace_size(const Problem& problem);
//   double kernel_nanoseconds(const Problem& problem);           an estimate, on one thread
//   void run_kernel(const Problem& problem, void* workspace);
//
// and a static CudaKernel in its cuda.cu. ACLGRAD_DECLARE_KERNEL declares these functions.
#pragma once

#include <cstddef>
#include <stdexcept>

#include "aclgrad/types.h"

namespace aclgrad {

// The kernel of a problem on CUDA GPUs. A static object in a .cu file registers it, so a library that is built without
// CUDA needs no substitute.
template <class Problem>
class CudaKernel {
 public:
  using WorkspaceSize = size_t (*)(const Problem& problem, const CudaLaunch& on);
  using Run = void (*)(const Problem& problem, void* workspace, const CudaLaunch& on);

  CudaKernel(WorkspaceSize size, Run function) : workspace_size(size), run(function) { built_ = this; }

  static const CudaKernel& get() {
    if (built_ == nullptr) throw std::runtime_error("This library was built without CUDA.");
    return *built_;
  }

  const WorkspaceSize workspace_size;
  const Run run;

 private:
  static inline const CudaKernel* built_ = nullptr;
};

template <class Problem>
size_t kernel_workspace_size(const Problem& problem, const CudaLaunch& on) {
  return CudaKernel<Problem>::get().workspace_size(problem, on);
}

template <class Problem>
void run_kernel(const Problem& problem, void* workspace, const CudaLaunch& on) {
  CudaKernel<Problem>::get().run(problem, workspace, on);
}

class Contract;

}  // namespace aclgrad

// The kernel lies in the namespace of the operator.
#define ACLGRAD_DECLARE_KERNEL(operator_, Problem)          \
  namespace aclgrad::ops::operator_ {                       \
  size_t kernel_workspace_size(const Problem& problem);     \
  double kernel_nanoseconds(const Problem& problem);        \
  void run_kernel(const Problem& problem, void* workspace); \
  }                                                         \
  namespace aclgrad {                                       \
  void check(const Problem& problem, Contract& contract);   \
  using ops::operator_::kernel_nanoseconds;                 \
  using ops::operator_::kernel_workspace_size;              \
  using ops::operator_::run_kernel;                         \
  }
