// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <thread>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "base/handle_registry.h"
#include "check/check.h"
#include "hccl/hccl.h"

namespace aclgrad::fuzz {
namespace {

constexpr size_t kOwnBytes = 4096;
constexpr size_t kMaxBytes = size_t{1} << 14;
constexpr int64_t kAlignment = 8;

// What the headers document for calls that go wrong.
constexpr Status kKnownStatuses[] = {
    HCCL_E_PARA,
    HCCL_E_PTR,
    HCCL_E_NOT_SUPPORT,
    HCCL_E_OPEN_FILE_FAILURE,
    ACL_ERROR_INVALID_PARAM,
    ACL_ERROR_REPEAT_INITIALIZE,
    ACL_ERROR_INVALID_FILE,
    ACL_ERROR_PARSE_FILE,
    ACL_ERROR_REPEAT_FINALIZE,
    ACL_ERROR_API_NOT_SUPPORT,
    ACL_ERROR_FEATURE_UNSUPPORTED,
    ACL_ERROR_RT_PARAM_INVALID,
    ACL_ERROR_RT_INVALID_DEVICEID,
    ACL_ERROR_RT_CONTEXT_NULL,
    ACL_ERROR_RT_STREAM_CONTEXT,
    ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
    ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL,
    ACL_ERROR_RT_STREAM_SUBSCRIBE,
    ACL_ERROR_RT_THREAD_SUBSCRIBE,
    ACL_ERROR_RT_STREAM_NO_CB_REG,
    ACL_ERROR_RT_INVALID_HANDLE,
    ACL_ERROR_RT_SYSPARAMOPT_NOT_SET,
    ACL_ERROR_RT_STREAM_ABORT,
    ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
    ACL_ERROR_RT_MEMORY_ALLOCATION,
    ACL_ERROR_RT_INTERNAL_ERROR,
    ACL_ERROR_RT_EVENT_NOT_COMPLETE,
    ACL_ERROR_RT_REPORT_TIMEOUT,
    ACL_ERROR_RT_AICORE_EXCEPTION,
    ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
    ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
    ACLNN_ERR_PARAM_NULLPTR,
    ACLNN_ERR_PARAM_INVALID,
    ACLNN_ERR_RUNTIME_ERROR,
    ACLNN_ERR_INNER,
    ACLNN_ERR_INNER_NULLPTR,
};

// A message names the operator where phase 1 fails, and aclSetTensorAddr for AclSetTensorAddr.
std::string name_in_messages(const std::string& function) {
  const bool is_phase_1 = function.ends_with("GetWorkspaceSize");
  const size_t end = std::min(function.rfind("TensorGetWorkspaceSize"), function.rfind("GetWorkspaceSize"));
  return function.substr(1, is_phase_1 ? end - 1 : std::string::npos);
}

// A thread of its own, which has no context and no messages, so that the program keeps its own.
template <class Body>
void elsewhere(Body&& body) {
  std::thread(std::forward<Body>(body)).join();
}

// A stream that waits for nothing, in a context that the program does not know.
struct Rescue {
  aclrtContext context = nullptr;
  aclrtStream stream = nullptr;

  static const Rescue& get() {
    static const Rescue rescue = [] {
      Rescue made;
      elsewhere([&] {
        require(aclrtCreateContext(&made.context, 0) == ACL_SUCCESS, "there can be a context");
        require(aclrtCreateStream(&made.stream) == ACL_SUCCESS, "there can be a stream");
      });
      return made;
    }();
    return rescue;
  }
};

// Contents that make sense as indices and sizes, too.
void set_small_numbers(std::byte* memory, size_t bytes) {
  static const std::vector<std::byte> numbers = [] {
    std::vector<std::byte> numbers(kMaxBytes);
    for (size_t i = 0; i < numbers.size(); i += 8) numbers[i] = static_cast<std::byte>(i / 64 % 12);
    return numbers;
  }();
  std::memcpy(memory, numbers.data(), std::min(bytes, numbers.size()));
}

__int128 bounded(__int128 value) {
  return std::clamp<__int128>(value, -Reach::kFar, Reach::kFar);
}

}  // namespace

void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what.c_str());
  std::abort();
}

Program::Program() : own_memory_(kOwnBytes) {
  Rescue::get();
  set_small_numbers(own_memory_.data(), own_memory_.size());
  memories_.push_back({own_memory_.data(), own_memory_.size(), Kind::plain_memory, true, nullptr});
}

Program::~Program() {
  settle();
  release_all();
}

// ---- Drawing ----

int64_t Program::integer() {
  constexpr int64_t kNotable[] = {0,
                                  -1,
                                  16,
                                  255,
                                  1 << 16,
                                  int64_t{1} << 31,
                                  int64_t{1} << 40,
                                  std::numeric_limits<int32_t>::max(),
                                  std::numeric_limits<int32_t>::min(),
                                  std::numeric_limits<int64_t>::max(),
                                  std::numeric_limits<int64_t>::min()};
  switch (draw(0, 7)) {
    case 0:
      return one_of(kNotable);
    case 1:
      return bytes_->ConsumeIntegral<int64_t>();
    default:
      return draw<int64_t>(0, 7);
  }
}

std::vector<int64_t> Program::integers(size_t count) {
  std::vector<int64_t> values(count);
  for (int64_t& value : values) value = integer();
  return values;
}

std::string Program::text() {
  std::string text = bytes_->ConsumeRandomLengthString(40);
  std::replace(text.begin(), text.end(), '%', '#');
  return text.substr(0, text.find('\0'));
}

void* Program::pick_handle(Kind kind, Null null) {
  const std::vector<void*>& right = live(kind);
  const int how = draw(0, 15);
  if (how <= 12 && !right.empty()) return right[draw<size_t>(0, right.size() - 1)];
  void* picked = nullptr;
  if (how == 13 && !dead_.empty()) {
    picked = dead_[draw<size_t>(0, dead_.size() - 1)].second;
  } else if (how == 14) {
    const std::vector<void*>& wrong = live_[draw<size_t>(0, kKinds - 1)];
    if (!wrong.empty()) picked = wrong[draw<size_t>(0, wrong.size() - 1)];
  } else if (how == 15) {
    constexpr uintptr_t kNowhere = uintptr_t{1} << 62;  // small numbers may be handles
    picked = reinterpret_cast<void*>(static_cast<uintptr_t>(integer()) | kNowhere);
  }
  const bool taken = picked == nullptr ? null == Null::allowed : is_live(kind, picked);
  refused_if(!taken);
  return picked;
}

std::byte* Program::address(size_t bytes) {
  if (rarely()) return nullptr;
  std::vector<const Memory*> large_enough;
  for (const Memory& memory : memories_) {
    if (memory.live && memory.bytes >= bytes) large_enough.push_back(&memory);
  }
  if (large_enough.empty()) return nullptr;
  const Memory& memory = *large_enough[draw<size_t>(0, large_enough.size() - 1)];
  return memory.start + draw<size_t>(0, (memory.bytes - bytes) / kAlignment) * kAlignment;
}

std::byte* Program::wrong_address() {
  if (!check::enabled || memories_.size() < 2) return nullptr;
  const Memory& memory = memories_[draw<size_t>(1, memories_.size() - 1)];
  return memory.start + draw<size_t>(0, memory.bytes / kAlignment) * kAlignment;
}

// ---- The call that is made ----

void Program::begin(const char* function) {
  function_ = function;
  must_fail_ = false;
  has_failed_ = false;
  aclGetRecentErrMsg();
}

bool Program::refused_if(bool wrong) {
  must_fail_ = must_fail_ || wrong;
  return wrong;
}

void Program::require_message(const char* when) {
  has_failed_ = true;
  const char* taken = aclGetRecentErrMsg();
  const std::string message = taken != nullptr ? taken : "";
  const std::string call = std::string(function_) + " " + when + ": ";
  require(!message.empty(), call + "there is a message");
  require(message.find(name_in_messages(function_)) != std::string::npos,
          call + "its message names it: " + message);
  require(message.find('%') == std::string::npos, call + "its message is whole: " + message);
}

bool Program::succeeded(Status status) {
  const std::string call = std::string(function_) + " with status " + std::to_string(status);
  if (status == 0) {
    require(!must_fail_, call + ": what is wrong is refused");
    return true;
  }
  require(std::find(std::begin(kKnownStatuses), std::end(kKnownStatuses), status) != std::end(kKnownStatuses),
          call + ": the status is documented");
  require_message("fails");
  return false;
}

void Program::note_made(Kind kind, void* object) {
  if (object == nullptr) return require_message("makes nothing");
  require(!must_fail_, std::string(function_) + ": what is wrong is refused");
  add(kind, object);
}

void Program::returned() {
  if (must_fail_) require_message("is refused");
}

// ---- What lives ----

bool Program::is_live(Kind kind, const void* handle) const {
  const std::vector<void*>& all = live(kind);
  return std::find(all.begin(), all.end(), handle) != all.end();
}

void Program::add(Kind kind, void* handle) {
  if (is_live(kind, handle)) return;
  live_[static_cast<size_t>(kind)].push_back(handle);
  if (kind == Kind::stream) context_of_stream[handle] = current_context();
}

void Program::remove(Kind kind, const void* handle) {
  std::vector<void*>& all = live_[static_cast<size_t>(kind)];
  const auto found = std::find(all.begin(), all.end(), handle);
  if (found == all.end()) return;
  dead_.emplace_back(kind, *found);
  all.erase(found);
  owners.erase(handle);
}

void Program::gone(Kind kind, void* handle) {
  const std::vector<void*> streams = live(Kind::stream);
  switch (kind) {
    case Kind::context:
      for (void* stream : streams) {
        if (context_of_stream[stream] == handle) remove(Kind::stream, stream);
      }
      std::erase_if(subscriptions, [&](const Subscription& one) { return one.context == handle; });
      break;
    case Kind::stream:
      std::erase_if(subscriptions, [&](const Subscription& one) { return one.stream == handle; });
      break;
    case Kind::event:
      recorded.erase(handle);
      awaited_.erase(handle);
      break;
    case Kind::tensor_list:
    case Kind::scalar_list:
      for (void* member : members[handle]) {
        const auto owner = owners.find(member);
        if (owner == owners.end() || owner->second != handle) continue;
        remove(kind == Kind::tensor_list ? Kind::tensor : Kind::scalar, member);
      }
      break;
    default:
      break;
  }
  remove(kind, handle);
}

void Program::device_gone(int32_t device) {
  users.erase(device);
  const auto found = default_contexts.find(device);
  if (found == default_contexts.end()) return;
  gone(Kind::context, found->second);
  default_contexts.erase(found);
}

void* Program::current_context() {
  aclrtContext context = nullptr;
  const bool there_is_one = aclrtGetCurrentContext(&context) == ACL_SUCCESS;
  aclGetRecentErrMsg();
  return there_is_one ? context : nullptr;
}

// ---- Memory ----

Reach Program::reach_of(const View& view) {
  __int128 elements = 1;
  __int128 last = view.offset;
  for (size_t i = 0; i < view.shape.size(); ++i) {
    elements = bounded(elements * view.shape[i]);
    if (view.shape[i] > 0) last += bounded(static_cast<__int128>(view.shape[i] - 1) * view.strides[i]);
  }
  if (elements == 0) return {};
  if (last < 0) return {Reach::kFar, Reach::kFar};
  return {static_cast<int64_t>(bounded((last + 1) * view.item_bytes)), static_cast<int64_t>(elements)};
}

bool Program::fits(const void* address, int64_t bytes) const {
  if (address == nullptr) return true;
  const auto* first = static_cast<const std::byte*>(address);
  return std::any_of(memories_.begin(), memories_.end(), [&](const Memory& memory) {
    return memory.live && first >= memory.start && first <= memory.start + memory.bytes &&
           bytes <= memory.start + memory.bytes - first;
  });
}

bool Program::is_of_library(const void* address) const {
  const auto* byte = static_cast<const std::byte*>(address);
  return std::any_of(memories_.begin() + 1, memories_.end(), [&](const Memory& memory) {
    return byte >= memory.start && byte <= memory.start + memory.bytes;
  });
}

void Program::add_memory(Kind kind, void* start, size_t bytes) {
  auto* first = static_cast<std::byte*>(start);
  // Without the checker the memory of an earlier one may come back.
  std::erase_if(memories_, [&](const Memory& memory) {
    return !memory.live && memory.start < first + bytes && first < memory.start + memory.bytes;
  });
  set_small_numbers(first, bytes);
  memories_.push_back({first, bytes, kind, true, nullptr});
  add(kind, start);
}

void Program::memory_gone(Kind kind, void* start) {
  Memory* memory = memory_at(start);
  if (memory != nullptr) memory->live = false;
  remove(kind, start);
}

Memory* Program::memory_at(const void* address) {
  const auto* byte = static_cast<const std::byte*>(address);
  for (Memory& memory : memories_) {
    if (memory.live && byte >= memory.start && byte <= memory.start + memory.bytes) return &memory;
  }
  return nullptr;
}

void Program::use(const void* address, const void* user) {
  Memory* memory = memory_at(address);
  if (memory == nullptr) return;
  if (memory->user != nullptr && memory->user != user) settle();
  memory->user = user;
}

// ---- What may wait ----

void Program::await(void* event) {
  if (recorded.count(event) == 0) awaited_.insert(event);
}

bool Program::record_elsewhere(void* event) {
  aclError status = ACL_SUCCESS;
  elsewhere([&] {
    require(aclrtSetCurrentContext(Rescue::get().context) == ACL_SUCCESS, "a live context can be current");
    status = aclrtRecordEvent(event, Rescue::get().stream);
  });
  awaited_.erase(event);
  recorded.insert(event);
  return status == ACL_SUCCESS;
}

void Program::unblock() {
  const std::set<void*> awaited = awaited_;
  for (void* event : awaited) require(record_elsewhere(event), "an event that is waited for can be recorded");
  if (!callbacks_are_due) return;
  elsewhere([&] { end_subscriptions(); });
  callbacks_are_due = false;
}

void Program::end_subscriptions() {
  for (const Subscription& one : subscriptions) {
    require(aclrtSetCurrentContext(one.context) == ACL_SUCCESS, "a live context can be current");
    require(aclrtUnSubscribeReport(one.thread, one.stream) == ACL_SUCCESS, "a subscription can be ended");
  }
  subscriptions.clear();
}

void Program::settle() {
  unblock();
  elsewhere([&] {
    for (void* stream : live(Kind::stream)) aclrtSynchronizeStream(stream);
    for (void* context : live(Kind::context)) {
      require(aclrtSetCurrentContext(context) == ACL_SUCCESS, "a live context can be current");
      aclrtSynchronizeStream(nullptr);
    }
  });
  for (Memory& memory : memories_) memory.user = nullptr;
}

template <Kind kKind, class Destroy>
void Program::end_all(Destroy destroy) {
  using Handle = typename HandleOf<kKind>::Type;
  const std::vector<void*> all = live(kKind);
  for (void* handle : all) {
    require(destroy(static_cast<Handle*>(handle)) == 0, "what lives can be destroyed");
    gone(kKind, handle);
  }
}

void Program::release_all() {
  end_subscriptions();
  end_all<Kind::executor>(aclDestroyAclOpExecutor);
  end_all<Kind::tensor_list>(aclDestroyTensorList);
  end_all<Kind::scalar_list>(aclDestroyScalarList);
  end_all<Kind::tensor>(aclDestroyTensor);
  end_all<Kind::scalar>(aclDestroyScalar);
  end_all<Kind::int_array>(aclDestroyIntArray);
  end_all<Kind::float_array>(aclDestroyFloatArray);
  end_all<Kind::bool_array>(aclDestroyBoolArray);
  for (void* desc : live(Kind::tensor_desc)) aclDestroyTensorDesc(static_cast<aclTensorDesc*>(desc));
  end_all<Kind::data_buffer>(aclDestroyDataBuffer);
  end_all<Kind::communicator>(HcclCommDestroy);
  end_all<Kind::event>(aclrtDestroyEvent);
  end_all<Kind::stream>(aclrtDestroyStream);
  for (const auto& [device, count] : users) {
    require(aclrtResetDeviceForce(device) == ACL_SUCCESS, "a device that was set can be reset");
  }
  for (const auto& [device, context] : default_contexts) remove(Kind::context, context);
  end_all<Kind::context>(aclrtDestroyContext);
  end_all<Kind::device_memory>(aclrtFree);
  end_all<Kind::host_memory>(aclrtFreeHost);
  while (aclFinalize() == ACL_SUCCESS) continue;
  require(aclrtProcessReport(1) == ACL_ERROR_RT_THREAD_SUBSCRIBE, "subscriptions end with their streams");
  for (int option = ACL_OPT_DETERMINISTIC; option <= ACL_OPT_ENABLE_KERNEL_EARLY_START; ++option) {
    aclrtSetSysParamOpt(static_cast<aclSysParamOpt>(option), 0);
  }
  aclrtGetLastError(ACL_RT_THREAD_LEVEL);
  aclGetRecentErrMsg();
  require(live_handle_count() == 0, "no handle is left: " + std::to_string(live_handle_count()));
}

}  // namespace aclgrad::fuzz
