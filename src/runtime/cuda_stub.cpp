// Stands in for the CUDA devices where the library is built without CUDA.
#include "base/error.h"
#include "runtime/cuda_device.h"

namespace aclgrad {

int cuda_device_count() noexcept {
  return 0;
}

Device& cuda_device(int) {
  throw Error(207004, "This library was built without CUDA: there is no CUDA device.");
}

}  // namespace aclgrad
