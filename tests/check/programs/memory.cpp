// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Mistakes with memory.
#include <pthread.h>

#include <cstring>

#include "program.h"

PROGRAM(host_pointer,
        "host-pointer: aclnnGroupedBiasAddGrad.gradY (..., 256 bytes) is not memory of aclrtMalloc. "
        "Called at ...") {
  std::vector<float> input(kInputs, 1.0f);  // never copied to the device
  Memory output = device_memory(kOutputBytes);
  BiasGrad gradient(input.data(), output);
  gradient.run(stream);
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(host_reads,
        "host-access: the host reads byte 4 of device memory ... of 64 bytes, allocated at ..., through a "
        "pointer. At ...") {
  BiasGrad gradient;
  gradient.run(stream);
  must(aclrtSynchronizeStream(stream));
  const float* result = gradient.output.as<float>();  // aclrtMemcpy to the host is missing
  std::printf("%g %g\n", result[1], result[2]);
}

PROGRAM(host_writes,
        "host-access: the host writes byte 0 of device memory ... of 256 bytes, allocated at ..., through "
        "a pointer. At ...") {
  const std::vector<float> ones(kInputs, 1.0f);
  Memory input = device_memory(kInputBytes), output = device_memory(kOutputBytes);
  std::memcpy(input, ones.data(), kInputBytes);  // aclrtMemcpy is meant
  BiasGrad gradient(input, output);
  gradient.run(stream);
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(device_pointer,
        "device-pointer: aclrtMemcpy.src (..., 256 bytes) is in device memory ... of 256 bytes, allocated "
        "at ..., but host memory is expected there. Called at ...") {
  Memory from = device_ones(kInputBytes), to = device_memory(kInputBytes);
  must(aclrtMemcpy(to, kInputBytes, from, kInputBytes, ACL_MEMCPY_HOST_TO_DEVICE));  // it is DEVICE_TO_DEVICE
}

PROGRAM(use_after_free,
        "use-after-free: aclrtMemcpy.src (..., 256 bytes) lies in device memory ... of 256 bytes, "
        "allocated at ..., freed at .... Called at ...") {
  std::vector<float> result(kInputs);
  void* memory = device_ones(kInputBytes).release();
  must(aclrtFree(memory));
  must(aclrtMemcpy(result.data(), kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
}

PROGRAM(freed_before_phase_2,
        "use-after-free: aclnnGroupedBiasAddGrad.gradY (..., 256 bytes) lies in device memory ... of 256 "
        "bytes, allocated at ..., freed at .... Called at ...",
        "use-after-free: aclnnGroupedBiasAddGrad.out (..., 64 bytes) lies in device memory ... of 64 "
        "bytes, allocated at ..., freed at .... Called at ...") {
  BiasGrad gradient;
  gradient.plan();
  must(aclrtFree(gradient.input.release()));
  must(aclrtFree(gradient.output.release()));
  gradient.queue(stream);  // uses what the tensors of phase 1 name
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(freed_memory_read_by_host,
        "use-after-free: the host reads byte 0 of host memory of aclrtMallocHost ... of 256 bytes, "
        "allocated at ..., freed at ..., through a pointer. At ...") {
  Memory memory = device_ones(kInputBytes);
  void* result = pinned_memory(kInputBytes).release();
  must(aclrtMemcpy(result, kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  must(aclrtFreeHost(result));
  std::printf("%g\n", static_cast<float*>(result)[0]);
}

PROGRAM(out_of_bounds,
        "out-of-bounds: aclnnGroupedBiasAddGrad.gradY (..., 256 bytes) uses bytes 0 to 255 of device "
        "memory ... of 64 bytes, allocated at .... Called at ...") {
  Memory input = device_ones(kInputs);  // elements where bytes are meant
  Memory output = device_memory(kOutputBytes);
  BiasGrad gradient(input, output);
  gradient.plan();
  aclnnGroupedBiasAddGrad(gradient.workspace, gradient.workspace_size, gradient.executor, stream);
}

PROGRAM(copy_out_of_bounds,
        "out-of-bounds: aclrtMemcpy.dst (..., 512 bytes) uses bytes 0 to 511 of device memory ... of 256 "
        "bytes, allocated at .... Called at ...") {
  const std::vector<float> source(2 * kInputs, 1.0f);
  Memory memory = device_memory(kInputBytes);
  // The room is what the caller claims; the allocation is smaller.
  aclrtMemcpy(memory, 2 * kInputBytes, source.data(), 2 * kInputBytes, ACL_MEMCPY_HOST_TO_DEVICE);
}

PROGRAM(refused_behind_copies,
        "out-of-bounds: aclrtMemcpyAsync.dst (..., 8388608 bytes) uses bytes 0 to 8388607 of device "
        "memory ... of 256 bytes, allocated at .... Called at ...") {
  // A copy that is refused leaves the ones before it as they were.
  constexpr size_t kBytes = size_t{8} << 20;  // so much that its memory is gone once it is freed
  Memory small = device_memory(kInputBytes), memory = device_memory(kBytes);
  std::vector<float> source(kBytes / sizeof(float), 1.0f), result(source.size());
  Held held(stream);
  must(aclrtMemcpyAsync(memory, kBytes, source.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  require(aclrtMemcpyAsync(small, kBytes, source.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream) !=
          ACL_SUCCESS);
  held.let_go();
  must(aclrtSynchronizeStream(stream));
  must(aclrtMemcpyAsync(result.data(), kBytes, memory, kBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  must(aclrtSynchronizeStream(stream));
  require(result == source);
}

PROGRAM(double_free,
        "double-free: aclrtFree got ..., which is not the start of live memory that it frees, but lies in "
        "device memory ... of 256 bytes, allocated at ..., freed at .... Called at ...") {
  void* memory = device_memory(kInputBytes).release();
  must(aclrtFree(memory));
  aclrtFree(memory);
}

PROGRAM(invalid_free,
        "invalid-free: aclrtFree got ..., which is not the start of live memory that it frees, but lies "
        "in host memory of aclrtMallocHost ... of 256 bytes, allocated at .... Called at ...") {
  PinnedMemory memory = pinned_memory(kInputBytes);
  aclrtFree(memory);
}

PROGRAM(offset_freed,
        "invalid-free: aclrtFree got ..., which is not the start of live memory that it frees, but lies "
        "in device memory ... of 256 bytes, allocated at .... Called at ...") {
  float* memory = static_cast<float*>(device_memory(kInputBytes).release());
  ++memory;
  aclrtFree(memory);
}

PROGRAM(guard_damaged,
        "guard-damaged: something wrote byte 256 of host memory of aclrtMallocHost ... of 256 bytes, "
        "allocated at .... Noticed at ...") {
  PinnedMemory memory = pinned_memory(kInputBytes);
  float* values = memory.as<float>();
  for (size_t i = 0; i <= kInputs; ++i) values[i] = 0;  // one too many
}

PROGRAM(unset_memory,
        "unset-memory: aclnnGroupedBiasAddGrad.gradY (..., 256 bytes) reads memory that was never "
        "written: bytes 64 to 255 of device memory ... of 256 bytes, allocated at .... Called at ...") {
  const std::vector<float> source(kInputs, 1.0f);
  Memory input = device_memory(kInputBytes), output = device_memory(kOutputBytes);
  // Elements where bytes are meant: three quarters stay unset.
  must(aclrtMemcpy(input, kInputBytes, source.data(), source.size(), ACL_MEMCPY_HOST_TO_DEVICE));
  BiasGrad gradient(input, output);
  gradient.run(stream);
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(unset_memory_copied,
        "unset-memory: aclnnGroupedBiasAddGrad.gradY (..., 256 bytes) reads memory that was never "
        "written: bytes 128 to 255 of device memory ... of 256 bytes, allocated at .... Called at ...") {
  Memory half_set = device_memory(kInputBytes);
  BiasGrad gradient;
  must(aclrtMemset(half_set, kInputBytes, 0, kInputBytes / 2));
  must(aclrtMemcpyAsync(gradient.input, kInputBytes, half_set, kInputBytes, ACL_MEMCPY_DEVICE_TO_DEVICE,
                        stream));
  must(aclrtSynchronizeStream(stream));
  gradient.run(stream);
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(unset_memory_behind_callback,
        "unset-memory: aclrtMemcpyAsync.src (..., 256 bytes) reads memory that was never written: bytes 0 to "
        "255 of device memory ... of 256 bytes, allocated at .... Called at ...") {
  // A callback comes before the copy, but does not fill what the copy reads.
  Memory from = device_memory(kInputBytes), to = device_memory(kInputBytes);
  must(aclrtSubscribeReport(pthread_self(), stream));
  must(aclrtLaunchCallback([](void*) {}, nullptr, ACL_CALLBACK_BLOCK, stream));
  must(aclrtMemcpyAsync(to, kInputBytes, from, kInputBytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
  must(aclrtProcessReport(-1));
  must(aclrtSynchronizeStream(stream));
  must(aclrtUnSubscribeReport(pthread_self(), stream));
}

PROGRAM(overlap,
        "overlap: aclnnGroupedBiasAddGrad.out (..., 64 bytes) and aclnnGroupedBiasAddGrad.gradY (..., 256 "
        "bytes) share memory. Called at ...") {
  Memory memory = device_ones(kInputBytes);
  BiasGrad gradient(memory, memory);  // the result would be written over its input
  gradient.run(stream);
  must(aclrtSynchronizeStream(stream));
}

PROGRAM(wrong_device,
        "wrong-device: aclnnGroupedBiasAddGrad.gradY (..., 256 bytes) runs on device 0 but is in memory "
        "of device 1: device memory ... of 256 bytes, allocated at .... Called at ...") {
  must(aclrtSetDevice(1));
  Memory input = device_ones(kInputBytes);  // on device 1
  must(aclrtSetDevice(0));
  Memory output = device_memory(kOutputBytes);
  BiasGrad gradient(input, output);
  gradient.run(stream);
  must(aclrtSynchronizeStream(stream));
  must(aclrtResetDevice(1));
}
