// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Compiled as C11.
#define HAS_TYPE(function, ...) \
  _Static_assert(_Generic(&function, __typeof__(__VA_ARGS__)* : 1, default : 0), "type of " #function)
#include "functions.h"

// The codes that are macros, and the enumerators, are constants of C too.
_Static_assert(ACL_ERROR_RT_CONTEXT_NULL == 107002, "macro");
_Static_assert(ACLNN_ERR_PARAM_NULLPTR == 161001, "macro");
_Static_assert(ACL_BF16 == 27, "enumerator");
