// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What a call costs: every operator that describes itself, through the C interface. The smallest case shows what is beside
// the kernel, planned each time (phase 1, phase 2, synchronise) and planned once (phase 2 of a repeatable executor,
// synchronise); the parallel ones are for profilers.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <limits>

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

// Device memory, as large as a call asks for.
class Workspace {
 public:
  void* of(uint64_t size, const Operator& op) {
    if (size > size_) {
      if (data_ != nullptr) check(aclrtFree(data_), op);
      check(aclrtMalloc(&data_, size, ACL_MEM_MALLOC_HUGE_FIRST), op);
      size_ = size;
    }
    return data_;
  }

 private:
  void* data_ = nullptr;  // freed with the device
  uint64_t size_ = 0;
};

void run_planned(const Operator& op, Workspace& workspace, uint64_t size, aclOpExecutor* executor) {
  check(op.phase2(workspace.of(size, op), size, executor, nullptr), op);
  check(aclrtSynchronizeStream(nullptr), op);
}

void planned_each_time(benchmark::State& state, const Operator& op, const std::vector<Value>& values) {
  const Arguments arguments(values);
  Workspace workspace;
  for (auto _ : state) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    check(op.phase1(arguments.c(), &size, &executor), op);
    run_planned(op, workspace, size, executor);
  }
}

void planned_once(benchmark::State& state, const Operator& op, const std::vector<Value>& values) {
  const Arguments arguments(values);
  Workspace workspace;
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  check(op.phase1(arguments.c(), &size, &executor), op);
  check(aclSetAclOpExecutorRepeatable(executor), op);
  for (auto _ : state) run_planned(op, workspace, size, executor);
  check(aclDestroyAclOpExecutor(executor), op);
}

// Elements of all tensors; more than any where one has none, as there is nothing to compute.
int64_t elements_of(const Case& described) {
  int64_t sum = 0;
  for (const Value& value : described.arguments) {
    const auto* tensor = std::get_if<TensorValue>(&value);
    if (tensor == nullptr) continue;
    const int64_t count = element_count(tensor->shape);
    if (count == 0) return std::numeric_limits<int64_t>::max();
    sum += count;
  }
  return sum;
}

void add(const std::string& title, const Operator& op, const Case& described, auto run) {
  benchmark::RegisterBenchmark(title.c_str(), [&op, run, values = described.arguments](
                                                  benchmark::State& state) { run(state, op, values); });
}

void add(const Operator& op) {
  const DataType type = op.types.front();
  const std::string name(op.name);
  const std::vector<Case> cases = op.cases(type);
  const auto& smallest = *std::min_element(cases.begin(), cases.end(), [](const Case& a, const Case& b) {
    return elements_of(a) < elements_of(b);
  });
  add("smallest/" + name + "/planned each time", op, smallest, planned_each_time);
  add("smallest/" + name + "/planned once", op, smallest, planned_once);
  for (const Case& parallel : op.parallel_cases(type))
    add("parallel/" + name + "/" + parallel.title, op, parallel, planned_once);
}

}  // namespace
}  // namespace aclgrad::test

int main(int argc, char** argv) {
  if (aclInit(nullptr) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS) return 1;
  for (const auto& op : aclgrad::test::operators()) aclgrad::test::add(op);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  aclrtResetDevice(0);
  aclFinalize();
}
