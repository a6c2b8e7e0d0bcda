#include "scenarios.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "aclnnop/aclnn_grid_sampler2d.h"
#include "aclnnop/aclnn_grid_sampler2d_backward.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attention_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attn_function.h"
#include "aclnnop/aclnn_nsa_compress.h"
#include "aclnnop/aclnn_nsa_compress_grad.h"

namespace scenarios {
namespace {

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
  return steps.status();
}

// ---- Operators ----

struct Argument {
  aclDataType type = ACL_FLOAT;
  std::vector<int64_t> shape;
  std::vector<int64_t> values = {};  // of an integer tensor
};

using Tensors = std::array<Tensor, 9>;
using Planned = aclnnStatus (*)(Tensors&, void* array, uint64_t* size, aclOpExecutor** executor);

struct Operator {
  std::vector<Argument> arguments;
  size_t inputs;  // the first of them; the others are outputs
  Planned plan;
  aclnnStatus (*run)(void*, uint64_t, aclOpExecutor*, aclrtStream);
  void* (*make_array)() = nullptr;  // for `plan`
  aclnnStatus (*destroy_array)(void*) = nullptr;
};

size_t size_of(aclDataType type) {
  return type == ACL_INT64 ? 8 : type == ACL_FLOAT ? 4 : 2;
}

size_t count_of(const Argument& argument) {
  size_t count = 1;
  for (int64_t size : argument.shape) count *= static_cast<size_t>(size);
  return count;
}

size_t bytes_of(const Argument& argument) {
  return count_of(argument) * size_of(argument.type);
}

// Bytes of the tensor on the host: numbers about 1, or the integers.
std::vector<char> contents_of(const Argument& argument) {
  std::vector<char> bytes(bytes_of(argument));
  for (size_t i = 0; i < count_of(argument); ++i) {
    const auto put = [&](auto value) { std::memcpy(&bytes[i * sizeof value], &value, sizeof value); };
    const float value = 0.125f * static_cast<float>(i % 7);
    if (argument.type == ACL_INT64) put(argument.values[i]);
    if (argument.type == ACL_FLOAT) put(value);
    if (argument.type == ACL_FLOAT16) put(aclFloatToFloat16(value));
  }
  return bytes;
}

enum class Layout { contiguous, transposed };

// An operator with all that a run of it needs on the host.
class Case {
 public:
  Case(Operator op, Layout layout) : operator_(std::move(op)), layout_(layout) {
    for (const Argument& argument : operator_.arguments) {
      contents_.push_back(contents_of(argument));
      results_.emplace_back(bytes_of(argument), kUntouched);
      unset_.resize(std::max(unset_.size(), bytes_of(argument)), kUntouched);
    }
    expected_ = results_;  // so that there is memory for them
  }

  int run() {
    Steps steps;
    Stream stream;
    Memory workspace;
    std::array<Memory, 9> memories;
    Tensors tensors;
    Executor executor;
    uint64_t workspace_size = 0;
    void* array = nullptr;
    steps.step([&] { return aclrtCreateStream(&stream); });
    for (size_t i = 0; i < operator_.arguments.size(); ++i) give(steps, i, memories[i], tensors[i], *stream);
    if (operator_.make_array != nullptr) steps.make(array, operator_.make_array);
    steps.step([&] { return operator_.plan(tensors, array, &workspace_size, &executor); });
    if (array != nullptr) require(operator_.destroy_array(array) == OK, "an array can be destroyed");
    if (workspace_size > 0) allocate(steps, workspace, workspace_size);
    steps.step([&] { return aclSetAclOpExecutorRepeatable(*executor); });
    for (int time = 0; time < 2; ++time)
      steps.step([&] { return operator_.run(*workspace, workspace_size, *executor, *stream); });
    for (size_t i = operator_.inputs; i < operator_.arguments.size(); ++i) {
      steps.step([&] {
        return aclrtMemcpyAsync(results_[i].data(), results_[i].size(), *memories[i], results_[i].size(),
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
  static constexpr char kUntouched = 0x55;

  // Makes the tensor and queues its contents.
  void give(Steps& steps, size_t index, Memory& memory, Tensor& tensor, aclrtStream stream) {
    const Argument& argument = operator_.arguments[index];
    const size_t bytes = bytes_of(argument);
    std::fill(results_[index].begin(), results_[index].end(), kUntouched);
    allocate(steps, memory, bytes);
    const void* from = index < operator_.inputs ? contents_[index].data() : unset_.data();
    steps.step(
        [&] { return aclrtMemcpyAsync(*memory, bytes, from, bytes, ACL_MEMCPY_HOST_TO_DEVICE, stream); });
    std::array<int64_t, 6> strides;
    const size_t rank = argument.shape.size();
    int64_t stride = 1;
    for (size_t i = 0; i < rank; ++i) {
      const size_t axis = layout_ == Layout::transposed ? i : rank - 1 - i;
      strides[axis] = stride;
      stride *= argument.shape[axis];
    }
    steps.make(*tensor, [&] {
      return aclCreateTensor(argument.shape.data(), rank, argument.type, strides.data(), 0, ACL_FORMAT_ND,
                             &stride, 1, *memory);
    });
  }

  // The first time nothing fails, and that is what all others are compared with.
  void check_results() {
    if (!std::exchange(is_expected_known_, true)) expected_ = results_;
    require(results_ == expected_, "an operator that succeeded has the results of an undisturbed one");
  }

  Operator operator_;
  Layout layout_;
  std::vector<std::vector<char>> contents_;
  std::vector<char> unset_;
  std::vector<std::vector<char>> results_;
  std::vector<std::vector<char>> expected_;
  bool is_expected_known_ = false;
};

const Operator& grouped_bias_add_grad() {
  static const Operator op{{{ACL_FLOAT, {3, 2000, 64}}, {ACL_FLOAT, {3, 64}}},
                           1,
                           [](Tensors& t, void*, uint64_t* size, aclOpExecutor** executor) {
                             return aclnnGroupedBiasAddGradGetWorkspaceSize(*t[0], nullptr, *t[1], size,
                                                                            executor);
                           },
                           aclnnGroupedBiasAddGrad};
  return op;
}

const Operator& grouped_bias_add_grad_v2() {
  static const Operator op{{{ACL_FLOAT16, {100, 64}}, {ACL_INT64, {3}, {20, 30, 50}}, {ACL_FLOAT16, {3, 64}}},
                           2,
                           [](Tensors& t, void*, uint64_t* size, aclOpExecutor** executor) {
                             return aclnnGroupedBiasAddGradV2GetWorkspaceSize(*t[0], *t[1], 1, *t[2], size,
                                                                              executor);
                           },
                           aclnnGroupedBiasAddGradV2};
  return op;
}

void* make_sequence_ends() {
  static const int64_t ends[] = {100, 500};
  return aclCreateIntArray(ends, 2);
}

aclnnStatus destroy_sequence_ends(void* array) {
  return aclDestroyIntArray(static_cast<aclIntArray*>(array));
}

char layout[] = "TND";
constexpr int64_t kWindows = (100 - 32) / 16 + 1 + (400 - 32) / 16 + 1;

const Operator& nsa_compress() {
  static const Operator op{
      {{ACL_FLOAT16, {500, 4, 64}}, {ACL_FLOAT16, {32, 4}}, {ACL_FLOAT16, {kWindows, 4, 64}}},
      2,
      [](Tensors& t, void* ends, uint64_t* size, aclOpExecutor** executor) {
        return aclnnNsaCompressGetWorkspaceSize(*t[0], *t[1], static_cast<aclIntArray*>(ends), layout, 32, 16,
                                                0, *t[2], size, executor);
      },
      aclnnNsaCompress,
      make_sequence_ends,
      destroy_sequence_ends};
  return op;
}

const Operator& nsa_compress_grad() {
  static const Operator op{{{ACL_FLOAT16, {kWindows, 4, 64}},
                            {ACL_FLOAT16, {500, 4, 64}},
                            {ACL_FLOAT16, {32, 4}},
                            {ACL_FLOAT16, {500, 4, 64}},
                            {ACL_FLOAT16, {32, 4}}},
                           3,
                           [](Tensors& t, void* ends, uint64_t* size, aclOpExecutor** executor) {
                             return aclnnNsaCompressGradGetWorkspaceSize(
                                 *t[0], *t[1], *t[2], static_cast<aclIntArray*>(ends), 32, 16, 0, layout,
                                 *t[3], *t[4], size, executor);
                           },
                           aclnnNsaCompressGrad,
                           make_sequence_ends,
                           destroy_sequence_ends};
  return op;
}

const Operator& nsa_compress_grad_tensor() {
  static const Operator op{{{ACL_FLOAT16, {kWindows, 4, 64}},
                            {ACL_FLOAT16, {500, 4, 64}},
                            {ACL_FLOAT16, {32, 4}},
                            {ACL_INT64, {2}, {100, 500}},
                            {ACL_FLOAT16, {500, 4, 64}},
                            {ACL_FLOAT16, {32, 4}}},
                           4,
                           [](Tensors& t, void*, uint64_t* size, aclOpExecutor** executor) {
                             return aclnnNsaCompressGradTensorGetWorkspaceSize(
                                 *t[0], *t[1], *t[2], *t[3], 32, 16, 0, layout, *t[4], *t[5], size, executor);
                           },
                           aclnnNsaCompressGrad};
  return op;
}

const Operator& grid_sampler() {
  static const Operator op{
      {{ACL_FLOAT, {2, 8, 30, 40}}, {ACL_FLOAT, {2, 30, 40, 2}}, {ACL_FLOAT, {2, 8, 30, 40}}},
      2,
      [](Tensors& t, void*, uint64_t* size, aclOpExecutor** executor) {
        return aclnnGridSampler2DGetWorkspaceSize(*t[0], *t[1], 0, 0, false, *t[2], size, executor);
      },
      aclnnGridSampler2D};
  return op;
}

void* make_mask() {
  static const bool both[] = {true, true};
  return aclCreateBoolArray(both, 2);
}

aclnnStatus destroy_mask(void* array) {
  return aclDestroyBoolArray(static_cast<aclBoolArray*>(array));
}

const Operator& grid_sampler_backward() {
  static const Operator op{{{ACL_FLOAT, {2, 8, 30, 40}},
                            {ACL_FLOAT, {2, 8, 30, 40}},
                            {ACL_FLOAT, {2, 30, 40, 2}},
                            {ACL_FLOAT, {2, 8, 30, 40}},
                            {ACL_FLOAT, {2, 30, 40, 2}}},
                           3,
                           [](Tensors& t, void* mask, uint64_t* size, aclOpExecutor** executor) {
                             return aclnnGridSampler2DBackwardGetWorkspaceSize(
                                 *t[0], *t[1], *t[2], 0, 0, false, static_cast<aclBoolArray*>(mask), *t[3],
                                 *t[4], size, executor);
                           },
                           aclnnGridSampler2DBackward,
                           make_mask,
                           destroy_mask};
  return op;
}

const Operator& deformable_attention() {
  static const Operator op{{{ACL_FLOAT, {2, 60, 4, 32}},
                            {ACL_INT64, {2, 2}, {6, 8, 3, 4}},
                            {ACL_INT64, {2}, {0, 48}},
                            {ACL_FLOAT, {2, 50, 4, 2, 4, 2}},
                            {ACL_FLOAT, {2, 50, 4, 2, 4}},
                            {ACL_FLOAT, {2, 50, 128}}},
                           5,
                           [](Tensors& t, void*, uint64_t* size, aclOpExecutor** executor) {
                             return aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(
                                 *t[0], *t[1], *t[2], *t[3], *t[4], *t[5], size, executor);
                           },
                           aclnnMultiScaleDeformableAttnFunction};
  return op;
}

const Operator& deformable_attention_grad() {
  static const Operator op{{{ACL_FLOAT, {2, 60, 4, 32}},
                            {ACL_INT64, {2, 2}, {6, 8, 3, 4}},
                            {ACL_INT64, {2}, {0, 48}},
                            {ACL_FLOAT, {2, 50, 4, 2, 4, 2}},
                            {ACL_FLOAT, {2, 50, 4, 2, 4}},
                            {ACL_FLOAT, {2, 50, 4, 32}},
                            {ACL_FLOAT, {2, 60, 4, 32}},
                            {ACL_FLOAT, {2, 50, 4, 2, 4, 2}},
                            {ACL_FLOAT, {2, 50, 4, 2, 4}}},
                           6,
                           [](Tensors& t, void*, uint64_t* size, aclOpExecutor** executor) {
                             return aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize(
                                 *t[0], *t[1], *t[2], *t[3], *t[4], *t[5], *t[6], *t[7], *t[8], size,
                                 executor);
                           },
                           aclnnMultiScaleDeformableAttentionGrad};
  return op;
}

template <const Operator& (*op)(), Layout layout>
Case& case_of() {
  static Case tested(op(), layout);
  return tested;
}

template <const Operator& (*op)(), Layout layout>
int run_operator() {
  return case_of<op, layout>().run();
}

template <const Operator& (*op)()>
void add_operator(std::vector<Scenario>& all, const char* name, const char* strided_name) {
  case_of<op, Layout::contiguous>();  // made now, as it needs memory
  case_of<op, Layout::transposed>();
  all.push_back({name, run_operator<op, Layout::contiguous>});
  all.push_back({strided_name, run_operator<op, Layout::transposed>});
}

}  // namespace

const std::vector<Scenario>& on_a_device() {
  static const std::vector<Scenario> all = [] {
    std::vector<Scenario> made{{"contexts, streams, events, copies", run_streams},
                               {"memory", run_memory},
                               {"callbacks", run_callbacks},
                               {"tensors, arrays, lists", run_handles}};
#define ADD_OPERATOR(name) add_operator<name>(made, #name, #name ", strided")
    ADD_OPERATOR(grouped_bias_add_grad);
    ADD_OPERATOR(grouped_bias_add_grad_v2);
    ADD_OPERATOR(nsa_compress);
    ADD_OPERATOR(nsa_compress_grad);
    ADD_OPERATOR(nsa_compress_grad_tensor);
    ADD_OPERATOR(grid_sampler);
    ADD_OPERATOR(grid_sampler_backward);
    ADD_OPERATOR(deformable_attention);
    ADD_OPERATOR(deformable_attention_grad);
#undef ADD_OPERATOR
    return made;
  }();
  return all;
}

int whole_program() {
  Steps steps;
  const bool started = steps.step([] { return aclInit(nullptr); });
  const bool has_device = steps.step([] { return aclrtSetDevice(0); });
  steps.step(run_streams);
  steps.step(run_operator<grouped_bias_add_grad, Layout::transposed>);
  if (has_device) require(aclrtResetDevice(0) == ACL_SUCCESS, "a device can be reset");
  if (started) require(aclFinalize() == ACL_SUCCESS, "the library can be ended");
  return steps.status();
}

}  // namespace scenarios
