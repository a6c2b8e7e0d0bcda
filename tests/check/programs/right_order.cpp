// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Work of streams and of the host that is in order.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "aclnnop/aclnn_nsa_compress_grad.h"
#include "program.h"

PROGRAM(right_two_streams) {
  BiasGrad gradient;
  std::vector<float> result(kOutputs);
  Stream copies = new_stream();
  Event computed = new_event(), copied = new_event();
  gradient.plan();
  must(aclSetAclOpExecutorRepeatable(gradient.executor));
  for (int step = 0; step < 20; ++step) {
    gradient.queue(stream);
    must(aclrtRecordEvent(computed, stream));
    must(aclrtStreamWaitEvent(copies, computed));
    must(aclrtMemcpyAsync(result.data(), kOutputBytes, gradient.output, kOutputBytes,
                          ACL_MEMCPY_DEVICE_TO_HOST, copies));
    must(aclrtRecordEvent(copied, copies));
    must(aclrtStreamWaitEvent(stream, copied));
  }
  must(aclrtSynchronizeEvent(copied));
  must(aclrtSynchronizeStream(stream));
  must(aclDestroyAclOpExecutor(gradient.executor));
  require(result[0] == kRows);
}

PROGRAM(right_threads) {
  // Each thread has a stream of its own; one hands its result to the other by ending.
  BiasGrad gradient;
  std::vector<float> result(kOutputs);
  std::thread([&] {
    must(aclrtSetDevice(0));
    {
      Stream own = new_stream();
      gradient.run(own);
      must(aclrtSynchronizeStream(own));
    }
    must(aclrtResetDevice(0));
  }).join();
  must(aclrtMemcpyAsync(result.data(), kOutputBytes, gradient.output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST,
                        stream));
  must(aclrtSynchronizeStream(stream));
  require(result[0] == kRows);
}

PROGRAM(right_interleaved_views) {
  // Two streams write the even and the odd columns of one matrix.
  Stream second = new_stream();
  Memory input = device_ones(kInputBytes), output = device_memory(2 * kOutputBytes);
  const int64_t shape[] = {kGroups, kColumns};
  const int64_t strides[] = {2 * kColumns, 2};
  const int64_t storage[] = {kGroups, 2 * kColumns};
  BiasGrad even(input, output), odd(input, output);
  for (auto* gradient : {&even, &odd}) {
    const int64_t offset = gradient == &odd;
    must(aclInitTensor(gradient->out, shape, 2, ACL_FLOAT, strides, offset, ACL_FORMAT_ND, storage, 2,
                       output));
  }
  even.run(stream);
  odd.run(second);
  must(aclrtSynchronizeDevice());
}

PROGRAM(right_dropped_work) {
  // What was dropped is written anew, or given up.
  aclrtStream dropped = new_stream().release();
  Memory memory = device_ones(kInputBytes), given_up = device_memory(kInputBytes);
  std::vector<float> result(kInputs);
  must(aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, dropped));
  must(aclrtMemsetAsync(given_up, kInputBytes, 0, kInputBytes, dropped));
  must(aclrtDestroyStreamForce(dropped));
  must(aclrtMemset(memory, kInputBytes, 0, kInputBytes));
  must(aclrtMemcpy(result.data(), kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
}

PROGRAM(right_dropped_wait) {
  // A stream that waits for another one is destroyed by force. The other one's work is not over then.
  Memory memory = device_ones(kInputBytes);
  std::vector<float> result(kInputs);
  aclrtStream dropped = new_stream().release();
  Event copied = new_event();
  Held held(stream);
  must(aclrtMemcpyAsync(result.data(), kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  must(aclrtRecordEvent(copied, stream));
  must(aclrtStreamWaitEvent(dropped, copied));
  must(aclrtDestroyStreamForce(dropped));
  held.let_go();
  must(aclrtSynchronizeStream(stream));
  require(result[0] == 1.0f);
}

PROGRAM(right_dropped_read) {
  // A copy from memory that is not written yet is dropped before its turn comes.
  Memory from = device_memory(kInputBytes), to = device_memory(kInputBytes);
  aclrtStream dropped = new_stream().release();
  Held held(dropped);
  must(aclrtMemcpyAsync(to, kInputBytes, from, kInputBytes, ACL_MEMCPY_DEVICE_TO_DEVICE, dropped));
  must(aclrtDestroyStreamForce(dropped));
  held.let_go();
}

PROGRAM(right_streams_of_threads) {
  // A thread synchronises with all streams, some of which other threads destroy at that time.
  std::atomic<bool> stop{false};
  const auto make_streams = [&] {
    must(aclrtSetDevice(0));
    while (!stop) {
      std::vector<Stream> streams;
      for (int i = 0; i < 8; ++i) streams.push_back(new_stream());
    }
    must(aclrtResetDevice(0));
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(make_streams);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (std::chrono::steady_clock::now() < end) must(aclrtSynchronizeDevice());
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

// An operator that fails when its turn comes.
struct Failure {
  static constexpr int64_t kTokens = 16;
  static constexpr size_t kBytes = kTokens * 16 * sizeof(uint16_t);

  Failure() {
    for (Memory& each : memory) each = device_copy(zeros);
  }
  void run(aclrtStream stream) {
    Tensor output_grad = tensor(memory[0], {1, 1, 16}, ACL_FLOAT16);
    Tensor input = tensor(memory[1], {kTokens, 1, 16}, ACL_FLOAT16);
    Tensor weight = tensor(memory[2], {16, 1}, ACL_FLOAT16);
    Tensor input_grad = tensor(memory[3], {kTokens, 1, 16}, ACL_FLOAT16);
    Tensor weight_grad = tensor(memory[4], {16, 1}, ACL_FLOAT16);
    Tensor ends = tensor(wrong_end, {1}, ACL_INT64);
    gradient.plan(output_grad, input, weight, ends, 16, 16, 0, nullptr, input_grad, weight_grad);
    gradient.queue(stream);
  }

  const std::vector<uint16_t> zeros = std::vector<uint16_t>(kTokens * 16);
  Memory memory[5];
  Memory wrong_end = device_copy<int64_t>({kTokens + 1});
  Operator<aclnnNsaCompressGradTensorGetWorkspaceSize, aclnnNsaCompressGrad> gradient;
};

PROGRAM(right_refused_work) {
  // A stream that stops on failure refuses work, which another stream does then.
  aclrtContext others = current_context();
  aclrtContext context = nullptr;
  must(aclrtCreateContext(&context, 0));
  Stream stopped = new_stream();
  must(aclrtSetStreamFailureMode(stopped, ACL_STOP_ON_FAILURE));
  {
    Failure failure;
    failure.run(stopped);
    const size_t bytes = Failure::kBytes;
    require(aclrtSynchronizeStream(stopped) != ACL_SUCCESS);
    require(aclrtMemsetAsync(failure.memory[3], bytes, 0, bytes, stopped) != ACL_SUCCESS);
    std::vector<uint16_t> source = failure.zeros;
    require(aclrtMemcpyAsync(failure.memory[3], bytes, source.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE,
                             stopped) != ACL_SUCCESS);
    source.assign(source.size(), 1);  // no copy reads it
    std::printf("%s\n", aclGetRecentErrMsg());
    must(aclrtSetCurrentContext(others));
    must(aclrtMemsetAsync(failure.memory[3], bytes, 0, bytes, stream));
    must(aclrtSynchronizeStream(stream));
  }
  must(aclrtSetCurrentContext(context));
  must(aclrtDestroyStream(stopped.release()));
  must(aclrtDestroyContext(context));
  must(aclrtSetCurrentContext(others));
}

PROGRAM(right_polling) {
  Event done = new_event();
  Memory memory = device_memory(kInputBytes);
  std::vector<float> source(kInputs, 1.0f);
  for (int step = 0; step < 3; ++step) {
    source.assign(source.size(), static_cast<float>(step));
    must(
        aclrtMemcpyAsync(memory, kInputBytes, source.data(), kInputBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    must(aclrtRecordEvent(done, stream));
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    while (status != ACL_EVENT_RECORDED_STATUS_COMPLETE) must(aclrtQueryEventStatus(done, &status));
  }
}

PROGRAM(right_event_questions) {
  // The host knows from an event's elapsed time, and from the end of the waits for it, that its work is over.
  Stream second = new_stream();
  Event begin = new_event(), end = new_event();
  Memory memory = device_memory(kInputBytes), waiting = device_memory(kInputBytes);
  must(aclrtRecordEvent(begin, stream));
  must(aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, stream));
  must(aclrtRecordEvent(end, stream));
  float milliseconds = 0;
  while (aclrtEventElapsedTime(&milliseconds, begin, end) != ACL_SUCCESS) std::this_thread::yield();
  must(aclrtMemset(memory, kInputBytes, 1, kInputBytes));

  must(aclrtMemsetAsync(memory, kInputBytes, 2, kInputBytes, stream));
  must(aclrtRecordEvent(end, stream));
  must(aclrtMemsetAsync(waiting, kInputBytes, 2, kInputBytes, second));
  must(aclrtStreamWaitEvent(second, end));
  aclrtEventWaitStatus status = ACL_EVENT_WAIT_STATUS_NOT_READY;
  while (status != ACL_EVENT_WAIT_STATUS_COMPLETE) must(aclrtQueryEventWaitStatus(end, &status));
  must(aclrtMemset(memory, kInputBytes, 3, kInputBytes));
  must(aclrtMemset(waiting, kInputBytes, 3, kInputBytes));
}

PROGRAM(right_failure_before_wait) {
  // Work has failed, and the stream waits for an event that another thread is yet to record. What follows is done all
  // the same.
  Failure failure;
  Event ready = new_event();
  std::vector<uint16_t> result(failure.zeros.size(), 1);
  failure.run(stream);
  must(aclrtStreamWaitEvent(stream, ready));
  must(aclrtMemcpyAsync(result.data(), Failure::kBytes, failure.memory[0], Failure::kBytes,
                        ACL_MEMCPY_DEVICE_TO_HOST, stream));
  aclrtContext context = current_context();
  std::thread recorder([&] {
    must(aclrtSetCurrentContext(context));
    Stream own = new_stream();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    must(aclrtRecordEvent(ready, own));
    must(aclrtSynchronizeStream(own));
  });
  require(aclrtSynchronizeStream(stream) != ACL_SUCCESS);
  std::printf("%s\n", aclGetRecentErrMsg());
  recorder.join();
  require(result == failure.zeros);
}

// ---- Events that are waited for before they are recorded ----

PROGRAM(right_wait_before_record) {
  Stream second = new_stream();
  Event done = new_event();
  Memory memory = device_memory(kInputBytes);
  must(aclrtStreamWaitEvent(second, done));
  must(aclrtMemsetAsync(memory, kInputBytes, 1, kInputBytes, second));
  must(aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, stream));
  must(aclrtRecordEvent(done, stream));
  must(aclrtSynchronizeStream(second));
}

PROGRAM(right_blocking_call_before_record) {
  // What waits for an event comes after all that the host does before it records the event.
  Stream second = new_stream();
  Event ready = new_event();
  Memory memory = device_memory(kInputBytes);
  must(aclrtStreamWaitEvent(second, ready));
  must(aclrtMemsetAsync(memory, kInputBytes, 1, kInputBytes, second));
  must(aclrtMemset(memory, kInputBytes, 0, kInputBytes));
  must(aclrtRecordEvent(ready, stream));
  must(aclrtSynchronizeStream(second));
}

PROGRAM(right_producer_queued_later) {
  // A copy is queued behind a wait, and what it reads is only then queued to be written.
  Stream second = new_stream();
  Event written = new_event();
  Memory memory = device_memory(kInputBytes), copied = device_memory(kInputBytes);
  std::vector<float> result(kInputs, 1.0f);
  must(aclrtStreamWaitEvent(second, written));
  must(aclrtMemcpyAsync(copied, kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_DEVICE, second));
  must(aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, stream));
  must(aclrtRecordEvent(written, stream));
  must(aclrtSynchronizeStream(second));
  must(aclrtMemcpy(result.data(), kInputBytes, copied, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  require(result[0] == 0);
}

PROGRAM(right_record_behind_wait) {
  // An event is recorded behind a wait for another one, which is recorded last: it orders all the same.
  Stream second = new_stream(), third = new_stream();
  Event first_done = new_event(), second_done = new_event();
  Memory memory = device_memory(kInputBytes);
  must(aclrtStreamWaitEvent(second, first_done));
  must(aclrtRecordEvent(second_done, second));
  must(aclrtStreamWaitEvent(third, second_done));
  must(aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, stream));
  must(aclrtRecordEvent(first_done, stream));
  must(aclrtMemsetAsync(memory, kInputBytes, 1, kInputBytes, third));
  must(aclrtSynchronizeStream(third));

  // The same for the host, which waits for the second event.
  must(aclrtResetEvent(first_done, stream));
  must(aclrtStreamWaitEvent(second, first_done));
  must(aclrtRecordEvent(second_done, second));
  must(aclrtMemsetAsync(memory, kInputBytes, 2, kInputBytes, stream));
  must(aclrtRecordEvent(first_done, stream));
  must(aclrtSynchronizeEvent(second_done));
  must(aclrtMemset(memory, kInputBytes, 3, kInputBytes));
}

PROGRAM(right_record_in_thread) {
  // The host synchronises with a stream while another thread records the event that the stream waits for.
  Stream second = new_stream();
  Event done = new_event();
  Memory memory = device_memory(kInputBytes);
  aclrtContext context = current_context();
  must(aclrtStreamWaitEvent(second, done));
  must(aclrtMemsetAsync(memory, kInputBytes, 1, kInputBytes, second));
  std::thread recorder([&] {
    must(aclrtSetCurrentContext(context));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    must(aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, stream));
    must(aclrtRecordEvent(done, stream));
  });
  must(aclrtSynchronizeStream(second));
  must(aclrtMemset(memory, kInputBytes, 2, kInputBytes));
  recorder.join();
}

PROGRAM(right_host_memory_behind_wait) {
  // Copies behind a wait cannot begin before the event is recorded: until then their memory is the program's.
  Stream second = new_stream();
  Event ready = new_event();
  Memory memory = device_memory(kInputBytes);
  PinnedMemory pinned = pinned_memory(kInputBytes);
  std::vector<float> sent(kInputs, 1.0f), received(kInputs, 2.0f);
  must(aclrtStreamWaitEvent(second, ready));
  must(aclrtMemcpyAsync(memory, kInputBytes, sent.data(), kInputBytes, ACL_MEMCPY_HOST_TO_DEVICE, second));
  must(
      aclrtMemcpyAsync(received.data(), kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST, second));
  must(aclrtMemcpyAsync(pinned, kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST, second));
  std::fill(sent.begin(), sent.end(), 3.0f);
  std::fill(received.begin(), received.end(), 4.0f);
  std::fill_n(pinned.as<float>(), kInputs, 5.0f);
  must(aclrtRecordEvent(ready, stream));
  must(aclrtSynchronizeStream(second));
  require(received == sent && std::equal(sent.begin(), sent.end(), pinned.as<float>()));
}

// ---- Callbacks ----

PROGRAM(right_callback_behind_wait) {
  // A callback behind a wait for an event that is recorded after the callback was launched.
  Stream second = new_stream();
  Event done = new_event();
  Memory memory = device_memory(kInputBytes);
  const auto fill = [](void* data) { must(aclrtMemset(data, kInputBytes, 1, kInputBytes)); };
  must(aclrtSubscribeReport(pthread_self(), second));
  must(aclrtStreamWaitEvent(second, done));
  must(aclrtLaunchCallback(fill, memory, ACL_CALLBACK_BLOCK, second));
  must(aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, stream));
  must(aclrtRecordEvent(done, stream));
  must(aclrtProcessReport(-1));
  must(aclrtSynchronizeStream(second));
  must(aclrtUnSubscribeReport(pthread_self(), second));
}

PROGRAM(right_callback_before_copies) {
  // A callback fills what the work behind it reads, and uses the memory that the copies behind it write.
  struct Work {
    Stream other = new_stream();
    std::vector<float> sent = std::vector<float>(kInputs, 1.0f), received = sent;
    PinnedMemory pinned = pinned_memory(kInputBytes);
    Memory memory = device_memory(kInputBytes), filled = device_memory(kInputBytes);
  } work;
  const auto fill = [](void* data) {
    Work& its = *static_cast<Work*>(data);
    std::fill(its.sent.begin(), its.sent.end(), 2.0f);
    std::fill(its.received.begin(), its.received.end(), 3.0f);
    std::fill_n(its.pinned.as<float>(), kInputs, 3.0f);
    must(aclrtMemcpy(its.filled, kInputBytes, its.sent.data(), kInputBytes, ACL_MEMCPY_HOST_TO_DEVICE));
    must(aclrtMemsetAsync(its.memory, kInputBytes, 0, kInputBytes, its.other));
    must(aclrtSynchronizeStream(its.other));
  };
  Stream second = new_stream();
  Event returned = new_event();
  Memory copied = device_memory(kInputBytes);
  must(aclrtSubscribeReport(pthread_self(), stream));
  must(aclrtLaunchCallback(fill, &work, ACL_CALLBACK_BLOCK, stream));
  must(aclrtRecordEvent(returned, stream));
  must(aclrtStreamWaitEvent(second, returned));
  must(aclrtMemcpyAsync(copied, kInputBytes, work.filled, kInputBytes, ACL_MEMCPY_DEVICE_TO_DEVICE, second));
  must(aclrtMemcpyAsync(work.memory, kInputBytes, work.sent.data(), kInputBytes, ACL_MEMCPY_HOST_TO_DEVICE,
                        stream));
  for (void* to : {static_cast<void*>(work.received.data()), static_cast<void*>(work.pinned)}) {
    must(aclrtMemcpyAsync(to, kInputBytes, work.memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  }
  must(aclrtProcessReport(-1));
  must(aclrtSynchronizeDevice());
  require(work.received == work.sent);
  require(std::equal(work.sent.begin(), work.sent.end(), work.pinned.as<float>()));
  std::vector<float> result(kInputs);
  must(aclrtMemcpy(result.data(), kInputBytes, copied, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  require(result == work.sent);
  must(aclrtUnSubscribeReport(pthread_self(), stream));
}

PROGRAM(right_callback_records) {
  // The host waits for a stream until a callback of another stream, in a thread of its own, records the event.
  struct Recording {
    Event event = new_event();
    Stream stream = new_stream();
  } recording;
  const auto record_late = [](void* data) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    const Recording& late = *static_cast<Recording*>(data);
    must(aclrtRecordEvent(late.event, late.stream));
  };
  Stream second = new_stream();
  aclrtContext context = current_context();
  std::thread server([&] {
    must(aclrtSetCurrentContext(context));
    while (aclrtProcessReport(-1) != ACL_SUCCESS) std::this_thread::yield();
  });
  const uint64_t server_thread = server.native_handle();
  must(aclrtSubscribeReport(server_thread, stream));
  must(aclrtStreamWaitEvent(second, recording.event));
  must(aclrtLaunchCallback(record_late, &recording, ACL_CALLBACK_NO_BLOCK, stream));
  must(aclrtSynchronizeStream(second));
  server.join();
  must(aclrtUnSubscribeReport(server_thread, stream));
}

PROGRAM(right_callbacks) {
  // Callbacks that wait for what does not wait for them, and a host that waits for callbacks in another thread.
  struct Work {
    aclrtStream own;
    Stream other = new_stream();
    Event before = new_event();
    Memory memory = device_memory(kInputBytes);
  } work{stream};
  const auto wait_for_others = [](void* data) {
    const Work& its = *static_cast<Work*>(data);
    must(aclrtSynchronizeEvent(its.before));
    must(aclrtMemsetAsync(its.memory, kInputBytes, 0, kInputBytes, its.other));
    must(aclrtSynchronizeStream(its.other));
    must(aclrtMemset(its.memory, kInputBytes, 1, kInputBytes));
    aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
    must(aclrtStreamQuery(its.own, &status));
    require(status == ACL_STREAM_STATUS_NOT_READY);
    require(aclrtSynchronizeStreamWithTimeout(its.own, 1) == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  };
  // Its stream does not wait for it.
  const auto wait_for_own = [](void* data) { must(aclrtSynchronizeStream(static_cast<Work*>(data)->own)); };
  aclrtContext context = current_context();
  must(aclrtMemsetAsync(work.memory, kInputBytes, 0, kInputBytes, stream));
  must(aclrtRecordEvent(work.before, stream));
  pthread_t server{};
  std::thread([&] {
    must(aclrtSetCurrentContext(context));
    server = pthread_self();
    must(aclrtSubscribeReport(server, stream));
    must(aclrtLaunchCallback(wait_for_others, &work, ACL_CALLBACK_BLOCK, stream));
    must(aclrtLaunchCallback(wait_for_own, &work, ACL_CALLBACK_NO_BLOCK, stream));
    must(aclrtProcessReport(-1));
    must(aclrtProcessReport(-1));
  }).join();
  must(aclrtSynchronizeStream(stream));
  must(aclrtUnSubscribeReport(server, stream));
}

// ---- Copies through the host ----

PROGRAM(right_through_the_host) {
  // From one memory on the device to another by way of the host, all in the order of one stream.
  constexpr size_t kBytes = size_t{8} << 20;  // too much to be done at once
  Memory from = device_ones(kBytes), to = device_memory(kBytes);
  std::vector<float> between(kBytes / sizeof(float)), result(kBytes / sizeof(float));
  must(aclrtMemcpyAsync(between.data(), kBytes, from, kBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  must(aclrtMemcpyAsync(to, kBytes, between.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  must(aclrtSynchronizeStream(stream));
  must(aclrtMemcpy(result.data(), kBytes, to, kBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  require(result.back() == 1.0f);
}

PROGRAM(right_through_pinned_memory) {
  // The same by way of pinned memory of the host, which an earlier copy reads.
  constexpr size_t kBytes = size_t{1} << 20;
  Memory from = device_ones(kBytes), to = device_memory(kBytes);
  PinnedMemory pinned = pinned_memory(kBytes);
  std::memset(pinned, 0, kBytes);
  std::vector<float> result(kBytes / sizeof(float));
  Held held(stream);
  must(aclrtMemcpyAsync(to, kBytes, pinned, kBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  must(aclrtMemcpyAsync(pinned, kBytes, from, kBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  must(aclrtMemcpyAsync(to, kBytes, pinned, kBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  held.let_go();
  must(aclrtSynchronizeStream(stream));
  must(aclrtMemcpy(result.data(), kBytes, to, kBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  require(pinned.as<float>()[result.size() - 1] == 1.0f && result.back() == 1.0f);
}

PROGRAM(right_round_trip) {
  // Up, changed and back down into the same memory of the host, in one go.
  constexpr size_t kBytes = size_t{1} << 20;
  Memory memory = device_memory(kBytes);
  std::vector<char> ordinary(kBytes, 1);
  PinnedMemory pinned = pinned_memory(kBytes);
  std::memset(pinned, 1, kBytes);
  for (char* host : {ordinary.data(), pinned.as<char>()}) {
    must(aclrtMemcpyAsync(memory, kBytes, host, kBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    must(aclrtMemsetAsync(memory, kBytes, 2, kBytes / 2, stream));
    must(aclrtMemcpyAsync(host, kBytes, memory, kBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    must(aclrtSynchronizeStream(stream));
    require(host[0] == 2 && host[kBytes - 1] == 1);
  }
}

PROGRAM(right_gathered_on_the_host) {
  // Two results meet in the host's memory, are overwritten in part there, and go back together: all in the order of
  // one stream.
  constexpr size_t kHalf = size_t{1} << 20;
  constexpr size_t kBytes = 2 * kHalf;
  Memory first = device_memory(kHalf), second = device_memory(kHalf), both = device_memory(kBytes);
  must(aclrtMemset(first, kHalf, 1, kHalf));
  must(aclrtMemset(second, kHalf, 2, kHalf));
  std::vector<char> host(kBytes), result(kBytes);
  must(aclrtMemcpyAsync(host.data(), kHalf, first, kHalf, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  must(aclrtMemcpyAsync(host.data() + kHalf, kHalf, second, kHalf, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  must(aclrtMemcpyAsync(host.data(), 8, second, 8, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  must(aclrtMemcpyAsync(both, kBytes, host.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  must(aclrtMemcpyAsync(result.data(), kBytes, both, kBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  must(aclrtSynchronizeStream(stream));
  for (const std::vector<char>& bytes : {host, result})
    require(bytes[0] == 2 && bytes[8] == 1 && bytes[kHalf] == 2 && bytes[kBytes - 1] == 2);
}

PROGRAM(right_pinned_halves) {
  // The host works in one half of a buffer while a copy goes to the other.
  constexpr size_t kHalf = 3000;  // bytes; the halves share a page
  Memory memory = device_ones(2 * kHalf);
  PinnedMemory buffer = pinned_memory(2 * kHalf);
  std::memset(buffer, 0, 2 * kHalf);
  for (int step = 0; step < 4; ++step) {
    char* arriving = buffer.as<char>() + (step % 2) * kHalf;
    char* arrived = buffer.as<char>() + (1 - step % 2) * kHalf;
    must(aclrtMemcpyAsync(arriving, kHalf, memory, kHalf, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    std::printf("%d\n", arrived[0] + arrived[kHalf - 1]);
    arrived[0] = 1;
    must(aclrtSynchronizeStream(stream));
  }
}

PROGRAM(right_neighbours) {
  // What lies beside the destination of a queued copy is used while the copy is under way.
  struct Record {
    float before;
    float result[kOutputs];
    float behind;
  } record{1, {}, 2};
  Memory memory = device_ones(kOutputBytes);
  must(
      aclrtMemcpyAsync(record.result, kOutputBytes, memory, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  std::printf("%g\n", record.before + record.behind);
  record.behind = 3;
  must(aclrtSynchronizeStream(stream));
  require(record.result[0] == 1);
}
