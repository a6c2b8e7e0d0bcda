// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include <cstring>

#include "program.h"

// Tries what the operator may refuse, and goes another way then.
int main() {
  Session session;
  void* input = device_ones(kInputBytes);
  void* output = device_ones(kOutputBytes);
  std::vector<float> result(kGroups * kColumns);
  aclTensor* out = tensor(output, {kGroups, kColumns});
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;

  // Another operator writes the result.
  {
    BiasGrad gradient(input, output);
    if (aclnnGroupedBiasAddGradGetWorkspaceSize(out, nullptr, out, &workspace_size, &executor) == ACL_SUCCESS)
      return EXIT_FAILURE;
    gradient.plan();
    gradient.queue(session.stream);
    // A question while the result is on its way, and one when it is there, but was not read.
    if (aclnnGroupedBiasAddGradGetWorkspaceSize(out, nullptr, out, &workspace_size, &executor) == ACL_SUCCESS)
      return EXIT_FAILURE;
    must(aclrtSynchronizeStream(session.stream));
    if (aclnnGroupedBiasAddGradGetWorkspaceSize(out, nullptr, out, &workspace_size, &executor) == ACL_SUCCESS)
      return EXIT_FAILURE;
    must(aclrtMemcpy(result.data(), kOutputBytes, output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
    gradient.free_workspace();
  }

  // The host computes the result.
  if (aclnnGroupedBiasAddGradGetWorkspaceSize(out, nullptr, out, &workspace_size, &executor) == ACL_SUCCESS)
    return EXIT_FAILURE;
  must(aclrtMemcpy(output, kOutputBytes, result.data(), kOutputBytes, ACL_MEMCPY_HOST_TO_DEVICE));
  must(aclrtMemcpy(result.data(), kOutputBytes, output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST));

  // The program asks why, and shows that the refused call has left the output alone.
  if (aclnnGroupedBiasAddGradGetWorkspaceSize(out, nullptr, out, &workspace_size, &executor) == ACL_SUCCESS)
    return EXIT_FAILURE;
  if (std::strstr(aclGetRecentErrMsg(), "expected") == nullptr) return EXIT_FAILURE;
  must(aclrtMemcpy(result.data(), kOutputBytes, output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST));

  must(aclDestroyTensor(out));
  must(aclrtFree(input));
  must(aclrtFree(output));
  return EXIT_SUCCESS;
}
