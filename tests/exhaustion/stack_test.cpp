// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// How much of its stack a thread needs that calls operators and functions of the C++ interface: every case, on each
// instruction set of this processor.
#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

#include "base/parallel.h"
#include "support/function.h"

namespace aclgrad::test {
namespace {

constexpr size_t kDocumentedStack = size_t{256} << 10;  // docs/trust.md

// The stack of a thread, from its lowest address.
class Stack {
 public:
  static constexpr size_t kBytes = size_t{1} << 20;

  Stack() {
    void* memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    bytes_ = static_cast<std::byte*>(memory);
  }
  ~Stack() { munmap(bytes_, kBytes); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  // Runs the function on it, and tells how much of it was written.
  size_t bytes_used_by(const std::function<void()>& function) {
    std::memset(bytes_, kMark, kBytes);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    EXPECT_EQ(pthread_attr_setstack(&attributes, bytes_, kBytes), 0);
    pthread_t thread;
    const auto run = [](void* of) -> void* {
      (*static_cast<const std::function<void()>*>(of))();
      return nullptr;
    };
    EXPECT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&function)), 0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
    return kBytes -
           static_cast<size_t>(std::find_if(bytes_, bytes_ + kBytes,
                                            [](std::byte byte) { return byte != std::byte{kMark}; }) -
                               bytes_);
  }

 private:
  static constexpr int kMark = 0xA5;

  std::byte* bytes_;
};

void use(int64_t target) {  // 0: all
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// All work stays in the calling thread.
class Caller : public testing::Test {
 protected:
  Caller() { set_thread_count(1); }
  ~Caller() override {
    use(0);
    set_thread_count(0);
  }

  // On each instruction set of this processor.
  void expect_documented_stack(std::string_view name, const std::function<void()>& function) {
    const int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
    for (int64_t target = 1; target != 0 && target <= supported; target <<= 1) {
      if ((supported & target) == 0) continue;
      use(target);
      const size_t used = stack_.bytes_used_by(function);
      EXPECT_LE(used, kDocumentedStack) << name << " on " << hwy::TargetName(target);
    }
    use(0);
  }

  Stack stack_;
};

TEST_F(Caller, NeedsTheDocumentedStackForOperators) {
  for (const Operator& op : operators()) {
    for (DataType type : op.types) {
      const std::vector<Case> cases = op.cases(type);
      expect_documented_stack(op.name, [&] {
        ASSERT_EQ(aclrtSetDevice(0), 0);
        for (const Case& one : cases) EXPECT_EQ(op.run(Arguments(one.arguments)), OK) << one.title;
      });
    }
  }
}

TEST_F(Caller, NeedsTheDocumentedStackForFunctions) {
  for (const Function& function : functions()) {
    for (DataType type : function.types) {
      const std::vector<Case> cases = function.cases(type);
      expect_documented_stack(function.name, [&] {
        for (const Case& one : cases) FunctionCall(function, one.arguments).run();
      });
    }
  }
}

}  // namespace
}  // namespace aclgrad::test
