// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the gradients of the grouped bias-add expect of their problems, and their functions of the C++ interface.
#include "tensor/contract.h"

#include "ops/grouped_bias_add/kernel.h"

namespace aclgrad {

static void check_kind(const GroupKind& kind, const Contract& contract) {
  contract.mode("kind", kind, {contract.in_python() ? "ends" : "end offsets", "counts"});
}

void check(const GroupedBiasAddBackward& p, Contract& contract) {
  contract.floats({DataType::float32, DataType::float16, DataType::bfloat16});
  if (p.has_equal_groups()) {
    contract.input("grad_output", p.grad_output, "GRH", 2);
  } else {
    contract.input("grad_output", p.grad_output, "RH", 1);
    contract.integers("group_idx", p.group_idx, "G");
    const int64_t groups = contract.size('G');
    if (contract.in_c()) contract.check(groups <= 2048, "groupIdxOptional", "at most 2048 entries", groups);
  }
  contract.output("grad_bias", p.grad_bias, "GH", 0);
  check_kind(p.kind, contract);
}

void check(const GroupedBiasAddDoubleBackward& p, Contract& contract) {
  contract.floats({DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  contract.input("grad_grad_bias", p.grad_grad_bias, "GH", 0);
  if (p.has_equal_groups()) {
    contract.output("grad_grad_output", p.grad_grad_output, "GRH", 2);
  } else {
    contract.output("grad_grad_output", p.grad_grad_output, "RH", 1);
    contract.integers("group_idx", p.group_idx, "G");
  }
  check_kind(p.kind, contract);
}

}  // namespace aclgrad

ACLGRAD_DEFINE_FUNCTION_AND_CUDA(GroupedBiasAddBackward, grouped_bias_add_backward)
ACLGRAD_DEFINE_FUNCTION(GroupedBiasAddDoubleBackward, grouped_bias_add_double_backward)
