// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The live objects of one kind that threads share, by handle.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "base/fork.h"
#include "base/shards.h"

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
    objects_.lock(handle)->emplace(handle, std::move(object));
  }

  // Null where the handle is not live.
  std::shared_ptr<T> find(void* handle) {
    const auto objects = objects_.lock(handle);
    const auto found = objects->find(handle);
    return found == objects->end() ? nullptr : found->second;
  }

  // Takes the object out; null where the handle is not live.
  std::shared_ptr<T> remove(void* handle) {
    const auto objects = objects_.lock(handle);
    const auto found = objects->find(handle);
    if (found == objects->end()) return nullptr;
    std::shared_ptr<T> object = std::move(found->second);
    objects->erase(found);
    return object;
  }

  // Calls function(handle, object) for each, oldest first. It may use the table, and needs no memory.
  template <class Function>
  void for_each(Function&& function) {
    for (void* handle = next_after(nullptr); handle != nullptr; handle = next_after(handle)) {
      if (const std::shared_ptr<T> object = find(handle)) function(handle, *object);
    }
  }

  // For a fork, which holds the locks and so sees all objects, those of live handles and no others.
  void act_on_locks(LockAction action) { objects_.act_on_locks(action); }
  template <class Function>
  void for_each_while_locked(Function&& function) const {
    objects_.for_each_while_locked([&](const Objects& objects) {
      for (const auto& [handle, object] : objects) function(*object);
    });
  }

 private:
  using Objects = std::map<void*, std::shared_ptr<T>>;

  // Looks at handles alone: to let go of an object here could destroy it under a lock.
  void* next_after(void* handle) {
    void* next = nullptr;
    objects_.for_each([&](const Objects& objects) {
      const auto found = objects.upper_bound(handle);
      if (found == objects.end()) return;
      if (next == nullptr || found->first < next) next = found->first;
    });
    return next;
  }

  Shards<Objects, 16> objects_;  // not more, since for_each looks into each for every object
};

}  // namespace aclgrad
