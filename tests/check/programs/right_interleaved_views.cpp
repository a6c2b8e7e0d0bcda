// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include "program.h"

int main() {
  // Two streams write the even and the odd columns of one matrix.
  Session session;
  aclrtStream second = new_stream();
  void* input = device_ones(kInputBytes);
  void* output = device_memory(2 * kOutputBytes);
  const int64_t shape[] = {kGroups, kColumns};
  const int64_t strides[] = {2 * kColumns, 2};
  const int64_t storage[] = {kGroups, 2 * kColumns};
  aclTensor* grad_y = tensor(input, {kGroups, kRows, kColumns});
  void* workspaces[2] = {};
  for (int64_t part = 0; part < 2; ++part) {
    aclTensor* out = aclCreateTensor(shape, 2, ACL_FLOAT, strides, part, ACL_FORMAT_ND, storage, 2, output);
    uint64_t workspace_size = 0;
    aclOpExecutor* executor = nullptr;
    must(aclnnGroupedBiasAddGradGetWorkspaceSize(grad_y, nullptr, out, &workspace_size, &executor));
    if (workspace_size > 0) workspaces[part] = device_memory(workspace_size);
    must(aclnnGroupedBiasAddGrad(workspaces[part], workspace_size, executor,
                                 part == 0 ? session.stream : second));
    must(aclDestroyTensor(out));
  }
  must(aclrtSynchronizeDevice());
  for (void* workspace : workspaces) {
    if (workspace != nullptr) must(aclrtFree(workspace));
  }
  must(aclDestroyTensor(grad_y));
  must(aclrtDestroyStream(second));
  must(aclrtFree(input));
  must(aclrtFree(output));
}
