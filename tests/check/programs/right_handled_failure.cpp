// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include "program.h"

int main() {
  Session session;
  aclTensor* wrong = tensor(nullptr, {kGroups});
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  const aclnnStatus status =
      aclnnGroupedBiasAddGradGetWorkspaceSize(wrong, nullptr, wrong, &workspace_size, &executor);
  must(aclDestroyTensor(wrong));
  void* memory = nullptr;
  if (aclrtMalloc(&memory, 0, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS)
    std::printf("%s\n", aclGetRecentErrMsg());
  return status != ACL_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
