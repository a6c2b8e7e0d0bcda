// The elementwise product's gradient on a GPU: a thread an element.
#include "cuda/kernel.h"
#include "ops/new_operator/kernel.h"

namespace aclgrad::ops::new_operator {

using namespace cuda;

namespace {

template <class T>
__global__ void multiply(NewOperator problem) {
  for (int64_t i = thread_index(); i < problem.count; i += thread_count_of_grid()) {
    const float product =
        widen(static_cast<const T*>(problem.grad_output)[i]) * widen(static_cast<const T*>(problem.other)[i]);
    static_cast<T*>(problem.out)[i] = narrow<T>(product);
  }
}

}  // namespace

size_t kernel_workspace_size(const NewOperator&, const CudaLaunch&) {
  return 0;
}

void run_kernel(const NewOperator& problem, void*, const CudaLaunch& on) {
  visit_float_type(problem.type,
                   [&]<class T>(T) { launch_for_each(on, problem.count, multiply<T>, problem); });
}

}  // namespace aclgrad::ops::new_operator
