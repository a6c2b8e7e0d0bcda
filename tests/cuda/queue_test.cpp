// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What a CUDA queue has to get right beyond the runtime's own tests: devices of threads, errors that come later, and who
// lives how long. CUDA's runtime is the PTX machine's.
#include <cuda_runtime.h>
#include <pthread.h>

#include "base/never_destroyed.h"
#include "machine.h"
#include "runtime/device.h"
#include "runtime/fixture.h"

namespace aclgrad {
namespace {

Device& cuda_device(int index) {
  return DeviceDriver::get(DeviceKind::cuda, index);
}

StopFlag no_stop() {
  return std::make_shared<std::atomic<bool>>(false);
}

Status status_of(const std::function<void()>& body) {
  try {
    body();
    return ACL_SUCCESS;
  } catch (const Error& error) {
    return error.status();
  }
}

Status synchronize(Queue& queue) {
  return status_of([&] { queue.synchronize(std::nullopt); });
}

Status waited(const EventState& event) {
  return status_of([&] { event.wait(std::nullopt); });
}

NeverDestroyed<const Error> refused(Status{ACL_ERROR_RT_AICORE_EXCEPTION}, "planted");
NeverDestroyed<const Error> timeout(Status{ACL_ERROR_RT_AICORE_TIMEOUT}, "planted");

const Error& planted_error(uint32_t code) noexcept {
  return code == 7 ? *refused : *timeout;
}

// A host task that ends when the test lets it, or the queue closes.
struct Pause {
  std::shared_ptr<std::atomic<bool>> over = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<std::atomic<bool>> reached = std::make_shared<std::atomic<bool>>(false);

  void put_on(Queue& queue) const {
    queue.submit_host([over = over, reached = reached](Queue& on) {
      *reached = true;
      while (!*over && !on.closing()) std::this_thread::yield();
    });
  }
  void wait_until_reached() const {
    while (!*reached) std::this_thread::yield();
  }
};

class CudaQueueTest : public testing::Test {
 protected:
  void SetUp() override {
    cudaSetDevice(0);
    cudaGetLastError();
    cuda_device(0).fill({});  // makes the device's own stream, which it keeps
    objects_before_ = ptx::live_objects();
  }
  void TearDown() override {
    ptx::break_devices(cudaSuccess);
    EXPECT_EQ(ptx::live_objects(), objects_before_) << "a stream or an event was not destroyed";
    int device = -1;
    cudaGetDevice(&device);
    EXPECT_EQ(device, 0) << "the thread's device was not restored";
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "an error was left for the program to find";
  }

 private:
  int objects_before_ = 0;
};

TEST_F(CudaQueueTest, AllItsCallsAreMadeOnItsDevice) {
  Device& device = cuda_device(1);
  auto queue = device.make_queue(no_stop());
  auto start = device.make_event_state(), end = device.make_event_state();
  std::vector<char> bytes(64);
  queue->record(start);
  queue->fill({bytes.data(), 7, bytes.size()});
  queue->record(end);
  queue->wait(end);
  EXPECT_EQ(synchronize(*queue), ACL_SUCCESS);
  EXPECT_TRUE(queue->synchronize(Clock::now() + std::chrono::seconds(10)));
  EXPECT_TRUE(queue->idle() && start->reached() && end->reached());
  EXPECT_EQ(waited(*end), ACL_SUCCESS);
  EXPECT_GE(end->milliseconds_since(*start), 0);
  EXPECT_EQ(bytes, std::vector<char>(64, 7));
  in_other_thread([&] {
    queue.reset();
    start.reset();
    end.reset();
  });
}

TEST_F(CudaQueueTest, MakesNoContextOnAnotherDevice) {
  ptx::forget_contexts();
  in_other_thread([] {
    std::vector<char> bytes(8);
    const auto queue = cuda_device(1).make_queue(no_stop());
    queue->fill({bytes.data(), 1, bytes.size()});
    EXPECT_EQ(synchronize(*queue), ACL_SUCCESS);
  });
  EXPECT_TRUE(ptx::has_context(1));
  EXPECT_FALSE(ptx::has_context(0)) << "which the program does not use";
  cudaSetDevice(0);
}

TEST_F(CudaQueueTest, MarksOutliveTheQueue) {
  Device& device = cuda_device(0);
  const auto start = device.make_event_state(), end = device.make_event_state();
  auto queue = device.make_queue(no_stop());
  queue->record(start);
  queue->submit(0, [](Queue&) { throw Error(ACL_ERROR_RT_AICORE_TIMEOUT, "planted"); });
  queue->record(end);
  queue.reset();
  EXPECT_TRUE(start->reached() && end->reached());
  EXPECT_EQ(waited(*start), ACL_SUCCESS);
  EXPECT_EQ(waited(*end), ACL_ERROR_RT_AICORE_TIMEOUT);
  EXPECT_GE(end->milliseconds_since(*start), 0);
}

TEST_F(CudaQueueTest, ItsStreamLivesUntilAllWorkIsDone) {
  auto queue = cuda_device(0).make_queue(no_stop());
  auto memory = std::make_unique<std::vector<char>>(1 << 20);
  for (int i = 0; i < 100; ++i) queue->fill({memory->data(), 1, memory->size()});
  queue.reset();
  memory.reset();  // the sanitizer would see work that is left
}

TEST_F(CudaQueueTest, ClosingEndsAWaitingHostTaskAndDropsTheNext) {
  const auto queue = cuda_device(0).make_queue(no_stop());
  const Pause pause;
  pause.put_on(*queue);
  std::atomic<bool> ran{false};
  queue->submit_host([&](Queue&) { ran = true; });
  const auto behind = cuda_device(0).make_event_state();
  queue->record(behind);
  pause.wait_until_reached();
  EXPECT_FALSE(queue->synchronize(Clock::now() + std::chrono::milliseconds(1)));
  EXPECT_FALSE(queue->idle());
  in_other_thread([&] { queue->close(); });
  EXPECT_FALSE(ran);
  EXPECT_TRUE(queue->idle());
  EXPECT_EQ(waited(*behind), ACL_ERROR_RT_STREAM_ABORT);
}

TEST_F(CudaQueueTest, HostTasksOfAQueueDoNotWaitForThoseOfAnother) {
  const auto queue = cuda_device(0).make_queue(no_stop()), other = cuda_device(0).make_queue(no_stop());
  const Pause pause;
  pause.put_on(*queue);
  pause.wait_until_reached();
  other->submit_host([over = pause.over](Queue&) { *over = true; });
  EXPECT_EQ(synchronize(*queue), ACL_SUCCESS);
}

TEST_F(CudaQueueTest, WorkWaitsForTheHostTaskBeforeIt) {
  const auto queue = cuda_device(0).make_queue(no_stop());
  const Pause pause;
  std::vector<char> bytes(8);
  pause.put_on(*queue);
  queue->fill({bytes.data(), 1, bytes.size()});
  pause.wait_until_reached();
  EXPECT_FALSE(queue->synchronize(Clock::now() + std::chrono::milliseconds(10)));
  EXPECT_EQ(bytes[0], 0);
  *pause.over = true;
  EXPECT_EQ(synchronize(*queue), ACL_SUCCESS);
  EXPECT_EQ(bytes[0], 1);
}

TEST_F(CudaQueueTest, HostTasksRunThoughTheDeviceHasFailed) {
  const auto queue = cuda_device(0).make_queue(no_stop());
  const Pause pause;
  std::atomic<bool> ran{false};
  pause.put_on(*queue);
  queue->submit_host([&](Queue&) { ran = true; });
  ptx::break_devices(cudaErrorIllegalAddress);
  *pause.over = true;
  EXPECT_EQ(synchronize(*queue), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_TRUE(ran) << "who waits for it would wait for ever";
  EXPECT_EQ(status_of([&] { queue->submit_host([](Queue&) {}); }), ACL_ERROR_RT_AICORE_EXCEPTION);
}

TEST_F(CudaQueueTest, ACopyOfOrdinaryMemoryDoesNotBlockTheCaller) {
  Device& device = cuda_device(0);
  const auto queue = device.make_queue(no_stop());
  void* memory = device.allocate(MemoryPlace::device, 8);
  std::vector<char> to(8), from(8, 3);
  const Pause pause;
  pause.put_on(*queue);
  queue->copy({memory, 8, from.data(), 8, 8, 1});
  queue->copy({to.data(), 4, memory, 4, 4, 2});
  EXPECT_EQ(to[0], 0);
  *pause.over = true;  // this thread lets the stream go on
  EXPECT_EQ(synchronize(*queue), ACL_SUCCESS);
  EXPECT_EQ(to, from);
  device.release(MemoryPlace::device, memory);
}

// Who lets the stream go on may ask about an event meanwhile that is being recorded.
TEST(CudaStreams, AFullStreamHoldsUpNobodyWhoAsks) {
  ASSERT_EQ(aclrtSetDevice(1), ACL_SUCCESS);
  aclrtStream stream = new_stream();
  aclrtEvent event = new_event();
  Gate gate;
  gate.close_stream(stream);
  const int added = static_cast<int>(ptx::kStreamCapacity) + 100;
  std::atomic<int> recorded{0};
  std::thread other([&] {
    aclrtSetDevice(1);
    for (; recorded < added; ++recorded) EXPECT_EQ(aclrtRecordEvent(event, stream), ACL_SUCCESS);
    aclrtResetDevice(1);
  });
  while (recorded < added - 200) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LT(recorded, added) << "the stream is full";
  aclrtEventStatus status = ACL_EVENT_STATUS_COMPLETE;
  EXPECT_EQ(aclrtQueryEvent(event, &status), ACL_SUCCESS);
  EXPECT_EQ(status, ACL_EVENT_STATUS_NOT_READY);
  gate.open();
  other.join();
  EXPECT_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyEvent(event), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
  aclrtResetDevice(1);
}

// A callback is served though the device has failed, and one stream's before that of another which came first.
TEST(CudaStreams, CallbacksOfStreamsDoNotWaitForEachOther) {
  ASSERT_EQ(aclrtSetDevice(1), ACL_SUCCESS);
  aclrtStream first = new_stream(), second = new_stream();
  const auto self = static_cast<uint64_t>(pthread_self());
  std::atomic<uint64_t> other_id{0};
  std::atomic<bool> served{false};
  std::thread other([&] {
    other_id = static_cast<uint64_t>(pthread_self());
    while (!served) std::this_thread::yield();  // comes to its own stream only then
    EXPECT_EQ(aclrtProcessReport(-1), ACL_SUCCESS);
  });
  while (other_id == 0) std::this_thread::yield();
  ASSERT_EQ(aclrtSubscribeReport(other_id, first), ACL_SUCCESS);
  ASSERT_EQ(aclrtSubscribeReport(self, second), ACL_SUCCESS);
  const auto nothing = [](void*) {};
  ASSERT_EQ(aclrtLaunchCallback(nothing, nullptr, ACL_CALLBACK_BLOCK, first), ACL_SUCCESS);
  ASSERT_EQ(aclrtLaunchCallback(nothing, nullptr, ACL_CALLBACK_BLOCK, second), ACL_SUCCESS);
  ptx::break_devices(cudaErrorIllegalAddress);
  EXPECT_EQ(aclrtProcessReport(-1), ACL_SUCCESS);
  served = true;
  other.join();
  EXPECT_EQ(aclrtLaunchCallback(nothing, nullptr, ACL_CALLBACK_BLOCK, first), ACL_ERROR_RT_AICORE_EXCEPTION);
  ptx::break_devices(cudaSuccess);
  EXPECT_EQ(aclrtDestroyStream(first), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyStream(second), ACL_SUCCESS);
  aclrtResetDevice(1);
}

TEST_F(CudaQueueTest, RefusesWorkOnceItIsClosed) {
  Device& device = cuda_device(0);
  const auto queue = device.make_queue(no_stop());
  const auto event = device.make_event_state();
  queue->record(event);
  queue->close();
  const auto nothing = [](Queue&) {};
  EXPECT_EQ(status_of([&] { queue->submit(0, nothing); }), ACL_ERROR_RT_STREAM_ABORT);
  EXPECT_EQ(status_of([&] { queue->submit_host(nothing); }), ACL_ERROR_RT_STREAM_ABORT);
  EXPECT_EQ(status_of([&] { queue->record(event); }), ACL_ERROR_RT_STREAM_ABORT);
  EXPECT_EQ(status_of([&] { queue->wait(event); }), ACL_ERROR_RT_STREAM_ABORT);
  EXPECT_EQ(waited(*event), ACL_SUCCESS);
}

// Nothing is put on the stream after close() has waited for it: the program may free its memory then.
TEST_F(CudaQueueTest, ClosingWaitsForWhoIsPuttingWorkOnTheStream) {
  const auto queue = cuda_device(0).make_queue(no_stop());
  auto memory = std::make_unique<std::vector<char>>(1 << 16);
  std::atomic<bool> submitting{false}, submitted{false};
  std::thread other([&] {
    queue->submit(0, [&](Queue& on) {
      submitting = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      cudaMemsetAsync(memory->data(), 1, memory->size(), static_cast<cudaStream_t>(on.native_handle()));
      submitted = true;
    });
  });
  while (!submitting) std::this_thread::yield();
  queue->close();
  EXPECT_TRUE(submitted && queue->idle());
  memory.reset();
  other.join();
}

TEST_F(CudaQueueTest, ErrorsOfTheDeviceComeOutOfEverySynchronize) {
  Device& device = cuda_device(0);
  const auto queue = device.make_queue(no_stop());
  const auto event = device.make_event_state();
  queue->record(event);
  ptx::break_devices(cudaErrorIllegalAddress);
  EXPECT_EQ(synchronize(*queue), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_EQ(synchronize(*queue), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_EQ(status_of([&] { queue->synchronize(Clock::now() + std::chrono::seconds(10)); }),
            ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_EQ(waited(*event), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_TRUE(queue->idle()) << "there is nothing to wait for any more";
}

TEST_F(CudaQueueTest, AnErrorOfTheDeviceComesBeforeThatOfTheLaunchThatMetIt) {
  const auto queue = cuda_device(0).make_queue(no_stop());
  ptx::break_devices(cudaErrorLaunchTimeout);
  queue->submit(0, [](Queue&) { throw std::runtime_error("kernel launch: planted"); });
  EXPECT_EQ(synchronize(*queue), ACL_ERROR_RT_AICORE_TIMEOUT);
}

TEST_F(CudaQueueTest, ARefusedLaunchIsAFailureOfTheQueue) {
  const auto queue = cuda_device(0).make_queue(no_stop());
  std::vector<char> bytes(8);
  ptx::fail_next("cudaMemsetAsync", cudaErrorInvalidValue);
  queue->fill({bytes.data(), 1, bytes.size()});
  EXPECT_EQ(synchronize(*queue), ACL_ERROR_RT_AICORE_EXCEPTION);
  queue->fill({bytes.data(), 2, bytes.size()});
  EXPECT_EQ(synchronize(*queue), ACL_ERROR_RT_AICORE_EXCEPTION) << "a failure stays";
  EXPECT_EQ(bytes[0], 2) << "later work is done all the same";
}

TEST_F(CudaQueueTest, DataThatAKernelRefusesComesOutOfSynchronize) {
  const auto queue = cuda_device(0).make_queue(no_stop());
  uint32_t* other = queue->data_failure([](uint32_t) noexcept -> const Error& { return *timeout; });
  uint32_t* noted = queue->data_failure(planted_error);
  EXPECT_EQ(noted, queue->data_failure(planted_error));
  EXPECT_NE(noted, other);
  queue->submit_host([=](Queue&) { *noted = 7; });
  EXPECT_EQ(synchronize(*queue), ACL_ERROR_RT_AICORE_EXCEPTION);
}

TEST_F(CudaQueueTest, DataThatAKernelRefusesComesOutOfTheEventsBehindIt) {
  Device& device = cuda_device(0);
  auto queue = device.make_queue(no_stop());
  uint32_t* noted = queue->data_failure(planted_error);
  const auto before = device.make_event_state(), behind = device.make_event_state();
  const auto recorded_later = device.make_event_state();
  const Pause pause;
  queue->record(before);
  pause.put_on(*queue);
  queue->submit_host([=](Queue&) { *noted = 7; });
  queue->record(behind);
  pause.wait_until_reached();
  EXPECT_EQ(waited(*before), ACL_SUCCESS);
  *pause.over = true;
  EXPECT_EQ(waited(*behind), ACL_ERROR_RT_AICORE_EXCEPTION) << "recorded before the kernel ran";
  queue->record(recorded_later);
  EXPECT_EQ(waited(*recorded_later), ACL_ERROR_RT_AICORE_EXCEPTION) << "a failure stays";
  EXPECT_EQ(waited(*before), ACL_SUCCESS) << "what failed later is not before the mark";
  queue.reset();
  EXPECT_EQ(waited(*behind), ACL_ERROR_RT_AICORE_EXCEPTION) << "the mark outlives the queue";
}

TEST_F(CudaQueueTest, AFailureOfAHostTaskComesOutOfTheEventsBehindIt) {
  Device& device = cuda_device(0);
  const auto queue = device.make_queue(no_stop());
  const auto event = device.make_event_state();
  const Pause pause;
  pause.put_on(*queue);
  queue->submit_host([](Queue&) { throw Error(ACL_ERROR_RT_AICORE_TIMEOUT, "planted"); });
  queue->record(event);
  *pause.over = true;
  EXPECT_EQ(waited(*event), ACL_ERROR_RT_AICORE_TIMEOUT);
}

TEST_F(CudaQueueTest, AQueueThatStopsDropsTheHostTasksBehindAFailure) {
  const auto queue = cuda_device(0).make_queue(no_stop());
  queue->stop_on_failure();
  const Pause pause;
  std::atomic<bool> ran{false};
  pause.put_on(*queue);
  queue->submit_host([](Queue&) { throw Error(ACL_ERROR_RT_AICORE_TIMEOUT, "planted"); });
  queue->submit_host([&](Queue&) { ran = true; });
  *pause.over = true;
  EXPECT_EQ(synchronize(*queue), ACL_ERROR_RT_AICORE_TIMEOUT);
  EXPECT_FALSE(ran);
}

TEST_F(CudaQueueTest, AHostTaskThatFailsStopsTheContext) {
  const StopFlag stopped = no_stop();
  const auto queue = cuda_device(0).make_queue(stopped), other = cuda_device(0).make_queue(stopped);
  queue->stop_on_failure();
  queue->submit_host([](Queue&) { throw Error(ACL_ERROR_RT_AICORE_TIMEOUT, "planted"); });
  EXPECT_EQ(synchronize(*queue), ACL_ERROR_RT_AICORE_TIMEOUT);
  EXPECT_EQ(status_of([&] { other->submit(0, [](Queue&) {}); }), ACL_ERROR_RT_STREAM_ABORT);
}

TEST_F(CudaQueueTest, AQueueThatCannotBeMadeLeavesNothing) {
  for (const char* function : {"cudaSetDevice", "cudaStreamCreateWithFlags"}) {
    ptx::fail_next(function, cudaErrorMemoryAllocation);
    EXPECT_EQ(status_of([] { cuda_device(1).make_queue(no_stop()); }), ACL_ERROR_RT_MEMORY_ALLOCATION)
        << function;
  }
}

TEST_F(CudaQueueTest, AnEventIsMadeOnTheDeviceThatRecordsIt) {
  const auto event = cuda_device(0).make_event_state();
  const auto queue = cuda_device(1).make_queue(no_stop());
  ptx::fail_next("cudaEventCreateWithFlags", cudaErrorMemoryAllocation);
  EXPECT_EQ(status_of([&] { queue->record(event); }), ACL_ERROR_RT_MEMORY_ALLOCATION);
  EXPECT_FALSE(event->reached());
  queue->record(event);
  EXPECT_EQ(waited(*event), ACL_SUCCESS);
}

// As programs reach it: one thread destroys the stream that another one's call uses.
TEST(CudaStreams, MayBeDestroyedWhileACallUsesThem) {
  for (int round = 0; round < 50; ++round) {
    ASSERT_EQ(aclrtSetDevice(1), ACL_SUCCESS);
    aclrtStream stream = new_stream();
    std::vector<char> bytes(4096);
    std::thread user([&] {
      aclrtSetDevice(1);
      while (aclrtMemsetAsync(bytes.data(), bytes.size(), 1, bytes.size(), stream) == ACL_SUCCESS) {
      }
      aclrtResetDevice(1);
    });
    std::this_thread::sleep_for(std::chrono::microseconds(50 * round));
    EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
    user.join();
    aclrtResetDevice(1);
  }
}

}  // namespace
}  // namespace aclgrad
