// Memory of benchmarks.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>

#include "runtime/cpu_device.h"

namespace aclgrad {

// Zeros, where aclrtMalloc would put them: on a cache line, in huge pages where there is much of it.
class Memory {
 public:
  explicit Memory(size_t bytes = 0)
      : data_(static_cast<std::byte*>(cpu_device().allocate(MemoryPlace::device, bytes))), size_(bytes) {
    std::memset(data_.get(), 0, bytes);
  }

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Release {
    void operator()(std::byte* data) const { cpu_device().release(MemoryPlace::device, data); }
  };
  std::unique_ptr<std::byte, Release> data_;
  size_t size_;
};

}  // namespace aclgrad
