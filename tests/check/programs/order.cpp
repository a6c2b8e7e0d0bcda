// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Mistakes in the order of queued work, of copies, and of what the host does.
#include <pthread.h>

#include "program.h"

PROGRAM(read_before_synchronize,
        "read-before-synchronize: aclrtMemcpy.src (..., 64 bytes) reads memory that "
        "aclnnGroupedBiasAddGrad.out (..., 64 bytes), queued on stream ... at ... writes, and nothing has "
        "synchronised since. Called at ...") {
  BiasGrad gradient;
  std::vector<float> result(kOutputs);
  gradient.run(stream);
  // aclrtSynchronizeStream is missing here.
  must(aclrtMemcpy(result.data(), kOutputBytes, gradient.output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(pinned_result_read_early,
        "read-before-synchronize: the host reads ... through a pointer, which aclrtMemcpyAsync.dst (..., "
        "256 bytes), queued on stream ... at ... writes, and nothing has synchronised since. At ...") {
  Memory memory = device_ones(kInputBytes);
  PinnedMemory result = pinned_memory(kInputBytes);
  must(aclrtMemcpyAsync(result, kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  std::printf("%g\n", *result.as<float>());  // before the stream is synchronised
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(overwrite_while_queued,
        "overwrite-while-queued: aclrtMemset.devPtr (..., 256 bytes) writes memory that "
        "aclnnGroupedBiasAddGrad.gradY (..., 256 bytes), queued on stream ... at ... reads, and nothing "
        "has synchronised since. Called at ...") {
  BiasGrad gradient;
  gradient.run(stream);
  must(aclrtMemset(gradient.input, kInputBytes, 0, kInputBytes));  // for the next step, but too early
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(wait_status_without_wait,
        "overwrite-while-queued: aclrtMemset.devPtr (..., 256 bytes) writes memory that "
        "aclrtMemsetAsync.devPtr (..., 256 bytes), queued on stream ... at ... writes, and nothing has "
        "synchronised since. Called at ...") {
  Event end = new_event();
  Memory memory = device_memory(kInputBytes);
  must(aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, stream));
  must(aclrtRecordEvent(end, stream));
  aclrtEventWaitStatus status = ACL_EVENT_WAIT_STATUS_NOT_READY;
  // No stream waits for the event, and so all waits for it are over, whether it was reached or not.
  while (status != ACL_EVENT_WAIT_STATUS_COMPLETE) must(aclrtQueryEventWaitStatus(end, &status));
  must(aclrtMemset(memory, kInputBytes, 1, kInputBytes));
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(free_while_queued,
        "free-while-queued: aclrtFree frees ... (256 bytes), which aclnnGroupedBiasAddGrad.gradY (..., "
        "256 bytes), queued on stream ... at ... reads, and nothing has synchronised since. Called at ...") {
  BiasGrad gradient;
  gradient.run(stream);
  must(aclrtFree(gradient.input.release()));  // the operator may not have read it yet
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(workspace_freed,
        "free-while-queued: aclrtFree frees ... (... bytes), which aclnnGroupedBiasAddGrad.workspace "
        "(..., ... bytes), queued on stream ... at ... writes, and nothing has synchronised since. Called "
        "at ...") {
  constexpr int64_t kManyRows = 100000;
  Memory input = device_ones(kManyRows * sizeof(float));
  Memory output = device_memory(sizeof(float));
  Tensor grad_y = tensor(input, {1, kManyRows, 1});
  Tensor out = tensor(output, {1, 1});
  Operator<aclnnGroupedBiasAddGradGetWorkspaceSize, aclnnGroupedBiasAddGrad> gradient;
  gradient.plan(grad_y, nullptr, out);
  gradient.queue(stream);
  must(aclrtFree(gradient.workspace.release()));  // the operator may still compute in it
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(host_memory_freed_while_queued,
        "free-while-queued: aclrtFreeHost frees ... (256 bytes), which aclrtMemcpyAsync.dst (..., 256 "
        "bytes), queued on stream ... at ... writes, and nothing has synchronised since. Called at ...") {
  Memory memory = device_ones(kInputBytes);
  PinnedMemory host = pinned_memory(kInputBytes);
  must(aclrtMemcpyAsync(host, kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  must(aclrtFreeHost(host.release()));
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(source_changed,
        "source-changed: aclrtMemcpyAsync.src (..., 256 bytes) was overwritten or freed on the host "
        "before the stream was synchronised. Queued at ..., noticed at ...") {
  Memory memory = device_memory(kInputBytes);
  std::vector<float> source(kInputs, 1.0f);
  must(aclrtMemcpyAsync(memory, kInputBytes, source.data(), kInputBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  source.assign(source.size(), 2.0f);  // the copy may still be reading it
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(source_freed,
        "source-changed: aclrtMemcpyAsync.src (..., 8388608 bytes) was overwritten or freed on the host "
        "before the stream was synchronised. Queued at ..., noticed at ...") {
  constexpr size_t kBytes = size_t{8} << 20;  // large enough to be unmapped at once
  Memory memory = device_memory(kBytes);
  {
    const std::vector<float> source(kBytes / sizeof(float), 1.0f);
    must(aclrtMemcpyAsync(memory, kBytes, source.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  }  // the source is gone, the copy may not have begun
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(destination_changed,
        "destination-changed: aclrtMemcpyAsync.dst (..., 256 bytes) was overwritten or freed on the host "
        "before the stream was synchronised. Queued at ..., noticed at ...") {
  Memory memory = device_ones(kInputBytes);
  std::vector<float> result(kInputs);
  must(aclrtMemcpyAsync(result.data(), kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  for (float& value : result) value -= 1;  // the copy may not be done, or come after this
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(destination_gone,
        "destination-changed: aclrtMemcpyAsync.dst (..., 256 bytes) was overwritten or freed on the host "
        "before the stream was synchronised. Queued at ..., noticed at ...") {
  Memory memory = device_ones(kInputBytes);
  {
    std::vector<float> result(kInputs);
    must(
        aclrtMemcpyAsync(result.data(), kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  }  // the copy may come after the vector is gone
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(unsynchronized_copy,
        "unsynchronized-copy: aclrtMemcpyAsync.dst (..., 256 bytes), queued on stream ... at ... copies "
        "to the host, and nothing synchronised with it before its stream ended") {
  Memory memory = device_ones(kInputBytes);
  std::vector<float> result(kInputs);
  Stream copies = new_stream();
  must(aclrtMemcpyAsync(result.data(), kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST, copies));
  std::printf("%g\n", result[0]);  // nothing has waited for the copy
}

PROGRAM(dropped_work,
        "dropped-work: aclrtMemcpy.src (..., 64 bytes) reads memory that aclnnGroupedBiasAddGrad.out "
        "(..., 64 bytes), queued on stream ... at ... was to write, but its stream was destroyed by force "
        "before anything synchronised with it. Called at ...") {
  BiasGrad gradient;
  std::vector<float> result(kOutputs);
  Stream dropped = new_stream();
  gradient.run(dropped);
  must(aclrtDestroyStreamForce(dropped.release()));  // drops what has not started
  must(aclrtMemcpy(result.data(), kOutputBytes, gradient.output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
}

PROGRAM(race,
        "race: aclrtMemcpyAsync.src (..., 64 bytes) on stream ... reads memory that "
        "aclnnGroupedBiasAddGrad.out (..., 64 bytes), queued on stream ... at ... writes, and no event "
        "orders the two. Called at ...") {
  BiasGrad gradient;
  std::vector<float> result(kOutputs);
  Stream copies = new_stream();
  gradient.run(stream);
  // An event, recorded in one stream and waited for in the other, is missing here.
  must(aclrtMemcpyAsync(result.data(), kOutputBytes, gradient.output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST,
                        copies));
  must(aclrtSynchronizeStream(copies));
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(event_recorded_too_early,
        "race: aclrtMemcpyAsync.src (..., 64 bytes) on stream ... reads memory that "
        "aclnnGroupedBiasAddGrad.out (..., 64 bytes), queued on stream ... at ... writes, and no event "
        "orders the two. Called at ...") {
  BiasGrad gradient;
  std::vector<float> result(kOutputs);
  Stream copies = new_stream();
  Event done = new_event();
  gradient.plan();
  must(aclrtRecordEvent(done, stream));  // before the operator, and so no mark of its end
  gradient.queue(stream);
  must(aclrtStreamWaitEvent(copies, done));
  must(aclrtMemcpyAsync(result.data(), kOutputBytes, gradient.output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST,
                        copies));
  must(aclrtSynchronizeStream(copies));
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(race_behind_wait,
        "race: aclrtMemsetAsync.devPtr (..., 256 bytes) on stream ... writes memory that "
        "aclrtMemsetAsync.devPtr (..., 256 bytes), queued on stream ... at ... writes, and no event "
        "orders the two. Called at ...") {
  Stream second = new_stream(), third = new_stream();
  Event done = new_event();
  Memory memory = device_memory(kInputBytes);
  must(aclrtStreamWaitEvent(second, done));
  must(aclrtMemsetAsync(memory, kInputBytes, 1, kInputBytes, second));
  must(aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, stream));
  must(aclrtRecordEvent(done, third));  // not the stream that fills the memory first
  must(aclrtSynchronizeStream(second));
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(race_with_whole_rows,
        "race: aclrtMemsetAsync.devPtr (..., 1 bytes) on stream ... writes memory that "
        "aclrtMemcpy2dAsync.dst (..., 256 bytes), queued on stream ... at ... writes, and no event orders "
        "the two. Called at ...") {
  // The stream copies all bytes, then the first and the last one alone, which span the same memory.
  Stream second = new_stream();
  Memory memory = device_memory(kInputBytes);
  Memory source = device_ones(kInputBytes);
  const size_t last = kInputBytes - 1;
  must(aclrtMemcpy2dAsync(memory, kInputBytes, source, kInputBytes, kInputBytes, 1,
                          ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
  must(aclrtMemcpy2dAsync(memory, last, source, last, 1, 2, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
  must(aclrtMemsetAsync(memory.as<std::byte>() + 1, 1, 0, 1, second));
  must(aclrtSynchronizeStream(second));
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(event_unrecorded,
        "event-unrecorded: the host waits for stream ..., which waits for an event that was never "
        "recorded. Called at ...") {
  Event done = new_event();
  Stream second = new_stream();
  must(aclrtStreamWaitEvent(second, done));  // aclrtRecordEvent is missing
  aclrtSynchronizeStream(second);            // would hang; the checker lets it fail
}

PROGRAM(callback_waits,
        "callback-waits: a callback waits for work that comes after it: stream ..., on which it was "
        "queued at ..., waits until it has returned. Called at ...") {
  const auto wait = [](void* own_stream) {
    aclrtSynchronizeStream(own_stream);  // would hang: the stream waits for this function
  };
  must(aclrtSubscribeReport(pthread_self(), stream));
  must(aclrtLaunchCallback(wait, stream, ACL_CALLBACK_BLOCK, stream));
  must(aclrtProcessReport(-1));
  must(aclrtUnSubscribeReport(pthread_self(), stream));
}

// Once for each wait of a callback.
constexpr const char* kCallbackWaits =
    "callback-waits: a callback waits for work that comes after it: stream ..., on which it was queued at "
    "..., waits until it has returned. Called at ...";

PROGRAM(callback_waits_through_event, kCallbackWaits, kCallbackWaits, kCallbackWaits, kCallbackWaits) {
  // What the callback waits for comes after it in its stream, or in another stream that waits for that.
  struct Waits {
    Event behind = new_event();
    Stream other = new_stream();
  } waits;
  const auto wait = [](void* data) {
    const Waits& awaited = *static_cast<Waits*>(data);
    aclrtSynchronizeEvent(awaited.behind);
    aclrtSynchronizeStream(awaited.other);
    aclrtSynchronizeDevice();  // has two such streams
  };
  must(aclrtSubscribeReport(pthread_self(), stream));
  must(aclrtLaunchCallback(wait, &waits, ACL_CALLBACK_BLOCK, stream));
  must(aclrtRecordEvent(waits.behind, stream));
  must(aclrtStreamWaitEvent(waits.other, waits.behind));
  must(aclrtProcessReport(-1));
  must(aclrtUnSubscribeReport(pthread_self(), stream));
}
