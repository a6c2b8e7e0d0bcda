// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// The same header under the path that some programs use.
#include "aclnnop/aclnn_nsa_compress_grad.h"
