// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// aclgrad._core: the operators over arrays of Python. What a user sees, and its documentation, is in Python.
#include <nanobind/nanobind.h>

#include "aclgrad/types.h"
#include "aclgrad/version.h"
#include "binding.h"
#include "runtime/device.h"
#include "torch_tensor.h"

NB_MODULE(_core, module) {
  using namespace aclgrad;
  module.attr("VERSION") = aclgradVersion();
  module.def("thread_count", thread_count);
  module.def("set_thread_count", set_thread_count);
  module.def("cuda_device_count", [] { return DeviceDriver::count(DeviceKind::cuda); });  // 0 without CUDA
  python::add_torch_kernels(module);
  for (const python::Binding::Add add : python::Binding::all()) add(module);
}
