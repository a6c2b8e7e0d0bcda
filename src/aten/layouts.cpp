// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What programs ask before they bring a weight into a private format. Here all formats are plain, and keep their shape.
#include <functional>
#include <numeric>

#include "aclnnop/aclnn_aten.h"
#include "tensor/tensor.h"

aclnnStatus aclnnNpuFormatCastCalculateSizeAndFormat(const aclTensor* srcTensor, int, int, int64_t** dstShape,
                                                     uint64_t* dstShapeSize, int* actualFormat) {
  if (actualFormat == nullptr) return ACLNN_ERR_PARAM_NULLPTR;
  *actualFormat = ACL_FORMAT_ND;
  return aclGetViewShape(srcTensor, dstShape, dstShapeSize);
}

aclnnStatus aclnnCalculateMatmulWeightSize(const aclIntArray* tensorShape, uint64_t* weightTensorSize) {
  uint64_t rank = 0;
  if (const aclnnStatus status = aclGetIntArraySize(tensorShape, &rank)) return status;
  if (weightTensorSize == nullptr) return ACLNN_ERR_PARAM_NULLPTR;
  const auto& shape = tensorShape->values;
  *weightTensorSize = std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
  return ACL_SUCCESS;
}

aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray* tensorShape, aclDataType,
                                             uint64_t* weightTensorSize) {
  return aclnnCalculateMatmulWeightSize(tensorShape, weightTensorSize);
}
