// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The elementwise product's gradient as the tests see it.
#include "aclgrad/new_operator.h"
#include "aclnnop/aclnn_new_operator.h"
#include "base/reference_terms.h"
#include "support/function.h"

namespace aclgrad::test {
namespace {

constexpr DataType kTypes[] = {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64};

// The reference, in double precision.
Outputs product(const std::vector<Value>& arguments, bool) {
  const TensorValue &grad_output = *tensors_in(arguments)[0], &other = *tensors_in(arguments)[1];
  std::vector<double> out(grad_output.values.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = reference::term(grad_output.values[i] * other.values[i]);
  return {Expected{out, tolerance(grad_output.type, false)}};
}

Case case_of(const Shape& shape, DataType type) {
  const auto random = [&](uint32_t seed) {
    return rounded(uniform(element_count(shape), -5, 5, seed), type);
  };
  return {
      text(shape),
      {TensorValue{shape, type, random(1)}, TensorValue{shape, type, random(2)}, TensorValue{shape, type}}};
}

std::vector<Case> cases(DataType type) {
  std::vector<Case> result;
  for (const Shape& shape : {Shape{1, 1}, {3, 7}, {16, 64}, {5, 0}, {200, 331}})
    result.push_back(case_of(shape, type));
  return result;
}

std::vector<Case> parallel_cases(DataType type) {
  return {case_of({700, 1031}, type)};
}

const Registration kRegistration({
    .name = "aclnnNewOperator",
    .parameters = {{"gradOutput", Role::input}, {"other", Role::input}, {"out", Role::output}},
    .types = {std::begin(kTypes), std::end(kTypes)},
    .phase1 = phase1_of<aclnnNewOperatorGetWorkspaceSize, const aclTensor*, const aclTensor*, aclTensor*>,
    .phase2 = aclnnNewOperator,
    .expected = product,
    .cases = cases,
    .parallel_cases = parallel_cases,
});

const FunctionRegistration kFunction(FunctionOf<NewOperator>{
    .name = "new_operator",
    .workspace_size = workspace_size,
    .workspace_size_on_gpu = cuda::workspace_size,
    .run = new_operator,
    .run_on_gpu = cuda::new_operator,
    .fields = {{"grad_output", Role::input, &NewOperator::grad_output, kContiguous},
               {"other", Role::input, &NewOperator::other, kContiguous},
               {"grad_input", Role::output, &NewOperator::grad_input, kContiguous}},
    .attributes = {},
    .types = {std::begin(kTypes), std::end(kTypes)},
    .expected = product,
    .cases = cases,
});

// Of the results in each type; others where the cases or the mathematics are others: test_determinism says which.
const HashRegistration kHashes({
    {"aclnnNewOperator", {0x9C6EAA977564EC4B, 0xCC0AA42208508E6B, 0x3C9F4AEAF7EF7838, 0x361191F77556FF23}},
    {"new_operator", {0xEA6EA8666D89DA4D, 0xD9CF8B3A29CB0CAD, 0x2F53EEB8C7B5B6C4, 0xFB1B9066AD5C40CF}},
});

}  // namespace
}  // namespace aclgrad::test
