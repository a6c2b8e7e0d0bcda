// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Operators that leave out parts of their memory, failures that the program handles, and forks.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "aclnnop/aclnn_grid_sampler2d_backward.h"
#include "aclnnop/aclnn_multi_scale_deformable_attn_function.h"
#include "program.h"

PROGRAM(right_spare_rows) {
  // A buffer with room for more rows than the groups have: what lies behind them stays unset.
  constexpr size_t kRowBytes = kRows * kColumns * sizeof(float);
  const std::vector<float> ones(kRows * kColumns, 1.0f);
  Memory rows = device_memory(2 * kRowBytes), output = device_memory(kOutputBytes);
  must(aclrtMemcpy(rows, kRowBytes, ones.data(), kRowBytes, ACL_MEMCPY_HOST_TO_DEVICE));
  Memory ends = device_copy<int64_t>({1, kRows});
  Tensor group_idx = tensor(ends, {kGroups}, ACL_INT64);
  Tensor grad_y = tensor(rows, {2 * kRows, kColumns}), out = tensor(output, {kGroups, kColumns});
  Operator<aclnnGroupedBiasAddGradGetWorkspaceSize, aclnnGroupedBiasAddGrad> gradient;
  gradient.plan(grad_y, group_idx, out);
  gradient.queue(stream);
  must(aclrtSynchronizeStream(stream));
  float sums[kOutputs];
  must(aclrtMemcpy(sums, kOutputBytes, output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  require(sums[kColumns] == kRows - 1);
}

PROGRAM(right_attention_spare_rows) {
  // Rows of `value` outside of all levels, and entries of `levelStartIndex` behind the last level, stay unset.
  constexpr int64_t kPixels = 4;
  constexpr size_t kPixelBytes = kPixels * kColumns * sizeof(float);
  const std::vector<float> ones(kPixels * kColumns, 1.0f);
  const int64_t start = 0;
  Memory value = device_memory(3 * kPixelBytes), starts = device_memory(5 * sizeof start);
  must(aclrtMemcpy(value, kPixelBytes, ones.data(), kPixelBytes, ACL_MEMCPY_HOST_TO_DEVICE));
  must(aclrtMemcpy(starts, sizeof start, &start, sizeof start, ACL_MEMCPY_HOST_TO_DEVICE));
  Memory shapes = device_copy<int64_t>({2, 2});
  Memory location = device_copy<float>({0.5f, 0.5f}), weight = device_copy<float>({1.0f});
  Memory output = device_memory(kColumns * sizeof(float));
  Operator<aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize, aclnnMultiScaleDeformableAttnFunction>
      attention;
  const Tensor tensors[] = {tensor(value, {1, 3 * kPixels, 1, kColumns}),
                            tensor(shapes, {1, 2}, ACL_INT64),
                            tensor(starts, {5}, ACL_INT64),
                            tensor(location, {1, 1, 1, 1, 1, 2}),
                            tensor(weight, {1, 1, 1, 1, 1}),
                            tensor(output, {1, 1, kColumns})};
  attention.plan(tensors[0], tensors[1], tensors[2], tensors[3], tensors[4], tensors[5]);
  attention.queue(stream);
  must(aclrtSynchronizeStream(stream));
  float result = 0;
  must(aclrtMemcpy(&result, sizeof result, output, sizeof result, ACL_MEMCPY_DEVICE_TO_HOST));
  require(result == 1);
}

PROGRAM(right_masked_output) {
  // The gradient of the grid alone: the input stands in for the output that the mask rules out.
  constexpr size_t kBytes = 16 * sizeof(float);
  Memory memory[] = {device_ones(kBytes), device_ones(kBytes), device_ones(2 * kBytes),
                     device_memory(2 * kBytes)};
  Tensor grad_output = tensor(memory[0], {1, 1, 4, 4}), input = tensor(memory[1], {1, 1, 4, 4});
  Tensor grid = tensor(memory[2], {1, 4, 4, 2}), grid_grad = tensor(memory[3], {1, 4, 4, 2});
  const bool wanted[] = {false, true};
  const Owned<aclBoolArray*, aclDestroyBoolArray> mask(aclCreateBoolArray(wanted, 2));
  Operator<aclnnGridSampler2DBackwardGetWorkspaceSize, aclnnGridSampler2DBackward> gradient;
  gradient.plan(grad_output, input, grid, 0, 0, false, mask, input, grid_grad);
  gradient.queue(stream);
  must(aclrtSynchronizeStream(stream));
}

WHOLE_PROGRAM(right_resets) {
  // Resets that leave the executor's device alone: of another device, and one of two that its device needs. And an
  // executor that is destroyed after its device was reset.
  must(aclInit(nullptr));
  for (int device : {0, 1, 0, 0}) must(aclrtSetDevice(device));
  aclOpExecutor* executor = nullptr;
  {
    Stream stream = new_stream();
    BiasGrad gradient;
    gradient.plan();
    executor = gradient.executor;
    must(aclSetAclOpExecutorRepeatable(executor));
    gradient.queue(stream);
    for (int device : {1, 0, 0}) must(aclrtResetDevice(device));
    gradient.queue(stream);
    must(aclrtSynchronizeStream(stream));
  }
  must(aclrtResetDevice(0));
  must(aclDestroyAclOpExecutor(executor));
  must(aclFinalize());
}

WHOLE_PROGRAM(right_question) {
  int32_t device = -1;
  must(aclInit(nullptr));
  if (aclrtGetDevice(&device) != ACL_SUCCESS) must(aclrtSetDevice(0));
  must(aclrtResetDevice(0));
  must(aclFinalize());
}

PROGRAM(right_handled_failure) {
  void* memory = nullptr;
  if (aclrtMalloc(&memory, 0, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS)
    std::printf("%s\n", aclGetRecentErrMsg());
  // A question of which the status is the answer.
  Operator<aclnnGroupedBiasAddGradGetWorkspaceSize, aclnnGroupedBiasAddGrad> gradient;
  Tensor wrong = tensor(nullptr, {kGroups});
  require(gradient.try_plan(wrong, nullptr, wrong) != ACL_SUCCESS);
}

PROGRAM(right_refused_plan) {
  // Tries what the operator may refuse, and goes another way then.
  BiasGrad gradient;
  must(aclrtMemset(gradient.output, kOutputBytes, 0, kOutputBytes));
  Tensor out = tensor(gradient.output, {kGroups, kColumns});
  std::vector<float> result(kOutputs);
  Operator<aclnnGroupedBiasAddGradGetWorkspaceSize, aclnnGroupedBiasAddGrad> refused;
  Tensor flat = tensor(gradient.input, {kGroups * kRows, kColumns});  // refused without groups
  const auto try_refused = [&] { require(refused.try_plan(flat, nullptr, out) != ACL_SUCCESS); };
  const auto read = [&] {
    must(aclrtMemcpy(result.data(), kOutputBytes, gradient.output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  };

  // The output is the input, too, and holds what the program wrote.
  require(refused.try_plan(out, nullptr, out) != ACL_SUCCESS);
  read();

  // Another operator writes the result.
  try_refused();
  gradient.run(stream);
  // A question while the result is on its way, and one when it is there, but was not read.
  try_refused();
  must(aclrtSynchronizeStream(stream));
  try_refused();
  read();

  // The host computes the result.
  try_refused();
  must(aclrtMemcpy(gradient.output, kOutputBytes, result.data(), kOutputBytes, ACL_MEMCPY_HOST_TO_DEVICE));
  read();

  // The program asks why, and shows that the refused call has left the output alone.
  try_refused();
  require(std::strstr(aclGetRecentErrMsg(), "expected") != nullptr);
  read();
}

WHOLE_PROGRAM(right_signal_stack) {
  // A handler of SIGSEGV that was there before the library's runs on the stack that it asks for.
  static char signal_stack[1 << 16];
  static bool ran_there = false;
  struct sigaction action {};
  action.sa_flags = SA_ONSTACK;
  action.sa_handler = [](int) {
    const auto* frame = static_cast<const char*>(__builtin_frame_address(0));
    ran_there = frame >= signal_stack && frame < signal_stack + sizeof signal_stack;
  };
  stack_t stack{};
  stack.ss_sp = signal_stack;
  stack.ss_size = sizeof signal_stack;
  require(sigaltstack(&stack, nullptr) == 0 && sigaction(SIGSEGV, &action, nullptr) == 0);
  const Device device;
  device_memory(kInputBytes);
  raise(SIGSEGV);
  require(ran_there);
}

// ---- Forks ----

static bool succeeds(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

PROGRAM(right_fork) {
  // What a fork frees stays with its parent.
  Memory memory = device_ones(kInputBytes);
  const pid_t child = fork();
  if (child == 0) {
    must(aclrtFree(memory));
    std::_Exit(EXIT_SUCCESS);
  }
  require(succeeds(child));
  std::vector<float> result(kInputs);
  must(aclrtMemcpy(result.data(), kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  require(result[0] == 1.0f);
}

PROGRAM(right_fork_allocates) {
  // Memory that a fork allocates and frees does not add up.
  constexpr size_t kBytes = size_t{64} << 20;
  constexpr int64_t kMaxKibibytes = int64_t{1} << 20;
  Memory of_parent = device_memory(kBytes);
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 20; ++i) device_memory(kBytes);
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    std::_Exit(used.ru_maxrss < kMaxKibibytes ? EXIT_SUCCESS : EXIT_FAILURE);
  }
  require(succeeds(child));
}

// An operator with memory of its own.
static bool computes(aclrtStream stream) {
  BiasGrad gradient;
  std::vector<float> result(kOutputs);
  gradient.run(stream);
  must(aclrtSynchronizeStream(stream));
  must(aclrtMemcpy(result.data(), kOutputBytes, gradient.output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  return result.front() == kRows && result.back() == kRows;
}

PROGRAM(right_fork_at_work) {
  // Forks compute with memory of their own while a thread of their parent does.
  std::atomic<bool> stop{false};
  std::atomic<bool> is_right{true};
  std::thread busy([&] {
    must(aclrtSetDevice(0));
    {
      Stream own = new_stream();
      while (!stop) is_right = is_right && computes(own);
    }
    must(aclrtResetDevice(0));
  });
  for (int i = 0; i < 40 && is_right; ++i) {
    usleep(static_cast<useconds_t>(i % 5) * 1000);
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      std::_Exit(computes(new_stream().release()) && computes(stream) ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    is_right = is_right && succeeds(child);
  }
  stop = true;
  busy.join();
  require(is_right);
}
