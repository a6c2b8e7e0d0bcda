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
std::vector<double> product(const std::vector<double>& grad_output, const std::vector<double>& other) {
  std::vector<double> out(grad_output.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = reference::term(grad_output[i] * other[i]);
  return out;
}

Case case_of(const Shape& shape, DataType type) {
  const std::vector<double> grad_output = rounded(uniform(element_count(shape), -5, 5, 1), type);
  const std::vector<double> other = rounded(uniform(element_count(shape), -5, 5, 2), type);
  return {text(shape),
          {TensorValue{shape, type, grad_output}, TensorValue{shape, type, other}, TensorValue{shape, type}},
          [=] {
            return Outputs{Expected{product(grad_output, other), tolerance(type, false)}};
          }};
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
    .said_name = "aclnnNewOperator",
    .parameters = {{"gradOutput", Role::input}, {"other", Role::input}, {"out", Role::output}},
    .types = {std::begin(kTypes), std::end(kTypes)},
    .phase1 = phase1_of<aclnnNewOperatorGetWorkspaceSize, const aclTensor*, const aclTensor*, aclTensor*>,
    .phase2 = aclnnNewOperator,
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
    .cases = cases,
});

// Of the results; others where the cases or the mathematics are others: test_determinism says which.
const HashRegistration kHashes({
    {"aclnnNewOperator_float32", 0x9C6EAA977564EC4Bu},
    {"aclnnNewOperator_float16", 0xCC0AA42208508E6Bu},
    {"aclnnNewOperator_bfloat16", 0x3C9F4AEAF7EF7838u},
    {"aclnnNewOperator_float64", 0x361191F77556FF23u},
    {"new_operator_float32", 0xEA6EA8666D89DA4Du},
    {"new_operator_float16", 0xD9CF8B3A29CB0CADu},
    {"new_operator_bfloat16", 0x2F53EEB8C7B5B6C4u},
    {"new_operator_float64", 0xFB1B9066AD5C40CFu},
});

}  // namespace
}  // namespace aclgrad::test
