// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Messages of refusals, but for those of operators, which tests/operators/ reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "hccl/hccl.h"
#include "support/message.h"

namespace aclgrad {
namespace {

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
      {"aclDestroyOpExecutor: expected a live executor",
       [](Tensors&) { return aclDestroyOpExecutor(static_cast<aclOpExecutor*>(kNoHandle)); }},
      {"HcclCommInitRootInfo.nRanks",
       [](Tensors&) {
         HcclRootInfo root;
         HcclComm communicator = nullptr;
         HcclGetRootInfo(&root);
         return HcclCommInitRootInfo(2, &root, 0, &communicator);
       }},
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
  test::expect_readable_message(GetParam().at);
}

TEST(MessageOfAnOperator, HasOneLineWhereItSaysAll) {
  Tensors tensors;
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  ASSERT_EQ(
      aclnnGroupedBiasAddGradGetWorkspaceSize(tensors({2, 3, 4}), nullptr, tensors({2, 5}), &size, &executor),
      161002);
  EXPECT_THAT(aclGetRecentErrMsg(), testing::EndsWith("out: expected shape [2, 4], got [2, 5]."));
}

INSTANTIATE_TEST_SUITE_P(Runtime, Message, testing::ValuesIn(runtime_mistakes()));

}  // namespace
}  // namespace aclgrad
