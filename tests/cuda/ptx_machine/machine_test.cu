// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The machine finds what it is there for, and nothing in right kernels; it computes what PTX says; and it refuses what it
// does not know.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "fault.h"
#include "findings.h"
#include "machine.h"
#include "parser.h"
#include "settings.h"

namespace ptx::test {
namespace {

// ---- Kernels with one mistake each, and right ones beside them

__global__ void store_each(float* to) {
  to[threadIdx.x] = static_cast<float>(threadIdx.x);
}

__global__ void store_in_steps(float* to, int count) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) to[i] = 1;
}

__global__ void store_to_one(float* to) {
  to[0] = 1;
}

__global__ void add_to_one(float* to) {
  atomicAdd(to, 1.0f);
}

__global__ void add_and_store(float* to) {
  if (threadIdx.x == 0) {
    atomicAdd(to, 1.0f);
  } else {
    *to = 2;
  }
}

__global__ void load_at(const char* from, long offset, float* to) {
  *to = *reinterpret_cast<const float*>(from + offset);
}

__global__ void copy_each(const float* from, float* to) {
  to[threadIdx.x] = from[threadIdx.x];
}

__global__ void branch_on(const float* from, float* to) {
  if (*from > 0) {
    atomicAdd(to, 1.0f);
  } else {
    *to = 2;
  }
}

__global__ void load_shared_unwritten(float* to) {
  __shared__ float memory[2];
  memory[0] = 1;
  __syncthreads();
  to[threadIdx.x] = memory[threadIdx.x];
}

enum class Barrier { none, of_warp, of_block };

// In one block.
template <Barrier kBarrier>
__global__ void reverse(float* values) {
  __shared__ float memory[256];
  memory[threadIdx.x] = values[threadIdx.x];
  if constexpr (kBarrier == Barrier::of_warp) __syncwarp();
  if constexpr (kBarrier == Barrier::of_block) __syncthreads();
  values[threadIdx.x] = memory[blockDim.x - 1 - threadIdx.x];
}

void reverse_in_shared(float* values, int threads, Barrier barrier) {
  if (barrier == Barrier::none) reverse<Barrier::none><<<1, threads>>>(values);
  if (barrier == Barrier::of_warp) reverse<Barrier::of_warp><<<1, threads>>>(values);
  if (barrier == Barrier::of_block) reverse<Barrier::of_block><<<1, threads>>>(values);
}

__global__ void count_equals(int* values) {
  values[threadIdx.x] = __popc(__match_any_sync(~0u, values[threadIdx.x]));
}

__global__ void count_odd(int* values) {
  values[threadIdx.x] = __popc(__ballot_sync(~0u, values[threadIdx.x] % 2 != 0));
}

__global__ void end_before_barrier(float* to) {
  __shared__ float memory;
  if (threadIdx.x == 40) return;
  if (threadIdx.x == 0) memory = 1;
  __syncthreads();
  to[threadIdx.x] = memory;
}

__global__ void exchange(float* values, unsigned mask, int last_lane) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane <= last_lane) values[lane] = __shfl_xor_sync(mask, values[lane], 1);
}

__global__ void divide(const int* values, int* quotient) {
  *quotient = values[0] / values[1];
}

__global__ void count_down(int* values) {
  int rounds = 0;
  for (int left = values[threadIdx.x]; left > 0; left = left % 3 == 0 ? left / 3 : left - 1) ++rounds;
  values[threadIdx.x] = rounds;
}

struct Arithmetic {
  int int_of_float;
  long long long_of_double;
  unsigned shifted;
  int quotient;
  float not_a_number, exact_product;
};

__global__ void compute(const float* given, Arithmetic* result) {
  const float large = given[0], minus_one = given[1], number = given[2];
  result->int_of_float = static_cast<int>(large);
  result->long_of_double = static_cast<long long>(static_cast<double>(-large));
  result->shifted = 7u << static_cast<unsigned>(number);
  result->quotient = -7 / static_cast<int>(given[3]);
  const float infinite = large * large;
  result->not_a_number = infinite - infinite;
  result->exact_product = fmaf(number, number, minus_one);
}

// ---- Tests

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Memory of the device; with values where they are given.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(size_t count) : count_(count) {
    cudaMalloc(reinterpret_cast<void**>(&memory_), count * sizeof(T));
  }
  explicit OnDevice(const std::vector<T>& values) : OnDevice(values.size()) {
    cudaMemcpyAsync(memory_, values.data(), values.size() * sizeof(T), cudaMemcpyDefault, nullptr);
  }
  ~OnDevice() { cudaFree(memory_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  operator T*() const { return memory_; }
  std::vector<T> values() const { return {memory_, memory_ + count_}; }

 private:
  T* memory_ = nullptr;
  size_t count_;
};

class Machine : public testing::Test {
 protected:
  ~Machine() override { settings() = before_; }

  CollectedFindings findings_;

 private:
  const Settings before_ = settings();
};

TEST_F(Machine, FindsWhatIsOutOfBounds) {
  const OnDevice<float> memory(31);
  store_each<<<1, 31>>>(memory);
  EXPECT_THAT(findings_.take(), IsEmpty());
  store_each<<<1, 32>>>(memory);
  EXPECT_THAT(findings_.take(),
              ElementsAre(HasSubstr("out of the bounds of global memory, in lane 31, by 4 bytes")));
  cudaMemsetAsync(memory, 0, 31 * sizeof(float) + 1, nullptr);
  EXPECT_THAT(findings_.take(), ElementsAre(HasSubstr("a fill of 125 bytes runs over the end")));
  std::vector<float> ordinary(32);
  store_each<<<1, 1>>>(ordinary.data());
  EXPECT_THAT(findings_.take(), ElementsAre(HasSubstr("out of the bounds of global memory")));
}

TEST_F(Machine, FindsWhatIsMisaligned) {
  const OnDevice<char> from(std::vector<char>(12));
  const OnDevice<float> to(1);
  load_at<<<1, 1>>>(from, 4, to);
  EXPECT_THAT(findings_.take(), IsEmpty());
  load_at<<<1, 1>>>(from, 6, to);
  EXPECT_THAT(findings_.take(), ElementsAre(HasSubstr("a misaligned address, 2 bytes past a multiple of 4")));
}

TEST_F(Machine, FindsUndefinedValues) {
  const OnDevice<float> undefined(2), to(2), from(std::vector<float>{1, 2});
  copy_each<<<1, 2>>>(from, to);
  EXPECT_THAT(findings_.take(), IsEmpty());
  copy_each<<<1, 2>>>(undefined, to);
  EXPECT_THAT(findings_.take(), ElementsAre(HasSubstr("an undefined value is stored"),
                                            HasSubstr("an undefined value is stored")));
  branch_on<<<1, 1>>>(undefined, to);
  EXPECT_THAT(findings_.take(), testing::Contains(HasSubstr("an undefined predicate decides")));
  add_to_one<<<1, 32>>>(undefined);
  EXPECT_THAT(findings_.take(), testing::Contains(HasSubstr("an undefined value in memory is added to")));
  load_shared_unwritten<<<1, 2>>>(to);
  EXPECT_THAT(findings_.take(), testing::Contains(HasSubstr("an undefined value is stored")));
  ptxUndefine(from, sizeof(float));
  copy_each<<<1, 2>>>(from, to);
  EXPECT_THAT(findings_.take(), ElementsAre(HasSubstr("an undefined value is stored")));
}

TEST_F(Machine, FindsRacesInABlock) {
  std::vector<float> values(64);
  std::iota(values.begin(), values.end(), 0.0f);
  const OnDevice<float> memory(values);
  reverse_in_shared(memory, 64, Barrier::of_block);
  EXPECT_THAT(findings_.take(), IsEmpty());
  std::reverse(values.begin(), values.end());
  EXPECT_EQ(memory.values(), values);
  reverse_in_shared(memory, 32, Barrier::of_warp);
  EXPECT_THAT(findings_.take(), IsEmpty());
  for (auto [threads, barrier] :
       {std::pair(64, Barrier::none), {32, Barrier::none}, {64, Barrier::of_warp}}) {
    reverse_in_shared(memory, threads, barrier);
    EXPECT_THAT(findings_.take(), testing::Contains(HasSubstr("shared memory that another has")));
  }
}

TEST_F(Machine, FindsRacesBetweenBlocks) {
  const OnDevice<float> memory(std::vector<float>{0});
  store_to_one<<<1, 1>>>(memory);
  add_to_one<<<3, 32>>>(memory);
  store_to_one<<<1, 1>>>(memory);  // after the launch before
  EXPECT_THAT(findings_.take(), IsEmpty());
  store_to_one<<<2, 1>>>(memory);
  EXPECT_THAT(findings_.take(),
              ElementsAre(HasSubstr("a race: thread 0 writes global memory that another has written")));
  add_and_store<<<1, 2>>>(memory);
  EXPECT_THAT(findings_.take(), ElementsAre(HasSubstr("a race")));
}

TEST_F(Machine, FindsThreadsThatDoNotMeet) {
  const OnDevice<float> memory(std::vector<float>(64));
  end_before_barrier<<<1, 32>>>(memory);
  exchange<<<1, 32>>>(memory, 0xFFFFFFFFu, 31);
  exchange<<<1, 32>>>(memory, 0xFFu, 7);
  EXPECT_THAT(findings_.take(), IsEmpty());
  end_before_barrier<<<1, 64>>>(memory);
  EXPECT_THAT(findings_.take(),
              ElementsAre(HasSubstr("threads wait at a barrier while others of the block have ended")));
  exchange<<<1, 32>>>(memory, 0xFFFFFFFFu, 7);
  EXPECT_THAT(findings_.take(),
              testing::Contains(HasSubstr("barrier of a warp whose mask names lanes that never come")));
  exchange<<<1, 32>>>(memory, 0x7Fu, 7);
  EXPECT_THAT(findings_.take(),
              testing::Contains(HasSubstr("barrier of a warp by a lane that its mask leaves out")));
}

TEST_F(Machine, MatchesLanesAndVotes) {
  std::vector<int> values(32, 3);
  values[5] = values[17] = 8, values[31] = 0;
  const OnDevice<int> to_match(values), to_vote(values);
  count_equals<<<1, 32>>>(to_match);
  count_odd<<<1, 32>>>(to_vote);
  std::vector<int> counts(32, 29);
  counts[5] = counts[17] = 2, counts[31] = 1;
  EXPECT_EQ(to_match.values(), counts);
  EXPECT_EQ(to_vote.values(), std::vector<int>(32, 29));
  EXPECT_THAT(findings_.take(), IsEmpty());
}

TEST_F(Machine, FindsDivisionsByZero) {
  const OnDevice<int> values(std::vector<int>{6, 0}), quotient(1);
  divide<<<1, 1>>>(values, quotient);
  EXPECT_THAT(findings_.take(), ElementsAre(HasSubstr("a division by zero")));
}

TEST_F(Machine, RunsThreadsThatDivergeInEverySchedule) {
  std::vector<int> given(100), expected(100);
  for (int i = 0; i < 100; ++i) {
    given[static_cast<size_t>(i)] = i;
    for (int left = i; left > 0; left = left % 3 == 0 ? left / 3 : left - 1)
      ++expected[static_cast<size_t>(i)];
  }
  for (Schedule schedule : {Schedule::lowest, Schedule::highest, Schedule::random}) {
    settings().schedule = schedule;
    settings().reversed = !settings().reversed;
    const OnDevice<int> memory(given);
    count_down<<<1, 100>>>(memory);
    EXPECT_EQ(memory.values(), expected);
  }
  EXPECT_THAT(findings_.take(), IsEmpty());
}

TEST_F(Machine, RunsFewerBlocksThanItIsTold) {
  settings().max_blocks = 3;
  const OnDevice<float> memory(10 * 32);
  store_in_steps<<<10, 32>>>(memory, 10 * 32);
  EXPECT_EQ(memory.values(), std::vector<float>(10 * 32, 1.0f));
  EXPECT_THAT(findings_.take(), IsEmpty());
}

TEST_F(Machine, FindsFaultsThatArePlanted) {
  const OnDevice<float> values(std::vector<float>(64));
  settings().plant = Plant::barriers;
  reverse_in_shared(values, 64, Barrier::of_block);
  EXPECT_EQ(planted_faults(), (PlantedFaults{1, 1}));
  reverse_in_shared(values, 32, Barrier::of_warp);
  EXPECT_EQ(planted_faults(), (PlantedFaults{2, 2}));
  settings().plant = Plant::atomics;
  add_to_one<<<2, 32>>>(values);
  EXPECT_EQ(planted_faults(), (PlantedFaults{3, 3}));
  EXPECT_THAT(findings_.take(), IsEmpty()) << "they are not the kernel's";
}

TEST_F(Machine, ComputesWhatPtxSays) {
  const OnDevice<float> given(std::vector<float>{0x1p100f, -1, 0x1.000002p5f, 2});
  const OnDevice<Arithmetic> result(1);
  compute<<<1, 1>>>(given, result);
  EXPECT_THAT(findings_.take(), IsEmpty());
  const Arithmetic got = result.values()[0];
  EXPECT_EQ(got.int_of_float, std::numeric_limits<int>::max());
  EXPECT_EQ(got.long_of_double, std::numeric_limits<long long>::min());
  EXPECT_EQ(got.shifted, 0u);
  EXPECT_EQ(got.quotient, -3);
  EXPECT_TRUE(std::isnan(got.not_a_number));
  EXPECT_EQ(got.exact_product, std::fma(0x1.000002p5f, 0x1.000002p5f, -1.0f));
  // Atomic additions of floats take subnormal numbers for zero.
  const OnDevice<float> sum(std::vector<float>{0x1p-130f});
  add_to_one<<<1, 32>>>(sum);
  EXPECT_EQ(sum.values()[0], 32);
}

TEST(MachineDeathTest, RefusesWhatItDoesNotKnow) {
  const auto run = [](const std::string& instruction) {
    parse_kernel(".entry k(\n)\n{\n.reg .f32 %f<3>;\n.reg .b64 %rd<3>;\n.reg .pred %p<2>;\n" + instruction +
                     ";\nret;\n}\n",
                 "k");
  };
  run("add.rn.f32 %f1, %f1, %f2");
  for (const char* instruction :
       {"tanh.approx.f32 %f1, %f1", "add.rn.ftz.f32 %f1, %f1, %f2", "ld.global.nc.f32 %f1, [%rd1]",
        "ld.f32 %f1, [%rd1]", "add.rn.f32 %f1, %f1, %f9", "add.rn.f32 %f1, %f1, %rd1", "bar.sync 1",
        "@%p1 bar.sync 0", "atom.global.exch.b32 %f1, [%rd1], %f2", "bra nowhere", ".reg .f32 %f<4>",
        "st.global.v2.f32 [%rd1], {%f1, %f1, %f1}", "mov.u32 %f1, %tid.y"}) {
    EXPECT_DEATH(run(instruction), "PTX machine: cannot run") << instruction;
  }
}

TEST(MachineDeathTest, EndsTheProgramWithWhatItFound) {
  const OnDevice<float> memory(1);
  EXPECT_DEATH((store_each<<<1, 2>>>(memory)),
               "PTX machine: out of the bounds of global memory.*\n.*in block "
               "0.*st.global.f32(.*\n)*.*store_each");
}

}  // namespace
}  // namespace ptx::test
