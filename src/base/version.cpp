// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "aclgrad/version.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

// The name is there for those who look for the version in the file: strings libaclgrad.so | grep 'aclgrad [0-9]'.
static constexpr char kNameAndVersion[] =
    "aclgrad " TEXT(ACLGRAD_VERSION_MAJOR) "." TEXT(ACLGRAD_VERSION_MINOR) "." TEXT(ACLGRAD_VERSION_PATCH);

const char* aclgradVersion() {
  return kNameAndVersion + sizeof("aclgrad");
}
