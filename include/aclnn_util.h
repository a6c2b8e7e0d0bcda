// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// The same header without a folder.
#include "aclnnop/aclnn_util.h"
