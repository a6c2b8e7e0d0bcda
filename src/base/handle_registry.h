// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The handles that are alive, so that a double destroy or a foreign pointer gets an error instead of a crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "base/observer.h"

namespace aclgrad {

enum class HandleKind : uint8_t {
  tensor,
  scalar,
  int_array,
  float_array,
  bool_array,
  tensor_list,
  scalar_list,
  executor,
  executor_in_use,  // by a call that nobody may disturb
  tensor_desc,
  data_buffer,
  communicator,
};

const char* name_of(HandleKind kind);

void register_handle(const void* handle, HandleKind kind);

// False where `handle` is not a live handle of this kind: nothing is changed then.
bool unregister_handle(const void* handle, HandleKind kind) noexcept;

// Makes a live handle one of another kind, without need of memory. False where it is not a live handle of `from`.
bool change_handle(const void* handle, HandleKind from, HandleKind to) noexcept;

bool is_live_handle(const void* handle, HandleKind kind) noexcept;

// Ends the life of a handle's object that a call has taken out of the registry.
struct Retire {
  template <class Object>
  void operator()(const Object* object) const noexcept {
    if (observer == nullptr) {
      delete object;
      return;
    }
    try {
      observer->handle_destroyed(object, std::shared_ptr<const Object>(object));
    } catch (const std::bad_alloc&) {  // it is deleted then
    }
  }
};

template <class Object>
using Taken = std::unique_ptr<const Object, Retire>;

// Of all kinds; what a program leaves behind.
size_t live_handle_count() noexcept;

}  // namespace aclgrad
