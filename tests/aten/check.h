// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the programs of these tests end with where something is not as it should be.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "acl/acl.h"

#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      const char* message = aclGetRecentErrMsg();                                     \
      std::printf("line %d: %s\n%s\n", __LINE__, #condition, message ? message : ""); \
      std::exit(1);                                                                   \
    }                                                                                 \
  } while (false)
