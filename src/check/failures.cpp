// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/failures.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "acl/acl_base.h"
#include "aclnn/opdev/op_errno.h"
#include "base/error.h"
#include "base/never_destroyed.h"
#include "check/check.h"
#include "check/results.h"

namespace aclgrad::check {
namespace {

// A call that failed.
struct Failure {
  uint64_t number;
  std::thread::id thread;
  Status status;
  std::string text;
  CallStack place;
  enum class Standing { unread, read, explained } standing;  // explained: by a finding
  std::string phase_1_of = {};                               // the operator, where it is one of phase 1
};

struct Failures {
  std::mutex mutex;
  std::deque<Failure> all;  // newest last
  uint64_t count = 0;
};

Failures& failures() {
  static NeverDestroyed<Failures> failures;
  return *failures;
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

bool is_of_this_thread(const Failure& failure) {
  return failure.thread == std::this_thread::get_id();
}

std::string text_of(const Failure& failure) {
  return fmt::format("status {}: {} Called at {}", failure.status, failure.text, failure.place.text());
}

}  // namespace

void remember_failure(const Error& error) {
  if (error.status() == ACLNN_ERR_RUNTIME_ERROR) return;  // stands for the failure before it
  Failures& failed = failures();
  std::lock_guard lock(failed.mutex);
  constexpr size_t kMaxFailures = 1000;
  if (failed.all.size() == kMaxFailures) failed.all.pop_front();
  failed.all.push_back({++failed.count, std::this_thread::get_id(), error.status(), error.text(),
                        CallStack::here(), first_standing(error.status())});
}

void failure_is_explained() {
  refusal_reported = true;
}

void failures_were_read() {
  forget_missing_results();
  Failures& failed = failures();
  std::lock_guard lock(failed.mutex);
  for (Failure& failure : failed.all) {
    const bool is_news = is_of_this_thread(failure) && failure.standing == Failure::Standing::unread;
    if (is_news) failure.standing = Failure::Standing::read;
  }
}

void failures_were_explained() {
  forget_missing_results();
  Failures& failed = failures();
  std::lock_guard lock(failed.mutex);
  for (Failure& failure : failed.all) {
    if (is_of_this_thread(failure)) failure.standing = Failure::Standing::explained;
  }
}

void failure_was_explained(uint64_t number) {
  Failures& failed = failures();
  std::lock_guard lock(failed.mutex);
  for (Failure& failure : failed.all) {
    if (failure.number == number) failure.standing = Failure::Standing::explained;
  }
}

void failure_was_an_answer() {
  Failures& failed = failures();
  std::lock_guard lock(failed.mutex);
  const auto newest = std::find_if(failed.all.rbegin(), failed.all.rend(), is_of_this_thread);
  if (newest != failed.all.rend()) failed.all.erase(std::next(newest).base());
}

void phase_1_failed(std::string_view operator_name, std::vector<Use> outputs) {
  Failures& failed = failures();
  std::lock_guard lock(failed.mutex);
  const auto newest = std::find_if(failed.all.rbegin(), failed.all.rend(), is_of_this_thread);
  if (newest == failed.all.rend()) return;
  const bool is_news = newest->standing == Failure::Standing::unread;
  if (is_news) newest->standing = Failure::Standing::read;
  as_far_as_memory_goes([&] {
    newest->phase_1_of = operator_name;
    if (is_news) miss_results(operator_name, std::move(outputs), newest->number, text_of(*newest));
  });
}

std::string failed_phase_1() {
  Failures& failed = failures();
  std::lock_guard lock(failed.mutex);
  const auto newest = std::find_if(failed.all.rbegin(), failed.all.rend(), [](const Failure& failure) {
    return is_of_this_thread(failure) && !failure.phase_1_of.empty();
  });
  if (newest == failed.all.rend()) return {};
  return fmt::format("{}GetWorkspaceSize: {}", newest->phase_1_of, newest->text);
}

void act_on_failure_lock(LockAction action) {
  action(failures().mutex);
}

void report_ignored_failures() {
  Failures& failed = failures();
  std::lock_guard lock(failed.mutex);  // other threads may still call
  for (const Failure& failure : failed.all) {
    if (failure.standing == Failure::Standing::unread) {
      report("ignored-status", failure.place,
             "the program went on to success without asking why a call had failed with {}", text_of(failure));
    } else if (failure.standing == Failure::Standing::read && is_misuse(failure.status)) {
      report("failed-call", failure.place, "only a mistake of the program makes a call fail with {}",
             text_of(failure));
    }
  }
}

// A program that has given up after a failed call need not release what it has.
bool report_giving_up(int exit_status) {
  Failures& failed = failures();
  std::lock_guard lock(failed.mutex);
  if (failed.all.empty()) return false;
  const Failure& reason = failed.all.back();
  if (reason.standing == Failure::Standing::explained) return true;
  report("failed-call", reason.place, "the program ended with status {} after a call had failed with {}",
         exit_status, text_of(reason));
  return true;
}

}  // namespace aclgrad::check
