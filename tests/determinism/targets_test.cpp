// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Results are bitwise the same on every instruction set with fused multiply-add: each operator and each function of the
// C++ interface is run on each instruction set of this processor. All cases must have the same results there, and their
// hash must be the one that the description has for all processors. Cases with infinities and the like must be right on
// every instruction set: on the best one the tests of operators and of the interface see to that.
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cmath>
#include <optional>

#include "base/data_type.h"
#include "support/expect_reference.h"

namespace aclgrad::test {
namespace {

using Bytes = std::vector<std::byte>;

// An operator or a function with one of its types.
struct Described {
  std::string name;  // with the type
  uint64_t hash;     // which is known
  std::function<std::vector<Case>()> cases;
  std::function<Bytes(const std::vector<Value>& arguments)> results;
  std::function<void()> expect_hard_cases;  // held against the reference

  friend void PrintTo(const Described& of, std::ostream* out) { *out << of.name; }
};

std::vector<Case> cases_of(const Operator& of, DataType type) {
  std::vector<Case> all = of.cases(type);
  for (Case& one : of.parallel_cases(type)) all.push_back(std::move(one));
  return all;
}

std::vector<Case> cases_of(const Function& of, DataType type) {
  return of.cases(type);
}

std::vector<Described> all_described() {
  std::vector<Described> all;
  const auto add = [&](const auto& described) {
    for (const auto& of : described) {
      std::vector<uint64_t>& hashes = known_hashes()[std::string(of.name)];
      hashes.resize(of.types.size());
      for (size_t i = 0; i < hashes.size(); ++i) {
        const DataType type = of.types[i];
        all.push_back({std::string(of.name) + "_" + std::string(aclgrad::name_of(type)), hashes[i],
                       [&of, type] { return cases_of(of, type); },
                       [&of](const std::vector<Value>& arguments) {
                         return run_call(of, arguments)->bytes(of.outputs());
                       },
                       [&of, type] {
                         expect_reference(of, of.hard_cases(type), {{Layout::contiguous, 1}});
                       }});
      }
    }
  };
  add(operators());
  add(functions());
  return all;
}

// FNV-1a.
uint64_t hash_of(const Bytes& bytes, uint64_t hash) {
  for (std::byte byte : bytes) hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001B3u;
  return hash;
}

// Some values come from sines, whose last bits differ between C libraries.
std::vector<Value> for_every_processor(std::vector<Value> arguments) {
  for (Value& argument : arguments) {
    auto* tensor = std::get_if<TensorValue>(&argument);
    if (tensor == nullptr) continue;
    for (double& value : tensor->values) value = std::nearbyint(value * 0x1p40) * 0x1p-40;
  }
  return arguments;
}

bool has_fused_multiply_add(int64_t target) {
  return target == HWY_AVX2 || target == HWY_AVX3 || target == HWY_NEON;
}

void use(int64_t target) {  // 0: all
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// Of this processor, the best first.
std::vector<int64_t> targets() {
  std::vector<int64_t> all;
  const int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
  for (int64_t target = 1; target != 0 && target <= supported; target <<= 1) {
    if ((supported & target) != 0) all.push_back(target);
  }
  return all;
}

class Targets : public testing::TestWithParam<Described> {
 protected:
  ~Targets() override { use(0); }
};

INSTANTIATE_TEST_SUITE_P(, Targets, testing::ValuesIn(all_described()),
                         [](const auto& test) { return test.param.name; });

TEST_P(Targets, GiveTheSameBitsInEveryCase) {
  const Described& of = GetParam();
  std::vector<int64_t> all = targets();
  std::erase_if(all, [](int64_t target) { return !has_fused_multiply_add(target); });
  if (all.empty()) GTEST_SKIP() << "this processor has no fused multiply-add";
  uint64_t hash = 0xCBF29CE484222325u;
  for (const Case& one : of.cases()) {
    SCOPED_TRACE(one.title);
    const std::vector<Value> arguments = for_every_processor(one.arguments);
    std::optional<Bytes> first;
    for (int64_t target : all) {
      use(target);
      Bytes results = of.results(arguments);
      if (!first)
        first = std::move(results);
      else
        EXPECT_EQ(results, *first) << hwy::TargetName(target);
    }
    hash = hash_of(*first, hash);
  }
  EXPECT_EQ(hash, of.hash) << "The results are not those that are known. If the cases are others, and no "
                              "kernel, what is known becomes 0x"
                           << std::hex << std::uppercase << hash;
}

TEST_P(Targets, TakeAnyContents) {
  const std::vector<int64_t> all = targets();
  if (all.size() == 1) GTEST_SKIP() << "there is one instruction set";
  for (size_t i = 1; i < all.size(); ++i) {
    SCOPED_TRACE(hwy::TargetName(all[i]));
    use(all[i]);
    GetParam().expect_hard_cases();
  }
}

}  // namespace
}  // namespace aclgrad::test
