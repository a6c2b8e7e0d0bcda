// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// The one header that most programs include: types, error codes, runtime and single-operator interface.
#ifndef ACLGRAD_ACL_ACL_H
#define ACLGRAD_ACL_ACL_H

#include "acl_base.h"
#include "acl_op.h"
#include "acl_rt.h"

#endif
