/// The same functions under the name that some programs look for.
#include "aclnnop/aclnn_grid_sampler2d.h"
