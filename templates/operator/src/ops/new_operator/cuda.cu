// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The elementwise product's gradient on a GPU: a thread an element.
#include "aclgrad/new_operator.h"
#include "base/kernel.h"
#include "cuda/kernel.h"

namespace aclgrad::ops::new_operator {

using namespace cuda;

namespace {

template <class T>
__global__ void multiply(NewOperator problem) {
  for (int64_t i = thread_index(); i < problem.elements(); i += thread_count_of_grid()) {
    const auto product = widen(static_cast<const T*>(problem.grad_output.data)[i]) *
                         widen(static_cast<const T*>(problem.other.data)[i]);
    static_cast<T*>(problem.grad_input.data)[i] = narrow<T>(product);
  }
}

const CudaKernel<NewOperator> kKernel([](const NewOperator&, const CudaLaunch&) { return size_t{0}; },
                                      [](const NewOperator& problem, void*, const CudaLaunch& on) {
                                        visit_element_type(problem.grad_output.type, [&]<class T>(T) {
                                          launch_for_each(on, problem.elements(), multiply<T>, problem);
                                        });
                                      });

}  // namespace
}  // namespace aclgrad::ops::new_operator
