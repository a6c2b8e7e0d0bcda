// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The memory of kernels: parts of the workspace that their caller brings.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/divide.h"

namespace aclgrad {

inline constexpr int64_t kWorkspaceAlignment = 64;  // bytes, of each part

// Hands out parts of the workspace, and adds up their sizes; without memory, only that. So what a kernel takes stands
// once, for its size and for its run.
class WorkspaceAllocator {
 public:
  explicit WorkspaceAllocator(void* workspace = nullptr) : start_(static_cast<std::byte*>(workspace)) {}

  template <class T>
  T* take(int64_t count) {
    std::byte* part = start_ == nullptr ? nullptr : start_ + size_;
    size_ += divide_up(count * static_cast<int64_t>(sizeof(T)), kWorkspaceAlignment) * kWorkspaceAlignment;
    return reinterpret_cast<T*>(part);
  }

  size_t size() const { return static_cast<size_t>(size_); }

 private:
  std::byte* start_;
  int64_t size_ = 0;
};

// Bytes that Parts(arguments..., allocator) takes.
template <class Parts, class... Arguments>
size_t size_of_workspace(const Arguments&... arguments) {
  WorkspaceAllocator allocator;
  [[maybe_unused]] const Parts parts(arguments..., allocator);
  return allocator.size();
}

}  // namespace aclgrad
