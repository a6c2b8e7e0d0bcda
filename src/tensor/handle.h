// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The life of the handles of acl_meta.h: made, checked and destroyed by the functions of the C interface.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string_view>
#include <vector>

#include "aclnn/acl_meta.h"
#include "base/error.h"
#include "base/observer.h"
#include "tensor/tensor.h"

namespace aclgrad {

inline void check_not_null(std::string_view function, std::string_view parameter, const void* pointer) {
  if (pointer != nullptr) return;
  throw Error(ACLNN_ERR_PARAM_NULLPTR,
              fmt::format("{}.{}: expected a pointer, got null.", function, parameter));
}

[[noreturn]] inline void refuse_dead_handle(std::string_view function, HandleKind kind, const void* handle) {
  if (observer != nullptr) observer->dead_handle_passed(function, name_of(kind), handle);
  throw Error(
      ACLNN_ERR_PARAM_INVALID,
      fmt::format("{}: expected a live {}, got a handle that was destroyed or never made.", function,
                  name_of(kind)),
      "It was destroyed before, alone or with the list that it is in, or it is a handle of another type.",
      "Destroy an object after its last use, once only.");
}

template <class Handle>
void check_handle(std::string_view function, const Handle* handle) {
  if (handle == nullptr) {
    throw Error(ACLNN_ERR_PARAM_NULLPTR,
                fmt::format("{}: expected a live {}, got null.", function, name_of(Handle::kKind)),
                "The object was not made, or its creation failed.",
                "Create the object first and check that the result is not null.");
  }
  if (!is_live_handle(handle, Handle::kKind)) refuse_dead_handle(function, Handle::kKind, handle);
}

// Takes a handle out of the registry: from here on it is the caller's, who frees it.
template <class Handle>
Taken<Handle> take_handle(std::string_view function, const Handle* handle) {
  if (!unregister_handle(handle, Handle::kKind)) refuse_dead_handle(function, Handle::kKind, handle);
  return Taken<Handle>(handle);
}

// Makes a handle that `fill` gives its contents. Null, with the error recorded, where that throws.
template <class Handle, class Fill>
Handle* create_handle(Fill&& fill) noexcept {
  Handle* created = nullptr;
  guarded(ACLNN_ERR_INNER, [&] {
    auto handle = std::make_unique<Handle>();
    fill(*handle);
    register_handle(handle.get(), Handle::kKind);
    if (observer != nullptr) observer->handle_made(handle.get(), name_of(Handle::kKind));
    created = handle.release();
  });
  return created;
}

// Destroying null succeeds; a handle that is not alive is refused.
template <class Handle>
aclnnStatus destroy_handle(std::string_view function, const Handle* handle) noexcept {
  if (handle == nullptr) return OK;
  return guarded(ACLNN_ERR_INNER, [&] { take_handle(function, handle); });
}

// The caller's array as a vector. A count beyond all memory is refused before anything is read.
template <class Value>
std::vector<Value> copy_array(std::string_view function, std::string_view parameter, const Value* values,
                              uint64_t count) {
  constexpr uint64_t kMaxCount = uint64_t{1} << 32;
  if (count == 0) return {};
  check_not_null(function, parameter, values);
  if (count > kMaxCount) {
    throw Error(
        ACLNN_ERR_PARAM_INVALID,
        fmt::format("{}.{}: expected at most {} entries, got {}.", function, parameter, kMaxCount, count),
        "The count was not set, or is negative.", "Pass the number of entries of the array.");
  }
  return std::vector<Value>(values, values + count);
}

}  // namespace aclgrad
