// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cuda_runtime.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace {

constexpr int kDevices = 8;
constexpr size_t kMemory = size_t{1} << 34;  // of a device

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
std::atomic<cudaError_t> broken{cudaSuccess};
std::atomic<int> objects{0};
std::array<std::atomic<bool>, kDevices> contexts{};

// What was allocated: the size by the address.
struct Allocations {
  std::mutex mutex;
  std::map<uintptr_t, size_t> sizes;
};
Allocations& allocations() {
  static Allocations& allocations = *new Allocations;
  return allocations;
}

bool is_allocated(const void* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const std::lock_guard lock(allocations().mutex);
  auto next = allocations().sizes.upper_bound(address);
  if (next == allocations().sizes.begin()) return false;
  --next;
  return address - next->first < next->second;
}

// A program's streams may end after everything that is static here would have.
struct Plans {
  std::mutex mutex;
  std::map<std::string, cudaError_t> next;
};
Plans& plans() {
  static Plans& plans = *new Plans;
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

// What an event marks when it is recorded.
struct Mark {
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false;
  std::chrono::steady_clock::time_point time;

  void reach() {
    const std::lock_guard lock(mutex);
    reached = true;
    time = std::chrono::steady_clock::now();
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reached; });
  }
  bool is_reached() {
    const std::lock_guard lock(mutex);
    return reached;
  }
};

}  // namespace

class EmulatedStream {
 public:
  const int device = current_device;

  EmulatedStream() { ++objects; }
  ~EmulatedStream() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    --objects;
  }
  EmulatedStream(const EmulatedStream&) = delete;
  EmulatedStream& operator=(const EmulatedStream&) = delete;

  void add(std::function<void()> work) {
    {
      std::unique_lock lock(mutex_);
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
      changed_.wait(lock, [&] { return work_.size() < emulation::kStreamCapacity; });
      work_.push_back(std::move(work));
      ++added_;
    }
    changed_.notify_all();
  }

  // Waits for what was added so far.
  void finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&, target = added_] { return done_ >= target; });
  }

  bool idle() {
    const std::lock_guard lock(mutex_);
    return done_ == added_;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ends_ || !work_.empty(); });
      if (work_.empty()) return;
      std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  uint64_t added_ = 0;
  uint64_t done_ = 0;
  bool ends_ = false;
  std::thread thread_;
};

class EmulatedEvent {
 public:
  const int device = current_device;
  std::shared_ptr<Mark> mark;

  EmulatedEvent() { ++objects; }
  ~EmulatedEvent() { --objects; }
  EmulatedEvent(const EmulatedEvent&) = delete;
  EmulatedEvent& operator=(const EmulatedEvent&) = delete;
};

namespace {

// As device_call(), about a stream or an event.
template <class Object, class Body>
cudaError_t object_call(const char* function, Object* object, Body&& body) {
  return device_call(function, [&] {
    if (object != nullptr && object->device != current_device) return cudaErrorInvalidResourceHandle;
    return body();
  });
}

cudaError_t enqueue_as(const char* function, cudaStream_t stream, std::function<void()> work) {
  return object_call(function, stream, [&] {
    if (stream == nullptr) {
      work();
    } else {
      stream->add(std::move(work));
    }
    return cudaSuccess;
  });
}

}  // namespace

namespace emulation {

void fail_next(const char* function, cudaError_t error) {
  const std::lock_guard lock(plans().mutex);
  plans().next[function] = error;
}

void break_devices(cudaError_t error) {
  broken = error;
}

int live_objects() {
  return objects;
}

bool has_context(int device) {
  return contexts[static_cast<size_t>(device)];
}

void forget_contexts() {
  for (auto& context : contexts) context = false;
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  return enqueue_as("cudaLaunchKernelEx", stream, std::move(work));
}

}  // namespace emulation

const char* cudaGetErrorName(cudaError_t) {
  return "an emulated error";
}
const char* cudaGetErrorString(cudaError_t) {
  return "an emulated error";
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

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  *flags = 0;
  *active = emulation::has_context(device);
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, uint32_t value, unsigned) {
  auto* word = reinterpret_cast<uint32_t*>(address);
  const auto wait = [=] {
    while (static_cast<int32_t>(std::atomic_ref(*word).load() - value) < 0) {
      std::this_thread::yield();
    }
  };
  return enqueue_as(__func__, stream, wait) == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long) {
  const std::map<std::string, void*> functions{
      {"cuDevicePrimaryCtxGetState", reinterpret_cast<void*>(cuDevicePrimaryCtxGetState)},
      {"cuStreamWaitValue32", reinterpret_cast<void*>(cuStreamWaitValue32)}};
  const auto found = functions.find(name);
  *function = found == functions.end() ? nullptr : found->second;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return device_call(__func__, [&] {
    if (bytes > kMemory) return cudaErrorMemoryAllocation;
    *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (*memory == nullptr) return cudaErrorMemoryAllocation;
    const std::lock_guard lock(allocations().mutex);
    allocations().sizes[reinterpret_cast<uintptr_t>(*memory)] = bytes;
    return cudaSuccess;
  });
}
cudaError_t cudaFree(void* memory) {
  {
    const std::lock_guard lock(allocations().mutex);
    allocations().sizes.erase(reinterpret_cast<uintptr_t>(memory));
  }
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  return call(__func__, [&] { return cudaMalloc(memory, bytes); });
}
cudaError_t cudaFreeHost(void* memory) {
  return cudaFree(memory);
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = *total_bytes = kMemory;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount ? 4 : 1 << 20;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  attributes->type = is_allocated(memory) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind, cudaStream_t stream) {
  const cudaError_t error = enqueue_as(__func__, stream, [=] {
    for (size_t row = 0; row < height; ++row) {
      std::memmove(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch,
                   width);
    }
  });
  const bool blocks = !is_allocated(to) || !is_allocated(from);
  if (error == cudaSuccess && stream != nullptr && blocks) stream->finish();
  return error;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  return enqueue_as(__func__, stream, [=] { std::memset(memory, value, bytes); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return device_call(__func__, [&] {
    *stream = new EmulatedStream;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream->device != current_device) return answer(cudaErrorInvalidResourceHandle);
  delete stream;
  return cudaSuccess;
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
  return enqueue_as(__func__, stream, [mark = event->mark] { mark->wait(); });
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return device_call(__func__, [&] {
    *event = new EmulatedEvent;
    return cudaSuccess;
  });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event->device != current_device) return answer(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return object_call(__func__, event, [&] {
    const auto mark = std::make_shared<Mark>();
    const cudaError_t error = emulation::enqueue(stream, [mark] { mark->reach(); });
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
    *milliseconds = std::chrono::duration<float, std::milli>(end->mark->time - start->mark->time).count();
    return cudaSuccess;
  });
}
