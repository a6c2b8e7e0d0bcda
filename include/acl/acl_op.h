// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// Single operators by name, the interface before aclnn. Present so that programs which mention it link;
/// running an operator this way is not supported. The aclnn operators are in aclnnop/.
#ifndef ACLGRAD_ACL_ACL_OP_H
#define ACLGRAD_ACL_ACL_OP_H

#include "acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aclopAttr aclopAttr;

typedef enum aclopEngineType {
  ACL_ENGINE_SYS = 0,
  ACL_ENGINE_AICORE = 1,
  ACL_ENGINE_VECTOR = 2,
} aclopEngineType;

/// An empty attribute set; null when out of memory. End with aclopDestroyAttr.
ACL_FUNC_VISIBILITY aclopAttr* aclopCreateAttr(void);

/// Null is ignored.
ACL_FUNC_VISIBILITY void aclopDestroyAttr(const aclopAttr* attr);

/// Always ACL_ERROR_FEATURE_UNSUPPORTED.
ACL_FUNC_VISIBILITY aclError aclopSetModelDir(const char* modelDir);

/// Always ACL_ERROR_FEATURE_UNSUPPORTED.
ACL_FUNC_VISIBILITY aclError aclopExecuteV2(const char* opType, int numInputs, aclTensorDesc* inputDesc[],
                                            aclDataBuffer* inputs[], int numOutputs,
                                            aclTensorDesc* outputDesc[], aclDataBuffer* outputs[],
                                            aclopAttr* attr, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
