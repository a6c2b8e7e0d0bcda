// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: tensor-destroyed: aclnnGroupedBiasAddGrad.gradY
#include "program.h"

int main() {
  Session session;
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kOutputBytes);
  aclTensor* grad_y = tensor(input, {kGroups, kRows, kColumns});
  aclTensor* out = tensor(output, {kGroups, kColumns});
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  must(aclnnGroupedBiasAddGradGetWorkspaceSize(grad_y, nullptr, out, &workspace_size, &executor));
  void* workspace = workspace_size > 0 ? device_memory(workspace_size) : nullptr;
  must(aclDestroyTensor(grad_y));  // tensors must live until phase 2 has returned
  must(aclnnGroupedBiasAddGrad(workspace, workspace_size, executor, session.stream));
  must(aclrtSynchronizeStream(session.stream));
  must(aclDestroyTensor(out));
  if (workspace != nullptr) must(aclrtFree(workspace));
  must(aclrtFree(input));
  must(aclrtFree(output));
}
