// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The kernels behind both interfaces. They trust their problem, which whoever calls them has checked. An operator has, for
// each of its problems, found by argument-dependent lookup:
//
//   void check(const Problem& problem, Contract& contract);      what it expects of a problem, in contract.cpp
//   size_t kernel_workspace_size(const Problem& problem);
//   double kernel_nanoseconds(const Problem& problem);           an estimate, on one thread
//   void run_kernel(const Problem& problem, void* workspace);
//
// and a static CudaKernel in its cuda.cu.
#pragma once

#include <cstddef>
#include <stdexcept>

#include "aclgrad/types.h"

namespace aclgrad {

// The same on a CUDA GPU. It is known where its file is part of the program, so that nothing has to stand for it in a
// library that is built without CUDA.
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

}  // namespace aclgrad
