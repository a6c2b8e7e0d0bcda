// Memory of benchmarks.
#pragma once

#include <cstddef>
#include <vector>

namespace aclgrad {

// Zeros that start on a cache line, as device memory and the tensors of frameworks do.
class Memory {
 public:
  explicit Memory(size_t bytes = 0) : lines_((bytes + sizeof(Line) - 1) / sizeof(Line)), size_(bytes) {}

  std::byte* data() { return reinterpret_cast<std::byte*>(lines_.data()); }
  const std::byte* data() const { return reinterpret_cast<const std::byte*>(lines_.data()); }
  size_t size() const { return size_; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines_;
  size_t size_;
};

}  // namespace aclgrad
