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
#include "check/checker.h"
#include "check/memory.h"

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
  std::deque<Failure> all;  // newest last
  uint64_t count = 0;
};

constexpr Singleton<Failures> failures{};

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

void failure_was_explained(uint64_t number) {
  std::lock_guard lock(failures_mutex);
  for (Failure& failure : failures().all) {
    if (failure.number == number) failure.standing = Failure::Standing::explained;
  }
}

// ---- Results of operators: whether a result that the program reads was ever computed ----

struct Missing {
  std::thread::id thread;
  std::string what;  // operator and parameter
  Region region;
  uint64_t failure;
  std::string failure_text;
};

struct Results {
  std::vector<Missing> missing;
  std::vector<Region> unread;  // what operators have written
};

constexpr Singleton<Results> results{};

void report_missing(const Call& call, const Use& use, const Missing& missing) {
  const CallStack here = CallStack::here();
  report("ignored-status", here,
         "{} reads what {} was to be, which nothing has written since phase 1 failed and the program went on "
         "without asking why. It failed with {} Read at {}",
         text_of(call, use), missing.what, missing.failure_text, here.text());
  failure_was_explained(missing.failure);
  take_as_written(use.region);  // that it holds nothing of use was said
}

bool is_used(const Call& call, const Region& region) {
  return std::any_of(call.uses.begin(), call.uses.end(),
                     [&](const Use& use) { return overlap(use.region, region); });
}

// The use of the call that reads what is missing.
const Use* reader_of(const Call& call, const Missing& missing) {
  const auto use = std::find_if(call.uses.begin(), call.uses.end(),
                                [&](const Use& u) { return !u.writes && overlap(u.region, missing.region); });
  return use != call.uses.end() ? &*use : nullptr;
}

void forget_unread(const Region& region) noexcept {
  std::erase_if(results().unread, [&](const Region& unread) { return overlap(unread, region); });
}

// Those that the call reads. Those that it writes are missing no more.
std::vector<Missing> take_missing(const Call& call) {
  std::vector<Missing> read;
  for (const Missing& missing : results().missing) {
    if (reader_of(call, missing) != nullptr) read.push_back(missing);
  }
  std::erase_if(results().missing, [&](const Missing& missing) { return is_used(call, missing.region); });
  return read;
}

// Phase 1 has failed in the calling thread, with the failure of this number. The outputs are missing from then on, unless
// they hold the result of an earlier operator that was not read yet.
void miss_results(std::string_view operator_name, std::vector<Use> outputs, uint64_t failure,
                  const std::string& failure_text) {
  for (Use& output : outputs) output.region = part_in_live_memory(output.region);
  Results& all = results();
  for (Use& output : outputs) {
    const auto shares = [&](const Region& region) { return overlap(region, output.region); };
    const bool holds_earlier = std::any_of(all.unread.begin(), all.unread.end(), shares);
    if (holds_earlier || output.region.empty()) continue;
    std::erase_if(all.missing, [&](const Missing& missing) { return shares(missing.region); });
    constexpr size_t kMaxMissing = 1000;
    if (all.missing.size() == kMaxMissing) all.missing.erase(all.missing.begin());
    all.missing.push_back({std::this_thread::get_id(), fmt::format("{}.{}", operator_name, output.parameter),
                           std::move(output.region), failure, failure_text});
  }
}

// The calling thread has taken note of its failures.
void forget_missing_results() noexcept {
  std::erase_if(results().missing,
                [](const Missing& missing) { return missing.thread == std::this_thread::get_id(); });
}

}  // namespace

std::mutex failures_mutex;

void Checker::error_recorded(const Error& error) {
  if (error.status() == ACLNN_ERR_RUNTIME_ERROR) return;  // stands for the failure before it
  std::lock_guard lock(failures_mutex);
  Failures& failed = failures();
  constexpr size_t kMaxFailures = 1000;
  if (failed.all.size() == kMaxFailures) failed.all.pop_front();
  failed.all.push_back({++failed.count, std::this_thread::get_id(), error.status(), error.text(),
                        CallStack::here(), first_standing(error.status())});
}

void failure_is_explained() {
  refusal_reported = true;
}

void Checker::errors_read() {
  std::lock_guard lock_calls(calls_mutex);
  forget_missing_results();
  std::lock_guard lock(failures_mutex);
  for (Failure& failure : failures().all) {
    const bool is_news = is_of_this_thread(failure) && failure.standing == Failure::Standing::unread;
    if (is_news) failure.standing = Failure::Standing::read;
  }
}

void failures_were_explained() {
  forget_missing_results();
  std::lock_guard lock(failures_mutex);
  for (Failure& failure : failures().all) {
    if (is_of_this_thread(failure)) failure.standing = Failure::Standing::explained;
  }
}

// The calling thread's newest failure was the answer to a question, such as "there is no context".
void Checker::question_failed() {
  std::lock_guard lock(failures_mutex);
  Failures& failed = failures();
  const auto newest = std::find_if(failed.all.rbegin(), failed.all.rend(), is_of_this_thread);
  if (newest != failed.all.rend()) failed.all.erase(std::next(newest).base());
}

void note_failed_phase_1(std::string_view operator_name, std::vector<Use> outputs) {
  std::lock_guard lock(failures_mutex);
  Failures& failed = failures();
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
  std::lock_guard lock(failures_mutex);
  Failures& failed = failures();
  const auto newest = std::find_if(failed.all.rbegin(), failed.all.rend(), [](const Failure& failure) {
    return is_of_this_thread(failure) && !failure.phase_1_of.empty();
  });
  if (newest == failed.all.rend()) return {};
  return fmt::format("{}GetWorkspaceSize: {}", newest->phase_1_of, newest->text);
}

void forget_results(const Region& memory) noexcept {
  std::erase_if(results().missing, [&](const Missing& missing) { return overlap(missing.region, memory); });
  forget_unread(memory);
}

void check_results(const Call& call) {
  for (const Missing& missing : take_missing(call)) report_missing(call, *reader_of(call, missing), missing);
  for (const Use& use : call.uses) {
    forget_unread(use.region);
    if (use.writes && call.is_operator && !use.region.empty()) results().unread.push_back(use.region);
  }
}

void report_ignored_failures() {
  std::lock_guard lock(failures_mutex);  // other threads may still call
  Failures& failed = failures();
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
  std::lock_guard lock(failures_mutex);
  Failures& failed = failures();
  if (failed.all.empty()) return false;
  const Failure& reason = failed.all.back();
  if (reason.standing == Failure::Standing::explained) return true;
  report("failed-call", reason.place, "the program ended with status {} after a call had failed with {}",
         exit_status, text_of(reason));
  return true;
}

}  // namespace aclgrad::check
