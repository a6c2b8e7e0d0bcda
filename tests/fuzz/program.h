// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// A program that calls the C interface as a byte string tells it to: what it has made so far, where it may point, and
// what the library must answer.
#pragma once

#include <fuzzer/FuzzedDataProvider.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "acl/acl_base.h"
#include "aclnn/acl_meta.h"
#include "base/error.h"

namespace aclgrad::fuzz {

// What a handle or an address may be of. The last three are memory.
enum class Kind : uint8_t {
  context,
  stream,
  event,
  tensor,
  scalar,
  int_array,
  float_array,
  bool_array,
  tensor_list,
  scalar_list,
  executor,
  tensor_desc,
  data_buffer,
  communicator,
  device_memory,
  host_memory,
  plain_memory,  // of the program itself
};
inline constexpr size_t kKinds = 17;

// The C type that a handle points to.
template <Kind kKind>
struct HandleOf {
  using Type = void;
};
// clang-format off
template <> struct HandleOf<Kind::tensor> { using Type = aclTensor; };
template <> struct HandleOf<Kind::scalar> { using Type = aclScalar; };
template <> struct HandleOf<Kind::int_array> { using Type = aclIntArray; };
template <> struct HandleOf<Kind::float_array> { using Type = aclFloatArray; };
template <> struct HandleOf<Kind::bool_array> { using Type = aclBoolArray; };
template <> struct HandleOf<Kind::tensor_list> { using Type = aclTensorList; };
template <> struct HandleOf<Kind::scalar_list> { using Type = aclScalarList; };
template <> struct HandleOf<Kind::executor> { using Type = aclOpExecutor; };
template <> struct HandleOf<Kind::tensor_desc> { using Type = aclTensorDesc; };
template <> struct HandleOf<Kind::data_buffer> { using Type = aclDataBuffer; };
// clang-format on

// Whether a function takes null in place of a handle.
enum class Null { refused, allowed };

struct View {
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  int64_t item_bytes = 0;
  void* data = nullptr;
};

// How much of the memory behind its address a tensor names. Beyond kFar where it is more than any memory here.
struct Reach {
  static constexpr int64_t kFar = int64_t{1} << 40;
  int64_t bytes = 0;
  int64_t elements = 0;
};

struct Argument {
  bool given = false;
  Reach reach;
  void* address = nullptr;
};

// What phase 1 has taken, in the order of the call: inputs, then outputs.
struct Plan {
  std::string operator_name;
  std::vector<Argument> arguments;
  size_t inputs = 0;
  uint64_t workspace_size = 0;
  bool repeatable = false;
};

struct Memory {
  std::byte* start = nullptr;
  size_t bytes = 0;
  Kind kind = Kind::plain_memory;
  bool live = true;
  const void* user = nullptr;  // the stream whose queued work may use it
};

class Program {
 public:
  Program();

  // Ends all that is left. The next program finds the library as this one found it.
  ~Program();

  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // What it does from here on is drawn from these.
  void read(FuzzedDataProvider& bytes) { bytes_ = &bytes; }

  // ---- Drawing ----

  bool rarely() { return draw(0, 15) == 15; }
  bool coin() { return bytes_->ConsumeBool(); }
  template <class Integer>
  Integer draw(Integer first, Integer last) {
    return bytes_->ConsumeIntegralInRange<Integer>(first, last);
  }
  template <class Value, size_t kCount>
  Value one_of(const Value (&values)[kCount]) {
    return bytes_->PickValueInArray(values);
  }
  int64_t integer();  // mostly small, also the ends of the range
  std::vector<int64_t> integers(size_t count);
  std::string text();  // without '%', so that none in a message comes from here
  template <class Enum>
  Enum value_of(Enum last) {  // of an enumeration that begins at 0, or rarely none of its values
    return static_cast<Enum>(rarely() ? static_cast<int>(integer()) : draw<int>(0, static_cast<int>(last)));
  }

  // A live handle; rarely a dead one, one of another kind or null, which the call must then refuse.
  template <class T = void>
  T* handle(Kind kind, Null null = Null::refused) {
    return static_cast<T*>(pick_handle(kind, null));
  }

  // Where a function stores a result; rarely null, which the call must then refuse.
  template <class T>
  T* out(T& place) {
    return refused_if(rarely()) ? nullptr : &place;
  }

  // Memory of at least so many bytes, at a multiple of 8; null where there is none, and rarely besides.
  std::byte* address(size_t bytes);

  // Memory that is too small or freed, which only the checker can refuse. Null without the checker.
  std::byte* wrong_address();

  // ---- The call that is made ----

  void begin(const char* function);
  const char* function() const { return function_; }
  bool refused_if(bool wrong);  // the library must refuse the call; returns `wrong`

  // Checks what a call returned, and its message. True where it has succeeded.
  bool succeeded(Status status);

  // The same for functions that answer with an object, or with null and a message.
  template <class T>
  T* made(Kind kind, T* object) {
    note_made(kind, object);
    return object;
  }

  // The same for functions that return something else: after `refused_if` there must be a message.
  void returned();

  void nothing_is_wrong() { must_fail_ = false; }  // takes back what was noted so far
  bool has_failed() const { return has_failed_; }  // the last call

  // ---- What lives ----

  bool is_live(Kind kind, const void* handle) const;
  const std::vector<void*>& live(Kind kind) const { return live_[static_cast<size_t>(kind)]; }
  void add(Kind kind, void* handle);
  void gone(Kind kind, void* handle);  // with what it takes along

  std::map<const void*, View> views;                  // of tensors
  std::map<const void*, Plan> plans;                  // of executors
  std::map<const void*, std::vector<void*>> members;  // of lists
  std::map<const void*, const void*> owners;          // the lists that end tensors and scalars
  std::set<void*> recorded;                           // events
  std::map<int32_t, int> users;                       // calls of aclrtSetDevice, by device
  std::map<int32_t, void*> default_contexts;          // by device
  std::map<const void*, void*> context_of_stream;     // of those that the program made

  void device_gone(int32_t device);
  void* current_context();  // null where there is none

  // ---- Memory ----

  static Reach reach_of(const View& view);
  bool fits(const void* address, int64_t bytes) const;  // null does
  bool is_of_library(const void* address) const;        // which the checker knows, live or freed
  void add_memory(Kind kind, void* start, size_t bytes);
  void memory_gone(Kind kind, void* start);

  // The queued work of two streams must not meet in memory, nor the host's with either: waits where it would.
  void use(const void* address, const void* user);
  const void* user_of(const void* stream) { return stream != nullptr ? stream : current_context(); }

  // ---- What may wait ----

  void await(void* event);  // a stream waits for an event that was not recorded
  bool is_awaited(void* event) const { return awaited_.count(event) > 0; }
  bool record_elsewhere(void* event);  // in a stream that waits for nothing

  struct Subscription {
    void* context;
    void* stream;
    uint64_t thread;
  };
  std::vector<Subscription> subscriptions;
  bool callbacks_are_due = false;

  void unblock();  // what is queued can then come to its end
  void settle();   // and has

 private:
  void* pick_handle(Kind kind, Null null);
  void remove(Kind kind, const void* handle);
  void note_made(Kind kind, void* object);
  Memory* memory_at(const void* address);
  void require_message(const char* when);
  void end_subscriptions();
  template <Kind kKind, class Destroy>
  void end_all(Destroy destroy);
  void release_all();

  FuzzedDataProvider* bytes_ = nullptr;
  const char* function_ = "";
  bool must_fail_ = false;
  bool has_failed_ = false;
  std::vector<void*> live_[kKinds];
  std::vector<std::pair<Kind, void*>> dead_;
  std::vector<Memory> memories_;
  std::vector<std::byte> own_memory_;
  std::set<void*> awaited_;
};

// Ends the process where something does not hold, and says what.
void require(bool holds, const std::string& what);

}  // namespace aclgrad::fuzz
