// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// The version of aclgrad, for C and C++. What holds for it:
///
/// Versions are those of semver.org. The C interface (acl/, aclnn/, aclnnop/, securec.h, hccl/) grows and changes nothing
/// that programs use. The C++ interface (the other headers of aclgrad/) may change with the minor version while the
/// major version is 0, and with the major version from 1.0 on.
///
/// The library's SONAME has the version up to the number that may break a program: libaclgrad.so.0.1, from 1.0 on
/// libaclgrad.so.1. So a program never loads a library that it was not built for, and symbols have no versions of their
/// own. CMake's find_package(aclgrad 0.1) follows the same rule.
#ifndef ACLGRAD_VERSION_H
#define ACLGRAD_VERSION_H

#include "acl/acl_base.h"

/// Of these headers. Between releases they are those of the next one.
#define ACLGRAD_VERSION_MAJOR 0
#define ACLGRAD_VERSION_MINOR 1
#define ACLGRAD_VERSION_PATCH 0

/// As one number for #if: 100 for 0.1.0, 10203 for 1.2.3.
#define ACLGRAD_VERSION (ACLGRAD_VERSION_MAJOR * 10000 + ACLGRAD_VERSION_MINOR * 100 + ACLGRAD_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/// Of the library that the program runs with, such as "0.1.0", or between releases "0.1.0.dev12+gabc1234": 12 commits after the
/// last one, and the commit.
ACL_FUNC_VISIBILITY const char* aclgradVersion(void);

#ifdef __cplusplus
}
#endif

#endif
