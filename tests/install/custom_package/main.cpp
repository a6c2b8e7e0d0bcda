// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Custom operators are included without a folder.
#include "aclnn_grouped_bias_add_grad.h"

#include "program.cpp"
