// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: executor-missing: aclnnGroupedBiasAddGrad got .* after the failure of aclnnGroupedBiasAddGradGetWorkspaceSize: .*expected shape
#include "program.h"

int main() {
  Session session;
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kOutputBytes);
  aclTensor* grad_y = tensor(input, {kGroups, kRows, kColumns});
  aclTensor* out = tensor(output, {kGroups, kColumns - 1});
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  aclnnGroupedBiasAddGradGetWorkspaceSize(grad_y, nullptr, out, &workspace_size, &executor);  // fails
  aclnnGroupedBiasAddGrad(nullptr, workspace_size, executor, session.stream);
  must(aclDestroyTensor(grad_y));
  must(aclDestroyTensor(out));
  must(aclrtFree(input));
  must(aclrtFree(output));
}
