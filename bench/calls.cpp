// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What a call costs: every operator that describes itself, through the C interface. The smallest case shows what is beside
// the kernel: planned each time (phase 1, phase 2, synchronise), by one thread and by two at once, and planned once (phase 2
// of a repeatable executor, synchronise). The parallel ones are for profilers.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <numeric>

#include "support/operator.h"

namespace aclgrad::test {
namespace {

// Reported by name, so that a benchmark never times a call that failed.
void check(aclnnStatus status, const Operator& op) {
  if (status == 0) return;
  const char* message = aclGetRecentErrMsg();
  std::cerr << op.name << ": " << status << ": " << (message != nullptr ? message : "no message") << "\n";
  std::exit(1);
}

// What a thread calls an operator with: a stream, and device memory as large as a call asks for.
class Caller {
 public:
  explicit Caller(const Operator& op) : op_(op) {
    check(aclrtSetDevice(0), op_);
    check(aclrtCreateStream(&stream_), op_);
  }
  ~Caller() {
    if (workspace_ != nullptr) check(aclrtFree(workspace_), op_);
    check(aclrtDestroyStream(stream_), op_);
    check(aclrtResetDevice(0), op_);
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  aclOpExecutor* plan(const Arguments& arguments) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    check(op_.phase1(arguments.c(), &size, &executor), op_);
    if (size > size_) grow(size);
    return executor;
  }

  void run(aclOpExecutor* executor) {
    check(op_.phase2(workspace_, size_, executor, stream_), op_);
    check(aclrtSynchronizeStream(stream_), op_);
  }

 private:
  void grow(uint64_t size) {
    if (workspace_ != nullptr) check(aclrtFree(workspace_), op_);
    check(aclrtMalloc(&workspace_, size, ACL_MEM_MALLOC_HUGE_FIRST), op_);
    size_ = size;
  }

  const Operator& op_;
  aclrtStream stream_ = nullptr;
  void* workspace_ = nullptr;
  uint64_t size_ = 0;
};

void planned_each_time(benchmark::State& state, const Operator& op, const std::vector<Value>& values) {
  Caller caller(op);
  const Arguments arguments(values);
  for (auto _ : state) caller.run(caller.plan(arguments));
}

void planned_once(benchmark::State& state, const Operator& op, const std::vector<Value>& values) {
  Caller caller(op);
  const Arguments arguments(values);
  aclOpExecutor* executor = caller.plan(arguments);
  check(aclSetAclOpExecutorRepeatable(executor), op);
  for (auto _ : state) caller.run(executor);
  check(aclDestroyAclOpExecutor(executor), op);
}

// Elements of all tensors; more than any where one has none, as there is nothing to compute.
int64_t elements_of(const Case& described) {
  const std::vector<int64_t> counts = element_counts_in(described.arguments);
  const bool is_empty = std::count(counts.begin(), counts.end(), 0) > 0;
  return is_empty ? std::numeric_limits<int64_t>::max()
                  : std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

auto* add(const std::string& title, const Operator& op, const Case& described, auto run) {
  return benchmark::RegisterBenchmark(
      title.c_str(),
      [&op, run, values = described.arguments](benchmark::State& state) { run(state, op, values); });
}

Case smallest_case(const Operator& op) {
  const std::vector<Case> cases = op.cases(op.types.front());
  return *std::min_element(cases.begin(), cases.end(),
                           [](const Case& a, const Case& b) { return elements_of(a) < elements_of(b); });
}

void add_one_thread(const Operator& op) {
  const std::string name(op.name);
  const Case smallest = smallest_case(op);
  add("smallest/" + name + "/planned each time", op, smallest, planned_each_time);
  add("smallest/" + name + "/planned once", op, smallest, planned_once);
  for (const Case& parallel : op.parallel_cases(op.types.front()))
    add("parallel/" + name + "/" + parallel.title, op, parallel, planned_once);
}

void add_two_threads(const Operator& op) {
  add("smallest/" + std::string(op.name) + "/two threads", op, smallest_case(op), planned_each_time)
      ->Threads(2)
      ->UseRealTime();
}

void add_all() {
  for (const Operator& op : operators()) add_one_thread(op);
  // Last, since the C library's locks cost more in a process that has had a second thread.
  for (const Operator& op : operators()) add_two_threads(op);
}

}  // namespace
}  // namespace aclgrad::test

int main(int argc, char** argv) {
  if (aclInit(nullptr) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS) return 1;
  aclgrad::test::add_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  aclrtResetDevice(0);
  aclFinalize();
}
