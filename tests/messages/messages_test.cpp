// What aclGetRecentErrMsg tells, read as a person would: where the call failed, what was expected and what it
// got. Why that may be and what to do stand there only where they say more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <regex>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_grid_sampler2d.h"
#include "aclnnop/aclnn_grid_sampler2d_backward.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attention_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attn_function.h"
#include "aclnnop/aclnn_nsa_compress.h"
#include "aclnnop/aclnn_nsa_compress_grad.h"
#include "hccl/hccl.h"

namespace aclgrad {
namespace {

using testing::HasSubstr;
using testing::Not;

// Makes tensors of views into memory that no call gets to read, and ends them.
class Tensors {
 public:
  ~Tensors() {
    for (const aclTensor* tensor : made_) aclDestroyTensor(tensor);
  }

  aclTensor* operator()(const std::vector<int64_t>& shape, aclDataType type = ACL_FLOAT) {
    static double memory = 0;
    made_.push_back(aclCreateTensor(shape.data(), shape.size(), type, nullptr, 0, ACL_FORMAT_ND, shape.data(),
                                    shape.size(), &memory));
    return made_.back();
  }

 private:
  std::vector<aclTensor*> made_;
};

struct Mistake {
  std::string at;  // how the message begins: the function, and the parameter where there is one
  std::function<int(Tensors&)> call;
};

void PrintTo(const Mistake& mistake, std::ostream* stream) {
  *stream << mistake.at;
}

uint64_t size;
aclOpExecutor* executor;

int bias(const aclTensor* grad_y, const aclTensor* group_idx, aclTensor* out) {
  return aclnnGroupedBiasAddGradGetWorkspaceSize(grad_y, group_idx, out, &size, &executor);
}

int sampler(const aclTensor* input, const aclTensor* grid, int64_t interpolation, int64_t padding,
            aclTensor* out) {
  return aclnnGridSampler2DGetWorkspaceSize(input, grid, interpolation, padding, false, out, &size,
                                            &executor);
}

int sampler_backward(const aclTensor* grad_output, const aclTensor* input, const aclTensor* grid,
                     int64_t interpolation, uint64_t mask_size) {
  Tensors tensor;
  const bool values[] = {true, true, true};
  const aclBoolArray* mask = aclCreateBoolArray(values, mask_size);
  const int status = aclnnGridSampler2DBackwardGetWorkspaceSize(grad_output, input, grid, interpolation, 0,
                                                                false, mask, tensor({1, 2, 4, 4}),
                                                                tensor({1, 3, 3, 2}), &size, &executor);
  aclDestroyBoolArray(mask);
  return status;
}

int attention(const aclTensor* value, const aclTensor* spatial_shape, const aclTensor* location,
              aclTensor* output) {
  Tensors tensor;
  return aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(value, spatial_shape, tensor({1}, ACL_INT32),
                                                               location, tensor({1, 3, 2, 1, 4}), output,
                                                               &size, &executor);
}

int attention_grad(const aclTensor* grad_output, aclTensor* grad_value) {
  Tensors tensor;
  return aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize(
      tensor({1, 4, 2, 8}), tensor({1, 2}, ACL_INT32), tensor({1}, ACL_INT32), tensor({1, 3, 2, 1, 4, 2}),
      tensor({1, 3, 2, 1, 4}), grad_output, grad_value, tensor({1, 3, 2, 1, 4, 2}), tensor({1, 3, 2, 1, 4}),
      &size, &executor);
}

int compress(const aclTensor* input, const aclTensor* weight, const std::vector<int64_t>& ends,
             std::string layout, int64_t block, int64_t stride, int64_t type, aclTensor* output) {
  const aclIntArray* sequence_ends = aclCreateIntArray(ends.data(), ends.size());
  const int status =
      aclnnNsaCompressGetWorkspaceSize(input, weight, sequence_ends, layout.empty() ? nullptr : layout.data(),
                                       block, stride, type, output, &size, &executor);
  aclDestroyIntArray(sequence_ends);
  return status;
}

std::vector<Mistake> operator_mistakes() {
  return {
      {"aclnnGroupedBiasAddGrad.gradY",
       [](Tensors& t) {
         return bias(nullptr, nullptr, t({2, 4}));
       }},
      {"aclnnGroupedBiasAddGrad.gradY",
       [](Tensors& t) {
         return bias(t({4}), nullptr, t({2, 4}));
       }},
      {"aclnnGroupedBiasAddGrad.gradY",
       [](Tensors& t) {
         return bias(t({2, 3, 4}, ACL_INT8), nullptr, t({2, 4}, ACL_INT8));
       }},
      {"aclnnGroupedBiasAddGrad.groupIdxOptional",
       [](Tensors& t) {
         return bias(t({6, 4}), t({2}), t({2, 4}));
       }},
      {"aclnnGroupedBiasAddGrad.groupIdxOptional",
       [](Tensors& t) {
         return bias(t({6, 4}), t({3000}, ACL_INT32), t({3000, 4}));
       }},
      {"aclnnGroupedBiasAddGrad.out",
       [](Tensors& t) {
         return bias(t({2, 3, 4}), nullptr, nullptr);
       }},
      {"aclnnGroupedBiasAddGrad.out",
       [](Tensors& t) {
         return bias(t({2, 3, 4}), nullptr, t({2, 5}));
       }},
      {"aclnnGroupedBiasAddGrad.out",
       [](Tensors& t) {
         return bias(t({2, 3, 4}), nullptr, t({2, 4}, ACL_FLOAT16));
       }},
      {"aclnnGroupedBiasAddGrad.workspaceSize",
       [](Tensors& t) {
         return aclnnGroupedBiasAddGradGetWorkspaceSize(t({2, 3, 4}), nullptr, t({2, 4}), nullptr, &executor);
       }},
      {"aclnnGroupedBiasAddGrad.executor",
       [](Tensors& t) {
         return aclnnGroupedBiasAddGradGetWorkspaceSize(t({2, 3, 4}), nullptr, t({2, 4}), &size, nullptr);
       }},
      {"aclnnGroupedBiasAddGradV2.groupIdxType",
       [](Tensors& t) {
         return aclnnGroupedBiasAddGradV2GetWorkspaceSize(t({6, 4}), t({2}, ACL_INT32), 7, t({2, 4}), &size,
                                                          &executor);
       }},
      {"aclnnGroupedBiasAddGrad: expected an executor",
       [](Tensors&) { return aclnnGroupedBiasAddGrad(nullptr, 0, nullptr, nullptr); }},
      {"aclnnGridSampler2D.input",
       [](Tensors& t) {
         return sampler(nullptr, t({1, 3, 3, 2}), 0, 0, t({1, 2, 3, 3}));
       }},
      {"aclnnGridSampler2D.grid",
       [](Tensors& t) {
         return sampler(t({1, 2, 4, 4}), t({1, 3, 3, 3}), 0, 0, t({1, 2, 3, 3}));
       }},
      {"aclnnGridSampler2D.interpolationMode",
       [](Tensors& t) {
         return sampler(t({1, 2, 4, 4}), t({1, 3, 3, 2}), 3, 0, t({1, 2, 3, 3}));
       }},
      {"aclnnGridSampler2D.paddingMode",
       [](Tensors& t) {
         return sampler(t({1, 2, 4, 4}), t({1, 3, 3, 2}), 0, -1, t({1, 2, 3, 3}));
       }},
      {"aclnnGridSampler2D.out",
       [](Tensors& t) {
         return sampler(t({1, 2, 4, 4}), t({1, 3, 3, 2}), 0, 0, t({1, 2, 3, 4}));
       }},
      {"aclnnGridSampler2DBackward.gradOutput",
       [](Tensors& t) {
         return sampler_backward(t({1, 2, 3, 4}), t({1, 2, 4, 4}), t({1, 3, 3, 2}), 0, 2);
       }},
      {"aclnnGridSampler2DBackward.interpolationMode",
       [](Tensors& t) {
         return sampler_backward(t({1, 2, 3, 3}), t({1, 2, 4, 4}), t({1, 3, 3, 2}), 9, 2);
       }},
      {"aclnnGridSampler2DBackward.outputMask",
       [](Tensors& t) {
         return sampler_backward(t({1, 2, 3, 3}), t({1, 2, 4, 4}), t({1, 3, 3, 2}), 0, 3);
       }},
      {"aclnnMultiScaleDeformableAttnFunction.value",
       [](Tensors& t) {
         return attention(t({1, 4, 2}), t({1, 2}, ACL_INT32), t({1, 3, 2, 1, 4, 2}), t({1, 3, 16}));
       }},
      {"aclnnMultiScaleDeformableAttnFunction.spatialShape",
       [](Tensors& t) {
         return attention(t({1, 4, 2, 8}), t({1, 2}), t({1, 3, 2, 1, 4, 2}), t({1, 3, 16}));
       }},
      {"aclnnMultiScaleDeformableAttnFunction.location",
       [](Tensors& t) {
         return attention(t({1, 4, 2, 8}), t({1, 2}, ACL_INT32), nullptr, t({1, 3, 16}));
       }},
      {"aclnnMultiScaleDeformableAttnFunction.output",
       [](Tensors& t) {
         return attention(t({1, 4, 2, 8}), t({1, 2}, ACL_INT32), t({1, 3, 2, 1, 4, 2}), t({1, 3, 15}));
       }},
      {"aclnnMultiScaleDeformableAttentionGrad.gradOutput",
       [](Tensors& t) {
         return attention_grad(t({1, 3, 15}), t({1, 4, 2, 8}));
       }},
      {"aclnnMultiScaleDeformableAttentionGrad.gradValue",
       [](Tensors& t) {
         return attention_grad(t({1, 3, 16}), t({1, 4, 2, 7}));
       }},
      {"aclnnNsaCompress.input",
       [](Tensors& t) {
         return compress(nullptr, t({16, 2}, ACL_FLOAT16), {32}, "TND", 16, 16, 0,
                         t({2, 2, 16}, ACL_FLOAT16));
       }},
      {"aclnnNsaCompress.weight",
       [](Tensors& t) {
         return compress(t({32, 2, 16}, ACL_FLOAT16), t({15, 2}, ACL_FLOAT16), {32}, "TND", 16, 16, 0,
                         t({2, 2, 16}, ACL_FLOAT16));
       }},
      {"aclnnNsaCompress.layoutOptional",
       [](Tensors& t) {
         return compress(t({32, 2, 16}, ACL_FLOAT16), t({16, 2}, ACL_FLOAT16), {32}, "BSH", 16, 16, 0,
                         t({2, 2, 16}, ACL_FLOAT16));
       }},
      {"aclnnNsaCompress.compressStride",
       [](Tensors& t) {
         return compress(t({32, 2, 16}, ACL_FLOAT16), t({16, 2}, ACL_FLOAT16), {32}, "TND", 16, 0, 0,
                         t({2, 2, 16}, ACL_FLOAT16));
       }},
      {"aclnnNsaCompress.actSeqLenType",
       [](Tensors& t) {
         return compress(t({32, 2, 16}, ACL_FLOAT16), t({16, 2}, ACL_FLOAT16), {32}, "TND", 16, 16, 5,
                         t({2, 2, 16}, ACL_FLOAT16));
       }},
      {"aclnnNsaCompress.actSeqLenOptional",
       [](Tensors& t) {
         return compress(t({32, 2, 16}, ACL_FLOAT16), t({16, 2}, ACL_FLOAT16), {31, 30}, "TND", 16, 16, 0,
                         t({2, 2, 16}, ACL_FLOAT16));
       }},
      {"aclnnNsaCompress.output",
       [](Tensors& t) {
         return compress(t({32, 2, 16}, ACL_FLOAT16), t({16, 2}, ACL_FLOAT16), {32}, "TND", 16, 16, 0,
                         t({3, 2, 16}, ACL_FLOAT16));
       }},
  };
}

// Values that a C program may pass as handles.
void* const kNoHandle = reinterpret_cast<void*>(0x123450);

std::vector<Mistake> runtime_mistakes() {
  static char host[64];
  static void* pointer;
  return {
      {"aclrtSetDevice.deviceId", [](Tensors&) { return aclrtSetDevice(-1); }},
      {"aclrtResetDevice.deviceId", [](Tensors&) { return aclrtResetDevice(99); }},
      {"aclrtGetDevice.deviceId", [](Tensors&) { return aclrtGetDevice(nullptr); }},
      {"aclrtGetDeviceCount.count", [](Tensors&) { return aclrtGetDeviceCount(nullptr); }},
      {"aclrtCreateContext.context", [](Tensors&) { return aclrtCreateContext(nullptr, 0); }},
      {"aclrtDestroyContext.context", [](Tensors&) { return aclrtDestroyContext(kNoHandle); }},
      {"aclrtSetCurrentContext.context", [](Tensors&) { return aclrtSetCurrentContext(kNoHandle); }},
      {"aclrtCtxSetSysParamOpt.value",
       [](Tensors&) { return aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 9); }},
      {"aclrtGetSysParamOpt.value",
       [](Tensors&) { return aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, nullptr); }},
      {"aclrtCreateStream.stream", [](Tensors&) { return aclrtCreateStream(nullptr); }},
      {"aclrtCreateStreamWithConfig.flag",
       [](Tensors&) { return aclrtCreateStreamWithConfig(&pointer, 0, 1U << 31); }},
      {"aclrtDestroyStream.stream", [](Tensors&) { return aclrtDestroyStream(nullptr); }},
      {"aclrtSynchronizeStreamWithTimeout.timeout",
       [](Tensors&) { return aclrtSynchronizeStreamWithTimeout(nullptr, -2); }},
      {"aclrtSetStreamFailureMode.mode", [](Tensors&) { return aclrtSetStreamFailureMode(nullptr, 2); }},
      {"aclrtCreateEvent.event", [](Tensors&) { return aclrtCreateEvent(nullptr); }},
      {"aclrtRecordEvent.event", [](Tensors&) { return aclrtRecordEvent(kNoHandle, nullptr); }},
      {"aclrtSynchronizeEvent.event", [](Tensors&) { return aclrtSynchronizeEvent(kNoHandle); }},
      {"aclrtMalloc.size", [](Tensors&) { return aclrtMalloc(&pointer, 0, ACL_MEM_MALLOC_HUGE_FIRST); }},
      {"aclrtMalloc.devPtr", [](Tensors&) { return aclrtMalloc(nullptr, 64, ACL_MEM_MALLOC_HUGE_FIRST); }},
      {"aclrtFree.devPtr", [](Tensors&) { return aclrtFree(nullptr); }},
      {"aclrtFree.devPtr", [](Tensors&) { return aclrtFree(host); }},
      {"aclrtMallocHost.hostPtr", [](Tensors&) { return aclrtMallocHost(nullptr, 64); }},
      {"aclrtFreeHost.hostPtr", [](Tensors&) { return aclrtFreeHost(host); }},
      {"aclrtMemcpy.dst", [](Tensors&) { return aclrtMemcpy(nullptr, 8, host, 8, ACL_MEMCPY_HOST_TO_HOST); }},
      {"aclrtMemcpy.count", [](Tensors&) { return aclrtMemcpy(host, 8, host, 16, ACL_MEMCPY_HOST_TO_HOST); }},
      {"aclrtMemset.devPtr", [](Tensors&) { return aclrtMemset(nullptr, 8, 0, 8); }},
      {"aclrtGetMemInfo.free", [](Tensors&) { return aclrtGetMemInfo(ACL_HBM_MEM, nullptr, nullptr); }},
      {"aclrtProcessReport.timeout", [](Tensors&) { return aclrtProcessReport(0); }},
      {"aclrtLaunchCallback.fn",
       [](Tensors&) { return aclrtLaunchCallback(nullptr, nullptr, ACL_CALLBACK_BLOCK, nullptr); }},
      {"aclInit.configPath", [](Tensors&) { return aclInit("/nowhere/at/all.json"); }},
      {"aclDestroyTensor: expected a live aclTensor",
       [](Tensors&) { return aclDestroyTensor(static_cast<aclTensor*>(kNoHandle)); }},
      {"aclGetDataType: expected a live aclTensor",
       [](Tensors&) { return aclGetDataType(nullptr, nullptr); }},
      {"aclGetDataType.dataType", [](Tensors& t) { return aclGetDataType(t({2}), nullptr); }},
      {"aclGetViewShape.viewDimsNum",
       [](Tensors& t) {
         int64_t* dims = nullptr;
         return aclGetViewShape(t({2}), &dims, nullptr);
       }},
      {"aclCreateIntArray.value", [](Tensors&) { return aclCreateIntArray(nullptr, 3) == nullptr; }},
      {"aclDestroyAclOpExecutor: expected an executor",
       [](Tensors&) { return aclDestroyAclOpExecutor(nullptr); }},
      {"aclDestroyAclOpExecutor: expected a live executor",
       [](Tensors&) { return aclDestroyAclOpExecutor(static_cast<aclOpExecutor*>(kNoHandle)); }},
      {"HcclCommDestroy.comm", [](Tensors&) { return HcclCommDestroy(kNoHandle); }},
  };
}

class Message : public testing::TestWithParam<Mistake> {
 protected:
  void SetUp() override { ASSERT_EQ(aclrtSetDevice(0), 0); }
  void TearDown() override { ASSERT_EQ(aclrtResetDevice(0), 0); }
};

TEST_P(Message, TellsWhereAndWhat) {
  Tensors tensors;
  aclGetRecentErrMsg();
  ASSERT_NE(GetParam().call(tensors), 0);
  const char* taken = aclGetRecentErrMsg();
  ASSERT_NE(taken, nullptr);
  const std::string text = taken;
  static const std::regex format(
      R"(\[PID: \d+\] \d{4}-\d\d-\d\d-\d\d:\d\d:\d\d [A-Z]\w+\([A-Z]{2}\d{4}\): ([^\n]+: expected [^\n]+, got [^\n]+\.))"
      R"((\n +Possible Cause: [A-Z][^\n]+\.\n +Solution: ([A-Z][^\n]+\.))?)");
  std::smatch parts;
  ASSERT_TRUE(std::regex_match(text, parts, format)) << text;
  EXPECT_EQ(parts[1].str().rfind(GetParam().at, 0), 0U) << text;
  EXPECT_FALSE(std::regex_search(parts[3].str(), std::regex("^Pass \\w+ as|describes|^Do without"))) << text;
  EXPECT_THAT(text, Not(HasSubstr("%")));
  EXPECT_THAT(text, Not(testing::AnyOf(HasSubstr("{"), HasSubstr("}"))));
  EXPECT_THAT(text, Not(testing::AnyOf(HasSubstr("(null)"), HasSubstr("  got"), HasSubstr(".."))));
  // An address stands only where the caller's value is told.
  EXPECT_FALSE(std::regex_search(text, std::regex("([^t] |[^ ])0x"))) << text;
}

TEST(MessageOfAnOperator, HasOneLineWhereItSaysAll) {
  Tensors tensors;
  ASSERT_EQ(bias(tensors({2, 3, 4}), nullptr, tensors({2, 5})), 161002);
  EXPECT_THAT(aclGetRecentErrMsg(), testing::EndsWith("out: expected shape [2, 4], got [2, 5]."));
}

INSTANTIATE_TEST_SUITE_P(Operators, Message, testing::ValuesIn(operator_mistakes()));
INSTANTIATE_TEST_SUITE_P(Runtime, Message, testing::ValuesIn(runtime_mistakes()));

}  // namespace
}  // namespace aclgrad
