// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: dead-handle: aclDestroyTensor got aclTensor .* destroyed at
#include "program.h"

int main() {
  Session session;
  aclTensor* handle = tensor(nullptr, {kGroups});
  must(aclDestroyTensor(handle));
  aclDestroyTensor(handle);
}
