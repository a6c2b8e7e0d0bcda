// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include "program.h"

// A buffer with room for more rows than the groups have: what lies behind them stays unset.
int main() {
  Session session;
  void* rows = device_memory(2 * kRows * kColumns * sizeof(float));
  const std::vector<float> ones(kRows * kColumns, 1.0f);
  must(aclrtMemcpy(rows, ones.size() * sizeof(float), ones.data(), ones.size() * sizeof(float),
                   ACL_MEMCPY_HOST_TO_DEVICE));
  const int64_t group_ends[kGroups] = {1, kRows};
  void* ends = device_memory(sizeof group_ends);
  must(aclrtMemcpy(ends, sizeof group_ends, group_ends, sizeof group_ends, ACL_MEMCPY_HOST_TO_DEVICE));
  void* output = device_memory(kOutputBytes);

  const int64_t ends_shape[] = {kGroups};
  aclTensor* group_idx =
      aclCreateTensor(ends_shape, 1, ACL_INT64, nullptr, 0, ACL_FORMAT_ND, ends_shape, 1, ends);
  aclTensor* grad_y = tensor(rows, {2 * kRows, kColumns});
  aclTensor* out = tensor(output, {kGroups, kColumns});
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  must(aclnnGroupedBiasAddGradGetWorkspaceSize(grad_y, group_idx, out, &workspace_size, &executor));
  void* workspace = workspace_size > 0 ? device_memory(workspace_size) : nullptr;
  must(aclnnGroupedBiasAddGrad(workspace, workspace_size, executor, session.stream));
  must(aclrtSynchronizeStream(session.stream));

  float sums[kGroups * kColumns];
  must(aclrtMemcpy(sums, kOutputBytes, output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  for (aclTensor* handle : {group_idx, grad_y, out}) must(aclDestroyTensor(handle));
  if (workspace != nullptr) must(aclrtFree(workspace));
  for (void* memory : {rows, ends, output}) must(aclrtFree(memory));
  return sums[kColumns] == kRows - 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
