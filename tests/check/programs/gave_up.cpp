// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: failed-call: the program ended with status 2 after a call had failed with status 161002: .*out: expected shape
#include "program.h"

int main() {
  Session session;
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kOutputBytes);
  aclTensor* grad_y = tensor(input, {kGroups, kRows, kColumns});
  aclTensor* out = tensor(output, {kGroups * kColumns});
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  const aclnnStatus status =
      aclnnGroupedBiasAddGradGetWorkspaceSize(grad_y, nullptr, out, &workspace_size, &executor);
  if (status != ACL_SUCCESS) {
    std::printf("phase 1 failed: %s\n", aclGetRecentErrMsg());
    return 2;
  }
  return 0;
}
