// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "fixture.h"

namespace aclgrad {
namespace {

class EventTest : public RuntimeTest {
 protected:
  void TearDown() override {
    EXPECT_EQ(aclrtDestroyEvent(event_), ACL_SUCCESS);
    RuntimeTest::TearDown();
  }

  // Checks that the three queries agree on whether the mark is reached.
  bool reached() {
    aclrtEventStatus status = ACL_EVENT_STATUS_RESERVED;
    EXPECT_EQ(aclrtQueryEvent(event_, &status), ACL_SUCCESS);
    aclrtEventRecordedStatus recorded{};
    EXPECT_EQ(aclrtQueryEventStatus(event_, &recorded), ACL_SUCCESS);
    const bool reached = recorded == ACL_EVENT_RECORDED_STATUS_COMPLETE;
    EXPECT_EQ(status, reached ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY);
    return reached;
  }

  bool waits_are_over() {
    aclrtEventWaitStatus status = ACL_EVENT_WAIT_STATUS_RESERVED;
    EXPECT_EQ(aclrtQueryEventWaitStatus(event_, &status), ACL_SUCCESS);
    return status == ACL_EVENT_WAIT_STATUS_COMPLETE;
  }

  aclrtEvent event_ = new_event();
};

TEST_F(EventTest, WaitsGoOnThoughItIsRecordedAgainOrReset) {
  const aclrtStream third = new_stream();
  Gate gate(stream_);
  ASSERT_EQ(aclrtRecordEvent(event_, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtStreamWaitEvent(other_, event_), ACL_SUCCESS);
  EXPECT_FALSE(waits_are_over());
  ASSERT_EQ(aclrtRecordEvent(event_, third), ACL_SUCCESS);
  EXPECT_FALSE(waits_are_over());
  ASSERT_EQ(aclrtResetEvent(event_, third), ACL_SUCCESS);
  EXPECT_FALSE(waits_are_over());
  gate.open();
  EXPECT_EQ(aclrtSynchronizeStream(other_), ACL_SUCCESS);
  EXPECT_TRUE(waits_are_over());
  EXPECT_EQ(aclrtDestroyStream(third), ACL_SUCCESS);
}

TEST_F(EventTest, IsReachedAfterTheWorkBeforeIt) {
  EXPECT_FALSE(reached()) << "never recorded";
  Gate gate(stream_);
  ASSERT_EQ(aclrtRecordEvent(event_, stream_), ACL_SUCCESS);
  EXPECT_FALSE(reached());
  EXPECT_EQ(aclrtSynchronizeEventWithTimeout(event_, 20), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
  EXPECT_EQ(aclrtSynchronizeEventWithTimeout(event_, 0), ACL_ERROR_RT_PARAM_INVALID);
  gate.open();
  EXPECT_EQ(aclrtSynchronizeEvent(event_), ACL_SUCCESS);
  EXPECT_TRUE(reached());
  EXPECT_EQ(aclrtSynchronizeEventWithTimeout(event_, 20), ACL_SUCCESS);
}

TEST_F(EventTest, HoldsUpAnotherStream) {
  Gate gate(stream_);
  int step = 0;
  queue_of_stream("test", stream_)->submit(0, [&](Queue&) { step = 1; });
  ASSERT_EQ(aclrtRecordEvent(event_, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtStreamWaitEvent(other_, event_), ACL_SUCCESS);
  int seen = 0;
  queue_of_stream("test", other_)->submit(0, [&](Queue&) { seen = step; });
  EXPECT_FALSE(waits_are_over());
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(other_, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  gate.open();
  EXPECT_EQ(aclrtSynchronizeStream(other_), ACL_SUCCESS);
  EXPECT_EQ(seen, 1);
  EXPECT_TRUE(waits_are_over());
}

TEST_F(EventTest, MayBeWaitedForBeforeItIsRecorded) {
  ASSERT_EQ(aclrtStreamWaitEvent(other_, event_), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(other_, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  EXPECT_EQ(aclrtDestroyEvent(event_), ACL_ERROR_RT_PARAM_INVALID) << "the stream would wait without end";
  ASSERT_EQ(aclrtRecordEvent(event_, stream_), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(other_), ACL_SUCCESS);
}

TEST_F(EventTest, RecordedAgainMakesANewMark) {
  ASSERT_EQ(aclrtRecordEvent(event_, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtSynchronizeEvent(event_), ACL_SUCCESS);
  Gate gate(stream_);
  ASSERT_EQ(aclrtRecordEvent(event_, stream_), ACL_SUCCESS);
  EXPECT_FALSE(reached());
  gate.open();
  EXPECT_EQ(aclrtSynchronizeEvent(event_), ACL_SUCCESS);
}

TEST_F(EventTest, ResetReturnsItToUnrecorded) {
  ASSERT_EQ(aclrtRecordEvent(event_, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtSynchronizeEvent(event_), ACL_SUCCESS);
  ASSERT_EQ(aclrtResetEvent(event_, stream_), ACL_SUCCESS);
  EXPECT_FALSE(reached());
  EXPECT_EQ(aclrtSynchronizeEvent(event_), ACL_ERROR_RT_INTERNAL_ERROR) << "nothing would ever come";
}

TEST_F(EventTest, ElapsedTime) {
  aclrtEvent end = nullptr;
  ASSERT_EQ(aclrtCreateEventWithFlag(&end, ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC), ACL_SUCCESS);
  float milliseconds = -1;
  EXPECT_EQ(aclrtEventElapsedTime(&milliseconds, event_, end), ACL_ERROR_RT_INTERNAL_ERROR) << "not recorded";
  ASSERT_EQ(aclrtRecordEvent(event_, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtSynchronizeEvent(event_), ACL_SUCCESS) << "a device with threads of its own may be late";
  queue_of_stream("test", stream_)->submit(1e9, [](Queue&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  Gate gate(stream_);
  ASSERT_EQ(aclrtRecordEvent(end, stream_), ACL_SUCCESS);
  EXPECT_EQ(aclrtEventElapsedTime(&milliseconds, event_, end), ACL_ERROR_RT_EVENT_NOT_COMPLETE);
  gate.open();
  ASSERT_EQ(aclrtSynchronizeEvent(end), ACL_SUCCESS);
  ASSERT_EQ(aclrtEventElapsedTime(&milliseconds, event_, end), ACL_SUCCESS);
  EXPECT_GE(milliseconds, 20);
  EXPECT_LT(milliseconds, 20000);
  EXPECT_EQ(aclrtEventElapsedTime(&milliseconds, end, event_), ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL);
  EXPECT_EQ(aclrtDestroyEvent(end), ACL_SUCCESS);
}

TEST_F(EventTest, WithoutTimeLineIsNotTimed) {
  aclrtEvent untimed = nullptr;
  ASSERT_EQ(aclrtCreateEventExWithFlag(&untimed, ACL_EVENT_SYNC), ACL_SUCCESS);
  ASSERT_EQ(aclrtRecordEvent(untimed, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtRecordEvent(event_, stream_), ACL_SUCCESS);
  float milliseconds = 0;
  EXPECT_EQ(aclrtEventElapsedTime(&milliseconds, untimed, event_), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
  EXPECT_EQ(aclrtDestroyEvent(untimed), ACL_SUCCESS);
}

TEST_F(EventTest, TellsTheFailureBeforeIt) {
  submit_failure(stream_, ACL_ERROR_RT_AICORE_EXCEPTION, "The kernel failed.");
  ASSERT_EQ(aclrtRecordEvent(event_, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtStreamWaitEvent(other_, event_), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeEvent(event_), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_THAT(recent_message(), HasSubstr("The kernel failed."));
  EXPECT_EQ(aclrtSynchronizeStream(other_), ACL_SUCCESS) << "a failure stays with its stream";
}

TEST_F(EventTest, ARecordingThatFailsLeavesItUnrecorded) {
  ASSERT_EQ(aclrtSetStreamFailureMode(stream_, ACL_STOP_ON_FAILURE), ACL_SUCCESS);
  submit_failure(stream_, ACL_ERROR_RT_AICORE_EXCEPTION, "The kernel failed.");
  EXPECT_EQ(aclrtRecordEvent(event_, stream_), ACL_ERROR_RT_AICORE_EXCEPTION);
  const aclrtContext context = new_context();
  const aclrtStream waiting = new_stream();
  ASSERT_EQ(aclrtStreamWaitEvent(waiting, event_), ACL_SUCCESS);
  ASSERT_EQ(aclrtRecordEvent(event_, nullptr), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(waiting, 10000), ACL_SUCCESS) << "for what is recorded now";
  EXPECT_EQ(aclrtDestroyStreamForce(waiting), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyContext(context), ACL_SUCCESS);
}

TEST_F(EventTest, ChecksParameters) {
  aclrtEvent event = nullptr;
  EXPECT_EQ(aclrtCreateEvent(nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtCreateEventWithFlag(&event, 0x80000000u), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtCreateEventWithFlag(&event, ACL_EVENT_IPC), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  EXPECT_EQ(aclrtCreateEventExWithFlag(&event, ACL_EVENT_EXTERNAL), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  EXPECT_EQ(event, nullptr);
  EXPECT_EQ(aclrtDestroyEvent(nullptr), ACL_ERROR_INVALID_PARAM);
  int foreign = 0;
  EXPECT_EQ(aclrtDestroyEvent(&foreign), ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_EQ(aclrtRecordEvent(&foreign, stream_), ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_EQ(aclrtStreamWaitEvent(stream_, nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtRecordEvent(event_, event_), ACL_ERROR_RT_STREAM_CONTEXT) << "an event is no stream";
  EXPECT_EQ(aclrtQueryEventStatus(event_, nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtEventElapsedTime(nullptr, event_, event_), ACL_ERROR_INVALID_PARAM);
  ASSERT_EQ(aclrtCreateEvent(&event), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyEvent(event), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyEvent(event), ACL_ERROR_RT_INVALID_HANDLE);
}

TEST_F(EventTest, DestroyedWhileQueued) {
  const aclrtEvent event = new_event();
  Gate gate(stream_);
  ASSERT_EQ(aclrtRecordEvent(event, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtStreamWaitEvent(other_, event), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyEvent(event), ACL_SUCCESS);
  gate.open();
  EXPECT_EQ(aclrtSynchronizeStream(other_), ACL_SUCCESS) << "recorded marks still run";
}

}  // namespace
}  // namespace aclgrad
