// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The live objects of one kind that threads share, by handle.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

namespace aclgrad {

// Odd, so that it is never the address of an object, and never used again: a stale handle finds nothing, even
// if an object of its kind was made since.
inline void* new_handle() {
  static std::atomic<uintptr_t> next{1};
  return reinterpret_cast<void*>(next.fetch_add(2, std::memory_order_relaxed));
}

// Who has found an object keeps it alive, so that another thread may take it out of the table at any time.
template <class T>
class HandleTable {
 public:
  void add(void* handle, std::shared_ptr<T> object) {
    std::lock_guard lock(mutex_);
    objects_.emplace(handle, std::move(object));
  }

  // Null where the handle is not live.
  std::shared_ptr<T> find(void* handle) const {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }

  // Takes the object out; null where the handle is not live.
  std::shared_ptr<T> remove(void* handle) {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<T> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

  // Calls function(handle, object) for each, oldest first. It may use the table, and needs no memory.
  template <class Function>
  void for_each(Function&& function) const {
    for (auto [handle, object] = next_after(nullptr); object != nullptr;
         std::tie(handle, object) = next_after(handle)) {
      function(handle, *object);
    }
  }

  // For a fork, which holds it and so sees all objects, those of live handles and no others.
  std::mutex& mutex() { return mutex_; }
  template <class Function>
  void for_each_while_locked(Function&& function) const {
    for (const auto& [handle, object] : objects_) function(*object);
  }

 private:
  std::pair<void*, std::shared_ptr<T>> next_after(void* handle) const {
    std::lock_guard lock(mutex_);
    const auto found = objects_.upper_bound(handle);
    if (found == objects_.end()) return {};
    return *found;
  }

  mutable std::mutex mutex_;
  std::map<void*, std::shared_ptr<T>> objects_;
};

}  // namespace aclgrad
