// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Exhaustion: every request for memory, or for a thread, made to fail in turn, alone and with all later ones. Each time
// the calls must answer with an error or with right results; nothing may crash, hang or leak; and the same calls must
// succeed right afterwards.
//
//   exhaustion memory|threads [n]    with n, only every nth request
#include <execinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "faults.h"
#include "scenarios.h"

namespace {

using faults::Extent;
using faults::Resource;

// What is being done, for the last words.
struct Position {
  const char* scenario = "";
  int64_t first = 0;
  Extent extent = Extent::one;
};

Position position;

const char* words_of(Extent extent) {
  return extent == Extent::one ? "alone" : "and all later ones";
}

// Takes no lock: the signal may have come while one is held.
void say_where(int signal) {
  faults::disarm();
  char line[200];
  const int length = std::snprintf(line, sizeof line, "signal %d%s in \"%s\" while request %lld %s failed\n",
                                   signal, signal == SIGALRM ? ": it hangs" : "", position.scenario,
                                   static_cast<long long>(position.first), words_of(position.extent));
  if (write(STDERR_FILENO, line, static_cast<size_t>(length)) < 0) _exit(1);
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void require(bool holds, const char* what, int status = 0) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s (status %d)\n", what, status);
  std::abort();
}

struct Totals {
  int64_t refused = 0;  // requests
  int64_t runs = 0;
  int64_t failed_calls = 0;
};

Totals totals;

int64_t stride = 1;  // from one request that is made to fail to the next

constexpr unsigned kSecondsPerRun = 60;

// One run in which request `first` fails. False once there was none of that number.
bool run_with_fault(const scenarios::Run& run, Resource resource, int64_t first, Extent extent) {
  position.first = first;
  position.extent = extent;
  alarm(kSecondsPerRun);
  aclGetRecentErrMsg();
  faults::arm(resource, first, extent);
  const int status = run();
  const faults::Count count = faults::disarm();
  const char* message = aclGetRecentErrMsg();
  if (status != ACL_SUCCESS) require(message != nullptr && *message != '\0', "there is a message", status);
  if (count.refused == 0) require(status == ACL_SUCCESS, "without a fault it succeeds", status);
  totals.refused += count.refused;
  totals.runs += 1;
  totals.failed_calls += status != ACL_SUCCESS;
  return count.refused > 0;
}

void run_undisturbed(const scenarios::Run& run) {
  alarm(kSecondsPerRun);
  const int status = run();
  const char* message = status != ACL_SUCCESS ? aclGetRecentErrMsg() : nullptr;
  if (message != nullptr) std::fprintf(stderr, "%s\n", message);
  require(status == ACL_SUCCESS, "without a fault it succeeds", status);
}

// What lives afterwards may be more a few times, where tables have grown, but not each time.
bool leaks(const scenarios::Run& run, Resource resource, int64_t first, Extent extent) {
  constexpr int kTimes = 200;
  for (int time = 0; time < kTimes; ++time) {
    const int64_t before = faults::live_allocations();
    run_with_fault(run, resource, first, extent);
    run_undisturbed(run);
    if (faults::live_allocations() <= before) return false;
  }
  return true;
}

// The checker remembers what was released.
bool leaks_are_counted() {
  const char* check = std::getenv("ACLGRAD_CHECK");
  return check == nullptr || std::string_view(check) == "0";
}

void exhaust(const scenarios::Scenario& scenario, Resource resource, Extent extent) {
  position.scenario = scenario.name.c_str();
  for (int time = 0; time < 3; ++time) run_undisturbed(scenario.run);
  for (int64_t first = 1;; first += stride) {
    const int64_t before = faults::live_allocations();
    const bool had_fault = run_with_fault(scenario.run, resource, first, extent);
    run_undisturbed(scenario.run);
    const bool grew = leaks_are_counted() && faults::live_allocations() > before;
    if (grew) require(!leaks(scenario.run, resource, first, extent), "nothing leaks");
    if (!had_fault) return;
  }
}

// Ends with the status that the body returns in a process of its own.
template <class Body>
int run_in_child(Body&& body) {
  const pid_t child = fork();
  require(child >= 0, "fork");
  if (child == 0) std::exit(body());
  int status = 0;
  require(waitpid(child, &status, 0) == child, "waitpid");
  require(WIFEXITED(status), "the child ends by itself", status);
  totals.runs += 1;
  return WEXITSTATUS(status);
}

// The first use of the library in a process. False once nothing failed.
bool exhaust_first_use(Resource resource, int64_t first, Extent extent) {
  constexpr int kHadFault = 10;
  position = {"whole program", first, extent};
  const int status = run_in_child([&] {
    const bool had_fault = run_with_fault(scenarios::whole_program, resource, first, extent);
    run_undisturbed(scenarios::whole_program);
    return had_fault ? kHadFault : 0;
  });
  require(status == kHadFault || status == 0, "the child succeeds", status);
  totals.refused += status == kHadFault;
  return status == kHadFault;
}

// A process that may have few threads, as under a limit of the user or the container.
void run_with_few_threads(int64_t max_threads) {
  position = {"whole program with few threads", max_threads, Extent::all_later};
  const int status = run_in_child([&] {
    alarm(kSecondsPerRun);
    faults::limit_threads(max_threads);
    const int with_limit = scenarios::whole_program();
    if (with_limit != ACL_SUCCESS) require(aclGetRecentErrMsg() != nullptr, "there is a message", with_limit);
    faults::limit_threads(INT64_MAX);
    run_undisturbed(scenarios::whole_program);
    return 0;
  });
  require(status == 0, "the child succeeds", status);
}

}  // namespace

int main(int count, char** arguments) {
  require(count >= 2, "usage: exhaustion memory|threads [n]");
  if (count >= 3) stride = std::atoll(arguments[2]);
  require(stride > 0, "a stride is positive");
  const Resource resource =
      std::string_view(arguments[1]) == "threads" ? Resource::threads : Resource::memory;
  void* frame = nullptr;
  backtrace(&frame, 1);  // loads what it needs now
  for (int signal : {SIGABRT, SIGSEGV, SIGALRM}) std::signal(signal, say_where);
  const std::vector<scenarios::Scenario>& all = scenarios::on_a_device();  // before anything fails
  for (const Extent extent : {Extent::one, Extent::all_later}) {
    for (int64_t first = 1; exhaust_first_use(resource, first, extent);) first += stride;
  }
  if (resource == Resource::threads) {
    const auto all_threads = static_cast<int64_t>(std::thread::hardware_concurrency()) + 4;
    for (int64_t threads = 0; threads <= all_threads; ++threads) run_with_few_threads(threads);
  }
  require(aclInit(nullptr) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS, "the library starts");
  for (const scenarios::Scenario& scenario : all) {
    const Totals before = totals;
    for (const Extent extent : {Extent::one, Extent::all_later}) exhaust(scenario, resource, extent);
    std::printf("%-45s %5lld runs, %5lld of them with a failing call\n", scenario.name.c_str(),
                static_cast<long long>(totals.runs - before.runs),
                static_cast<long long>(totals.failed_calls - before.failed_calls));
    std::fflush(stdout);
  }
  require(aclrtResetDevice(0) == ACL_SUCCESS && aclFinalize() == ACL_SUCCESS, "the library ends");
  std::printf("%lld runs, %lld requests refused, all survived\n", static_cast<long long>(totals.runs),
              static_cast<long long>(totals.refused));
}
