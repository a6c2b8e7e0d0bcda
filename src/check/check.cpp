#include "check/check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "acl/acl_base.h"
#include "base/environment.h"
#include "base/error.h"
#include "check/handles.h"
#include "check/memory.h"
#include "check/order.h"

namespace aclgrad::check {
namespace {

constexpr size_t kMaxShownOfOnePlace = 10;
constexpr int kExitStatus = 86;

struct Reports {
  std::mutex mutex;
  std::map<std::string, size_t> count_by_kind;
  std::map<std::pair<std::string, const void*>, size_t> count_by_place;
  size_t count = 0;
  size_t hidden = 0;
};

Reports& reports() {
  static Reports& reports = *new Reports;
  return reports;
}

// A call that failed, and that nobody asked about yet.
struct Failure {
  std::thread::id thread;
  Status status;
  std::string text;
  Place place;
};

struct Failures {
  std::mutex mutex;
  std::vector<Failure> unread;
};

Failures& failures() {
  static Failures& failures = *new Failures;
  return failures;
}

thread_local bool refusal_reported = false;

// Right programs may go on after these without a question.
bool is_harmless(Status status) {
  switch (status) {
    case ACL_ERROR_REPEAT_INITIALIZE:
    case ACL_ERROR_REPEAT_FINALIZE:
    case ACL_ERROR_API_NOT_SUPPORT:
    case ACL_ERROR_RT_FEATURE_NOT_SUPPORT:
    case ACL_ERROR_RT_SYSPARAMOPT_NOT_SET:
    case ACL_ERROR_RT_STREAM_SYNC_TIMEOUT:
    case ACL_ERROR_RT_EVENT_SYNC_TIMEOUT:
    case ACL_ERROR_RT_EVENT_NOT_COMPLETE:
    case ACL_ERROR_RT_REPORT_TIMEOUT:
    case ACL_ERROR_RT_THREAD_SUBSCRIBE:
      return true;
    default:
      return false;
  }
}

void remember_failure(const Error& error) {
  if (std::exchange(refusal_reported, false) || is_harmless(error.status())) return;
  Failures& all = failures();
  std::lock_guard lock(all.mutex);
  constexpr size_t kMaxFailures = 1000;
  if (all.unread.size() == kMaxFailures) return;
  all.unread.push_back({std::this_thread::get_id(), error.status(), error.text(), Place::here()});
}

// Of the calling thread: its message.
std::string take_newest_failure() {
  Failures& all = failures();
  std::lock_guard lock(all.mutex);
  const auto newest = std::find_if(all.unread.rbegin(), all.unread.rend(),
                                   [](const Failure& f) { return f.thread == std::this_thread::get_id(); });
  if (newest == all.unread.rend()) return {};
  std::string text = std::move(newest->text);
  all.unread.erase(std::next(newest).base());
  return text;
}

void report_unread_failures() {
  for (const Failure& failure : failures().unread) {
    report(
        "ignored-status",
        fmt::format("a call failed with status {} and the program went on to success without asking why: {} "
                    "Called at {}",
                    failure.status, failure.text, failure.place.text()),
        failure.place);
  }
}

void print_summary() {
  const Reports& all = reports();
  std::string kinds;
  for (const auto& [kind, count] : all.count_by_kind) {
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, kind);
  }
  if (all.count == 0) {
    fmt::print(stderr, "aclgrad check summary: no findings\n");
  } else {
    fmt::print(stderr, "aclgrad check summary: {} finding{} ({}), {} of them not shown\n", all.count,
               all.count == 1 ? "" : "s", kinds, all.hidden);
  }
}

void finish(int exit_status, void* process) {
  if (getpid() != static_cast<pid_t>(reinterpret_cast<intptr_t>(process))) return;  // a fork, not the program
  report_unfinished_copies();
  report_damaged_guards();
  report_unreleased_memory();
  report_unreleased_handles();
  if (exit_status == EXIT_SUCCESS) report_unread_failures();
  print_summary();
  if (reports().count == 0 || Environment::get().check != CheckMode::error) return;
  // exit() cannot change its status any more, so what it would still do is done here.
  std::cout.flush();
  std::fflush(nullptr);
  _exit(kExitStatus);
}

// While the library is loaded, that is before main: exit handlers run last in, first out, and the program's own
// destructors must have run before anything is called unreleased.
bool start() {
  if (Environment::get().check == CheckMode::off) return false;
  on_exit(finish, reinterpret_cast<void*>(static_cast<intptr_t>(getpid())));
  observe_failures(remember_failure);
  return true;
}

}  // namespace

const bool enabled = start();

void report(const char* kind, std::string_view text, const Place& place) {
  Reports& all = reports();
  std::lock_guard lock(all.mutex);
  ++all.count;
  ++all.count_by_kind[kind];
  if (++all.count_by_place[{kind, place.innermost()}] > kMaxShownOfOnePlace) {
    ++all.hidden;
  } else {
    std::string line = fmt::format("aclgrad check: {}: {}", kind, text);
    std::replace(line.begin(), line.end(), '\n', ' ');
    fmt::print(stderr, "{}\n", line);
  }
  if (Environment::get().check == CheckMode::abort) std::abort();
}

void report_refusal(const char* kind, std::string_view text) {
  report(kind, text);
  refusal_reported = true;
}

void failures_were_read() {
  Failures& all = failures();
  std::lock_guard lock(all.mutex);
  std::erase_if(all.unread, [](const Failure& f) { return f.thread == std::this_thread::get_id(); });
}

void failure_was_an_answer() {
  take_newest_failure();
}

void phase_1_failed(std::string_view operator_name) {
  remember_failed_phase_1(operator_name, take_newest_failure());
}

}  // namespace aclgrad::check
