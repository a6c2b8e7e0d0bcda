// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <vector>

#include "fixture.h"

namespace aclgrad {
namespace {

aclrtStreamStatus query(aclrtStream stream) {
  aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
  EXPECT_EQ(aclrtStreamQuery(stream, &status), ACL_SUCCESS);
  return status;
}

using StreamTest = RuntimeTest;

TEST_F(StreamTest, WorkReturnsBeforeItIsDone) {
  std::vector<char> source(1 << 20, 'x');
  std::vector<char> destination(source.size());
  Gate gate(stream_);
  ASSERT_EQ(aclrtMemcpyAsync(destination.data(), destination.size(), source.data(), source.size(),
                             ACL_MEMCPY_HOST_TO_DEVICE, stream_),
            ACL_SUCCESS);
  EXPECT_EQ(query(stream_), ACL_STREAM_STATUS_NOT_READY);
  EXPECT_EQ(query(other_), ACL_STREAM_STATUS_COMPLETE);
  EXPECT_EQ(destination.back(), 0);
  gate.open();
  ASSERT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
  EXPECT_EQ(query(stream_), ACL_STREAM_STATUS_COMPLETE);
  EXPECT_EQ(destination, source);
}

TEST_F(StreamTest, ItsThreadLeavesSignalsToTheProgram) {
  sigset_t blocked;
  queue_of_stream("test", stream_)->submit_host([&](Queue&) {
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  });
  ASSERT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 10000), ACL_SUCCESS);  // which does not run it here
  EXPECT_TRUE(sigismember(&blocked, SIGTERM));
  EXPECT_FALSE(sigismember(&blocked, SIGSEGV));
}

TEST_F(StreamTest, IsNotReadyWhileItsLastWorkRuns) {
  std::atomic<bool> runs{false}, ends{false};
  queue_of_stream("test", stream_)->submit_host([&](Queue&) {
    runs = true;
    while (!ends) std::this_thread::yield();
  });
  while (!runs) std::this_thread::yield();
  EXPECT_EQ(query(stream_), ACL_STREAM_STATUS_NOT_READY);
  ends = true;
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
}

TEST_F(StreamTest, StaysWhileItIsAskedThoughAnotherThreadDestroysIt) {
  struct DestroyInBetween : RuntimeObserver {
    bool is_idle(const Queue& queue) override {
      runtime_observer = &no_observer;
      in_other_thread([this] { EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS); });
      EXPECT_FALSE(lifetime.expired());
      return lifetime.expired() || queue.idle();
    }
    aclrtStream stream = nullptr;
    std::weak_ptr<Queue> lifetime;
  } destroys;
  destroys.stream = stream_;
  destroys.lifetime = queue_of_stream("test", stream_);
  runtime_observer = &destroys;
  EXPECT_EQ(query(stream_), ACL_STREAM_STATUS_COMPLETE);
}

TEST_F(StreamTest, RunsInOrderWhereverTasksRun) {
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) {
    // Some run in this thread, some in the worker, some in the synchronising thread.
    const double nanoseconds = i % 7 == 0 ? 1e6 : 0;
    queue_of_stream("test", stream_)->submit(nanoseconds, [&order, i](Queue&) { order.push_back(i); });
    if (i % 50 == 0) {
      ASSERT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
    }
  }
  ASSERT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 10000), ACL_SUCCESS);
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST_F(StreamTest, SmallWorkOnAnIdleStreamRunsInTheCaller) {
  std::thread::id runner;
  const auto task = [&](Queue&) { runner = std::this_thread::get_id(); };
  queue_of_stream("test", stream_)->submit(10, task);
  EXPECT_EQ(runner, std::this_thread::get_id());
  Gate gate(stream_);
  runner = {};
  queue_of_stream("test", stream_)->submit(10, task);
  EXPECT_EQ(runner, std::thread::id()) << "the stream is busy";
  gate.open();
  ASSERT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
}

TEST_F(StreamTest, ManyThreadsFeedOneStream) {
  int sum = 0;  // unguarded: tasks of a stream run one at a time
  Queue& queue = *queue_of_stream("test", stream_);
  in_threads(8, [&](int i) {
    for (int step = 0; step < 200; ++step) {
      queue.submit(step % 3 == i % 3 ? 1e6 : 0, [&sum](Queue&) { ++sum; });
      if (step % 20 == 0) queue.synchronize(std::nullopt);
    }
  });
  ASSERT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
  EXPECT_EQ(sum, 1600);
}

TEST_F(StreamTest, SynchronizeTimesOut) {
  Gate gate(stream_);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 30), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(30));
  EXPECT_THAT(recent_message(), HasSubstr("30 milliseconds"));
  EXPECT_EQ(aclrtSynchronizeDeviceWithTimeout(10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(other_, 10), ACL_SUCCESS);
  gate.open();
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, -1), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 0), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, -2), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtSynchronizeDeviceWithTimeout(0), ACL_ERROR_RT_PARAM_INVALID);
}

TEST_F(StreamTest, DestroyWaitsForItsWork) {
  bool ran = false;
  Gate gate(stream_);
  queue_of_stream("test", stream_)->submit(0, [&](Queue&) { ran = true; });
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.open();
  });
  EXPECT_EQ(aclrtDestroyStream(stream_), ACL_SUCCESS);
  EXPECT_TRUE(ran);
  opener.join();
}

TEST_F(StreamTest, ForcedDestroyDropsWhatHasNotStarted) {
  bool ran = false;
  Gate gate(stream_);
  queue_of_stream("test", stream_)->submit(0, [&](Queue&) { ran = true; });
  const aclrtEvent event = new_event();
  ASSERT_EQ(aclrtRecordEvent(event, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 50), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.open();
  });
  EXPECT_EQ(aclrtDestroyStreamForce(stream_), ACL_SUCCESS);
  opener.join();
  EXPECT_FALSE(ran);
  EXPECT_EQ(aclrtSynchronizeEvent(event), ACL_ERROR_RT_STREAM_ABORT) << "who waits for dropped work is told";
  EXPECT_EQ(aclrtDestroyEvent(event), ACL_SUCCESS);
}

TEST_F(StreamTest, DeadAndForeignHandlesAreRefused) {
  ASSERT_EQ(aclrtDestroyStream(stream_), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyStream(stream_), ACL_ERROR_RT_STREAM_CONTEXT);
  EXPECT_EQ(aclrtDestroyStreamForce(stream_), ACL_ERROR_RT_STREAM_CONTEXT);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_STREAM_CONTEXT);
  int foreign = 0;
  EXPECT_EQ(aclrtDestroyStream(&foreign), ACL_ERROR_RT_STREAM_CONTEXT);
  EXPECT_EQ(aclrtDestroyStream(nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtCreateStream(nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtStreamQuery(other_, nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtMemsetAsync(&foreign, 4, 0, 4, stream_), ACL_ERROR_RT_STREAM_CONTEXT);
}

TEST_F(StreamTest, OfAnotherContext) {
  const aclrtContext context = new_context();
  int value = 0;
  EXPECT_EQ(aclrtMemsetAsync(&value, 4, 0, 4, stream_), ACL_ERROR_RT_STREAM_CONTEXT);
  const std::string message = recent_message();
  EXPECT_NE(message.find("EE1010"), std::string::npos) << message;
  EXPECT_NE(message.find("does not belong to the current context"), std::string::npos) << message;
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS) << "only synchronising reaches other contexts";
  in_other_thread([this] { EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS); });
  EXPECT_EQ(aclrtDestroyContext(context), ACL_SUCCESS);
}

TEST_F(StreamTest, ConfigChecksItsFlags) {
  aclrtStream stream = nullptr;
  EXPECT_EQ(aclrtCreateStreamWithConfig(&stream, 0, 0x1000), ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_EQ(aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC),
            ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
}

TEST_F(StreamTest, DefaultStreamDoesNotWaitForOthers) {
  Gate gate(stream_);
  bool ran = false;
  queue_of_stream("test", nullptr)->submit(1e9, [&](Queue&) { ran = true; });
  EXPECT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
  EXPECT_TRUE(ran);
}

TEST_F(StreamTest, FailureComesOutAtTheSynchronise) {
  submit_failure(stream_, ACL_ERROR_RT_AICORE_TIMEOUT, "The kernel ran away.");
  bool ran = false;
  queue_of_stream("test", stream_)->submit(0, [&](Queue&) { ran = true; });
  EXPECT_EQ(recent_message(), "") << "nothing is told before somebody synchronises";
  in_other_thread([this] {
    EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_AICORE_TIMEOUT);
    EXPECT_THAT(recent_message(), HasSubstr("The kernel ran away."));
    EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_AICORE_TIMEOUT);
  });
  EXPECT_TRUE(ran) << "the stream continues by default";
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 1000), ACL_ERROR_RT_AICORE_TIMEOUT)
      << "the failure stays";
  EXPECT_EQ(aclrtSynchronizeDevice(), ACL_ERROR_RT_AICORE_TIMEOUT);
  EXPECT_EQ(aclrtSynchronizeStream(other_), ACL_SUCCESS);
}

TEST_F(StreamTest, TheDeviceWaitsForManyStreamsOldestFirst) {
  constexpr int kStreams = 100;
  std::atomic<int> ran{0};
  Gate gate;
  for (int i = 0; i < kStreams; ++i) {
    const aclrtStream stream = new_stream();
    gate.close_stream(stream);
    queue_of_stream("test", stream)->submit(0, [&ran, i](Queue&) {
      ++ran;
      throw Error(ACL_ERROR_RT_AICORE_EXCEPTION, fmt::format("Kernel {} failed.", i));
    });
  }
  gate.open();
  EXPECT_EQ(aclrtSynchronizeDevice(), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_EQ(ran, kStreams);
  EXPECT_THAT(recent_message(), HasSubstr("Kernel 0 failed.")) << "the oldest stream";
}

TEST_F(StreamTest, FailureInTheWorker) {
  Gate gate(stream_);
  submit_failure(stream_, 561000, "Something is wrong.");
  queue_of_stream("test", stream_)->submit(0, [](Queue&) { throw std::bad_alloc(); });
  gate.open();
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_AICORE_EXCEPTION) << "not a status of the runtime";
  EXPECT_THAT(recent_message(), HasSubstr("Something is wrong.")) << "the first failure";
}

TEST_F(StreamTest, WorkThatFindsNoMemorySaysSo) {
  queue_of_stream("test", stream_)->submit(0, [](Queue&) { throw std::bad_alloc(); });
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_THAT(recent_message(), HasSubstr("The host ran out of memory."));
}

TEST_F(StreamTest, StopOnFailureDropsAndRefuses) {
  ASSERT_EQ(aclrtSetStreamFailureMode(stream_, ACL_STOP_ON_FAILURE), ACL_SUCCESS);
  EXPECT_EQ(aclrtSetStreamFailureMode(stream_, ACL_CONTINUE_ON_FAILURE), ACL_ERROR_RT_PARAM_INVALID)
      << "once only";
  EXPECT_EQ(aclrtSetStreamFailureMode(other_, 2), ACL_ERROR_RT_PARAM_INVALID);
  Gate gate(stream_);
  submit_failure(stream_, ACL_ERROR_RT_AICORE_EXCEPTION, "The kernel failed.");
  bool ran = false;
  queue_of_stream("test", stream_)->submit(0, [&](Queue&) { ran = true; });
  gate.open();
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_FALSE(ran);
  int value = 1;
  EXPECT_EQ(aclrtMemsetAsync(&value, 4, 0, 4, stream_), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_EQ(aclrtMemsetAsync(&value, 4, 0, 4, other_), ACL_ERROR_RT_STREAM_ABORT)
      << "the context's other streams stop";
  EXPECT_EQ(value, 1);
  EXPECT_EQ(aclrtSynchronizeStream(other_), ACL_SUCCESS) << "nothing of it was dropped";
}

TEST_F(StreamTest, StopIsForTheContextOnly) {
  ASSERT_EQ(aclrtSetStreamFailureMode(stream_, ACL_STOP_ON_FAILURE), ACL_SUCCESS);
  submit_failure(stream_, ACL_ERROR_RT_AICORE_EXCEPTION, "The kernel failed.");
  const aclrtContext context = new_context();
  int value = 1;
  EXPECT_EQ(aclrtMemsetAsync(&value, 4, 0, 4, nullptr), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
  EXPECT_EQ(value, 0);
  EXPECT_EQ(aclrtDestroyContext(context), ACL_SUCCESS);
}

TEST_F(StreamTest, ForcedDestroyDropsAWaitForAnEvent) {
  const aclrtEvent never = new_event(), after = new_event();
  ASSERT_EQ(aclrtStreamWaitEvent(stream_, never), ACL_SUCCESS);
  ASSERT_EQ(aclrtRecordEvent(after, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 50), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  EXPECT_EQ(aclrtDestroyStreamForce(stream_), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeEvent(after), ACL_ERROR_RT_STREAM_ABORT);
  EXPECT_EQ(aclrtDestroyEvent(after), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyEvent(never), ACL_SUCCESS);
}

TEST_F(StreamTest, ForcedDestroyOfAStoppingStreamLeavesTheContextAlone) {
  ASSERT_EQ(aclrtSetStreamFailureMode(stream_, ACL_STOP_ON_FAILURE), ACL_SUCCESS);
  const aclrtEvent never = new_event();
  ASSERT_EQ(aclrtStreamWaitEvent(stream_, never), ACL_SUCCESS);
  queue_of_stream("test", stream_)->submit(0, [](Queue&) {});
  ASSERT_EQ(aclrtDestroyStreamForce(stream_), ACL_SUCCESS);
  int value = 1;
  EXPECT_EQ(aclrtMemsetAsync(&value, 4, 0, 4, other_), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(other_), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyEvent(never), ACL_SUCCESS);
}

}  // namespace
}  // namespace aclgrad
