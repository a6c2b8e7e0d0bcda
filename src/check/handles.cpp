// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/handles.h"

#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/never_destroyed.h"
#include "check/check.h"
#include "check/checker.h"
#include "check/failures.h"

namespace aclgrad::check {
namespace {

struct Live {
  const char* type;
  CallStack made;
  bool used = false;                       // executors: by phase 2
  std::optional<int> device_id = {};       // executors: on which phase 1 was called
  std::optional<CallStack> reset_at = {};  // and where it was reset since
  std::string lost = {};                   // where, in words, it was destroyed with its context
  bool misused = false;                    // there is a finding that may explain why it is not released
};

struct Gone {
  const char* type;
  CallStack made;
  CallStack destroyed;
  std::shared_ptr<const void> object;
};

struct Handles {
  std::map<const void*, Live> live;
  std::map<const void*, Gone> gone;
  std::list<const void*> oldest_gone_first;  // a deque takes memory when it is made
  bool library_was_started = false;
  std::optional<CallStack> library_started_at;  // while it is to be ended
};

constexpr Singleton<Handles> handles{};

// "was destroyed at …, made at …", empty where nothing is known.
std::string history_of(const void* handle) {
  std::lock_guard lock(handles_mutex);
  Handles& all = handles();
  if (const auto found = all.live.find(handle); found != all.live.end()) {
    Live& live = found->second;
    live.misused = true;
    if (live.lost.empty()) return fmt::format("is an {} made at {}", live.type, live.made.text());
    return fmt::format("was destroyed with its context or device at {}, made at {}", live.lost,
                       live.made.text());
  }
  const auto found = all.gone.find(handle);
  if (found == all.gone.end()) return {};
  return fmt::format("was destroyed at {}, made at {}", found->second.destroyed.text(),
                     found->second.made.text());
}

void add(const void* handle, Live made) noexcept {
  std::lock_guard lock(handles_mutex);
  handles().gone.erase(handle);
  as_far_as_memory_goes([&] { handles().live.insert_or_assign(handle, std::move(made)); });
}

void report_reset(std::string_view function, const void* executor, const Live& made) {
  report_call("executor-after-reset",
              "{} got aclOpExecutor {}, made at {}, but device {}, for which it was made, was reset at {}.",
              function, executor, made.made.text(), *made.device_id, made.reset_at->text());
}

}  // namespace

std::mutex handles_mutex;

void Checker::handle_made(const void* handle, const char* type) noexcept {
  add(handle, {type, CallStack::here()});
}

void Checker::executor_made(const aclOpExecutor& executor, std::optional<int> device_id) noexcept {
  Live made{"aclOpExecutor", CallStack::here()};
  made.device_id = device_id;
  add(&executor, std::move(made));
}

// The object is kept alive for a while, so that no other handle gets its address and is mistaken for it.
void Checker::handle_destroyed(const void* handle, const std::shared_ptr<const void>& object) noexcept {
  constexpr size_t kMaxGone = 4096;
  std::lock_guard lock(handles_mutex);
  Handles& all = handles();
  const auto found = all.live.find(handle);
  if (found == all.live.end()) return;  // not made by the program, as a default stream
  const Gone gone{found->second.type, found->second.made, CallStack::here(), object};
  all.live.erase(found);
  as_far_as_memory_goes([&] {
    all.oldest_gone_first.push_back(handle);
    all.gone.insert_or_assign(handle, gone);
  });
  if (all.oldest_gone_first.size() <= kMaxGone) return;
  all.gone.erase(all.oldest_gone_first.front());
  all.oldest_gone_first.pop_front();
}

// It was destroyed with its context or device, so that the program has not released it.
void Checker::stream_lost(const void* handle) noexcept {
  std::lock_guard lock(handles_mutex);
  const auto found = handles().live.find(handle);
  if (found == handles().live.end()) return;
  as_far_as_memory_goes([&] { found->second.lost = CallStack::here().text(); });
}

void Checker::dead_handle_passed(std::string_view function, const char* type, const void* handle) {
  const std::string history = history_of(handle);
  report_refusal("dead-handle", "{} got {} {}, which {}.", function, type, handle,
                 history.empty() ? "is no live handle of that type" : history);
}

void Checker::foreign_stream_passed(std::string_view function, const void* stream,
                                    const void* current_context) {
  report_refusal("foreign-stream",
                 "{} got aclrtStream {}, which does not belong to aclrtContext {}, which is current.",
                 function, stream, current_context);
}

void Checker::dead_executor_passed(std::string_view function, const aclOpExecutor* executor) {
  std::lock_guard lock(calls_mutex);
  if (const std::string history = history_of(executor); !history.empty()) {
    report_refusal("executor-reused",
                   "{} got aclOpExecutor {}, which {}. Phase 2 uses up an executor that is not repeatable.",
                   function, static_cast<const void*>(executor), history);
  } else if (const std::string failure = failed_phase_1(); !failure.empty()) {
    failures_were_explained();
    report_refusal("executor-missing", "{} got aclOpExecutor {} after the failure of {}", function,
                   static_cast<const void*>(executor), failure);
  } else {
    report_refusal("executor-missing", "{} got aclOpExecutor {}, which phase 1 did not make.", function,
                   static_cast<const void*>(executor));
  }
}

bool executor_used(std::string_view function, const void* executor) {
  std::lock_guard lock(handles_mutex);
  const auto found = handles().live.find(executor);
  if (found == handles().live.end()) return true;
  Live& made = found->second;
  if (made.reset_at) report_reset(function, executor, made);
  return !std::exchange(made.used, true);
}

void Checker::device_reset(int device_id) noexcept {
  std::lock_guard lock(handles_mutex);
  for (auto& [handle, live] : handles().live) {
    if (live.device_id == device_id && !live.reset_at) live.reset_at = CallStack::here();
  }
}

void Checker::library_started(bool must_be_ended) {
  std::lock_guard lock(handles_mutex);
  handles().library_was_started = true;
  if (must_be_ended) handles().library_started_at = CallStack::here();
}

void Checker::library_ended() {
  std::lock_guard lock(handles_mutex);
  handles().library_started_at.reset();
}

void Checker::device_wanted(std::string_view function) {
  std::lock_guard lock(handles_mutex);
  if (std::exchange(handles().library_was_started, true)) return;
  report_call("not-initialized", "{} before aclInit.", function);
}

void report_unreleased_handles() {
  std::lock_guard lock(handles_mutex);
  if (const std::optional<CallStack>& started = handles().library_started_at) {
    report("leak", *started, "aclFinalize never followed the aclInit at {}", started->text());
  }
  for (const auto& [handle, live] : handles().live) {
    if (live.misused) continue;
    const bool is_unused_executor = std::string_view(live.type) == "aclOpExecutor" && !live.used;
    report(is_unused_executor ? "executor-unused" : "leak", live.made, "{} {} was never {}. Made at {}",
           live.type, handle, is_unused_executor ? "given to phase 2" : "destroyed", live.made.text());
  }
}

}  // namespace aclgrad::check
