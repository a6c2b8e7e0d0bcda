// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include <atomic>

#include "fixture.h"

namespace aclgrad {
namespace {

int32_t current_device() {
  int32_t device = -1;
  EXPECT_EQ(aclrtGetDevice(&device), ACL_SUCCESS);
  return device;
}

aclrtContext current() {
  aclrtContext context = nullptr;
  EXPECT_EQ(aclrtGetCurrentContext(&context), ACL_SUCCESS);
  return context;
}

TEST(Context, NewThreadHasNone) {
  in_other_thread([] {
    int32_t device = 0;
    EXPECT_EQ(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_THAT(recent_message(), HasSubstr("has no context"));
    aclrtContext context = nullptr;
    EXPECT_EQ(aclrtGetCurrentContext(&context), ACL_ERROR_RT_CONTEXT_NULL);
    aclrtStream stream = nullptr;
    EXPECT_EQ(aclrtCreateStream(&stream), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_EQ(aclrtSynchronizeStream(nullptr), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_EQ(aclrtSynchronizeDevice(), ACL_ERROR_RT_CONTEXT_NULL);
    void* memory = nullptr;
    EXPECT_EQ(aclrtMalloc(&memory, 1, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_EQ(memory, nullptr);
  });
}

TEST(Context, CpuHasEightDevices) {
  if (visible_device(0).kind() != DeviceKind::cpu) GTEST_SKIP() << "GPUs are the devices here";
  uint32_t count = 0;
  ASSERT_EQ(aclrtGetDeviceCount(&count), ACL_SUCCESS);
  ASSERT_EQ(count, 8u);
  EXPECT_EQ(aclrtSetDevice(-1), ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_EQ(aclrtSetDevice(8), ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_THAT(recent_message(), HasSubstr("aclrtSetDevice.deviceId: expected 0 to 7, got 8."));
  aclrtContext context = nullptr;
  EXPECT_EQ(aclrtCreateContext(&context, 8), ACL_ERROR_RT_INVALID_DEVICEID);
  ASSERT_EQ(aclrtSetDevice(7), ACL_SUCCESS);
  EXPECT_EQ(current_device(), 7);
  EXPECT_EQ(aclrtResetDevice(7), ACL_SUCCESS);
}

TEST(Devices, AreDescribedWithoutAContext) {
  const aclrtDevAttr positive[] = {ACL_DEV_ATTR_AICORE_CORE_NUM, ACL_DEV_ATTR_CUBE_CORE_NUM,
                                   ACL_DEV_ATTR_VECTOR_CORE_NUM, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE};
  int64_t value = -1;
  for (const aclrtDevAttr attribute : positive) {
    EXPECT_EQ(aclrtGetDeviceInfo(1, attribute, &value), ACL_SUCCESS) << attribute;
    EXPECT_GT(value, 0) << attribute;
  }
  EXPECT_EQ(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_L2_CACHE_SIZE, &value), ACL_SUCCESS);
  EXPECT_GE(value, 0) << "some systems do not tell";
  EXPECT_EQ(aclrtGetDeviceInfo(99, ACL_DEV_ATTR_L2_CACHE_SIZE, &value), ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_EQ(aclrtGetDeviceInfo(~0u, ACL_DEV_ATTR_L2_CACHE_SIZE, &value), ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_EQ(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_L2_CACHE_SIZE, nullptr), ACL_ERROR_INVALID_PARAM);
  recent_message();
  EXPECT_EQ(aclrtGetDeviceInfo(0, outside_of<aclrtDevAttr>(12345), &value), ACL_ERROR_INVALID_PARAM);
  EXPECT_THAT(recent_message(),
              HasSubstr("aclrtGetDeviceInfo.attr: expected a value of aclrtDevAttr, got 12345."));
}

TEST(Devices, OfCpusReachEachOther) {
  if (visible_device(0).kind() != DeviceKind::cpu) GTEST_SKIP() << "GPUs are the devices here";
  int32_t reaches = -1;
  ASSERT_EQ(aclrtDeviceCanAccessPeer(&reaches, 0, 1), ACL_SUCCESS);
  EXPECT_EQ(reaches, 1);
  EXPECT_EQ(aclrtDeviceEnablePeerAccess(1, 0), ACL_SUCCESS);
  EXPECT_EQ(aclrtDeviceDisablePeerAccess(1), ACL_SUCCESS);
  EXPECT_EQ(aclrtDeviceCanAccessPeer(&reaches, 0, 99), ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_EQ(aclrtDeviceCanAccessPeer(nullptr, 0, 1), ACL_ERROR_INVALID_PARAM);
  recent_message();
  EXPECT_EQ(aclrtDeviceCanAccessPeer(&reaches, 0, -1), ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_THAT(recent_message(), HasSubstr("aclrtDeviceCanAccessPeer.peerDeviceId: expected 0 to 7, got -1."));
  EXPECT_EQ(aclrtDeviceEnablePeerAccess(-1, 0), ACL_ERROR_RT_INVALID_DEVICEID);
}

TEST(Context, ThreadsShareTheDefaultContext) {
  ASSERT_EQ(aclrtSetDevice(3), ACL_SUCCESS);
  const aclrtContext mine = current();
  in_other_thread([mine] {
    ASSERT_EQ(aclrtSetDevice(3), ACL_SUCCESS);
    EXPECT_EQ(current(), mine);
  });
  EXPECT_EQ(aclrtResetDevice(3), ACL_SUCCESS);
  EXPECT_EQ(current(), mine) << "the other thread's reference still holds it";
  EXPECT_EQ(aclrtResetDevice(3), ACL_SUCCESS);
  int32_t device = 0;
  EXPECT_EQ(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
  EXPECT_EQ(aclrtResetDevice(3), ACL_ERROR_RT_CONTEXT_NULL);
  EXPECT_THAT(recent_message(), HasSubstr("expected a device that is set, got 3, which was never set, or was "
                                          "reset already."));
  EXPECT_EQ(aclrtResetDeviceForce(3), ACL_ERROR_RT_CONTEXT_NULL);
}

TEST(Context, ForcedResetIgnoresTheCount) {
  ASSERT_EQ(aclrtSetDevice(2), ACL_SUCCESS);
  ASSERT_EQ(aclrtSetDevice(2), ACL_SUCCESS);
  EXPECT_EQ(aclrtResetDeviceForce(2), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeDevice(), ACL_ERROR_RT_CONTEXT_NULL);
}

TEST(Context, SetDeviceAfterResetMakesANewOne) {
  ASSERT_EQ(aclrtSetDevice(1), ACL_SUCCESS);
  const aclrtContext first = current();
  ASSERT_EQ(aclrtResetDevice(1), ACL_SUCCESS);
  ASSERT_EQ(aclrtSetDevice(1), ACL_SUCCESS);
  EXPECT_NE(current(), first);
  EXPECT_EQ(aclrtSetCurrentContext(first), ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_EQ(aclrtResetDevice(1), ACL_SUCCESS);
}

TEST(Context, ExplicitContextsSwitchDevices) {
  const aclrtContext first = new_context(4);
  EXPECT_EQ(current(), first);
  const aclrtContext second = new_context(5);
  EXPECT_EQ(current_device(), 5);
  ASSERT_EQ(aclrtSetCurrentContext(first), ACL_SUCCESS);
  EXPECT_EQ(current_device(), 4);
  EXPECT_EQ(aclrtDestroyContext(first), ACL_SUCCESS);
  int32_t device = 0;
  EXPECT_EQ(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
  EXPECT_EQ(aclrtDestroyContext(first), ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_EQ(aclrtDestroyContext(second), ACL_SUCCESS);
}

TEST(Context, NullAndForeignHandlesAreRefused) {
  int foreign = 0;
  EXPECT_EQ(aclrtSetCurrentContext(nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtSetCurrentContext(&foreign), ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_EQ(aclrtDestroyContext(nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtDestroyContext(&foreign), ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_EQ(aclrtCreateContext(nullptr, 0), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtGetCurrentContext(nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtGetDevice(nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtGetDeviceCount(nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtGetRunMode(nullptr), ACL_ERROR_INVALID_PARAM);
}

TEST(Context, ConfigurationMayNameADeviceForThreadsWithoutOne) {
  EXPECT_THAT([] { set_implicit_device(8); },
              testing::ThrowsMessage<Error>(
                  HasSubstr("aclInit.configPath defaultDevice.default_device: expected 0 to")));
  set_implicit_device(5);
  in_other_thread([] {
    EXPECT_EQ(current_device(), 5);
    EXPECT_EQ(aclrtResetDevice(5), ACL_SUCCESS);
    EXPECT_EQ(current_device(), 5) << "whose context has ended, but the configuration still names it";
  });
  set_implicit_device(std::nullopt);
  in_other_thread([] { EXPECT_THROW(current_context(), Error); });
  EXPECT_EQ(aclrtResetDevice(5), ACL_SUCCESS);
}

TEST(Context, DefaultContextCannotBeDestroyed) {
  ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyContext(current()), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
  EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
}

TEST(Context, DestroyedUnderAnotherThread) {
  const aclrtContext context = new_context();
  const aclrtStream stream = new_stream();
  in_other_thread([context] { EXPECT_EQ(aclrtDestroyContext(context), ACL_SUCCESS); });
  void* memory = nullptr;
  EXPECT_EQ(aclrtMalloc(&memory, 1, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
  EXPECT_EQ(aclrtSynchronizeStream(nullptr), ACL_ERROR_RT_CONTEXT_NULL);
  EXPECT_EQ(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_CONTEXT);
  EXPECT_EQ(aclrtDestroyStream(stream), ACL_ERROR_RT_STREAM_CONTEXT);
}

TEST(Context, DestroyWaitsForItsStreams) {
  const aclrtContext context = new_context();
  std::atomic<bool> ran{false};
  Gate gate(nullptr);
  queue_of_stream("test", nullptr)->submit(0, [&](Queue&) { ran = true; });
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(ran);
    gate.open();
  });
  EXPECT_EQ(aclrtDestroyContext(context), ACL_SUCCESS);
  EXPECT_TRUE(ran);
  opener.join();
}

TEST(Context, ThreadsThatSetAndResetTheSameDevice) {
  in_threads(8, [](int) {
    for (int repeat = 0; repeat < 100; ++repeat) {
      ASSERT_EQ(aclrtSetDevice(6), ACL_SUCCESS);
      ASSERT_EQ(aclrtSynchronizeDevice(), ACL_SUCCESS);
      ASSERT_EQ(aclrtResetDevice(6), ACL_SUCCESS);
    }
  });
}

}  // namespace
}  // namespace aclgrad
