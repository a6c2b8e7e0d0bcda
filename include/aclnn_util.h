/// The same header without a folder.
#include "aclnnop/aclnn_util.h"
