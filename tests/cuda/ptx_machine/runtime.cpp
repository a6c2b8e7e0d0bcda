// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// CUDA's runtime on the machine, in place of NVIDIA's: what the device, the kernels and the tests use of it.
//
// As in CUDA, copies from and to memory that it has not allocated block until they are done, and work for a full stream
// until there is room. A context is made, as since CUDA 12, where a device becomes current and where it is used. Work on no
// stream is done at once.
//
// It is stricter than CUDA in one thing: calls about a stream or an event are refused unless its device is the thread's
// current one. CUDA lets some of them pass, but makes a context on whatever device is current.
#include <cuda.h>
#include <cuda_runtime.h>

#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "findings.h"
#include "grid.h"
#include "machine.h"
#include "memory.h"
#include "stream.h"

namespace ptx {
namespace {

constexpr int kDevices = 8;
constexpr size_t kMemory = size_t{1} << 34;  // of a device

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
std::atomic<cudaError_t> broken{cudaSuccess};
std::array<std::atomic<bool>, kDevices> contexts{};

// A program's streams may end after everything that is static here would have.
struct Plans {
  std::mutex mutex;
  std::map<std::string, cudaError_t> next;
};
Plans& plans() {
  static auto& plans = *new Plans;
  return plans;
}

cudaError_t planned(const char* function) {
  const std::lock_guard lock(plans().mutex);
  const auto found = plans().next.find(function);
  if (found == plans().next.end()) return cudaSuccess;
  const cudaError_t error = found->second;
  plans().next.erase(found);
  return error;
}

cudaError_t answer(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// Runs `body`, which returns an error, unless the call is planned to fail.
template <class Body>
cudaError_t call(const char* function, Body&& body) {
  const cudaError_t error = planned(function);
  return answer(error != cudaSuccess ? error : body());
}

// As call(), for what a broken device refuses.
template <class Body>
cudaError_t device_call(const char* function, Body&& body) {
  return call(function, [&] {
    contexts[static_cast<size_t>(current_device)] = true;
    return broken != cudaSuccess ? broken.load() : body();
  });
}

// As device_call(), about a stream or an event.
template <class Object, class Body>
cudaError_t object_call(const char* function, Object* object, Body&& body) {
  return device_call(function, [&] {
    if (object != nullptr && object->device != current_device) return cudaErrorInvalidResourceHandle;
    return body();
  });
}

cudaError_t enqueue(const char* function, cudaStream_t stream, std::function<void()> work) {
  return object_call(function, stream, [&] {
    if (stream == nullptr) {
      work();
    } else {
      stream->add(std::move(work));
    }
    return cudaSuccess;
  });
}

template <class Object>
cudaError_t destroy(Object* object) {
  if (object->device != current_device) return answer(cudaErrorInvalidResourceHandle);
  delete object;
  return cudaSuccess;
}

bool is_known(const void* memory) {
  const std::lock_guard lock(Memory::get().mutex);
  return Memory::get().find(memory) != nullptr;
}

cudaError_t allocate(void** memory, size_t bytes, bool of_host) {
  if (bytes > kMemory) return cudaErrorMemoryAllocation;
  *memory = Memory::get().allocate(bytes, of_host);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t release(void* memory) {
  return Memory::get().release(memory) ? cudaSuccess : answer(cudaErrorInvalidValue);
}

// In one dimension, which is all that our kernels use.
cudaError_t launch(dim3 blocks, dim3 threads, size_t shared_bytes, cudaStream_t stream, const void* function,
                   void** arguments) {
  constexpr size_t kMaxSharedBytes = 48 << 10;  // that need no permission
  const Kernel* kernel = find_kernel(function);
  if (kernel == nullptr) return answer(cudaErrorInvalidDeviceFunction);
  const bool is_valid = blocks.x > 0 && blocks.x < 1u << 31 && blocks.y == 1 && blocks.z == 1 &&
                        threads.x > 0 && threads.x <= kernel->max_threads && threads.y == 1 &&
                        threads.z == 1 && kernel->shared_bytes + shared_bytes <= kMaxSharedBytes;
  if (!is_valid) return answer(cudaErrorInvalidConfiguration);
  Launch launch{kernel, blocks.x, threads.x, shared_bytes, std::vector<std::byte>(kernel->parameter_bytes)};
  for (size_t i = 0; i < kernel->parameters.size(); ++i) {
    const auto& [place, bytes] = kernel->parameters[i];
    std::memcpy(launch.parameters.data() + place, arguments[i], bytes);
  }
  return enqueue("cudaLaunchKernelEx", stream, [launch = std::move(launch)] { Grid::run(launch); });
}

// ---- Of the driver

CUresult get_context_state(CUdevice device, unsigned* flags, int* active) {
  *flags = 0;
  *active = has_context(device);
  return CUDA_SUCCESS;
}

CUresult wait_for_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  if (flags != CU_STREAM_WAIT_VALUE_GEQ) return CUDA_ERROR_INVALID_VALUE;
  auto* word = reinterpret_cast<uint32_t*>(address);
  const auto wait = [=] {
    while (static_cast<int32_t>(std::atomic_ref(*word).load() - value) < 0) std::this_thread::yield();
  };
  return enqueue("cuStreamWaitValue32", stream, wait) == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

}  // namespace

int live_objects() {
  return Object::live;
}

void fail_next(const char* function, cudaError_t error) {
  const std::lock_guard lock(plans().mutex);
  plans().next[function] = error;
}

void break_devices(cudaError_t error) {
  broken = error;
}

bool has_context(int device) {
  return contexts[static_cast<size_t>(device)];
}

void forget_contexts() {
  for (auto& context : contexts) context = false;
}

}  // namespace ptx

using namespace ptx;

extern "C" {

void ptxUndefine(void* memory, size_t bytes) {
  Memory::get().undefine(memory, bytes);
}

// ---- What nvcc's code calls

struct CallConfiguration {
  dim3 blocks, threads;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};
static thread_local CallConfiguration call_configuration;

unsigned __cudaPushCallConfiguration(dim3 blocks, dim3 threads, size_t shared_bytes, CUstream_st* stream) {
  call_configuration = {blocks, threads, shared_bytes, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* blocks, dim3* threads, size_t* shared_bytes, void* stream) {
  *blocks = call_configuration.blocks;
  *threads = call_configuration.threads;
  *shared_bytes = call_configuration.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = call_configuration.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 blocks, dim3 threads, void** arguments,
                               size_t shared_bytes, cudaStream_t stream) {
  return launch(blocks, threads, shared_bytes, stream, kernel, arguments);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* shape, const void* function, void** arguments) {
  return launch(shape->gridDim, shape->blockDim, shape->dynamicSmemBytes, shape->stream, function, arguments);
}

// ---- Errors and devices

const char* cudaGetErrorName(cudaError_t) {
  return "an error of the PTX machine";
}
const char* cudaGetErrorString(cudaError_t) {
  return "an error of the PTX machine";
}
cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = kDevices;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return call(__func__, [&] {
    if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
    current_device = device;
    contexts[static_cast<size_t>(device)] = true;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount ? 4 : 1 << 20;
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult*) {
  const std::map<std::string, void*> functions{
      {"cuDevicePrimaryCtxGetState", reinterpret_cast<void*>(get_context_state)},
      {"cuStreamWaitValue32", reinterpret_cast<void*>(wait_for_value)}};
  const auto found = functions.find(name);
  *function = found == functions.end() ? nullptr : found->second;
  return cudaSuccess;
}

// ---- Memory

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return device_call(__func__, [&] { return allocate(memory, bytes, false); });
}
cudaError_t cudaFree(void* memory) {
  return release(memory);
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  return device_call(__func__, [&] { return allocate(memory, bytes, true); });
}
cudaError_t cudaFreeHost(void* memory) {
  return release(memory);
}
cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned) {
  Memory::get().add(memory, bytes);
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* memory) {
  return Memory::get().remove(memory) ? cudaSuccess : answer(cudaErrorInvalidValue);
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = *total_bytes = kMemory;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  *attributes = {};
  attributes->type = is_known(memory) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind, cudaStream_t stream) {
  const cudaError_t error = enqueue("cudaMemcpyAsync", stream, [=] {
    for (size_t row = 0; row < height; ++row) {
      Memory::get().copy(static_cast<char*>(to) + row * to_pitch,
                         static_cast<const char*>(from) + row * from_pitch, width);
    }
  });
  const bool blocks = !is_known(to) || !is_known(from);
  if (error == cudaSuccess && stream != nullptr && blocks) stream->finish();
  return error;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  return enqueue(__func__, stream, [=] { Memory::get().fill(memory, value, bytes); });
}

// ---- Streams and events

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return device_call(__func__, [&] {
    *stream = new CUstream_st(current_device);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return destroy(stream);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return object_call(__func__, stream, [&] {
    if (stream != nullptr) stream->finish();
    return cudaSuccess;
  });
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return object_call(__func__, stream, [&] { return stream->idle() ? cudaSuccess : cudaErrorNotReady; });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event->mark == nullptr) return cudaSuccess;
  return enqueue(__func__, stream, [mark = event->mark] { mark->wait(); });
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return device_call(__func__, [&] {
    *event = new CUevent_st(current_device);
    return cudaSuccess;
  });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return destroy(event);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return object_call(__func__, event, [&] {
    const auto mark = std::make_shared<Mark>();
    const cudaError_t error = enqueue(__func__, stream, [mark] { mark->reach(); });
    if (error == cudaSuccess) event->mark = mark;
    return error;
  });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return object_call(__func__, event, [&] {
    return event->mark == nullptr || event->mark->is_reached() ? cudaSuccess : cudaErrorNotReady;
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return object_call(__func__, event, [&] {
    if (event->mark != nullptr) event->mark->wait();
    return cudaSuccess;
  });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return object_call(__func__, end, [&] {
    if (!start->mark->is_reached() || !end->mark->is_reached()) return cudaErrorNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(end->mark->time() - start->mark->time()).count();
    return cudaSuccess;
  });
}

}  // extern "C"
