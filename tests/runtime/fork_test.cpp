// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The library in a child that was forked while other threads of its parent were using it.
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "aclgrad/grouped_bias_add.h"
#include "aclnn/acl_meta.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "base/parallel.h"
#include "fixture.h"
#include "process.h"

namespace aclgrad {
namespace {

class ForkTest : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "the thread sanitizer lets no child of several threads start a thread";
#endif
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "the address sanitizer of GCC 12 forks with the locks of its allocator as they are";
#endif
  }
};

template <class Body>
void run_child(Body&& body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child != 0) return REQUIRE(ended_well(child));
  alarm(kSecondsOfChild);
  body();
  std::exit(0);
}

// Large enough for several threads.
constexpr int64_t kRows = 2000;
constexpr int64_t kColumns = 512;

std::vector<float> ones() {
  return std::vector<float>(kRows * kColumns, 1.0f);
}

std::vector<float> expected_sums() {
  return std::vector<float>(kColumns, static_cast<float>(kRows));
}

// Through the C++ interface.
std::vector<float> sums_of(const std::vector<float>& grad_y) {
  std::vector<float> out(kColumns);
  GroupedBiasAddBackward problem;
  problem.grad_output = {grad_y.data(), {1, kRows, kColumns}};
  problem.grad_bias = {out.data(), {1, kColumns}};
  grouped_bias_add_backward(problem, Workspace(workspace_size(problem)));
  return out;
}

bool computes_at_once() {
  return sums_of(ones()) == expected_sums();
}

// Through the C interface: memory, copies, both phases of an operator, an event.
bool computes_on(aclrtStream stream) {
  const int64_t shape[] = {1, kRows, kColumns};
  const int64_t out_shape[] = {1, kColumns};
  const std::vector<float> values = ones();
  const size_t bytes = values.size() * sizeof(float);
  std::vector<float> out(kColumns);
  void* const input = new_memory(bytes);
  void* const output = new_memory(kColumns * sizeof(float));
  REQUIRE(aclrtMemcpyAsync(input, bytes, values.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE, stream) ==
          ACL_SUCCESS);
  aclTensor* grad_y = aclCreateTensor(shape, 3, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, 3, input);
  aclTensor* sums = aclCreateTensor(out_shape, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, out_shape, 2, output);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  REQUIRE(aclnnGroupedBiasAddGradGetWorkspaceSize(grad_y, nullptr, sums, &size, &executor) == OK);
  void* const workspace = size > 0 ? new_memory(size) : nullptr;
  REQUIRE(aclnnGroupedBiasAddGrad(workspace, size, executor, stream) == OK);
  const aclrtEvent event = new_event();
  REQUIRE(aclrtRecordEvent(event, stream) == ACL_SUCCESS);
  REQUIRE(aclrtSynchronizeEvent(event) == ACL_SUCCESS);
  REQUIRE(aclrtMemcpy(out.data(), kColumns * sizeof(float), output, kColumns * sizeof(float),
                      ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS);
  REQUIRE(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
  REQUIRE(aclrtDestroyEvent(event) == ACL_SUCCESS);
  REQUIRE(aclDestroyTensor(grad_y) == OK && aclDestroyTensor(sums) == OK);
  REQUIRE(aclrtFree(input) == ACL_SUCCESS && aclrtFree(output) == ACL_SUCCESS);
  if (workspace != nullptr) REQUIRE(aclrtFree(workspace) == ACL_SUCCESS);
  return out == expected_sums();
}

bool computes_on_new_stream() {
  const aclrtStream stream = new_stream();
  const bool computes = computes_on(stream);
  REQUIRE(aclrtDestroyStream(stream) == ACL_SUCCESS);
  return computes;
}

bool is_work_of_parent(aclError status) {
  const char* message = aclGetRecentErrMsg();
  return status == ACL_ERROR_RT_STREAM_ABORT && message != nullptr &&
         std::string(message).find("forked") != std::string::npos;
}

bool is_done_or_work_of_parent(aclError status) {
  return status == ACL_SUCCESS || is_work_of_parent(status);
}

// Threads that use every part of the library until they are told to stop.
class Busy {
 public:
  explicit Busy(aclrtStream shared) {
    start([] { REQUIRE(computes_at_once()); });
    start([] { REQUIRE(computes_on_new_stream()); });
    start([shared, memory = std::make_shared<std::vector<char>>(4 << 20)] {
      REQUIRE(aclrtMemsetAsync(memory->data(), memory->size(), 1, memory->size(), shared) == ACL_SUCCESS);
      REQUIRE(aclrtMemsetAsync(memory->data(), 8, 2, 8, shared) == ACL_SUCCESS);
      REQUIRE(aclrtSynchronizeStream(shared) == ACL_SUCCESS);
    });
    start([] {
      const aclrtContext context = new_context(1);
      REQUIRE(aclrtDestroyContext(context) == ACL_SUCCESS);
      REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS && aclrtResetDevice(0) == ACL_SUCCESS);
      REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS);
      REQUIRE(aclrtFree(nullptr) != ACL_SUCCESS);
    });
  }

  ~Busy() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  template <class Body>
  void start(Body&& body) {
    threads_.emplace_back([this, body] {
      REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS);
      while (!stop_) body();
    });
  }

  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

TEST_F(ForkTest, AChildOfABusyProcessWorksAndLeaves) {
  EXPECT_CLEAN_EXIT([] {
    constexpr int kForks = 40;
    REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS);
    const aclrtStream shared = new_stream();
    const aclrtStream idle = new_stream();
    {
      const Busy busy(shared);
      for (int i = 0; i < kForks; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(i % 7));
        run_child([&] {
          REQUIRE(is_done_or_work_of_parent(aclrtSynchronizeStream(shared)));
          REQUIRE(is_done_or_work_of_parent(aclrtSynchronizeDevice()));
          REQUIRE(computes_on_new_stream());
          REQUIRE(computes_on(idle));
          REQUIRE(computes_at_once());
          std::thread([] { REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS && computes_on_new_stream()); }).join();
          REQUIRE(aclrtDestroyStream(shared) == ACL_SUCCESS);
          if (i % 3 == 0) return;
          REQUIRE(aclrtResetDeviceForce(0) == ACL_SUCCESS);
          REQUIRE(aclFinalize() == ACL_SUCCESS);
          if (i % 3 == 1) std::_Exit(0);
        });
      }
    }
    REQUIRE(computes_on(shared));
    REQUIRE(aclFinalize() == ACL_SUCCESS);
  });
}

// By the end of the thread that forked, which is the only one.
TEST_F(ForkTest, AChildOfAnyThreadLeaves) {
  EXPECT_CLEAN_EXIT([] {
    constexpr int kForks = 30;
    REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS);
    {
      const Busy busy(nullptr);
      for (int i = 0; i < kForks; ++i) {
        std::thread([] {
          REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS && computes_at_once() && computes_on_new_stream());
          const pid_t child = fork();
          if (child == 0) {
            alarm(kSecondsOfChild);
            REQUIRE(computes_at_once() && computes_on_new_stream());
            return;
          }
          REQUIRE(child > 0 && ended_well(child));
        }).join();
      }
    }
  });
}

// What threads hold that enter or leave the thread pool while the process forks, its child never gets.
TEST_F(ForkTest, AChildOfAThreadLeavesWhileOthersComeAndGo) {
  EXPECT_CLEAN_EXIT([] {
    constexpr int kForks = 300;
    const auto comes_and_goes = [grad_y = ones()] { sums_of(grad_y); };
    std::atomic<bool> stop{false};
    std::vector<std::thread> others;
    for (int i = 0; i < 6; ++i) {
      others.emplace_back([&] {
        while (!stop) std::thread(comes_and_goes).join();
      });
    }
    for (int i = 0; i < kForks; ++i) {
      std::thread([&] {
        comes_and_goes();
        const pid_t child = fork();
        if (child == 0) {
          alarm(kSecondsOfChild);
          return;
        }
        REQUIRE(child > 0 && ended_well(child));
      }).join();
    }
    stop = true;
    for (std::thread& other : others) other.join();
  });
}

TEST_F(ForkTest, AChildGoesOnWithIdleStreams) {
  EXPECT_CLEAN_EXIT([] {
    REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS);
    REQUIRE(computes_on(nullptr));
    run_child([] {
      REQUIRE(computes_on(nullptr));
      run_child([] { REQUIRE(computes_on(nullptr)); });
    });
    REQUIRE(computes_on(nullptr));
  });
}

TEST_F(ForkTest, WorkOfTheParentIsAnErrorInTheChild) {
  EXPECT_CLEAN_EXIT([] {
    REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS);
    const aclrtStream stream = new_stream();
    const aclrtStream waiting = new_stream();
    const aclrtEvent event = new_event();
    const aclrtEvent unrecorded = new_event();
    Gate gate(stream);
    char byte = 0;
    REQUIRE(aclrtMemsetAsync(&byte, 1, 7, 1, stream) == ACL_SUCCESS);
    REQUIRE(aclrtRecordEvent(event, stream) == ACL_SUCCESS);
    REQUIRE(aclrtStreamWaitEvent(waiting, event) == ACL_SUCCESS);
    REQUIRE(aclrtStreamWaitEvent(waiting, unrecorded) == ACL_SUCCESS);
    run_child([&] {
      REQUIRE(is_work_of_parent(aclrtSynchronizeStream(stream)));
      REQUIRE(is_work_of_parent(aclrtSynchronizeStreamWithTimeout(waiting, 1000)));
      REQUIRE(is_work_of_parent(aclrtSynchronizeEvent(event)));
      REQUIRE(is_work_of_parent(aclrtSynchronizeDevice()));
      REQUIRE(byte == 0);
      aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
      REQUIRE(aclrtStreamQuery(stream, &status) == ACL_SUCCESS && status == ACL_STREAM_STATUS_COMPLETE);
      const aclrtStream own = new_stream();
      REQUIRE(aclrtRecordEvent(event, own) == ACL_SUCCESS);
      REQUIRE(aclrtSynchronizeEvent(event) == ACL_SUCCESS);
      REQUIRE(aclrtDestroyEvent(unrecorded) == ACL_SUCCESS && aclrtDestroyEvent(event) == ACL_SUCCESS);
      REQUIRE(aclrtDestroyStream(stream) == ACL_SUCCESS && aclrtDestroyStream(waiting) == ACL_SUCCESS);
      REQUIRE(computes_on(own));
    });
    gate.open();
    REQUIRE(aclrtSynchronizeEvent(event) == ACL_SUCCESS && byte == 7);
    REQUIRE(aclrtRecordEvent(unrecorded, nullptr) == ACL_SUCCESS);
    REQUIRE(aclrtSynchronizeStream(waiting) == ACL_SUCCESS);
  });
}

TEST_F(ForkTest, CallbacksOfTheParentStayWithIt) {
  EXPECT_CLEAN_EXIT([] {
    REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS);
    const aclrtStream stream = new_stream();
    REQUIRE(aclrtSubscribeReport(static_cast<uint64_t>(pthread_self()), stream) == ACL_SUCCESS);
    static int calls = 0;
    const auto count = [](void*) { ++calls; };
    REQUIRE(aclrtLaunchCallback(count, nullptr, ACL_CALLBACK_NO_BLOCK, stream) == ACL_SUCCESS);
    REQUIRE(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
    const aclrtStream of_another_thread = new_stream();
    REQUIRE(aclrtSubscribeReport(1, of_another_thread) == ACL_SUCCESS);
    run_child([&] {
      REQUIRE(aclrtLaunchCallback(count, nullptr, ACL_CALLBACK_NO_BLOCK, of_another_thread) == ACL_SUCCESS);
      REQUIRE(aclrtSynchronizeStream(of_another_thread) == ACL_ERROR_RT_AICORE_EXCEPTION);
      REQUIRE(aclrtProcessReport(50) == ACL_ERROR_RT_REPORT_TIMEOUT && calls == 0);
      REQUIRE(aclrtLaunchCallback(count, nullptr, ACL_CALLBACK_NO_BLOCK, stream) == ACL_SUCCESS);
      REQUIRE(aclrtProcessReport(-1) == ACL_SUCCESS && calls == 1);
    });
    REQUIRE(aclrtProcessReport(-1) == ACL_SUCCESS && calls == 1);
  });
}

TEST_F(ForkTest, KernelsOfAChildRunInTheThreadThatCalls) {
  EXPECT_CLEAN_EXIT([] {
    set_thread_count(3);
    run_child([] {
      REQUIRE(thread_count() == 3 && computes_at_once());
      REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS && computes_on_new_stream());
    });
    REQUIRE(computes_at_once());
    run_child([] {
      REQUIRE(thread_count() == 1 && computes_at_once());
      set_thread_count(2);
      REQUIRE(thread_count() == 1 && computes_at_once());
    });
    REQUIRE(thread_count() == 3);
  });
}

}  // namespace
}  // namespace aclgrad
