// Custom operators are included without a folder.
#include "aclnn_grouped_bias_add_grad.h"

#include "../program.cpp"
