// What the checker knows of handles: where they were made and destroyed.
#pragma once

#include <memory>
#include <string_view>

namespace aclgrad::check {

// `type` is a literal, such as "aclTensor".
void handle_made(const void* handle, const char* type);

// The object is kept alive for a while, so that no other handle gets its address and is mistaken for it.
void handle_gone(const void* handle, std::shared_ptr<const void> object = nullptr);

// It was destroyed with its context or device, so that the program has not released it.
void handle_lost(const void* handle);

// Findings on a handle that `function` got and that is not alive.
void dead_handle(std::string_view function, const char* type, const void* handle);
void foreign_stream(const void* stream, const void* current_context);
void dead_executor(std::string_view function, const void* executor);

// Phase 2 takes the executor; true the first time.
bool executor_used(const void* executor);

void remember_failed_phase_1(std::string_view operator_name, std::string_view message);

// aclInit or its like, and aclFinalize; `function` needs the former.
void library_started(bool must_be_ended);
void library_ended();
void check_library_started(std::string_view function);

// At exit.
void report_unreleased_handles();

}  // namespace aclgrad::check
