// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Messages of refusals, but for those of operators, which tests/operators/ reads.
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "hccl/hccl.h"
#include "support/message.h"

namespace aclgrad {
namespace {

struct Mistake {
  std::string at;  // how the message begins: the function, and the parameter where there is one
  std::function<int()> call;
};

void PrintTo(const Mistake& mistake, std::ostream* stream) {
  *stream << mistake.at;
}

// Values that a C program may pass as handles.
void* const kNoHandle = reinterpret_cast<void*>(0x123450);

std::vector<Mistake> runtime_mistakes() {
  static char host[64];
  static void* pointer;
  static const int64_t shape[] = {2};
  static const aclTensor* const tensor =
      aclCreateTensor(shape, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, 1, host);
  return {
      {"aclrtSetDevice.deviceId", [] { return aclrtSetDevice(-1); }},
      {"aclrtResetDevice.deviceId", [] { return aclrtResetDevice(99); }},
      {"aclrtGetDevice.deviceId", [] { return aclrtGetDevice(nullptr); }},
      {"aclrtGetDeviceCount.count", [] { return aclrtGetDeviceCount(nullptr); }},
      {"aclrtCreateContext.context", [] { return aclrtCreateContext(nullptr, 0); }},
      {"aclrtDestroyContext.context", [] { return aclrtDestroyContext(kNoHandle); }},
      {"aclrtSetCurrentContext.context", [] { return aclrtSetCurrentContext(kNoHandle); }},
      {"aclrtCtxSetSysParamOpt.value", [] { return aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 9); }},
      {"aclrtGetSysParamOpt.value", [] { return aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, nullptr); }},
      {"aclrtCreateStream.stream", [] { return aclrtCreateStream(nullptr); }},
      {"aclrtCreateStreamWithConfig.flag", [] { return aclrtCreateStreamWithConfig(&pointer, 0, 1U << 31); }},
      {"aclrtDestroyStream.stream", [] { return aclrtDestroyStream(nullptr); }},
      {"aclrtSynchronizeStreamWithTimeout.timeout",
       [] { return aclrtSynchronizeStreamWithTimeout(nullptr, -2); }},
      {"aclrtSetStreamFailureMode.mode", [] { return aclrtSetStreamFailureMode(nullptr, 2); }},
      {"aclrtCreateEvent.event", [] { return aclrtCreateEvent(nullptr); }},
      {"aclrtRecordEvent.event", [] { return aclrtRecordEvent(kNoHandle, nullptr); }},
      {"aclrtSynchronizeEvent.event", [] { return aclrtSynchronizeEvent(kNoHandle); }},
      {"aclrtMalloc.size", [] { return aclrtMalloc(&pointer, 0, ACL_MEM_MALLOC_HUGE_FIRST); }},
      {"aclrtMalloc.devPtr", [] { return aclrtMalloc(nullptr, 64, ACL_MEM_MALLOC_HUGE_FIRST); }},
      {"aclrtFree.devPtr", [] { return aclrtFree(nullptr); }},
      {"aclrtFree.devPtr", [] { return aclrtFree(host); }},
      {"aclrtMallocHost.hostPtr", [] { return aclrtMallocHost(nullptr, 64); }},
      {"aclrtFreeHost.hostPtr", [] { return aclrtFreeHost(host); }},
      {"aclrtMemcpy.dst", [] { return aclrtMemcpy(nullptr, 8, host, 8, ACL_MEMCPY_HOST_TO_HOST); }},
      {"aclrtMemcpy.count", [] { return aclrtMemcpy(host, 8, host, 16, ACL_MEMCPY_HOST_TO_HOST); }},
      {"aclrtMemset.devPtr", [] { return aclrtMemset(nullptr, 8, 0, 8); }},
      {"aclrtGetMemInfo.free", [] { return aclrtGetMemInfo(ACL_HBM_MEM, nullptr, nullptr); }},
      {"aclrtProcessReport.timeout", [] { return aclrtProcessReport(0); }},
      {"aclrtLaunchCallback.fn",
       [] { return aclrtLaunchCallback(nullptr, nullptr, ACL_CALLBACK_BLOCK, nullptr); }},
      {"aclInit.configPath", [] { return aclInit("/nowhere/at/all.json"); }},
      {"aclDestroyTensor: expected a live aclTensor",
       [] { return aclDestroyTensor(static_cast<aclTensor*>(kNoHandle)); }},
      {"aclGetDataType: expected a live aclTensor", [] { return aclGetDataType(nullptr, nullptr); }},
      {"aclGetDataType.dataType", [] { return aclGetDataType(tensor, nullptr); }},
      {"aclGetViewShape.viewDimsNum",
       [] {
         int64_t* dims = nullptr;
         return aclGetViewShape(tensor, &dims, nullptr);
       }},
      {"aclCreateIntArray.value", [] { return aclCreateIntArray(nullptr, 3) == nullptr; }},
      {"aclDestroyAclOpExecutor: expected an executor", [] { return aclDestroyAclOpExecutor(nullptr); }},
      {"aclDestroyAclOpExecutor: expected a live executor",
       [] { return aclDestroyAclOpExecutor(static_cast<aclOpExecutor*>(kNoHandle)); }},
      {"aclDestroyOpExecutor: expected a live executor",
       [] { return aclDestroyOpExecutor(static_cast<aclOpExecutor*>(kNoHandle)); }},
      {"HcclCommInitRootInfo.nRanks",
       [] {
         HcclRootInfo root;
         HcclComm communicator = nullptr;
         HcclGetRootInfo(&root);
         return HcclCommInitRootInfo(2, &root, 0, &communicator);
       }},
      {"HcclCommDestroy.comm", [] { return HcclCommDestroy(kNoHandle); }},
  };
}

class Message : public testing::TestWithParam<Mistake> {
 protected:
  void SetUp() override { ASSERT_EQ(aclrtSetDevice(0), 0); }
  void TearDown() override { ASSERT_EQ(aclrtResetDevice(0), 0); }
};

TEST_P(Message, TellsWhereAndWhat) {
  aclGetRecentErrMsg();
  ASSERT_NE(GetParam().call(), 0);
  test::expect_readable_message(GetParam().at);
}

INSTANTIATE_TEST_SUITE_P(Runtime, Message, testing::ValuesIn(runtime_mistakes()));

}  // namespace
}  // namespace aclgrad
