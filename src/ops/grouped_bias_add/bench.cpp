// Speed of the grouped bias-add gradient, in bytes read a second.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <vector>

#include "base/data_type.h"
#include "bench/memory.h"
#include "ops/grouped_bias_add/problem.h"

namespace aclgrad {
namespace {

void grad(benchmark::State& state, DataType type, int64_t rows, int64_t columns, int64_t groups) {
  set_thread_count(static_cast<int>(state.range(0)));
  Memory grad_y(static_cast<size_t>(rows * columns) * size_of(type));
  Memory out(static_cast<size_t>(groups * columns) * size_of(type));
  std::vector<int64_t> ends(static_cast<size_t>(groups));
  for (int64_t g = 0; g < groups; ++g) ends[static_cast<size_t>(g)] = rows * (g + 1) / groups;
  GroupedBiasAddGrad problem;
  problem.type = type;
  problem.kind = GroupedBiasAddGrad::Groups::ends;
  problem.groups = groups;
  problem.rows = rows;
  problem.columns = problem.row_stride = columns;
  problem.grad_y = grad_y.data();
  problem.group_idx = {ends.data(), DataType::int64};
  problem.out = out.data();
  Memory workspace(workspace_size(problem));
  for (auto _ : state) grouped_bias_add_grad(problem, workspace.data());
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(grad_y.size() + out.size()));
}

void with_thread_counts(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("threads")->Arg(1)->Arg(0)->UseRealTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(grad, float_16384x4096_8_groups, DataType::float32, 16384, 4096, 8)
    ->Apply(with_thread_counts);
BENCHMARK_CAPTURE(grad, float_16384x4096_128_groups, DataType::float32, 16384, 4096, 128)
    ->Apply(with_thread_counts);
BENCHMARK_CAPTURE(grad, half_16384x4096_8_groups, DataType::float16, 16384, 4096, 8)
    ->Apply(with_thread_counts);
BENCHMARK_CAPTURE(grad, bfloat16_16384x4096_8_groups, DataType::bfloat16, 16384, 4096, 8)
    ->Apply(with_thread_counts);
BENCHMARK_CAPTURE(grad, bfloat16_65536x2880_32_groups, DataType::bfloat16, 65536, 2880, 32)
    ->Apply(with_thread_counts);
BENCHMARK_CAPTURE(grad, float_tiny_8x64, DataType::float32, 8, 64, 2)->Apply(with_thread_counts);

}  // namespace
}  // namespace aclgrad
