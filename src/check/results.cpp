// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/results.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/never_destroyed.h"
#include "check/check.h"
#include "check/failures.h"
#include "check/memory.h"

namespace aclgrad::check {
namespace {

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

Results& results() {
  static NeverDestroyed<Results> results;
  return *results;
}

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

void forget_unread(Results& all, const Region& region) noexcept {
  std::erase_if(all.unread, [&](const Region& unread) { return overlap(unread, region); });
}

// Those that the call reads. Those that it writes are missing no more.
std::vector<Missing> take_missing(const Call& call) {
  Results& all = results();
  std::vector<Missing> read;
  for (const Missing& missing : all.missing) {
    if (reader_of(call, missing) != nullptr) read.push_back(missing);
  }
  std::erase_if(all.missing, [&](const Missing& missing) { return is_used(call, missing.region); });
  return read;
}

}  // namespace

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

void forget_missing_results() noexcept {
  Results& all = results();
  std::erase_if(all.missing,
                [](const Missing& missing) { return missing.thread == std::this_thread::get_id(); });
}

void forget_results(const Region& memory) noexcept {
  Results& all = results();
  std::erase_if(all.missing, [&](const Missing& missing) { return overlap(missing.region, memory); });
  forget_unread(all, memory);
}

void check_results(const Call& call) {
  for (const Missing& missing : take_missing(call)) report_missing(call, *reader_of(call, missing), missing);
  Results& all = results();
  for (const Use& use : call.uses) {
    forget_unread(all, use.region);
    if (use.writes && call.is_operator && !use.region.empty()) all.unread.push_back(use.region);
  }
}

}  // namespace aclgrad::check
