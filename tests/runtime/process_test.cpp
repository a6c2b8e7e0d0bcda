// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Start and end of the library and of the process.
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "aclnn/acl_meta.h"
#include "aclnn/aclnn_base.h"
#include "fixture.h"
#include "process.h"

namespace aclgrad {
namespace {

// A fresh start, whatever the test program has done.
void end_library() {
  while (aclFinalize() == ACL_SUCCESS) {
  }
}

aclError init_with(std::string_view text) {
  return aclInit(TextFile(text).path());
}

TEST(ProcessTest, InitIsCounted) {
  EXPECT_CLEAN_EXIT([] {
    end_library();
    REQUIRE(aclInit(nullptr) == ACL_SUCCESS);
    REQUIRE(aclInit(nullptr) == ACL_ERROR_REPEAT_INITIALIZE);
    uint64_t left = 99;
    REQUIRE(aclFinalizeReference(nullptr) == ACL_ERROR_INVALID_PARAM);
    REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS);
    REQUIRE(aclFinalizeReference(&left) == ACL_SUCCESS && left == 1);
    REQUIRE(aclrtSynchronizeDevice() == ACL_SUCCESS);
    REQUIRE(aclFinalizeReference(&left) == ACL_SUCCESS && left == 0);
    REQUIRE(aclFinalizeReference(&left) == ACL_ERROR_REPEAT_FINALIZE);
    REQUIRE(aclInit(nullptr) == ACL_SUCCESS);
    REQUIRE(aclInit(nullptr) == ACL_ERROR_REPEAT_INITIALIZE);
    REQUIRE(aclFinalize() == ACL_SUCCESS);
    REQUIRE(aclFinalize() == ACL_ERROR_REPEAT_FINALIZE);
    REQUIRE(aclnnInit(nullptr) == OK && aclnnFinalize() == OK);
  });
}

TEST(ProcessTest, InitChecksItsFile) {
  EXPECT_CLEAN_EXIT([] {
    end_library();
    REQUIRE(aclInit("/nonexistent/acl.json") == ACL_ERROR_INVALID_FILE);
    REQUIRE(aclInit("/") == ACL_ERROR_INVALID_FILE);
    REQUIRE(init_with("{") == ACL_ERROR_PARSE_FILE);
    REQUIRE(init_with("[]") == ACL_ERROR_PARSE_FILE);
    REQUIRE(init_with("") == ACL_ERROR_PARSE_FILE);
    for (const int levels : {101, 200000}) {
      const std::string deep = R"({"defaultDevice": {"default_device": )" + nested_lists(levels - 2) + "}}";
      REQUIRE(init_with(deep) == ACL_ERROR_PARSE_FILE);
      REQUIRE(recent_message().find("at most 100 levels") != std::string::npos);
    }
    REQUIRE(aclnnInit(TextFile(R"({"other": )" + nested_lists(99) + "}").path()) == OK);
    REQUIRE(aclnnInit("/nonexistent/acl.json") == ACL_ERROR_INVALID_FILE);
  });
}

TEST(ProcessTest, InitAgainNeedsTheSameConfiguration) {
  EXPECT_CLEAN_EXIT([] {
    end_library();
    REQUIRE(init_with("{ }") == ACL_SUCCESS);
    REQUIRE(aclFinalize() == ACL_SUCCESS);
    REQUIRE(init_with("{\"err_msg_mode\": \"1\"}") == ACL_ERROR_INVALID_PARAM);
    REQUIRE(init_with("{}\n") == ACL_SUCCESS);
  });
}

TEST(ProcessTest, FinalizeWaitsAndReleasesTheDevice) {
  EXPECT_CLEAN_EXIT([] {
    REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS);
    bool ran = false;
    queue_of_stream("test", nullptr)->submit(1e9, [&](Queue&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ran = true;
    });
    void* const memory = new_memory(8);
    REQUIRE(aclFinalize() == ACL_SUCCESS);
    REQUIRE(ran);
    int32_t device = 0;
    REQUIRE(aclrtGetDevice(&device) == ACL_ERROR_RT_CONTEXT_NULL);
    REQUIRE(aclrtFree(memory) == ACL_SUCCESS);
    REQUIRE(aclInit(nullptr) == ACL_SUCCESS);
    REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS);
  });
}

TEST(ProcessTest, LeavesWithoutFinalize) {
  EXPECT_CLEAN_EXIT([] {
    REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS);
    static std::vector<char> large(64 << 20);
    for (int i = 0; i < 20; ++i) {
      REQUIRE(aclrtMemsetAsync(large.data(), large.size(), 1, large.size(), nullptr) == ACL_SUCCESS);
    }
  });
}

TEST(ProcessTest, LeavesWhileAStreamWaits) {
  EXPECT_CLEAN_EXIT([] {
    REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS);
    const aclrtEvent never = new_event();
    REQUIRE(aclrtStreamWaitEvent(nullptr, never) == ACL_SUCCESS);
    const aclrtStream stream = new_stream();
    REQUIRE(aclrtSubscribeReport(1, stream) == ACL_SUCCESS);
    REQUIRE(aclrtLaunchCallback([](void*) {}, nullptr, ACL_CALLBACK_BLOCK, stream) == ACL_SUCCESS);
  });
}

// The last thing that the process does is to use the runtime, when its exit handlers have ended the workers.
struct UseAtExit {
  aclrtStream stream = nullptr;
  aclrtEvent event = nullptr;
  void* memory = nullptr;
  int steps = 0;

  ~UseAtExit() {
    REQUIRE(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
    REQUIRE(steps == 3);
    Queue& queue = *queue_of_stream("test", stream);
    queue.submit(1e9, [this](Queue&) { ++steps; });
    REQUIRE(aclrtRecordEvent(event, stream) == ACL_SUCCESS);
    REQUIRE(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
    REQUIRE(steps == 4);
    REQUIRE(aclrtSynchronizeEvent(event) == ACL_SUCCESS);
    REQUIRE(aclrtFree(memory) == ACL_SUCCESS);
    REQUIRE(aclrtFree(memory) == ACL_ERROR_INVALID_PARAM);
    REQUIRE(aclrtDestroyEvent(event) == ACL_SUCCESS);
    REQUIRE(aclrtDestroyStream(stream) == ACL_SUCCESS);
    REQUIRE(aclrtResetDeviceForce(0) == ACL_SUCCESS);
    REQUIRE(aclFinalize() == ACL_SUCCESS);
  }
};

TEST(ProcessTest, StaticDestructorsMayUseTheRuntime) {
  EXPECT_CLEAN_EXIT([] {
    static UseAtExit use;
    // This thread has a message then, which is gone when the destructor records another.
    aclrtFree(nullptr);
    REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS);
    REQUIRE(aclrtCreateStream(&use.stream) == ACL_SUCCESS);
    REQUIRE(aclrtCreateEvent(&use.event) == ACL_SUCCESS);
    REQUIRE(aclrtMalloc(&use.memory, 8, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
    queue_of_stream("test", use.stream)->submit(1e9, [](Queue&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ++use.steps;
    });
    for (int i = 0; i < 2; ++i) queue_of_stream("test", use.stream)->submit(1e9, [](Queue&) { ++use.steps; });
  });
}

TEST(ProcessTest, LeavesFromACallback) {
  EXPECT_CLEAN_EXIT([] {
    REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS);
    const aclrtStream stream = new_stream();
    REQUIRE(aclrtSubscribeReport(static_cast<uint64_t>(pthread_self()), stream) == ACL_SUCCESS);
    const auto leave = [](void*) { std::exit(0); };
    REQUIRE(aclrtLaunchCallback(leave, nullptr, ACL_CALLBACK_BLOCK, stream) == ACL_SUCCESS);
    REQUIRE(aclrtProcessReport(-1) == ACL_SUCCESS);
    std::exit(1);
  });
}

// The last thing that a thread does is to use the runtime, with a message of its own before and another now.
struct UseAtThreadEnd {
  aclTensor* tensor = nullptr;
  void* memory = nullptr;

  ~UseAtThreadEnd() {
    REQUIRE(aclDestroyTensor(tensor) == OK);
    REQUIRE(aclrtFree(memory) == ACL_SUCCESS);
    REQUIRE(aclrtFree(memory) == ACL_ERROR_INVALID_PARAM);
    REQUIRE(aclGetRecentErrMsg() != nullptr);
  }
};

TEST(ProcessTest, ThreadLocalDestructorsMayUseTheRuntime) {
  EXPECT_CLEAN_EXIT([] {
    std::thread([] {
      thread_local UseAtThreadEnd use;
      REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS);
      aclrtFree(nullptr);
      const int64_t shape[] = {1};
      use.tensor = aclCreateTensor(shape, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, 1, nullptr);
      REQUIRE(use.tensor != nullptr);
      REQUIRE(aclrtMalloc(&use.memory, 8, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
    }).join();
  });
}

TEST(ProcessTest, AFailureThatNobodyAskedForIsLogged) {
  setenv("ASCEND_SLOG_PRINT_TO_STDOUT", "1", 1);
  const auto body = [] {
    dup2(STDERR_FILENO, STDOUT_FILENO);
    aclrtStream stream = nullptr;
    REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS && aclrtCreateStream(&stream) == ACL_SUCCESS);
    submit_failure(stream, ACL_ERROR_RT_AICORE_EXCEPTION, "The kernel failed.");
    REQUIRE(aclrtDestroyStream(stream) == ACL_SUCCESS);
  };
  EXPECT_CLEAN_EXIT_SAYING(body, "ERROR. aclgrad: The kernel failed");
  unsetenv("ASCEND_SLOG_PRINT_TO_STDOUT");
}

}  // namespace
}  // namespace aclgrad
