// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// Types, error codes and helpers. Older programs include this file, newer ones either of its halves.
#ifndef ACLGRAD_ACL_ACL_BASE_H
#define ACLGRAD_ACL_ACL_BASE_H

#include "acl_base_mdl.h"
#include "acl_base_rt.h"

#endif
