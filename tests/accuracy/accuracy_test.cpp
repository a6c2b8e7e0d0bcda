// The bounds that README.md and docs/accuracy.md state, over all test cases.
#include <gtest/gtest.h>

#include "accuracy/runs.h"

namespace aclgrad::test {
namespace {

std::string name_of(const CaseRun& run, const Output& output) {
  std::string name =
      run.operation + ", " + output.name + ", type " + std::to_string(static_cast<int>(run.type));
  for (const Input& input : run.inputs) name += ", " + input.name + " " + testing::PrintToString(input.shape);
  for (const auto& [attribute, numbers] : run.attributes)
    name += ", " + attribute + " " + testing::PrintToString(numbers);
  return name;
}

// At the positions that the type's arithmetic gives.
double bound(const CaseRun& run) {
  switch (run.type) {
    case DataType::float16:
      return 5e-4;
    case DataType::bfloat16:
      return 4e-3;
    case DataType::float64:
      return 1e-12;
    default:
      return run.uses_coordinates ? 5e-6 : 1e-6;
  }
}

// With positions in double precision, where these cannot make it another value. Rounding to 16 bits hides the difference.
double bound_in_double(const CaseRun& run) {
  return run.type == DataType::float32 && run.uses_coordinates ? 2e-5 : bound(run);
}

TEST(Accuracy, KeepsTheBoundsOfTheDocumentation) {
  for_each_run([](const CaseRun& run) {
    for (const Output& output : run.outputs) {
      EXPECT_LE(error_of(output.ours, output.expected), bound(run)) << name_of(run, output);
      if (output.jumps) continue;
      EXPECT_LE(error_of(output.ours, output.in_double), bound_in_double(run)) << name_of(run, output);
    }
  });
}

}  // namespace
}  // namespace aclgrad::test
