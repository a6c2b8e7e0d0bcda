// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The bounds that README.md and docs/accuracy.md state, over all cases of every function.
#include <gtest/gtest.h>

#include "support/function.h"

namespace aclgrad::test {
namespace {

// At the positions that the type's arithmetic gives.
double bound(DataType type, bool uses_positions) {
  switch (type) {
    case DataType::float16:
      return 5e-4;
    case DataType::bfloat16:
      return 4e-3;
    case DataType::float64:
      return 1e-12;
    default:
      return uses_positions ? 5e-6 : 1e-6;
  }
}

// With positions in double precision, where these cannot make it another value. Rounding to 16 bits hides the
// difference.
double bound_in_double(DataType type) {
  return type == DataType::float32 ? 2e-5 : bound(type, true);
}

class Accuracy : public testing::TestWithParam<const Function*> {};

INSTANTIATE_TEST_SUITE_P(, Accuracy, testing::ValuesIn(function_pointers()), name_of_function);

TEST_P(Accuracy, KeepsTheBoundsOfTheDocumentation) {
  const Function& of = *GetParam();
  const std::vector<size_t> outputs = of.outputs();
  for (DataType type : of.types) {
    for (const Case& c : of.cases(type)) {
      SCOPED_TRACE("type " + std::to_string(static_cast<int>(type)) + ", " + c.title);
      const bool uses_positions = c.expected_in_double != nullptr;
      const FunctionCall call(of, c.arguments);
      call.run();
      const Outputs expected = c.expected();
      const Outputs in_double = uses_positions ? c.expected_in_double() : expected;
      for (size_t i = 0; i < outputs.size(); ++i) {
        const std::vector<double> values = call.tensor(outputs[i])->values();
        const std::string& name = of.fields[outputs[i]].name;
        EXPECT_LE(expected[i]->error(values, expected[i]->values), bound(type, uses_positions)) << name;
        if (!uses_positions || expected[i]->jumps) continue;
        EXPECT_LE(expected[i]->error(values, in_double[i]->values), bound_in_double(type)) << name;
      }
    }
  }
}

}  // namespace
}  // namespace aclgrad::test
