// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Many threads in the C interface at once: own and shared contexts, streams, events, executors that are made in one
// thread and run in another, and contexts that end in the middle of others' work. For the thread sanitizer.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"

namespace {

constexpr int kThreads = 16;
constexpr int64_t kGroups = 3;
constexpr int64_t kRows = 40;
constexpr int64_t kColumns = 16;

void require(bool holds, const char* what) {
  if (holds) return;
  const char* message = aclGetRecentErrMsg();
  std::fprintf(stderr, "does not hold: %s\n%s\n", what, message != nullptr ? message : "");
  std::_Exit(1);
}

#define REQUIRE(condition) require(condition, #condition)

// One problem with its memory, tensors and executor; any thread may run it.
class Job {
 public:
  Job() : input_(kGroups * kRows * kColumns, 1.0f), output_(kGroups * kColumns, 0.0f) {
    const int64_t input_shape[] = {kGroups, kRows, kColumns};
    const int64_t output_shape[] = {kGroups, kColumns};
    grad_y_ =
        aclCreateTensor(input_shape, 3, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, input_shape, 3, input_.data());
    out_ = aclCreateTensor(output_shape, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, output_shape, 2,
                           output_.data());
    uint64_t size = 0;
    REQUIRE(aclnnGroupedBiasAddGradGetWorkspaceSize(grad_y_, nullptr, out_, &size, &executor_) == OK);
    workspace_.resize(size);
  }

  ~Job() {
    aclDestroyTensor(grad_y_);
    aclDestroyTensor(out_);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void queue(aclrtStream stream) {
    REQUIRE(aclnnGroupedBiasAddGrad(workspace_.data(), workspace_.size(), executor_, stream) == OK);
  }

  void check() const {
    for (float sum : output_) REQUIRE(sum == static_cast<float>(kRows));
  }

 private:
  std::vector<float> input_;
  std::vector<float> output_;
  std::vector<char> workspace_;
  aclTensor* grad_y_ = nullptr;
  aclTensor* out_ = nullptr;
  aclOpExecutor* executor_ = nullptr;
};

// Jobs that one thread has planned and another will run.
class Exchange {
 public:
  void give(std::unique_ptr<Job> job) {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  std::unique_ptr<Job> take() {
    std::lock_guard lock(mutex_);
    if (jobs_.empty()) return std::make_unique<Job>();
    std::unique_ptr<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    return job;
  }

 private:
  std::mutex mutex_;
  std::deque<std::unique_ptr<Job>> jobs_;
};

// A job of another thread in one stream, a second stream that waits for it and copies.
void run_one(Exchange& exchange) {
  exchange.give(std::make_unique<Job>());
  const std::unique_ptr<Job> job = exchange.take();
  aclrtStream first = nullptr;
  aclrtStream second = nullptr;
  aclrtEvent done = nullptr;
  REQUIRE(aclrtCreateStream(&first) == ACL_SUCCESS);
  REQUIRE(aclrtCreateStream(&second) == ACL_SUCCESS);
  REQUIRE(aclrtCreateEvent(&done) == ACL_SUCCESS);
  REQUIRE(aclrtStreamWaitEvent(second, done) == ACL_SUCCESS);  // before it is recorded: needs a worker
  job->queue(first);
  REQUIRE(aclrtRecordEvent(done, first) == ACL_SUCCESS);
  std::vector<char> from(5000, 'a');
  std::vector<char> to(5000);
  REQUIRE(aclrtMemcpyAsync(to.data(), to.size(), from.data(), from.size(), ACL_MEMCPY_DEVICE_TO_DEVICE,
                           second) == ACL_SUCCESS);
  REQUIRE(aclrtSynchronizeStream(second) == ACL_SUCCESS);
  REQUIRE(to == from);
  job->check();
  REQUIRE(aclrtDestroyEvent(done) == ACL_SUCCESS);
  REQUIRE(aclrtDestroyStream(first) == ACL_SUCCESS);
  REQUIRE(aclrtDestroyStream(second) == ACL_SUCCESS);
}

// A context that its maker destroys while others are in it: their calls may fail, but nothing else may happen.
void destroy_in_use(std::atomic<void*>& shared) {
  aclrtContext own = nullptr;
  REQUIRE(aclrtGetCurrentContext(&own) == ACL_SUCCESS);
  aclrtContext fresh = nullptr;
  REQUIRE(aclrtCreateContext(&fresh, 0) == ACL_SUCCESS);
  aclrtContext old = shared.exchange(fresh);
  if (old != nullptr) REQUIRE(aclrtDestroyContext(old) == ACL_SUCCESS);
  if (aclrtSetCurrentContext(shared.load()) == ACL_SUCCESS) {
    aclrtStream stream = nullptr;
    void* memory = nullptr;
    if (aclrtCreateStream(&stream) == ACL_SUCCESS) {
      if (aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS) {
        aclrtMemsetAsync(memory, 4096, 1, 4096, stream);
        aclrtSynchronizeStream(stream);
      }
      aclrtDestroyStream(stream);
    }
    if (memory != nullptr) REQUIRE(aclrtFree(memory) == ACL_SUCCESS);
  }
  aclGetRecentErrMsg();
  REQUIRE(aclrtSetCurrentContext(own) == ACL_SUCCESS);
}

}  // namespace

int main(int count, char** arguments) {
  const int iterations = count > 1 ? std::atoi(arguments[1]) : 50;
  REQUIRE(aclInit(nullptr) == ACL_SUCCESS);
  Exchange exchange;
  std::atomic<void*> shared = nullptr;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      aclrtContext own = nullptr;
      if (thread % 2 == 0) {
        REQUIRE(aclrtSetDevice(thread % 4 / 2) == ACL_SUCCESS);
      } else {
        REQUIRE(aclrtCreateContext(&own, 0) == ACL_SUCCESS);
      }
      for (int i = 0; i < iterations; ++i) {
        run_one(exchange);
        destroy_in_use(shared);
      }
      if (own != nullptr) {
        REQUIRE(aclrtDestroyContext(own) == ACL_SUCCESS);
      } else {
        REQUIRE(aclrtResetDevice(thread % 4 / 2) == ACL_SUCCESS);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(aclrtSetCurrentContext(shared.load()) == ACL_SUCCESS);
  REQUIRE(aclrtDestroyContext(shared.load()) == ACL_SUCCESS);
  REQUIRE(aclFinalize() == ACL_SUCCESS);
  std::printf("%d iterations in each of %d threads\n", iterations, kThreads);
}
