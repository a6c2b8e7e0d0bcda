// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/check.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "base/environment.h"
#include "base/never_destroyed.h"

namespace aclgrad::check {
namespace {

constexpr size_t kMaxShownOfOnePlace = 10;

struct Reports {
  std::map<std::string, size_t> count_by_kind;
  std::map<std::pair<std::string, const void*>, size_t> count_by_place;
  size_t count = 0;
  size_t hidden = 0;
  bool summed_up = false;  // what other threads still do at exit is no finding any more
};

constexpr Singleton<Reports> reports{};

std::atomic<bool> gave_up_watching{false};

// Where standard error cannot be written, as on a full disk, findings still count.
void print_line(std::string line) {
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

std::mutex calls_mutex;
std::mutex reports_mutex;

size_t print_summary() {
  if (gave_up_watching) {
    std::fputs("aclgrad check: memory ran out, and nothing was watched from then on\n", stderr);
  }
  std::lock_guard lock(reports_mutex);
  Reports& all = reports();
  all.summed_up = true;
  std::string kinds;
  for (const auto& [kind, count] : all.count_by_kind) {
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, kind);
  }
  if (all.count == 0) {
    print_line("aclgrad check summary: no findings");
  } else {
    print_line(fmt::format("aclgrad check summary: {} finding{} ({}){}", all.count, all.count == 1 ? "" : "s",
                           kinds, all.hidden == 0 ? "" : fmt::format(", {} of them not shown", all.hidden)));
  }
  return all.count;
}

void give_up() noexcept {
  gave_up_watching = true;
}

void print_finding(const char* kind, const CallStack& place, std::string_view text) {
  if (gave_up_watching) return;
  std::lock_guard lock(reports_mutex);
  Reports& all = reports();
  if (all.summed_up) return;
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

}  // namespace aclgrad::check
