// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: ignored-status: aclrtMemcpy.src .* reads what aclnnGroupedBiasAddGrad.out was to be.* expected shape \[2, 8\]
#include "program.h"

int main() {
  Session session;
  void* input = device_ones(kInputBytes);
  void* output = device_ones(kOutputBytes);
  std::vector<float> result(kGroups * kColumns);
  aclTensor* grad_y = tensor(input, {kGroups, kRows, kColumns});
  aclTensor* out = tensor(output, {kGroups, kColumns / 2, 2});  // of a wrong shape
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  aclnnGroupedBiasAddGradGetWorkspaceSize(grad_y, nullptr, out, &workspace_size, &executor);
  if (executor != nullptr) must(aclnnGroupedBiasAddGrad(nullptr, workspace_size, executor, session.stream));
  must(aclrtSynchronizeStream(session.stream));
  must(aclrtMemcpy(result.data(), kOutputBytes, output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  std::printf("%g\n", result[0]);  // no gradient
  must(aclDestroyTensor(grad_y));
  must(aclDestroyTensor(out));
  must(aclrtFree(input));
  must(aclrtFree(output));
}
