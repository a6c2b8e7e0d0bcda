// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the tests of the runtime share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "base/error.h"
#include "runtime/stream.h"

namespace aclgrad {

using testing::HasSubstr;

// Work that a stream cannot get past until the test opens it, or ends.
class Gate {
 public:
  Gate() = default;
  explicit Gate(aclrtStream stream) { close_stream(stream); }
  ~Gate() { open(); }

  void close_stream(aclrtStream stream) {
    queue_of_stream("test", stream)->submit_host([state = state_](Queue&) {
      std::unique_lock lock(state->mutex);
      state->changed.wait(lock, [&] { return state->open; });
    });
  }

  void open() {
    std::lock_guard lock(state_->mutex);
    state_->open = true;
    state_->changed.notify_all();
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
  };

  // Shared, since the stream may be the last to leave.
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Objects that there must be: without one the test program ends.
template <class Make>
void* made(Make&& make) {
  void* object = nullptr;
  if (make(&object) != ACL_SUCCESS) std::abort();
  return object;
}
inline aclrtStream new_stream() {
  return made(aclrtCreateStream);
}
inline aclrtEvent new_event() {
  return made(aclrtCreateEvent);
}
inline aclrtContext new_context(int32_t device = 0) {
  return made([device](aclrtContext* context) { return aclrtCreateContext(context, device); });
}
inline void* new_memory(size_t bytes) {
  return made([bytes](void** memory) { return aclrtMalloc(memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST); });
}

inline void submit_failure(aclrtStream stream, Status status, const char* text) {
  queue_of_stream("test", stream)->submit(0, [=](Queue&) { throw Error(status, text); });
}

// A value that a C program may pass though the enumeration has no such member.
template <class Enumeration>
Enumeration outside_of(int value) {
  return std::bit_cast<Enumeration>(value);
}

template <class Body>
void in_other_thread(Body&& body) {
  std::thread(std::forward<Body>(body)).join();
}

// body(0), body(1) and so on at once, each in a thread of its own.
template <class Body>
void in_threads(int count, const Body& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

// The newest messages of this thread, cleared; empty where there are none.
inline std::string recent_message() {
  const char* message = aclGetRecentErrMsg();
  return message != nullptr ? message : "";
}

// As JSON.
inline std::string nested_lists(int levels) {
  const auto count = static_cast<size_t>(levels);
  return std::string(count, '[') + std::string(count, ']');
}

// A file with the text, gone when the test ends.
class TextFile {
 public:
  explicit TextFile(std::string_view text) {
    const int file = mkstemp(path_.data());
    EXPECT_EQ(write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(file);
  }
  ~TextFile() { std::remove(path()); }
  const char* path() const { return path_.c_str(); }

 private:
  std::string path_ = "/tmp/aclgrad_test_XXXXXX";
};

// A context of its own, with two streams.
class RuntimeTest : public testing::Test {
 protected:
  void SetUp() override {
    recent_message();
    aclrtGetLastError(ACL_RT_THREAD_LEVEL);
  }

  void TearDown() override { EXPECT_EQ(aclrtDestroyContext(context_), ACL_SUCCESS); }

  aclrtContext context_ = new_context();
  aclrtStream stream_ = new_stream();
  aclrtStream other_ = new_stream();
};

}  // namespace aclgrad
