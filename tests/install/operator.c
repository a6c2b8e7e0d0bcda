// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// From C: an operator, both phases, and what phase 2 says to another operator's executor; a number of 16 bits.
#include <stdio.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"

enum { kGroups = 2, kRows = 3, kColumns = 2 };

// The program's line where a call first failed; 0 where all is right.
#define MUST(condition) \
  if (!(condition)) return __LINE__

static aclTensor* make_tensor(const int64_t* sizes, uint64_t rank, void* data) {
  return aclCreateTensor(sizes, rank, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, sizes, rank, data);
}

static int sum_rows(void) {
  const int64_t input_sizes[] = {kGroups, kRows, kColumns};
  const int64_t output_sizes[] = {kGroups, kColumns};
  const float rows[kGroups * kRows * kColumns] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  float sums[kGroups * kColumns] = {0};
  void *input = NULL, *output = NULL, *workspace = NULL;
  MUST(aclrtMalloc(&input, sizeof rows, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
  MUST(aclrtMalloc(&output, sizeof sums, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
  MUST(aclrtMemcpy(input, sizeof rows, rows, sizeof rows, ACL_MEMCPY_HOST_TO_DEVICE) == ACL_SUCCESS);

  aclTensor* gradY = make_tensor(input_sizes, 3, input);
  aclTensor* out = make_tensor(output_sizes, 2, output);
  uint64_t size = 0;
  aclOpExecutor* executor = NULL;
  MUST(aclnnGroupedBiasAddGradGetWorkspaceSize(gradY, NULL, out, &size, &executor) == OK);
  if (size > 0) MUST(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
  MUST(aclnnGroupedBiasAddGradV2(workspace, size, executor, NULL) == ACLNN_ERR_PARAM_INVALID);
  MUST(aclnnGroupedBiasAddGrad(workspace, size, executor, NULL) == OK);
  MUST(aclrtSynchronizeStream(NULL) == ACL_SUCCESS);

  MUST(aclrtMemcpy(sums, sizeof sums, output, sizeof sums, ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS);
  MUST(sums[0] == 9 && sums[1] == 12 && sums[2] == 27 && sums[3] == 30);
  MUST(aclDestroyTensor(gradY) == OK && aclDestroyTensor(out) == OK);
  MUST(aclrtFree(input) == ACL_SUCCESS && aclrtFree(output) == ACL_SUCCESS);
  if (workspace != NULL) MUST(aclrtFree(workspace) == ACL_SUCCESS);
  return 0;
}

int main(void) {
  if (aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS) return 1;
  const int line = sum_rows();
  if (line != 0) {
    const char* message = aclGetRecentErrMsg();
    fprintf(stderr, "line %d: %s\n", line, message != NULL ? message : "");
    return 1;
  }
  if (aclFloat16ToFloat(aclFloatToFloat16(1.5f)) != 1.5f) return 1;
  if (aclrtResetDevice(0) != ACL_SUCCESS || aclFinalize() != ACL_SUCCESS) return 1;
  puts("sums are right");
  return 0;
}
