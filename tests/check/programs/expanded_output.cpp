// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: overlap: elements of aclnnGroupedBiasAddGrad.out share memory
#include "program.h"

int main() {
  Session session;
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kColumns * sizeof(float));
  const int64_t shape[] = {kGroups, kColumns};
  const int64_t strides[] = {0, 1};  // all groups in one row
  const int64_t storage[] = {kColumns};
  {
    BiasGrad gradient(input, output);
    must(aclInitTensor(gradient.out, shape, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, storage, 1, output));
    gradient.plan();
    gradient.queue(session.stream);
    must(aclrtSynchronizeStream(session.stream));
    gradient.free_workspace();
  }
  must(aclrtFree(input));
  must(aclrtFree(output));
}
