// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "aclgrad/version.h"

// The name is there for those who look for the version in the file: strings libaclgrad.so | grep 'aclgrad [0-9]'.
static constexpr char kNameAndVersion[] = "aclgrad " VERSION_OF_THE_TREE;

const char* aclgradVersion() {
  return kNameAndVersion + sizeof("aclgrad");
}
