// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "scenarios.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "support/operator.h"

namespace scenarios {
namespace {

namespace test = aclgrad::test;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

// ---- Steps, and what they make ----

// The first failure of a scenario. After it the remaining steps are left out.
class Steps {
 public:
  // False where this or an earlier step has failed.
  template <class Step>
  bool step(Step&& step) {
    if (status_ == ACL_SUCCESS) status_ = step();
    return status_ == ACL_SUCCESS;
  }

  // The same for a step that answers with a handle, null where it fails.
  template <class Handle, class Make>
  bool make(Handle& handle, Make&& make) {
    return step([&] {
      handle = make();
      return handle != nullptr ? ACL_SUCCESS : ACL_ERROR_BAD_ALLOC;
    });
  }

  int status() const { return status_; }

 private:
  int status_ = ACL_SUCCESS;
};

// Releases a handle at the end. That must not need what may be missing.
template <class Handle, auto release>
class Owned {
 public:
  Owned() = default;
  ~Owned() {
    if (handle_ != nullptr) require(release(handle_) == ACL_SUCCESS, "what was made can be released");
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  Handle& operator*() { return handle_; }
  Handle* operator&() { return &handle_; }

 private:
  Handle handle_ = nullptr;
};

using Stream = Owned<aclrtStream, aclrtDestroyStream>;
using Event = Owned<aclrtEvent, aclrtDestroyEvent>;
using Context = Owned<aclrtContext, aclrtDestroyContext>;
using Memory = Owned<void*, aclrtFree>;
using HostMemory = Owned<void*, aclrtFreeHost>;
using Tensor = Owned<aclTensor*, aclDestroyTensor>;
using Executor = Owned<aclOpExecutor*, aclDestroyAclOpExecutor>;

bool allocate(Steps& steps, Memory& memory, size_t bytes) {
  return steps.step([&] { return aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST); });
}

// ---- The runtime ----

constexpr size_t kBytes = 3 << 20;  // enough for a copy by several threads in a stream's own thread
std::vector<char> source(kBytes, 'a');
std::vector<char> target(kBytes);

int run_streams() {
  Steps steps;
  Context context;
  aclrtContext previous = nullptr;
  require(aclrtGetCurrentContext(&previous) == ACL_SUCCESS, "there is a context");
  if (steps.step([&] { return aclrtCreateContext(&context, 1); })) {
    Stream first, second;
    Event event;
    Memory memory;
    bool copied = false;
    std::fill(target.begin(), target.end(), 'b');
    steps.step([&] { return aclrtCreateStream(&first); });
    steps.step([&] { return aclrtCreateStream(&second); });
    steps.step([&] { return aclrtCreateEventWithFlag(&event, ACL_EVENT_TIME_LINE); });
    allocate(steps, memory, kBytes);
    steps.step([&] { return aclrtMemsetAsync(*memory, kBytes, 0, kBytes, *first); });
    steps.step([&] {
      return aclrtMemcpyAsync(*memory, kBytes, source.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE, *first);
    });
    steps.step([&] { return aclrtRecordEvent(*event, *first); });
    steps.step([&] { return aclrtStreamWaitEvent(*second, *event); });
    copied = steps.step([&] {
      return aclrtMemcpy2dAsync(target.data(), kBytes / 4, *memory, kBytes / 4, kBytes / 8, 4,
                                ACL_MEMCPY_DEVICE_TO_HOST, *second);
    });
    steps.step([&] { return aclrtSynchronizeEvent(*event); });
    steps.step([&] { return aclrtSynchronizeStreamWithTimeout(*first, 10000); });
    steps.step([&] { return aclrtResetEvent(*event, *first); });
    // Whatever has failed: what was queued uses the memory until it is over.
    if (*second != nullptr) {
      const aclError status = aclrtSynchronizeStream(*second);
      copied = copied && status == ACL_SUCCESS;
      steps.step([&] { return status; });
    }
    if (*first != nullptr) aclrtSynchronizeStream(*first);
    steps.step([] { return aclrtSynchronizeDevice(); });
    if (copied && steps.status() == ACL_SUCCESS) {
      for (size_t i = 0; i < kBytes; ++i) {
        const bool in_row = i % (kBytes / 4) < kBytes / 8;
        require(target[i] == (in_row ? 'a' : 'b'), "a copy that succeeded has copied");
      }
    }
  }
  require(aclrtSetCurrentContext(previous) == ACL_SUCCESS, "a context can be made current");
  return steps.status();
}

int run_memory() {
  Steps steps;
  Memory memory;
  HostMemory host;
  allocate(steps, memory, kBytes);
  steps.step([&] { return aclrtMallocHost(&host, kBytes); });
  steps.step([&] { return aclrtMemset(*memory, kBytes, 'c', kBytes); });
  const bool copied =
      steps.step([&] { return aclrtMemcpy(*host, kBytes, *memory, kBytes, ACL_MEMCPY_DEVICE_TO_HOST); });
  const auto* bytes = static_cast<const char*>(*host);
  if (copied) require(std::count(bytes, bytes + kBytes, 'c') == kBytes, "a copy that succeeded has copied");
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  steps.step([&] { return aclrtGetMemInfo(ACL_DDR_MEM, &free_bytes, &total_bytes); });
  return steps.status();
}

int run_callbacks() {
  Steps steps;
  Stream stream;
  static int calls = 0;
  calls = 0;
  const auto thread = static_cast<uint64_t>(pthread_self());
  const auto count = [](void*) { ++calls; };
  steps.step([&] { return aclrtCreateStream(&stream); });
  const bool subscribed = steps.step([&] { return aclrtSubscribeReport(thread, *stream); });
  if (!subscribed) require(aclrtProcessReport(1) != ACL_SUCCESS, "who has not subscribed gets no callbacks");
  steps.step([&] { return aclrtLaunchCallback(count, nullptr, ACL_CALLBACK_NO_BLOCK, *stream); });
  steps.step([&] { return aclrtSynchronizeStream(*stream); });
  steps.step([] { return aclrtProcessReport(100); });
  steps.step([&] { return aclrtLaunchCallback(count, nullptr, ACL_CALLBACK_BLOCK, *stream); });
  steps.step([] { return aclrtProcessReport(100); });
  if (subscribed) require(aclrtUnSubscribeReport(thread, *stream) == ACL_SUCCESS, "a subscription can end");
  steps.step([&] { return aclrtSynchronizeStream(*stream); });
  if (steps.status() == ACL_SUCCESS) require(calls == 2, "callbacks that succeeded have run");
  return steps.status();
}

// ---- Handles ----

int run_handles() {
  Steps steps;
  const int64_t shape[] = {2, 3};
  const float floats[] = {1, 2};
  const bool bools[] = {true, false};
  float number = 1;
  Owned<aclIntArray*, aclDestroyIntArray> int_array;
  Owned<aclFloatArray*, aclDestroyFloatArray> float_array;
  Owned<aclBoolArray*, aclDestroyBoolArray> bool_array;
  Owned<aclScalar*, aclDestroyScalar> scalar;
  Owned<aclTensorList*, aclDestroyTensorList> list;
  Tensor tensor;
  steps.make(*int_array, [&] { return aclCreateIntArray(shape, 2); });
  steps.make(*float_array, [&] { return aclCreateFloatArray(floats, 2); });
  steps.make(*bool_array, [&] { return aclCreateBoolArray(bools, 2); });
  steps.make(*scalar, [&] { return aclCreateScalar(&number, ACL_FLOAT); });
  steps.make(*tensor, [&] {
    return aclCreateTensor(shape, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, 2, target.data());
  });
  steps.step([&] {
    return aclInitTensor(*tensor, shape, 2, ACL_FLOAT16, nullptr, 0, ACL_FORMAT_ND, shape, 2, target.data());
  });
  int64_t* found = nullptr;
  uint64_t count = 0;
  if (steps.step([&] { return aclGetViewShape(*tensor, &found, &count); })) {
    require(count == 2 && found[0] == 2 && found[1] == 3, "the shape is the tensor's");
    delete[] found;
  }
  const bool listed = steps.make(*list, [&] { return aclCreateTensorList(&*tensor, 1); });
  if (listed) *tensor = nullptr;  // the list's now
  require(aclGetDataBufferAddr(nullptr) == nullptr, "what is no buffer has no address");
  require(aclrtPeekAtLastError(std::bit_cast<aclrtLastErrLevel>(1)) != ACL_SUCCESS, "there is no such level");
  return steps.status();
}

// ---- Operators ----

using test::Layout;
using test::Operator;
using test::TensorValue;

constexpr size_t kMaxArguments = 10;
constexpr int64_t kMaxElements = 400'000;

// The largest case of an operator that takes little time: where it can, it is work for several threads.
std::vector<test::Value> arguments_of(const Operator& op) {
  std::vector<test::Value> largest;
  int64_t max_elements = -1;
  for (test::Case& one : op.cases(op.types.front())) {
    const std::vector<int64_t> counts = test::element_counts_in(one.arguments);
    const int64_t elements = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    if (elements <= max_elements || elements > kMaxElements) continue;
    max_elements = elements;
    largest = std::move(one.arguments);
  }
  require(!largest.empty(), "an operator has a small case");
  return largest;
}

// An argument with all that a run needs of it on the host.
struct Argument {
  test::Value value;
  bool is_output;
  std::vector<int64_t> strides = {};
  std::vector<std::byte> contents = {};  // before
  std::vector<std::byte> results = {};   // and after
  std::vector<std::byte> expected = {};
};

// What a run makes of an argument.
struct Made {
  Memory memory;
  Tensor tensor;
  Owned<aclIntArray*, aclDestroyIntArray> integers;
  Owned<aclBoolArray*, aclDestroyBoolArray> flags;
};

class Case {
 public:
  Case(const Operator& op, Layout layout) : operator_(op) {
    for (test::Value& value : arguments_of(op)) {
      Argument argument{std::move(value), op.parameters[arguments_.size()].role == test::Role::output};
      if (const auto* tensor = std::get_if<TensorValue>(&argument.value)) {
        test::TestTensor contiguous(tensor->shape, tensor->type);
        if (!argument.is_output) contiguous.set(tensor->values);
        argument.strides = test::TestTensor(tensor->shape, tensor->type, layout).strides();
        argument.contents = argument.results = argument.expected = contiguous.bytes();
      }
      arguments_.push_back(std::move(argument));
    }
    c_arguments_.resize(arguments_.size());
  }

  int run() {
    Steps steps;
    Stream stream;
    Memory workspace;
    std::array<Made, kMaxArguments> made;
    Executor executor;
    uint64_t workspace_size = 0;
    steps.step([&] { return aclrtCreateStream(&stream); });
    for (size_t i = 0; i < arguments_.size(); ++i)
      c_arguments_[i] = give(steps, arguments_[i], made[i], *stream);
    steps.step([&] { return operator_.phase1(c_arguments_, &workspace_size, &executor); });
    if (workspace_size > 0) allocate(steps, workspace, workspace_size);
    steps.step([&] { return aclSetAclOpExecutorRepeatable(*executor); });
    for (int time = 0; time < 2; ++time)
      steps.step([&] { return operator_.phase2(*workspace, workspace_size, *executor, *stream); });
    for (size_t i = 0; i < arguments_.size(); ++i) {
      std::vector<std::byte>& results = arguments_[i].results;
      if (!arguments_[i].is_output || results.empty()) continue;
      steps.step([&] {
        return aclrtMemcpyAsync(results.data(), results.size(), *made[i].memory, results.size(),
                                ACL_MEMCPY_DEVICE_TO_HOST, *stream);
      });
    }
    if (*stream != nullptr) {
      const aclError status = aclrtSynchronizeStream(*stream);
      steps.step([&] { return status; });
    }
    if (steps.status() == ACL_SUCCESS) check_results();
    return steps.status();
  }

 private:
  // Makes the argument and queues its contents.
  static test::CArgument give(Steps& steps, const Argument& argument, Made& made, aclrtStream stream) {
    if (const auto* tensor = std::get_if<TensorValue>(&argument.value)) {
      const size_t bytes = argument.contents.size();
      const int64_t elements = test::element_count(tensor->shape);
      allocate(steps, made.memory, bytes);
      steps.step([&] {
        return aclrtMemcpyAsync(*made.memory, bytes, argument.contents.data(), bytes,
                                ACL_MEMCPY_HOST_TO_DEVICE, stream);
      });
      steps.make(*made.tensor, [&] {
        return aclCreateTensor(tensor->shape.data(), tensor->shape.size(),
                               static_cast<aclDataType>(tensor->type), argument.strides.data(), 0,
                               ACL_FORMAT_ND, &elements, 1, *made.memory);
      });
      return {.handle = *made.tensor};
    }
    if (const auto* integers = std::get_if<std::vector<int64_t>>(&argument.value)) {
      steps.make(*made.integers, [&] { return aclCreateIntArray(integers->data(), integers->size()); });
      return {.handle = *made.integers};
    }
    if (const auto* flags = std::get_if<std::vector<bool>>(&argument.value)) {
      bool values[kMaxArguments];
      std::copy(flags->begin(), flags->end(), values);
      steps.make(*made.flags, [&] { return aclCreateBoolArray(values, flags->size()); });
      return {.handle = *made.flags};
    }
    if (const auto* text = std::get_if<std::string>(&argument.value))
      return {.handle = const_cast<char*>(text->c_str())};
    const auto* number = std::get_if<int64_t>(&argument.value);
    return {.number = number != nullptr ? *number : 0};
  }

  // The first time nothing fails, and that is what all others are compared with.
  void check_results() {
    for (Argument& argument : arguments_) {
      if (!is_expected_known_) argument.expected = argument.results;
      require(argument.results == argument.expected,
              "an operator that succeeded has the results of an undisturbed one");
    }
    is_expected_known_ = true;
  }

  const Operator& operator_;
  std::vector<Argument> arguments_;
  test::CArguments c_arguments_;
  bool is_expected_known_ = false;
};

// For whole_program, which has many processes of its own and little memory in some.
Case& first_case() {
  static Case one(test::operators().front(), Layout::transposed);
  return one;
}

// Each operator with contiguous tensors, then with transposed ones. Made at the first call, as they need memory.
std::vector<Case>& cases() {
  static std::vector<Case> all = [] {
    std::vector<Case> made;
    for (const Operator& op : test::operators()) {
      for (Layout layout : {Layout::contiguous, Layout::transposed}) made.emplace_back(op, layout);
    }
    return made;
  }();
  return all;
}

}  // namespace

const std::vector<Scenario>& on_a_device() {
  static const std::vector<Scenario> all = [] {
    prepare();
    std::vector<Scenario> made{{"contexts, streams, events, copies", run_streams},
                               {"memory", run_memory},
                               {"callbacks", run_callbacks},
                               {"tensors, arrays, lists", run_handles}};
    for (size_t i = 0; i < cases().size(); ++i) {
      const std::string name(test::operators()[i / 2].name);
      made.push_back({i % 2 == 0 ? name : name + ", strided", [i] { return cases()[i].run(); }});
    }
    return made;
  }();
  return all;
}

void prepare() {
  first_case();
}

int whole_program() {
  Steps steps;
  const bool started = steps.step([] { return aclInit(nullptr); });
  const bool has_device = steps.step([] { return aclrtSetDevice(0); });
  steps.step(run_streams);
  steps.step([] { return first_case().run(); });
  if (has_device) require(aclrtResetDevice(0) == ACL_SUCCESS, "a device can be reset");
  if (started) require(aclFinalize() == ACL_SUCCESS, "the library can be ended");
  return steps.status();
}

}  // namespace scenarios
