// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include <atomic>
#include <stdexcept>

#include "fixture.h"

namespace aclgrad {
namespace {

uint64_t this_thread() {
  return static_cast<uint64_t>(pthread_self());
}

struct Call {
  std::atomic<int> count{0};
  std::thread::id thread;
};

void count_call(void* data) {
  Call& call = *static_cast<Call*>(data);
  call.thread = std::this_thread::get_id();
  ++call.count;
}

using CallbackTest = RuntimeTest;

TEST_F(CallbackTest, RunsInTheThreadThatProcessesReports) {
  ASSERT_EQ(aclrtSubscribeReport(this_thread(), stream_), ACL_SUCCESS);
  Call call;
  ASSERT_EQ(aclrtLaunchCallback(count_call, &call, ACL_CALLBACK_BLOCK, stream_), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  EXPECT_EQ(call.count, 0);
  EXPECT_EQ(aclrtProcessReport(1000), ACL_SUCCESS);
  EXPECT_EQ(call.count, 1);
  EXPECT_EQ(call.thread, std::this_thread::get_id());
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
  EXPECT_EQ(aclrtUnSubscribeReport(this_thread(), stream_), ACL_SUCCESS);
}

TEST_F(CallbackTest, LetsTheStreamGoOnWhateverItThrows) {
  ASSERT_EQ(aclrtSubscribeReport(this_thread(), stream_), ACL_SUCCESS);
  const std::pair<aclrtCallback, const char*> failures[] = {
      {[](void*) { throw std::runtime_error("planted"); }, "planted"},
      {[](void*) { throw 42; }, "no std::exception"}};
  for (const auto& [fail, message] : failures) {
    ASSERT_EQ(aclrtLaunchCallback(fail, nullptr, ACL_CALLBACK_BLOCK, stream_), ACL_SUCCESS);
    EXPECT_EQ(aclrtProcessReport(-1), ACL_ERROR_FAILURE);
    EXPECT_THAT(recent_message(), HasSubstr(message));
    EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
  }
  EXPECT_EQ(aclrtUnSubscribeReport(this_thread(), stream_), ACL_SUCCESS);
}

TEST_F(CallbackTest, TakesItsTurnInTheStream) {
  ASSERT_EQ(aclrtSubscribeReport(this_thread(), stream_), ACL_SUCCESS);
  Gate gate(stream_);
  Call call;
  ASSERT_EQ(aclrtLaunchCallback(count_call, &call, ACL_CALLBACK_NO_BLOCK, stream_), ACL_SUCCESS);
  EXPECT_EQ(aclrtProcessReport(20), ACL_ERROR_RT_REPORT_TIMEOUT);
  gate.open();
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS) << "the stream does not wait for it";
  EXPECT_EQ(call.count, 0);
  EXPECT_EQ(aclrtProcessReport(-1), ACL_SUCCESS);
  EXPECT_EQ(call.count, 1);
  EXPECT_EQ(aclrtUnSubscribeReport(this_thread(), stream_), ACL_SUCCESS);
}

TEST_F(CallbackTest, AnotherThreadServesTwoStreams) {
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> server_id{0};
  std::thread server([&] {
    server_id = this_thread();
    while (!stop) {
      aclrtProcessReport(10);
    }
  });
  while (server_id == 0) std::this_thread::yield();
  ASSERT_EQ(aclrtSubscribeReport(server_id, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtSubscribeReport(server_id, other_), ACL_SUCCESS);
  Call call;
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(aclrtLaunchCallback(count_call, &call, ACL_CALLBACK_BLOCK, i % 2 == 0 ? stream_ : other_),
              ACL_SUCCESS);
  }
  EXPECT_EQ(aclrtSynchronizeDevice(), ACL_SUCCESS);
  EXPECT_EQ(call.count, 50);
  EXPECT_EQ(aclrtUnSubscribeReport(server_id, stream_), ACL_SUCCESS);
  EXPECT_EQ(aclrtUnSubscribeReport(server_id, other_), ACL_SUCCESS);
  stop = true;
  server.join();
}

TEST_F(CallbackTest, ChecksParameters) {
  Call call;
  EXPECT_EQ(aclrtLaunchCallback(count_call, &call, ACL_CALLBACK_BLOCK, stream_),
            ACL_ERROR_RT_STREAM_NO_CB_REG);
  EXPECT_EQ(aclrtProcessReport(10), ACL_ERROR_RT_THREAD_SUBSCRIBE);
  EXPECT_EQ(aclrtUnSubscribeReport(this_thread(), stream_), ACL_ERROR_RT_THREAD_SUBSCRIBE);
  ASSERT_EQ(aclrtSubscribeReport(this_thread(), stream_), ACL_SUCCESS);
  EXPECT_EQ(aclrtSubscribeReport(this_thread(), stream_), ACL_ERROR_RT_STREAM_SUBSCRIBE);
  EXPECT_EQ(aclrtProcessReport(0), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtLaunchCallback(nullptr, &call, ACL_CALLBACK_BLOCK, stream_), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtLaunchCallback(count_call, &call, outside_of<aclrtCallbackBlockType>(2), stream_),
            ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtUnSubscribeReport(this_thread(), other_), ACL_ERROR_RT_THREAD_SUBSCRIBE);
  EXPECT_EQ(aclrtUnSubscribeReport(this_thread() + 1, stream_), ACL_ERROR_RT_THREAD_SUBSCRIBE);
  EXPECT_EQ(aclrtUnSubscribeReport(this_thread(), stream_), ACL_SUCCESS);
}

TEST_F(CallbackTest, UnsubscribingFreesAStreamThatWaits) {
  ASSERT_EQ(aclrtSubscribeReport(this_thread(), stream_), ACL_SUCCESS);
  Call call;
  ASSERT_EQ(aclrtLaunchCallback(count_call, &call, ACL_CALLBACK_BLOCK, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  ASSERT_EQ(aclrtUnSubscribeReport(this_thread(), stream_), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_THAT(recent_message(), HasSubstr("A callback was not run"));
  EXPECT_EQ(call.count, 0);
}

TEST_F(CallbackTest, UnsubscribingFromAStreamDropsNoCallbackOfAnother) {
  ASSERT_EQ(aclrtSubscribeReport(this_thread(), stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtSubscribeReport(this_thread(), other_), ACL_SUCCESS);
  Call dropped, kept;
  ASSERT_EQ(aclrtLaunchCallback(count_call, &dropped, ACL_CALLBACK_BLOCK, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtLaunchCallback(count_call, &kept, ACL_CALLBACK_NO_BLOCK, other_), ACL_SUCCESS);
  ASSERT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  ASSERT_EQ(aclrtSynchronizeStream(other_), ACL_SUCCESS);
  ASSERT_EQ(aclrtUnSubscribeReport(this_thread(), stream_), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 10000), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_EQ(aclrtProcessReport(-1), ACL_SUCCESS);
  EXPECT_EQ(dropped.count, 0);
  EXPECT_EQ(kept.count, 1);
  EXPECT_EQ(aclrtUnSubscribeReport(this_thread(), other_), ACL_SUCCESS);
}

TEST_F(CallbackTest, UnsubscribingBeforeItsTurnFreesTheStreamToo) {
  ASSERT_EQ(aclrtSubscribeReport(this_thread(), stream_), ACL_SUCCESS);
  Gate gate(stream_);
  Call call;
  ASSERT_EQ(aclrtLaunchCallback(count_call, &call, ACL_CALLBACK_BLOCK, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtUnSubscribeReport(this_thread(), stream_), ACL_SUCCESS);
  gate.open();
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 10000), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_EQ(aclrtDestroyStreamForce(stream_), ACL_SUCCESS);
}

TEST_F(CallbackTest, TheSubscriptionEndsWithItsStream) {
  for (const auto destroy : {aclrtDestroyStream, aclrtDestroyStreamForce}) {
    const aclrtStream stream = new_stream();
    ASSERT_EQ(aclrtSubscribeReport(this_thread(), stream), ACL_SUCCESS);
    Call call;
    ASSERT_EQ(aclrtLaunchCallback(count_call, &call, ACL_CALLBACK_NO_BLOCK, stream), ACL_SUCCESS);
    ASSERT_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
    ASSERT_EQ(destroy(stream), ACL_SUCCESS);
    EXPECT_EQ(aclrtProcessReport(-1), ACL_ERROR_RT_THREAD_SUBSCRIBE) << "rather than wait for ever";
    EXPECT_THAT(recent_message(), HasSubstr("The calling thread has not subscribed"));
    EXPECT_EQ(call.count, 0);
  }
}

TEST_F(CallbackTest, MayEndTheirThread) {
  bool has_returned = false;
  in_other_thread([&] {
    ASSERT_EQ(aclrtSetCurrentContext(context_), ACL_SUCCESS);
    ASSERT_EQ(aclrtSubscribeReport(this_thread(), stream_), ACL_SUCCESS);
    const auto end_thread = [](void*) { pthread_exit(nullptr); };
    ASSERT_EQ(aclrtLaunchCallback(end_thread, nullptr, ACL_CALLBACK_BLOCK, stream_), ACL_SUCCESS);
    aclrtProcessReport(-1);
    has_returned = true;
  });
  EXPECT_FALSE(has_returned);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 10000), ACL_SUCCESS);
}

// It cannot run them while it waits.
TEST_F(CallbackTest, ThatHoldStreamsUpAreDroppedWhenTheirThreadDestroysThem) {
  Call call;
  const aclrtStream alone = new_stream();
  ASSERT_EQ(aclrtSubscribeReport(this_thread(), alone), ACL_SUCCESS);
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(aclrtLaunchCallback(count_call, &call, ACL_CALLBACK_BLOCK, alone), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyStream(alone), ACL_SUCCESS);

  aclrtContext before = nullptr, context = nullptr;
  ASSERT_EQ(aclrtGetCurrentContext(&before), ACL_SUCCESS);
  ASSERT_EQ(aclrtCreateContext(&context, 0), ACL_SUCCESS);
  const aclrtStream streams[] = {new_stream(), new_stream(), new_stream()};
  aclrtEvent event = nullptr;
  ASSERT_EQ(aclrtCreateEvent(&event), ACL_SUCCESS);
  ASSERT_EQ(aclrtSubscribeReport(this_thread(), streams[1]), ACL_SUCCESS);
  ASSERT_EQ(aclrtLaunchCallback(count_call, &call, ACL_CALLBACK_BLOCK, streams[1]), ACL_SUCCESS);
  ASSERT_EQ(aclrtRecordEvent(event, streams[1]), ACL_SUCCESS);
  for (int i : {0, 2}) ASSERT_EQ(aclrtStreamWaitEvent(streams[i], event), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyContext(context), ACL_SUCCESS);
  EXPECT_EQ(aclrtSetCurrentContext(before), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyEvent(event), ACL_SUCCESS);
  EXPECT_EQ(call.count, 0);
}

TEST_F(CallbackTest, AreDroppedWhenTheirThreadEnds) {
  Call call;
  uint64_t ended = 0;
  in_other_thread([&] {
    ended = this_thread();
    ASSERT_EQ(aclrtSetCurrentContext(context_), ACL_SUCCESS);
    ASSERT_EQ(aclrtSubscribeReport(ended, stream_), ACL_SUCCESS);
    for (const auto block : {ACL_CALLBACK_NO_BLOCK, ACL_CALLBACK_BLOCK})
      ASSERT_EQ(aclrtLaunchCallback(count_call, &call, block, stream_), ACL_SUCCESS);
    ASSERT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  });
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 10000), ACL_ERROR_RT_AICORE_EXCEPTION);
  in_other_thread([&] {  // probably with the number of the first
    EXPECT_EQ(aclrtSubscribeReport(this_thread(), other_), ACL_SUCCESS);
    EXPECT_EQ(aclrtProcessReport(20), ACL_ERROR_RT_REPORT_TIMEOUT);
  });
  EXPECT_EQ(call.count, 0);
  EXPECT_EQ(aclrtUnSubscribeReport(ended, stream_), ACL_SUCCESS) << "programs do so when they have joined it";
}

TEST_F(CallbackTest, ForcedDestroyEndsAWaitForACallback) {
  ASSERT_EQ(aclrtSubscribeReport(this_thread(), stream_), ACL_SUCCESS);
  Call call;
  ASSERT_EQ(aclrtLaunchCallback(count_call, &call, ACL_CALLBACK_BLOCK, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  EXPECT_EQ(aclrtDestroyStreamForce(stream_), ACL_SUCCESS);
  EXPECT_EQ(aclrtProcessReport(20), ACL_ERROR_RT_THREAD_SUBSCRIBE);
  EXPECT_EQ(call.count, 0);
}

TEST_F(CallbackTest, OfTwoStreamsRunInTheOrderInWhichTheyAreDue) {
  static std::string order;
  order.clear();
  for (const aclrtStream stream : {stream_, other_})
    ASSERT_EQ(aclrtSubscribeReport(this_thread(), stream), ACL_SUCCESS);
  for (const aclrtStream stream : {other_, stream_, other_}) {
    const auto note = [](void* of) { order += of == nullptr ? 's' : 'o'; };
    ASSERT_EQ(aclrtLaunchCallback(note, stream == stream_ ? nullptr : stream, ACL_CALLBACK_NO_BLOCK, stream),
              ACL_SUCCESS);
    ASSERT_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(aclrtProcessReport(-1), ACL_SUCCESS);
  EXPECT_EQ(order, "oso");
}

}  // namespace
}  // namespace aclgrad
