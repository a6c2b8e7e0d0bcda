// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Programs of which main returns while other threads are in calls: they end well, whatever the threads are about.
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "../check/programs/program.h"
#include "aclgrad/grouped_bias_add.h"

namespace {

constexpr int kThreads = 3;

std::atomic<bool> exiting{false};

// Registered before any library starts, and so called when all have ended: threads go on for a while then.
void wait_at_the_end(int, void*) {
  if (exiting) usleep(100000);
}
void register_wait(int, char**, char**) {
  on_exit(wait_at_the_end, nullptr);
}
__attribute__((section(".preinit_array"), used)) void (*register_first)(int, char**, char**) = register_wait;

void fail_for_ever() {
  for (;;) {
    aclrtFree(nullptr);
    aclrtMemset(nullptr, 1, 0, 2);
    aclrtSynchronizeStream(reinterpret_cast<aclrtStream>(2));
  }
}

// A kernel with so much work that it runs on several threads, and so little that it runs in this one.
void run_kernel() {
  constexpr int64_t kTall = 1024, kWide = 256;
  must(aclrtSetDevice(0));
  const Stream stream = new_stream();
  const Memory input = device_ones(kTall * kWide * sizeof(float));
  const Memory output = device_memory(kWide * sizeof(float));
  const Tensor grad_y = tensor(input, {1, kTall, kWide}), out = tensor(output, {1, kWide});
  Operator<aclnnGroupedBiasAddGradGetWorkspaceSize, aclnnGroupedBiasAddGrad> gradient;
  gradient.plan(grad_y, nullptr, out);
  gradient.queue(stream);
  must(aclrtSynchronizeStream(stream));
}

// Each in a new thread.
void run_kernels_for_ever() {
  for (;;) std::thread(run_kernel).join();
}

// The handler of a signal that comes in the middle of a kernel ends the process.
[[noreturn]] void exit_by_signal() {
  constexpr int64_t kTall = 1 << 14, kWide = 1 << 8;
  const std::vector<float> rows(kTall * kWide, 1);
  std::vector<float> sums(kWide);
  aclgrad::GroupedBiasAddBackward problem;
  problem.grad_output = {rows.data(), {1, kTall, kWide}};
  problem.grad_bias = {sums.data(), {1, kWide}};
  const aclgrad::Workspace workspace(workspace_size(problem));
  std::signal(SIGALRM, [](int) { std::exit(EXIT_SUCCESS); });
  const itimerval soon{{0, 0}, {0, 30000}};
  setitimer(ITIMER_REAL, &soon, nullptr);
  for (;;) aclgrad::grouped_bias_add_backward(problem, workspace);
}

}  // namespace

int main(int, char** arguments) {
  const std::string_view way = arguments[1];
  if (way == "signal") exit_by_signal();
  must(aclInit(nullptr));
  must(aclrtSetDevice(0));
  const bool has_kernels = way == "kernels" || way == "first_kernels";
  for (int i = 0; i < kThreads; ++i) {
    std::thread(has_kernels ? run_kernels_for_ever : fail_for_ever).detach();
  }
  if (way != "first_kernels") std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (way == "finalize") aclFinalize();
  if (way == "reset") aclrtResetDevice(0);
  exiting = true;
}
