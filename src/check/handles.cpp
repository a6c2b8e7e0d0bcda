// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/handles.h"

#include <fmt/format.h>

#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/never_destroyed.h"
#include "check/check.h"
#include "check/failures.h"

namespace aclgrad::check {
namespace {

struct Live {
  const char* type;
  Place made;
  bool used = false;                   // executors: by phase 2
  std::optional<int> device_id = {};   // executors: on which phase 1 was called
  std::optional<Place> reset_at = {};  // and where it was reset since
  std::string lost = {};               // where, in words, it was destroyed with its context
  bool misused = false;                // there is a finding that may explain why it is not released
};

struct Gone {
  const char* type;
  Place made;
  Place destroyed;
  std::shared_ptr<const void> object;
};

struct Handles {
  std::mutex mutex;
  std::map<const void*, Live> live;
  std::map<const void*, Gone> gone;
  std::list<const void*> oldest_gone_first;  // a deque takes memory when it is made
  bool library_was_started = false;
  std::optional<Place> library_started_at;  // while it is to be ended
};

Handles& handles() {
  static NeverDestroyed<Handles> handles;
  return *handles;
}

struct FailedPhase1 {
  std::string operator_name;
  std::string message;
};

std::mutex failed_phase_1_mutex;

// The newest of each thread.
FailedPhase1& failed_phase_1() {
  std::lock_guard lock(failed_phase_1_mutex);
  static NeverDestroyed<std::map<std::thread::id, FailedPhase1>> of_threads;
  return (*of_threads)[std::this_thread::get_id()];
}

// "was destroyed at …, made at …", empty where nothing is known.
std::string history_of(const void* handle) {
  Handles& all = handles();
  std::lock_guard lock(all.mutex);
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
  Handles& all = handles();
  std::lock_guard lock(all.mutex);
  all.gone.erase(handle);
  as_far_as_memory_goes([&] { all.live.insert_or_assign(handle, std::move(made)); });
}

void report_reset(std::string_view function, const void* executor, const Live& made) {
  report("executor-after-reset",
         fmt::format(
             "{} got aclOpExecutor {}, made at {}, but device {}, for which it was made, was reset at {}. "
             "Called at {}",
             function, executor, made.made.text(), *made.device_id, made.reset_at->text(),
             Place::here().text()));
}

}  // namespace

void handle_made(const void* handle, const char* type) noexcept {
  add(handle, {type, Place::here()});
}

void executor_made(const void* executor, std::optional<int> device_id) noexcept {
  Live made{"aclOpExecutor", Place::here()};
  made.device_id = device_id;
  add(executor, std::move(made));
}

void handle_gone(const void* handle, std::shared_ptr<const void> object) noexcept {
  constexpr size_t kMaxGone = 4096;
  Handles& all = handles();
  std::lock_guard lock(all.mutex);
  const auto found = all.live.find(handle);
  if (found == all.live.end()) return;  // not made by the program, as a default stream
  const Gone gone{found->second.type, found->second.made, Place::here(), std::move(object)};
  all.live.erase(found);
  as_far_as_memory_goes([&] {
    all.oldest_gone_first.push_back(handle);
    all.gone.insert_or_assign(handle, gone);
  });
  if (all.oldest_gone_first.size() <= kMaxGone) return;
  all.gone.erase(all.oldest_gone_first.front());
  all.oldest_gone_first.pop_front();
}

void handle_lost(const void* handle) {
  Handles& all = handles();
  std::lock_guard lock(all.mutex);
  const auto found = all.live.find(handle);
  if (found != all.live.end()) found->second.lost = Place::here().text();
}

void dead_handle(std::string_view function, const char* type, const void* handle) {
  const std::string history = history_of(handle);
  report_refusal("dead-handle", fmt::format("{} got {} {}, which {}. Called at {}", function, type, handle,
                                            history.empty() ? "is no live handle of that type" : history,
                                            Place::here().text()));
}

void foreign_stream(std::string_view function, const void* stream, const void* current_context) {
  report_refusal(
      "foreign-stream",
      fmt::format(
          "{} got aclrtStream {}, which does not belong to aclrtContext {}, which is current. Called at {}",
          function, stream, current_context, Place::here().text()));
}

void dead_executor(std::string_view function, const void* executor) {
  const std::string place = Place::here().text();
  if (const std::string history = history_of(executor); !history.empty()) {
    report_refusal("executor-reused",
                   fmt::format("{} got aclOpExecutor {}, which {}. Phase 2 uses up an executor that is not "
                               "repeatable. Called at {}",
                               function, executor, history, place));
  } else if (failed_phase_1().operator_name.empty()) {
    report_refusal("executor-missing", fmt::format("{} got aclOpExecutor {}, which phase 1 did not make. "
                                                   "Called at {}",
                                                   function, executor, place));
  } else {
    failures_were_explained();
    report_refusal(
        "executor-missing",
        fmt::format("{} got aclOpExecutor {} after the failure of {}GetWorkspaceSize: {} Called at {}",
                    function, executor, failed_phase_1().operator_name, failed_phase_1().message, place));
  }
}

bool executor_used(std::string_view function, const void* executor) {
  Handles& all = handles();
  std::lock_guard lock(all.mutex);
  const auto found = all.live.find(executor);
  if (found == all.live.end()) return true;
  Live& made = found->second;
  if (made.reset_at) report_reset(function, executor, made);
  return !std::exchange(made.used, true);
}

void device_reset(int device_id) {
  Handles& all = handles();
  std::lock_guard lock(all.mutex);
  for (auto& [handle, live] : all.live) {
    if (live.device_id == device_id && !live.reset_at) live.reset_at = Place::here();
  }
}

void remember_failed_phase_1(std::string_view operator_name, std::string_view message) {
  failed_phase_1() = {std::string(operator_name), std::string(message)};
}

void library_started(bool must_be_ended) {
  Handles& all = handles();
  std::lock_guard lock(all.mutex);
  all.library_was_started = true;
  if (must_be_ended) all.library_started_at = Place::here();
}

void library_ended() {
  Handles& all = handles();
  std::lock_guard lock(all.mutex);
  all.library_started_at.reset();
}

void check_library_started(std::string_view function) {
  Handles& all = handles();
  std::lock_guard lock(all.mutex);
  if (std::exchange(all.library_was_started, true)) return;
  report("not-initialized", fmt::format("{} before aclInit. Called at {}", function, Place::here().text()));
}

void report_unreleased_handles() {
  Handles& all = handles();
  std::lock_guard lock(all.mutex);
  if (all.library_started_at) {
    report("leak",
           fmt::format("aclFinalize never followed the aclInit at {}", all.library_started_at->text()),
           *all.library_started_at);
  }
  for (const auto& [handle, live] : all.live) {
    if (live.misused) continue;
    const bool is_unused_executor = std::string_view(live.type) == "aclOpExecutor" && !live.used;
    if (is_unused_executor) {
      report("executor-unused",
             fmt::format("aclOpExecutor {} was never given to phase 2. Made at {}", handle, live.made.text()),
             live.made);
    } else {
      report("leak",
             fmt::format("{} {} was never destroyed. Made at {}", live.type, handle, live.made.text()),
             live.made);
    }
  }
}

void act_on_handle_locks(LockAction action) {
  action(handles().mutex);
  action(failed_phase_1_mutex);
}

}  // namespace aclgrad::check
