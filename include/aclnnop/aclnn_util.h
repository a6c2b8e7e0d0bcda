// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// What headers of operators include: the mark of what a library exports.
#ifndef ACLGRAD_ACLNNOP_ACLNN_UTIL_H
#define ACLGRAD_ACLNNOP_ACLNN_UTIL_H

#ifndef ACLNN_API
#define ACLNN_API __attribute__((visibility("default")))
#endif

#endif
