// Every public operator function, assigned to a function pointer of the type that the documents give it (000 to 004; the
// forward operators as their own documents have them). A program may declare the functions itself or keep such
// pointers, so that one `const` more is an error.
#include "aclnnop/aclnn_grid_sampler2d.h"
#include "aclnnop/aclnn_grid_sampler2d_backward.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attention_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attn_function.h"
#include "aclnnop/aclnn_nsa_compress.h"
#include "aclnnop/aclnn_nsa_compress_grad.h"

typedef aclnnStatus (*Phase2)(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                              aclrtStream stream);

struct Operators {
  aclnnStatus (*MultiScaleDeformableAttentionGradGetWorkspaceSize)(
      const aclTensor* value, const aclTensor* spatialShape, const aclTensor* levelStartIndex,
      const aclTensor* location, const aclTensor* attnWeight, const aclTensor* gradOutput,
      aclTensor* gradValue, aclTensor* gradLocation, aclTensor* gradAttnWeight, uint64_t* workspaceSize,
      aclOpExecutor** executor);
  Phase2 MultiScaleDeformableAttentionGrad;
  aclnnStatus (*MultiScaleDeformableAttnFunctionGetWorkspaceSize)(
      const aclTensor* value, const aclTensor* spatialShape, const aclTensor* levelStartIndex,
      const aclTensor* location, const aclTensor* attnWeight, aclTensor* output, uint64_t* workspaceSize,
      aclOpExecutor** executor);
  Phase2 MultiScaleDeformableAttnFunction;
  aclnnStatus (*NsaCompressGradGetWorkspaceSize)(
      const aclTensor* outputGrad, const aclTensor* input, const aclTensor* weight,
      const aclIntArray* actSeqLenOptional, int64_t compressBlockSize, int64_t compressStride,
      int64_t actSeqLenType, char* layoutOptional, const aclTensor* inputGradOut,
      const aclTensor* weightGradOut, uint64_t* workspaceSize, aclOpExecutor** executor);
  Phase2 NsaCompressGrad;
  aclnnStatus (*NsaCompressGradTensorGetWorkspaceSize)(
      const aclTensor* outputGrad, const aclTensor* input, const aclTensor* weight,
      const aclTensor* actSeqLenOptional, int64_t compressBlockSize, int64_t compressStride,
      int64_t actSeqLenType, char* layoutOptional, const aclTensor* inputGradOut,
      const aclTensor* weightGradOut, uint64_t* workspaceSize, aclOpExecutor** executor);
  aclnnStatus (*NsaCompressGetWorkspaceSize)(const aclTensor* input, const aclTensor* weight,
                                             const aclIntArray* actSeqLenOptional, char* layoutOptional,
                                             int64_t compressBlockSize, int64_t compressStride,
                                             int64_t actSeqLenType, aclTensor* output,
                                             uint64_t* workspaceSize, aclOpExecutor** executor);
  Phase2 NsaCompress;
  aclnnStatus (*GridSampler2DBackwardGetWorkspaceSize)(const aclTensor* gradOutput, const aclTensor* input,
                                                       const aclTensor* grid, int64_t interpolationMode,
                                                       int64_t paddingMode, bool alignCorners,
                                                       const aclBoolArray* outputMask, aclTensor* inputGrad,
                                                       aclTensor* gridGrad, uint64_t* workspaceSize,
                                                       aclOpExecutor** executor);
  Phase2 GridSampler2DBackward;
  aclnnStatus (*GridSampler2DGetWorkspaceSize)(const aclTensor* input, const aclTensor* grid,
                                               int64_t interpolationMode, int64_t paddingMode,
                                               bool alignCorners, aclTensor* out, uint64_t* workspaceSize,
                                               aclOpExecutor** executor);
  Phase2 GridSampler2D;
  aclnnStatus (*GroupedBiasAddGradGetWorkspaceSize)(const aclTensor* gradY, const aclTensor* groupIdxOptional,
                                                    aclTensor* out, uint64_t* workspaceSize,
                                                    aclOpExecutor** executor);
  Phase2 GroupedBiasAddGrad;
  aclnnStatus (*GroupedBiasAddGradV2GetWorkspaceSize)(const aclTensor* gradY,
                                                      const aclTensor* groupIdxOptional, int64_t groupIdxType,
                                                      aclTensor* out, uint64_t* workspaceSize,
                                                      aclOpExecutor** executor);
  Phase2 GroupedBiasAddGradV2;
};

extern const struct Operators aclgrad_operators;

const struct Operators aclgrad_operators = {
    aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize,
    aclnnMultiScaleDeformableAttentionGrad,
    aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize,
    aclnnMultiScaleDeformableAttnFunction,
    aclnnNsaCompressGradGetWorkspaceSize,
    aclnnNsaCompressGrad,
    aclnnNsaCompressGradTensorGetWorkspaceSize,
    aclnnNsaCompressGetWorkspaceSize,
    aclnnNsaCompress,
    aclnnGridSampler2DBackwardGetWorkspaceSize,
    aclnnGridSampler2DBackward,
    aclnnGridSampler2DGetWorkspaceSize,
    aclnnGridSampler2D,
    aclnnGroupedBiasAddGradGetWorkspaceSize,
    aclnnGroupedBiasAddGrad,
    aclnnGroupedBiasAddGradV2GetWorkspaceSize,
    aclnnGroupedBiasAddGradV2,
};
