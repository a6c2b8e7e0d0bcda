// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// A program as people write them for aclnn, in C++11: sums the rows of two groups and checks the result.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"

static void check(int status, const char* call) {
  if (status == 0) return;
  const char* message = aclGetRecentErrMsg();
  std::fprintf(stderr, "%s: %d %s\n", call, status, message == nullptr ? "" : message);
  std::exit(1);
}

#define CHECK(call) check(call, #call)

template <class Value>
static void* to_device(const std::vector<Value>& host) {
  const size_t bytes = host.size() * sizeof(Value);
  void* device = nullptr;
  CHECK(aclrtMalloc(&device, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMemcpy(device, bytes, host.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
  return device;
}

static aclTensor* tensor_of(const std::vector<int64_t>& shape, aclDataType type, void* device) {
  return aclCreateTensor(shape.data(), shape.size(), type, nullptr, 0, aclFormat::ACL_FORMAT_ND, shape.data(),
                         shape.size(), device);
}

int main() {
  CHECK(aclInit(nullptr));
  CHECK(aclrtSetDevice(0));
  aclrtStream stream = nullptr;
  CHECK(aclrtCreateStream(&stream));

  const std::vector<float> rows = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};  // five rows of two
  const std::vector<int64_t> ends = {2, 5};
  const std::vector<float> expected = {4, 6, 21, 24};
  void* rows_device = to_device(rows);
  void* ends_device = to_device(ends);
  void* sums_device = to_device(std::vector<float>(4, -1.0f));
  aclTensor* grad_y = tensor_of({5, 2}, aclDataType::ACL_FLOAT, rows_device);
  aclTensor* group_idx = tensor_of({2}, ACL_INT64, ends_device);
  aclTensor* out = tensor_of({2, 2}, ACL_FLOAT, sums_device);

  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnGroupedBiasAddGradGetWorkspaceSize(grad_y, group_idx, out, &workspace_size, &executor));
  void* workspace = nullptr;
  if (workspace_size > 0) CHECK(aclrtMalloc(&workspace, workspace_size, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclnnGroupedBiasAddGrad(workspace, workspace_size, executor, stream));
  CHECK(aclrtSynchronizeStream(stream));

  std::vector<float> sums(4);
  CHECK(aclrtMemcpy(sums.data(), 16, sums_device, 16, ACL_MEMCPY_DEVICE_TO_HOST));
  for (size_t i = 0; i < sums.size(); ++i) {
    if (sums[i] == expected[i]) continue;
    std::fprintf(stderr, "sum %d: expected %g, got %g\n", static_cast<int>(i), expected[i], sums[i]);
    return 1;
  }

  CHECK(aclDestroyTensor(grad_y));
  CHECK(aclDestroyTensor(group_idx));
  CHECK(aclDestroyTensor(out));
  for (void* memory : {rows_device, ends_device, sums_device, workspace}) {
    if (memory != nullptr) CHECK(aclrtFree(memory));
  }
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  std::puts("sums are right");
  return 0;
}
