// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: ignored-status: aclrtMemcpyAsync.src .* reads what aclnnGroupedBiasAddGrad.out was to be
#include "program.h"

// Nothing else has written the memory either.
int main() {
  Session session;
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kOutputBytes);
  std::vector<float> result(kGroups * kColumns);
  aclTensor* grad_y = tensor(input, {kGroups, kRows, kColumns});
  aclTensor* out = tensor(output, {kGroups * kColumns, 1000});
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  const aclnnStatus status =
      aclnnGroupedBiasAddGradGetWorkspaceSize(grad_y, nullptr, out, &workspace_size, &executor);
  if (status == ACL_SUCCESS) must(aclnnGroupedBiasAddGrad(nullptr, workspace_size, executor, session.stream));
  must(aclrtMemcpyAsync(result.data(), kOutputBytes, output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST,
                        session.stream));
  must(aclrtSynchronizeStream(session.stream));
  must(aclDestroyTensor(grad_y));
  must(aclDestroyTensor(out));
  must(aclrtFree(input));
  must(aclrtFree(output));
}
