// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the programs share: a device with a stream, memory with contents, and the operator that they run. Statuses
// are checked here, so that each program shows its one mistake only.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"

constexpr int64_t kGroups = 2;
constexpr int64_t kRows = 4;
constexpr int64_t kColumns = 8;
constexpr size_t kInputBytes = kGroups * kRows * kColumns * sizeof(float);
constexpr size_t kOutputBytes = kGroups * kColumns * sizeof(float);

inline void must(int status) {
  if (status == ACL_SUCCESS) return;
  const char* message = aclGetRecentErrMsg();
  std::fprintf(stderr, "status %d: %s\n", status, message != nullptr ? message : "");
  std::exit(EXIT_FAILURE);
}

inline aclrtStream new_stream() {
  aclrtStream stream = nullptr;
  must(aclrtCreateStream(&stream));
  return stream;
}

inline aclrtEvent new_event() {
  aclrtEvent event = nullptr;
  must(aclrtCreateEvent(&event));
  return event;
}

struct Session {
  Session() {
    must(aclInit(nullptr));
    must(aclrtSetDevice(0));
    stream = new_stream();
  }
  ~Session() {
    must(aclrtDestroyStream(stream));
    must(aclrtResetDevice(0));
    must(aclFinalize());
  }
  aclrtStream stream = nullptr;
};

// Work that is queued on the stream waits until it is let go.
struct Held {
  explicit Held(aclrtStream stream) { must(aclrtStreamWaitEvent(stream, event)); }
  void let_go() {
    must(aclrtRecordEvent(event, other));
    must(aclrtSynchronizeStream(other));
    must(aclrtDestroyStream(other));
    must(aclrtDestroyEvent(event));
  }
  aclrtEvent event = new_event();
  aclrtStream other = new_stream();
};

inline void* device_memory(size_t bytes) {
  void* memory = nullptr;
  must(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  return memory;
}

inline void* device_ones(size_t bytes) {
  const std::vector<float> ones(bytes / sizeof(float), 1.0f);
  void* memory = device_memory(bytes);
  must(aclrtMemcpy(memory, bytes, ones.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
  return memory;
}

inline aclTensor* tensor(void* data, const std::vector<int64_t>& shape) {
  return aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape.data(),
                         shape.size(), data);
}

// aclnnGroupedBiasAddGrad from `input` to `output`, up to its two phases.
struct BiasGrad {
  BiasGrad(void* input, void* output)
      : grad_y(tensor(input, {kGroups, kRows, kColumns})), out(tensor(output, {kGroups, kColumns})) {}
  ~BiasGrad() {
    must(aclDestroyTensor(grad_y));
    must(aclDestroyTensor(out));
  }

  void plan() {
    must(aclnnGroupedBiasAddGradGetWorkspaceSize(grad_y, nullptr, out, &workspace_size, &executor));
    workspace = workspace_size > 0 ? device_memory(workspace_size) : nullptr;
  }
  void queue(aclrtStream stream) {
    must(aclnnGroupedBiasAddGrad(workspace, workspace_size, executor, stream));
  }
  void free_workspace() {
    if (workspace != nullptr) must(aclrtFree(workspace));
  }

  aclTensor* grad_y;
  aclTensor* out;
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  void* workspace = nullptr;
};
