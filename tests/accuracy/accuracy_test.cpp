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

INSTANTIATE_TEST_SUITE_P(, Accuracy, testing::ValuesIn(pointers_to(functions())), name_of_described);

TEST_P(Accuracy, KeepsTheBoundsOfTheDocumentation) {
  const Function& of = *GetParam();
  const std::vector<size_t> outputs = of.outputs();
  for (DataType type : of.types) {
    for (const Case& c : of.cases(type)) {
      SCOPED_TRACE("type " + std::to_string(static_cast<int>(type)) + ", " + c.title);
      const FunctionCall call(of, c.arguments);
      call.run();
      Outputs expected = outputs_with_terms(of.expected, c.arguments);
      const Outputs in_double = of.expected(c.arguments, true);
      for (size_t i = 0; i < outputs.size(); ++i) {
        const std::vector<double> values = call.tensor(outputs[i])->values();
        const std::string& name = of.fields[outputs[i]].name;
        expected[i]->allowed = bound(type, of.uses_positions);
        EXPECT_EQ(mistake_in(values, type, *expected[i]), "") << name;
        if (!of.uses_positions || expected[i]->jumps) continue;
        EXPECT_LE(expected[i]->error(values, in_double[i]->values), bound_in_double(type)) << name;
      }
    }
  }
}

// One that is wrong by two units in the last place of bfloat16 among 62 500, which the L2 norm does not see; one that is
// wrong in its sign where all cancel; and none where an element differs by rounding errors of terms that cancel.
TEST(ElementsInTerms, FindOneWrongElement) {
  constexpr DataType kType = DataType::bfloat16;
  const std::vector<double> exact = uniform(62500, 1, 2, 1);
  const Expected expected{exact, bound(kType, true), relative_error, false, exact};
  std::vector<double> values = rounded(exact, kType);
  EXPECT_EQ(mistake_in(values, kType, expected), "");
  values[40000] += 0x1p-6;
  EXPECT_LE(relative_error(values, exact), expected.allowed);
  EXPECT_NE(mistake_in(values, kType, expected), "");

  const Expected cancelled{{0x1p-24}, 2, relative_error, false, {1}};
  EXPECT_EQ(mistake_in({-0x1p-24}, DataType::float32, cancelled), "");
  const Expected small{{0x1p-24}, 2, relative_error, false, {0x1p-24}};
  EXPECT_NE(mistake_in({-0x1p-24}, DataType::float32, small), "");
}

}  // namespace
}  // namespace aclgrad::test
