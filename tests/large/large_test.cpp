// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Problems whose elements lie more than 2^31 apart, or are more than 2^31. Beside each a small one is run, whose results
// must be bitwise the same: with the same tensors packed, or with the only part of the large ones that is not zero.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/data_type.h"
#include "support/function.h"

namespace aclgrad::test {
namespace {

constexpr size_t kAddressSpace = size_t{60} << 40;

// Bytes that the machine has left; 0 where it does not say.
int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t kibibytes = 0;
    if (words >> name >> kibibytes && name == "MemAvailable:") return kibibytes * 1024;
  }
  return 0;
}

bool has_address_space(size_t bytes) {
  try {
    map_zeros(bytes);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

class Large : public testing::TestWithParam<const Function*> {
 protected:
  void SetUp() override {
    if (!has_address_space(kAddressSpace)) GTEST_SKIP() << "the process may not have 60 TiB of addresses";
    if (!has_memory(int64_t{1} << 30)) GTEST_SKIP() << "less than 1 GiB of memory is available";
  }

  static bool has_memory(int64_t bytes) { return available_memory() >= bytes; }
  const Function& of() const { return *GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(, Large, testing::ValuesIn(pointers_to(functions())), name_of_described);

// Those whose tensors fit into the address space with every stride beyond 2^31.
std::vector<Case> small_cases(const Function& of, DataType type) {
  std::vector<Case> result;
  for (Case& c : of.cases(type)) {
    size_t bytes = 0;
    for (const Value& value : c.arguments) {
      if (const auto* tensor = std::get_if<TensorValue>(&value))
        bytes += static_cast<size_t>(element_count(tensor->shape)) * size_of(tensor->type);
    }
    if (bytes < kAddressSpace >> 31) result.push_back(std::move(c));
  }
  return result;
}

// Where there are many cases, each has one type and one layout: a page of memory for each element takes its time.
TEST_P(Large, StridesGiveTheSameBits) {
  constexpr size_t kLayouts = std::size(kFarLayouts), kMany = 50;
  const size_t types = of().types.size();
  for (size_t t = 0; t < types; ++t) {
    const std::vector<Case> cases = small_cases(of(), of().types[t]);
    EXPECT_FALSE(cases.empty());
    for (size_t i = 0; i < cases.size(); ++i) {
      if (cases.size() > kMany && i / kLayouts % types != t) continue;
      SCOPED_TRACE(cases[i].title);
      const FunctionCall packed(of(), cases[i].arguments);
      packed.run();
      for (size_t l = 0; l < kLayouts; ++l) {
        if (cases.size() > kMany && i % kLayouts != l) continue;
        const FunctionCall far(of(), cases[i].arguments, kFarLayouts[l]);
        far.run();
        EXPECT_TRUE(far.bytes(of().outputs()) == packed.bytes(of().outputs())) << name_of(kFarLayouts[l]);
      }
    }
  }
}

void run_sparsely(const FunctionCall& call) {
  const size_t bytes = call.problem().workspace_size();
  const auto workspace = map_zeros(bytes);
  call.problem().run({workspace.get(), bytes});
}

std::vector<double> scaled(std::vector<double> values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

TEST_P(Large, CountsGiveTheSameBits) {
  for (const LargeCase& c : of().large_cases()) {
    SCOPED_TRACE(c.title);
    if (!has_memory(c.memory)) GTEST_SKIP() << "less than " << c.memory << " bytes of memory are available";
    const FunctionCall small(of(), c.small), large(of(), c.large, Layout::sparse);
    const auto part = [&](size_t i) {
      return TestTensor(*large.tensor(i), c.parts[i].first, small.tensor(i)->shape());
    };
    for (size_t i = 0; i < of().fields.size(); ++i) {
      const bool has_values = !std::get<TensorValue>(c.large[i]).values.empty();
      if (!has_values && !is_output(of().fields[i].role)) part(i).set(small.tensor(i)->values());
    }
    small.run();
    run_sparsely(large);
    for (size_t i : of().outputs()) {
      const std::vector<double> expected = small.tensor(i)->values();
      EXPECT_TRUE(part(i).values() == scaled(expected, c.parts[i].factor)) << of().fields[i].name;
      EXPECT_NE(std::count(expected.begin(), expected.end(), 0), std::ssize(expected))
          << "which shows nothing";
    }
  }
}

}  // namespace
}  // namespace aclgrad::test
