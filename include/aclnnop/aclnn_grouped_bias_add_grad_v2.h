// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// Both versions are declared in one file; this name is for programs that look for the second.
#include "aclnnop/aclnn_grouped_bias_add_grad.h"
