// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Mistakes with executors and other handles, and calls whose failure the program ignores.
#include <thread>

#include "program.h"

PROGRAM(executor_reused,
        "executor-reused: aclnnGroupedBiasAddGrad got aclOpExecutor ..., which was destroyed at ..., made "
        "at .... Phase 2 uses up an executor that is not repeatable. Called at ...") {
  BiasGrad gradient;
  gradient.run(stream);
  must(aclrtSynchronizeStream(stream));
  // Phase 2 has freed the executor: it was not made repeatable.
  aclnnGroupedBiasAddGrad(gradient.workspace, gradient.workspace_size, gradient.executor, stream);
}

PROGRAM(executor_missing,
        "executor-missing: aclnnGroupedBiasAddGrad got aclOpExecutor ... after the failure of "
        "aclnnGroupedBiasAddGradGetWorkspaceSize: aclnnGroupedBiasAddGrad.out: expected shape [2, 8], got "
        "[2, 7]. Called at ...") {
  Memory input = device_ones(kInputBytes), output = device_memory(kOutputBytes);
  BiasGrad gradient(input, output, {kGroups, kColumns - 1});  // a wrong shape
  gradient.try_plan();                                        // fails
  aclnnGroupedBiasAddGrad(nullptr, gradient.workspace_size, gradient.executor, stream);
}

WHOLE_PROGRAM(executor_after_reset,
              "executor-after-reset: aclnnGroupedBiasAddGrad got aclOpExecutor ..., made at ..., but "
              "device 0, for which it was made, was reset at .... Called at ...") {
  Device device;
  BiasGrad gradient;
  gradient.plan();
  must(aclrtResetDevice(0));  // between the phases
  must(aclrtSetDevice(0));
  Stream stream = new_stream();
  gradient.queue(stream);
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(executor_mismatch,
        "executor-mismatch: aclnnGroupedBiasAddGradV2 got an aclOpExecutor of "
        "aclnnGroupedBiasAddGradGetWorkspaceSize. Called at ...") {
  BiasGrad gradient;
  gradient.plan();
  aclnnGroupedBiasAddGradV2(gradient.workspace, gradient.workspace_size, gradient.executor, stream);
  gradient.queue(stream);  // its own operator can still run it
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(executor_unused, "executor-unused: aclOpExecutor ... was never given to phase 2. Made at ...") {
  BiasGrad gradient;
  gradient.plan();  // phase 2 does not follow
}

PROGRAM(tensor_destroyed,
        "tensor-destroyed: aclnnGroupedBiasAddGrad.gradY: aclTensor ... was destroyed between the phases. "
        "Called at ...") {
  BiasGrad gradient;
  gradient.plan();
  must(aclDestroyTensor(gradient.grad_y.release()));  // tensors must live until phase 2 has returned
  gradient.queue(stream);
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(foreign_stream,
        "foreign-stream: aclrtMemsetAsync got aclrtStream ..., which does not belong to aclrtContext ..., "
        "which is current. Called at ...") {
  Memory memory = device_memory(kInputBytes);
  aclrtContext first = current_context();
  aclrtContext second = nullptr;
  must(aclrtCreateContext(&second, 0));  // and makes it current
  aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, stream);
  must(aclrtDestroyContext(second));
  must(aclrtSetCurrentContext(first));
}

PROGRAM(dead_handle,
        "dead-handle: aclDestroyTensor got aclTensor ..., which was destroyed at ..., made at .... Called "
        "at ...") {
  aclTensor* handle = tensor(nullptr, {kGroups}).release();
  must(aclDestroyTensor(handle));
  aclDestroyTensor(handle);
}

PROGRAM(destroyed_stream,
        "dead-handle: aclrtSynchronizeStream got aclrtStream ..., which was destroyed at ..., made at "
        ".... Called at ...") {
  aclrtStream second = new_stream().release();
  must(aclrtDestroyStream(second));
  aclrtSynchronizeStream(second);
}

WHOLE_PROGRAM(stream_after_device,
              "dead-handle: aclrtDestroyStream got aclrtStream ..., which was destroyed with its context "
              "or device at ..., made at .... Called at ...") {
  must(aclInit(nullptr));
  must(aclrtSetDevice(0));
  aclrtStream stream = new_stream().release();
  must(aclrtResetDevice(0));
  aclrtDestroyStream(stream);  // before the device is reset, not after
  must(aclFinalize());
}

PROGRAM(leaks, "leak: never freed: device memory ... of 64 bytes, allocated at ...",
        "leak: never freed: host memory of aclrtMallocHost ... of 256 bytes, allocated at ...",
        "leak: aclrtStream ... was never destroyed. Made at ...",
        "leak: aclrtEvent ... was never destroyed. Made at ...",
        "leak: aclrtContext ... was never destroyed. Made at ...",
        "leak: aclOpExecutor ... was never destroyed. Made at ...",
        "leak: aclIntArray ... was never destroyed. Made at ...",
        "leak: aclTensor ... was never destroyed. Made at ...") {
  BiasGrad gradient;
  gradient.plan();
  must(aclSetAclOpExecutorRepeatable(gradient.executor));  // the program must destroy it
  gradient.queue(stream);
  must(aclrtSynchronizeStream(stream));
  device_memory(kOutputBytes).release();
  pinned_memory(kInputBytes).release();
  tensor(nullptr, {kGroups}).release();
  const int64_t ends[] = {4, 8};
  aclCreateIntArray(ends, 2);
  new_stream().release();
  new_event().release();
  aclrtContext first = current_context();
  aclrtContext second = nullptr;
  must(aclrtCreateContext(&second, 0));
  must(aclrtSetCurrentContext(first));
}

WHOLE_PROGRAM(not_finalized, "leak: aclFinalize never followed the aclInit at ...") {
  must(aclInit(nullptr));
  must(aclrtSetDevice(0));
  must(aclrtResetDevice(0));
}

WHOLE_PROGRAM(not_initialized, "not-initialized: aclrtSetDevice before aclInit. Called at ...") {
  must(aclrtSetDevice(0));  // aclInit is missing
  device_ones(kInputBytes);
  must(aclrtResetDevice(0));
}

PROGRAM(ignored_status,
        "ignored-status: the program went on to success without asking why a call had failed with status "
        "107000: aclrtMemcpy.count: expected at most the destination's 255 bytes, got 256. Called at ...") {
  const std::vector<float> source(kInputs, 1.0f);
  Memory memory = device_memory(kInputBytes);
  // Does not fit.
  aclrtMemcpy(memory, kInputBytes - 1, source.data(), kInputBytes, ACL_MEMCPY_HOST_TO_DEVICE);
}

PROGRAM(refused_result_read,
        "ignored-status: aclrtMemcpy.src (..., 64 bytes) reads what aclnnGroupedBiasAddGrad.out was to "
        "be, which nothing has written since phase 1 failed and the program went on without asking why. "
        "It failed with status 161002: aclnnGroupedBiasAddGrad.out: expected shape [2, 8], got [2, 4, 2]. "
        "Called at ... Read at ...") {
  Memory input = device_ones(kInputBytes), output = device_ones(kOutputBytes);
  std::vector<float> result(kOutputs);
  BiasGrad gradient(input, output, {kGroups, kColumns / 2, 2});  // a wrong shape
  if (gradient.try_plan() == ACL_SUCCESS) gradient.queue(stream);
  must(aclrtSynchronizeStream(stream));
  must(aclrtMemcpy(result.data(), kOutputBytes, output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  std::printf("%g\n", result[0]);  // no gradient
}

PROGRAM(refused_result_unset,
        "ignored-status: aclrtMemcpyAsync.src (..., 64 bytes) reads what aclnnGroupedBiasAddGrad.out was "
        "to be, which nothing has written since phase 1 failed and the program went on without asking "
        "why. It failed with status 161002: aclnnGroupedBiasAddGrad.out: expected shape [2, 8], got [16, "
        "1000]. Called at ... Read at ...") {
  // Nothing else has written the memory either.
  Memory input = device_ones(kInputBytes), output = device_memory(kOutputBytes);
  std::vector<float> result(kOutputs);
  BiasGrad gradient(input, output, {kGroups * kColumns, 1000});
  if (gradient.try_plan() == ACL_SUCCESS) gradient.queue(stream);
  must(
      aclrtMemcpyAsync(result.data(), kOutputBytes, output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(failed_call,
        "failed-call: only a mistake of the program makes a call fail with status 107002: "
        "aclrtMemsetAsync: The calling thread has no context. Called at ...") {
  Memory memory = device_memory(kInputBytes);
  std::thread worker([&] {  // a thread of its own needs aclrtSetDevice or aclrtSetCurrentContext
    const aclError status = aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, stream);
    if (status != ACL_SUCCESS) std::printf("aclrtMemsetAsync failed: %d, %s\n", status, aclGetRecentErrMsg());
  });
  worker.join();
}

PROGRAM(gave_up,
        "failed-call: the program ended with status 2 after a call had failed with status 161002: "
        "aclnnGroupedBiasAddGrad.out: expected shape [2, 8], got [16]. Called at ...") {
  Memory input = device_ones(kInputBytes), output = device_memory(kOutputBytes);
  BiasGrad gradient(input, output, {kGroups * kColumns});
  if (gradient.try_plan() == ACL_SUCCESS) return;
  std::printf("phase 1 failed: %s\n", aclGetRecentErrMsg());
  std::exit(2);
}
