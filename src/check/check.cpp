#include "check/check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "acl/acl_base.h"
#include "aclnn/opdev/op_errno.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/never_destroyed.h"
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
  static NeverDestroyed<Reports> reports;
  return *reports;
}

// A call that failed.
struct Failure {
  std::thread::id thread;
  Status status;
  std::string text;
  Place place;
  enum class Standing { unread, read, explained } standing;  // explained: by a finding
};

struct Failures {
  std::mutex mutex;
  std::deque<Failure> all;  // newest last
};

Failures& failures() {
  static NeverDestroyed<Failures> failures;
  return *failures;
}

thread_local bool refusal_reported = false;

std::atomic<bool> gave_up_watching{false};

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

// No right program runs into these, whatever it does then.
bool is_misuse(Status status) {
  switch (status) {
    case ACL_ERROR_RT_PARAM_INVALID:
    case ACL_ERROR_RT_CONTEXT_NULL:
    case ACL_ERROR_RT_INTERNAL_ERROR:
    case ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID:
    case ACL_ERROR_RT_STREAM_NO_CB_REG:
      return true;
    default:
      return false;
  }
}

Failure::Standing first_standing(Status status) {
  if (std::exchange(refusal_reported, false)) return Failure::Standing::explained;
  return is_harmless(status) ? Failure::Standing::read : Failure::Standing::unread;
}

void remember_failure(const Error& error) {
  if (error.status() == ACLNN_ERR_RUNTIME_ERROR) return;  // stands for the failure before it
  Failures& failed = failures();
  std::lock_guard lock(failed.mutex);
  constexpr size_t kMaxFailures = 1000;
  if (failed.all.size() == kMaxFailures) failed.all.pop_front();
  failed.all.push_back({std::this_thread::get_id(), error.status(), error.text(), Place::here(),
                        first_standing(error.status())});
}

bool is_of_this_thread(const Failure& failure) {
  return failure.thread == std::this_thread::get_id();
}

std::string text_of(const Failure& failure) {
  return fmt::format("status {}: {} Called at {}", failure.status, failure.text, failure.place.text());
}

void report_failures() {
  for (const Failure& failure : failures().all) {
    if (failure.standing == Failure::Standing::unread) {
      report("ignored-status",
             fmt::format("the program went on to success without asking why a call had failed with {}",
                         text_of(failure)),
             failure.place);
    } else if (failure.standing == Failure::Standing::read && is_misuse(failure.status)) {
      report("failed-call", fmt::format("no right program makes a call that fails with {}", text_of(failure)),
             failure.place);
    }
  }
}

// A program that has given up after a failed call need not release what it has.
void report_giving_up(int exit_status) {
  const Failure& reason = failures().all.back();
  if (reason.standing == Failure::Standing::explained) return;
  report("failed-call",
         fmt::format("the program ended with status {} after a call had failed with {}", exit_status,
                     text_of(reason)),
         reason.place);
}

// Where standard error cannot be written, as on a full disk, findings still count.
void print_line(std::string line) {
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void print_summary() {
  if (gave_up_watching) {
    std::fputs("aclgrad check: memory ran out, and nothing was watched from then on\n", stderr);
  }
  const Reports& all = reports();
  std::string kinds;
  for (const auto& [kind, count] : all.count_by_kind) {
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, kind);
  }
  if (all.count == 0) {
    print_line("aclgrad check summary: no findings");
  } else {
    print_line(fmt::format("aclgrad check summary: {} finding{} ({}), {} of them not shown", all.count,
                           all.count == 1 ? "" : "s", kinds, all.hidden));
  }
}

void finish(int exit_status, void* process) {
  if (getpid() != static_cast<pid_t>(reinterpret_cast<intptr_t>(process))) return;  // a fork, not the program
  report_unfinished_copies();
  report_damaged_guards();
  const bool gave_up = exit_status != EXIT_SUCCESS && !failures().all.empty();
  if (gave_up) {
    report_giving_up(exit_status);
  } else {
    report_unreleased_memory();
    report_unreleased_handles();
    if (exit_status == EXIT_SUCCESS) report_failures();
  }
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

void give_up() noexcept {
  gave_up_watching = true;
}

void report(const char* kind, std::string_view text, const Place& place) {
  if (gave_up_watching) return;
  Reports& all = reports();
  std::lock_guard lock(all.mutex);
  ++all.count;
  ++all.count_by_kind[kind];
  if (++all.count_by_place[{kind, place.innermost()}] > kMaxShownOfOnePlace) {
    ++all.hidden;
  } else {
    std::string line = fmt::format("aclgrad check: {}: {}", kind, text);
    std::replace(line.begin(), line.end(), '\n', ' ');
    print_line(std::move(line));
  }
  if (Environment::get().check == CheckMode::abort) std::abort();
}

void report_refusal(const char* kind, std::string_view text) {
  report(kind, text);
  refusal_reported = true;
}

void failures_were_read() {
  Failures& failed = failures();
  std::lock_guard lock(failed.mutex);
  for (Failure& failure : failed.all) {
    const bool is_news = is_of_this_thread(failure) && failure.standing == Failure::Standing::unread;
    if (is_news) failure.standing = Failure::Standing::read;
  }
}

void failures_were_explained() {
  Failures& failed = failures();
  std::lock_guard lock(failed.mutex);
  for (Failure& failure : failed.all) {
    if (is_of_this_thread(failure)) failure.standing = Failure::Standing::explained;
  }
}

void failure_was_an_answer() {
  Failures& failed = failures();
  std::lock_guard lock(failed.mutex);
  const auto newest = std::find_if(failed.all.rbegin(), failed.all.rend(), is_of_this_thread);
  if (newest != failed.all.rend()) failed.all.erase(std::next(newest).base());
}

void phase_1_failed(std::string_view operator_name) {
  Failures& failed = failures();
  std::lock_guard lock(failed.mutex);
  const auto newest = std::find_if(failed.all.rbegin(), failed.all.rend(), is_of_this_thread);
  if (newest == failed.all.rend()) return;
  const bool is_news = newest->standing == Failure::Standing::unread;
  if (is_news) newest->standing = Failure::Standing::read;
  as_far_as_memory_goes([&] { remember_failed_phase_1(operator_name, newest->text); });
}

void act_on_failure_lock(LockAction action) {
  action(failures().mutex);
}

void act_on_report_lock(LockAction action) {
  action(reports().mutex);
}

}  // namespace aclgrad::check
