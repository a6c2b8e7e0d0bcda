// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The CUDA GPUs of this machine as devices.
#include "runtime/device.h"

#include <memory>
#include <vector>

#include "runtime/cuda/calls.h"
#include "runtime/cuda/queue.h"

namespace aclgrad {
namespace {

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index) : index_(index) {}

  DeviceKind kind() const override { return DeviceKind::cuda; }

  void* allocate(MemoryPlace place, size_t bytes) override {
    const CudaDeviceScope scope(index_);
    void* memory = nullptr;
    if (place == MemoryPlace::device) {
      check_cuda(cudaMalloc(&memory, bytes), "cudaMalloc");
    } else {
      check_cuda(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable), "cudaHostAlloc");
    }
    return memory;
  }

  void release(MemoryPlace place, void* memory) noexcept override {
    const CudaDeviceScope scope(index_, std::nothrow);
    place == MemoryPlace::device ? cudaFree(memory) : cudaFreeHost(memory);
  }

  MemoryInfo memory_info() const override {
    const CudaDeviceScope scope(index_);
    MemoryInfo info;
    check_cuda(cudaMemGetInfo(&info.free_bytes, &info.total_bytes), "cudaMemGetInfo");
    return info;
  }

  int core_count() const override { return attribute(cudaDevAttrMultiProcessorCount); }
  size_t l2_cache_bytes() const override { return static_cast<size_t>(attribute(cudaDevAttrL2CacheSize)); }

  void copy(const Copy& copy) override {
    do_now([&](cudaStream_t stream) { queue_copy(copy, stream); });
  }

  void fill(const Fill& fill) override {
    do_now([&](cudaStream_t stream) { queue_fill(fill, stream); });
  }

  std::unique_ptr<Queue> make_queue(StopFlag context_stopped) override {
    return std::make_unique<CudaQueue>(index_, std::move(context_stopped));
  }

  std::shared_ptr<EventState> make_event_state() override { return std::make_shared<CudaEventState>(); }

  void call(const std::function<void()>& body) override {
    const CudaDeviceScope scope(index_);
    body();
  }

 private:
  int attribute(cudaDeviceAttr which) const {
    int value = 0;
    check_cuda(cudaDeviceGetAttribute(&value, which, index_), "cudaDeviceGetAttribute");
    return value;
  }

  // On a stream of its own, which waits for no other.
  template <class Enqueue>
  void do_now(Enqueue&& enqueue) {
    const CudaDeviceScope scope(index_);
    std::call_once(has_stream_, [&] {
      check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    });
    enqueue(stream_);
    check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  const int index_;
  std::once_flag has_stream_;
  cudaStream_t stream_ = nullptr;
};

// Never destroyed: programs use the runtime in destructors of their own static objects.
std::vector<std::unique_ptr<CudaDevice>>& devices() {
  static auto& devices = *[] {
    auto* all = new std::vector<std::unique_ptr<CudaDevice>>;
    int count = 0;
    // A machine without a GPU or its driver answers with an error, which leaves no devices.
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
      cudaGetLastError();
      count = 0;
    }
    for (int i = 0; i < count; ++i) all->push_back(std::make_unique<CudaDevice>(i));
    return all;
  }();
  return devices;
}

const DeviceDriver kDriver(
    DeviceKind::cuda, [] { return static_cast<int>(devices().size()); },
    [](int index) -> Device& { return *devices()[static_cast<size_t>(index)]; });

}  // namespace

}  // namespace aclgrad
