// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the checker knows of handles: where they were made and destroyed.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "base/fork.h"
#include "check/check.h"

namespace aclgrad::check {

// `type` is a literal, such as "aclTensor".
void handle_made(const void* handle, const char* type) noexcept;

// The object is kept alive for a while, so that no other handle gets its address and is mistaken for it.
void handle_gone(const void* handle, std::shared_ptr<const void> object = nullptr) noexcept;

// It was destroyed with its context or device, so that the program has not released it.
void handle_lost(const void* handle);

// Findings on a handle that `function` got and that is not alive.
void dead_handle(std::string_view function, const char* type, const void* handle);
void foreign_stream(std::string_view function, const void* stream, const void* current_context);
void dead_executor(std::string_view function, const void* executor);

// Phase 1 has made the executor, on this device if there was one.
void executor_made(const void* executor, std::optional<int> device_id) noexcept;

// Phase 2 takes the executor; true the first time.
bool executor_used(std::string_view function, const void* executor);

// What belonged to the device is gone.
void device_reset(int device_id);

// aclInit or its like, and aclFinalize; `function` needs the former.
void library_started(bool must_be_ended);
void library_ended();
void check_library_started(std::string_view function);

// At exit.
void report_unreleased_handles();

void act_on_handle_lock(LockAction action);  // for a fork

}  // namespace aclgrad::check
