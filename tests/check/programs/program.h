// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the programs share: the table of them, a device with a stream, handles and memory that end with their scope, and
// the operator that they run. Statuses are checked here, so that each program shows its one mistake only.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <source_location>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"

// A row of the table.
struct Program {
  const char* name;
  std::vector<const char*> findings;  // in any order, with "..." for addresses and places in the program
  void (*with_stream)(aclrtStream);   // null for one that starts and ends the library itself,
  void (*whole)() = nullptr;          // which is this
};

bool enter(Program program);

inline void must(int status) {
  if (status == ACL_SUCCESS) return;
  const char* message = aclGetRecentErrMsg();
  std::fprintf(stderr, "status %d: %s\n", status, message != nullptr ? message : "");
  std::_Exit(EXIT_FAILURE);
}

inline void require(bool holds, std::source_location at = std::source_location::current()) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s:%u\n", at.file_name(), at.line());
  std::_Exit(EXIT_FAILURE);
}

// Released at the end of its scope.
template <class Handle, auto end>
class Owned {
 public:
  explicit Owned(Handle handle = nullptr) : handle_(handle) {}
  ~Owned() {
    if (handle_ != nullptr) must(end(handle_));
  }
  Owned(Owned&& other) noexcept : handle_(other.release()) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  operator Handle() const { return handle_; }
  template <class Element>
  Element* as() const {
    return static_cast<Element*>(handle_);
  }
  Handle release() { return std::exchange(handle_, nullptr); }

 private:
  Handle handle_;
};

using Memory = Owned<void*, aclrtFree>;
using PinnedMemory = Owned<void*, aclrtFreeHost>;
using Stream = Owned<aclrtStream, aclrtDestroyStream>;
using Event = Owned<aclrtEvent, aclrtDestroyEvent>;
using Tensor = Owned<aclTensor*, aclDestroyTensor>;

inline Stream new_stream() {
  aclrtStream stream = nullptr;
  must(aclrtCreateStream(&stream));
  return Stream(stream);
}

inline Event new_event() {
  aclrtEvent event = nullptr;
  must(aclrtCreateEvent(&event));
  return Event(event);
}

inline aclrtContext current_context() {
  aclrtContext context = nullptr;
  must(aclrtGetCurrentContext(&context));
  return context;
}

// Work that is queued on the stream waits until it is let go.
struct Held {
  explicit Held(aclrtStream stream) { must(aclrtStreamWaitEvent(stream, event)); }
  void let_go() {
    must(aclrtRecordEvent(event, other));
    must(aclrtSynchronizeStream(other));
  }
  Event event = new_event();
  Stream other = new_stream();
};

// Device 0 in use, from the start of the library to its end.
struct Device {
  Device() {
    must(aclInit(nullptr));
    must(aclrtSetDevice(0));
  }
  ~Device() {
    must(aclrtResetDevice(0));
    must(aclFinalize());
  }
};

// PROGRAM(name, findings...) { ... }, where `stream` is one of device 0; and one that starts and ends the library
// itself. Their names can be seen from outside, so that they stand in backtraces.
#define PROGRAM(name, ...)                                                \
  void name(aclrtStream stream);                                          \
  static const bool name##_entered = enter({#name, {__VA_ARGS__}, name}); \
  void name([[maybe_unused]] aclrtStream stream)
#define WHOLE_PROGRAM(name, ...)                                                   \
  void name();                                                                     \
  static const bool name##_entered = enter({#name, {__VA_ARGS__}, nullptr, name}); \
  void name()

constexpr int64_t kGroups = 2;
constexpr int64_t kRows = 4;
constexpr int64_t kColumns = 8;
constexpr size_t kInputs = kGroups * kRows * kColumns;
constexpr size_t kOutputs = kGroups * kColumns;
constexpr size_t kInputBytes = kInputs * sizeof(float);
constexpr size_t kOutputBytes = kOutputs * sizeof(float);

inline Memory device_memory(size_t bytes) {
  void* memory = nullptr;
  must(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  return Memory(memory);
}

inline PinnedMemory pinned_memory(size_t bytes) {  // of the host
  void* memory = nullptr;
  must(aclrtMallocHost(&memory, bytes));
  return PinnedMemory(memory);
}

template <class T>
Memory device_copy(const std::vector<T>& values) {
  const size_t bytes = values.size() * sizeof(T);
  Memory memory = device_memory(bytes);
  must(aclrtMemcpy(memory, bytes, values.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
  return memory;
}

inline Memory device_ones(size_t bytes) {
  return device_copy(std::vector<float>(bytes / sizeof(float), 1.0f));
}

inline Tensor tensor(void* data, const std::vector<int64_t>& shape, aclDataType type = ACL_FLOAT) {
  return Tensor(aclCreateTensor(shape.data(), shape.size(), type, nullptr, 0, ACL_FORMAT_ND, shape.data(),
                                shape.size(), data));
}

// The two phases of an operator on its arguments.
template <auto phase_1, auto phase_2>
struct Operator {
  template <class... Arguments>
  aclnnStatus try_plan(const Arguments&... arguments) {
    return phase_1(arguments..., &workspace_size, &executor);
  }
  template <class... Arguments>
  void plan(const Arguments&... arguments) {
    must(try_plan(arguments...));
    if (workspace_size > 0) workspace = device_memory(workspace_size);
  }
  void queue(aclrtStream stream) { must(phase_2(workspace, workspace_size, executor, stream)); }

  Memory workspace;
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
};

// The operator that most programs run, on its own memory or on that of the caller.
struct BiasGrad : Operator<aclnnGroupedBiasAddGradGetWorkspaceSize, aclnnGroupedBiasAddGrad> {
  BiasGrad()
      : input(device_ones(kInputBytes)),
        output(device_memory(kOutputBytes)),
        grad_y(tensor(input, {kGroups, kRows, kColumns})),
        out(tensor(output, {kGroups, kColumns})) {}
  BiasGrad(void* from, void* to, const std::vector<int64_t>& output_shape = {kGroups, kColumns})
      : grad_y(tensor(from, {kGroups, kRows, kColumns})), out(tensor(to, output_shape)) {}

  aclnnStatus try_plan() { return Operator::try_plan(grad_y, nullptr, out); }
  void plan() { Operator::plan(grad_y, nullptr, out); }
  void run(aclrtStream stream) {
    plan();
    queue(stream);
  }

  Memory input;
  Memory output;
  Tensor grad_y;
  Tensor out;
};
