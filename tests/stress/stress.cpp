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

#include "../check/programs/program.h"

namespace {

constexpr int kThreads = 16;

// One problem with its memory, tensors and executor; any thread may run it.
struct Job : BiasGrad {
  Job() { plan(); }

  void check() const {
    const float* sums = output.as<float>();  // a CPU's memory
    for (size_t i = 0; i < kOutputs; ++i) require(sums[i] == kRows);
  }
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
  const Event done = new_event();
  const Stream first = new_stream(), second = new_stream();
  must(aclrtStreamWaitEvent(second, done));  // before it is recorded: needs a worker
  job->queue(first);
  must(aclrtRecordEvent(done, first));
  std::vector<char> from(5000, 'a');
  std::vector<char> to(5000);
  must(aclrtMemcpyAsync(to.data(), to.size(), from.data(), from.size(), ACL_MEMCPY_DEVICE_TO_DEVICE, second));
  must(aclrtSynchronizeStream(second));
  require(to == from);
  job->check();
}

// A context that its maker destroys while others are in it: their calls may fail, but nothing else may happen.
void destroy_in_use(std::atomic<void*>& shared) {
  const aclrtContext own = current_context();
  aclrtContext fresh = nullptr;
  must(aclrtCreateContext(&fresh, 0));
  aclrtContext old = shared.exchange(fresh);
  if (old != nullptr) must(aclrtDestroyContext(old));
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
    if (memory != nullptr) must(aclrtFree(memory));
  }
  aclGetRecentErrMsg();
  must(aclrtSetCurrentContext(own));
}

}  // namespace

int main(int count, char** arguments) {
  const int iterations = count > 1 ? std::atoi(arguments[1]) : 50;
  must(aclInit(nullptr));
  Exchange exchange;
  std::atomic<void*> shared = nullptr;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      aclrtContext own = nullptr;
      if (thread % 2 == 0) {
        must(aclrtSetDevice(thread % 4 / 2));
      } else {
        must(aclrtCreateContext(&own, 0));
      }
      for (int i = 0; i < iterations; ++i) {
        run_one(exchange);
        destroy_in_use(shared);
      }
      if (own != nullptr) {
        must(aclrtDestroyContext(own));
      } else {
        must(aclrtResetDevice(thread % 4 / 2));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  must(aclrtSetCurrentContext(shared.load()));
  must(aclrtDestroyContext(shared.load()));
  must(aclFinalize());
  std::printf("%d iterations in each of %d threads\n", iterations, kThreads);
}
