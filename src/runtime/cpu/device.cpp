// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The processor as a device: device memory is the process's own memory, work runs on host threads.
#include "runtime/device.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "acl/acl_base.h"
#include "base/error.h"
#include "base/never_destroyed.h"
#include "base/parallel.h"
#include "runtime/cpu/queue.h"

namespace aclgrad {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
// Below this a huge page would waste more memory than it saves time.
constexpr size_t kMinHugeAllocation = 2 * kHugePage;

size_t round_up(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

const size_t total_memory =
    static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));

// What the kernel could hand out without swapping, which is more than what lies idle.
size_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  for (size_t kibibytes; file >> key >> kibibytes;
       file.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
    if (key == "MemAvailable:") return kibibytes * 1024;
  }
  return static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

constexpr size_t kPiece = size_t{1} << 20;

// Calls body(offset, bytes) for pieces of a range, in parallel where that pays.
template <class Body>
void for_pieces(size_t bytes, Body&& body) {
  const size_t pieces = (bytes + kPiece - 1) / kPiece;
  parallel_for(static_cast<int64_t>(pieces), estimated_copy_nanoseconds(bytes), [&](int64_t piece) {
    const size_t offset = static_cast<size_t>(piece) * kPiece;
    body(offset, std::min(kPiece, bytes - offset));
  });
}

void copy_row(void* destination, const void* source, size_t bytes) {
  auto* to = static_cast<std::byte*>(destination);
  const auto* from = static_cast<const std::byte*>(source);
  const bool overlap = to < from + bytes && from < to + bytes;
  if (overlap) {
    std::memmove(to, from, bytes);
    return;
  }
  for_pieces(bytes, [&](size_t offset, size_t size) { std::memcpy(to + offset, from + offset, size); });
}

class CpuDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::cpu; }

  void* allocate(MemoryPlace, size_t bytes) override {
    const bool huge = bytes >= kMinHugeAllocation;
    const size_t alignment = huge ? kHugePage : kAlignment;
    void* memory = nullptr;
    // The kernel may promise more than the machine has, and would end the process when it is used.
    if (bytes <= total_memory) memory = std::aligned_alloc(alignment, round_up(bytes, alignment));
    if (memory == nullptr) {
      throw Error(ACL_ERROR_RT_MEMORY_ALLOCATION,
                  fmt::format("Out of memory: expected {} free bytes, got {} of {}.", bytes,
                              available_memory(), total_memory),
                  "The program holds more memory than it needs, or asks for more than the machine has.",
                  "Free memory that is not used any more, or make the problem smaller.");
    }
    // A hint only: without huge pages the memory works as well, if slower.
    if (huge) madvise(memory, round_up(bytes, alignment), MADV_HUGEPAGE);
    return memory;
  }

  void release(MemoryPlace, void* memory) noexcept override { std::free(memory); }

  MemoryInfo memory_info() const override { return {available_memory(), total_memory}; }
  int core_count() const override { return thread_count(); }
  size_t l2_cache_bytes() const override {
    return static_cast<size_t>(std::max(sysconf(_SC_LEVEL2_CACHE_SIZE), 0L));
  }

  void copy(const Copy& copy) override {
    if (copy.destination_pitch == copy.width && copy.source_pitch == copy.width) {
      copy_row(copy.destination, copy.source, copy.width * copy.height);
      return;
    }
    for (size_t row = 0; row < copy.height; ++row) {
      copy_row(static_cast<std::byte*>(copy.destination) + row * copy.destination_pitch,
               static_cast<const std::byte*>(copy.source) + row * copy.source_pitch, copy.width);
    }
  }

  void fill(const Fill& fill) override {
    auto* to = static_cast<std::byte*>(fill.destination);
    for_pieces(fill.bytes, [&](size_t offset, size_t size) { std::memset(to + offset, fill.value, size); });
  }

  std::unique_ptr<Queue> make_queue(StopFlag context_stopped) override {
    return std::make_unique<CpuQueue>(*this, std::move(context_stopped));
  }

  std::shared_ptr<EventState> make_event_state() override { return std::make_shared<CpuEventState>(); }

  void call(const std::function<void()>& body) override { body(); }
};

// As many as a common NPU server has, so that programs that name a device find it. All of them are one.
const DeviceDriver kDriver(
    DeviceKind::cpu, [] { return 8; },
    [](int) -> Device& {
      static NeverDestroyed<CpuDevice> device;
      return *device;
    });

}  // namespace

}  // namespace aclgrad
