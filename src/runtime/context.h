// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Contexts: which device a thread works with, and the streams and options that belong together there.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "runtime/device.h"

namespace aclgrad {

// A value of aclSysParamOpt indexes it; kOptionUnset where it was never set.
inline constexpr size_t kOptions = 4;
inline constexpr int64_t kOptionUnset = -1;
using Options = std::array<std::atomic<int64_t>, kOptions>;

struct Context {
  int device_id = 0;
  Device* device = nullptr;
  bool is_default = false;  // made by set_device(), shared by all threads
  StopFlag stopped = std::make_shared<std::atomic<bool>>(false);
  Options options{kOptionUnset, kOptionUnset, kOptionUnset, kOptionUnset};
  void* default_stream = nullptr;
};

// Each thread has at most one current context. It is kept as a handle: where another thread has destroyed the
// context, its next use here is an error. All functions throw Error on wrong use; `function` names the caller
// in it.

// 107002 where the thread has no live context.
void* current_context_handle();
std::shared_ptr<Context> current_context();

// Of the calling thread's context; nothing where it has none.
std::optional<int> current_device_id() noexcept;

// 107003 where the context is not live.
void set_current_context(void* handle);

// Makes a context with a default stream of its own, and makes it current.
void* create_context(const char* function, int device_id);

// Waits for the work of the context's streams and destroys them. A default context is refused.
void destroy_context(void* handle);

// The default context of a device lives while more calls of set_device() than of reset_device() have been
// made.
void set_device(const char* function, int device_id);
void reset_device(const char* function, int device_id);
void reset_device_force(const char* function, int device_id);
void reset_all_devices();

// The device on which a thread without a context works, where the configuration names one.
void set_implicit_device(std::optional<int> device_id);

}  // namespace aclgrad
