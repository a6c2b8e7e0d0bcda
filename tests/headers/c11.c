// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Compiled as C11: the codes that are macros, and the enumerators, are constants of C too.
#include "acl/acl.h"
#include "aclnn/aclnn_base.h"

_Static_assert(ACL_ERROR_RT_CONTEXT_NULL == 107002, "macro");
_Static_assert(ACLNN_ERR_PARAM_NULLPTR == 161001, "macro");
_Static_assert(ACL_BF16 == 27, "enumerator");
