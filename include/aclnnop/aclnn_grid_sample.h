// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// The same functions under the name that some programs look for.
#include "aclnnop/aclnn_grid_sampler2d.h"
