// Parts of a workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/divide.h"

namespace aclgrad {

// Hands out parts of the workspace, each on a 64-byte boundary; where that is null, only adds up their sizes.
class Carver {
 public:
  explicit Carver(void* workspace) : start_(static_cast<std::byte*>(workspace)) {}

  template <class T>
  T* take(int64_t count) {
    std::byte* part = start_ == nullptr ? nullptr : start_ + size_;
    size_ += divide_up(count * static_cast<int64_t>(sizeof(T)), 64) * 64;
    return reinterpret_cast<T*>(part);
  }

  size_t size() const { return static_cast<size_t>(size_); }

 private:
  std::byte* start_;
  int64_t size_ = 0;
};

}  // namespace aclgrad
