// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What NSA compress and its gradients expect of their problems, and their functions of the C++ interface.
#include "tensor/contract.h"

#include "ops/nsa_compress/kernel.h"
#include "ops/nsa_compress/windows.h"

namespace aclgrad {

using namespace ops::nsa_compress;

static void refuse_mismatch(const std::optional<WindowMismatch>& mismatch, const Contract& contract) {
  if (mismatch) contract.refuse(mismatch->parameter, mismatch->expected, mismatch->got);
}

static void check_ends(const NsaCompression& p, Contract& contract) {
  contract.number("weight.shape[0]", contract.size('B'), 1);
  contract.number("stride", p.stride, 1);
  if (p.sequence_ends.defined()) contract.integers("sequence_ends", p.sequence_ends, "E", {DataType::int64});
}

static void check_inputs(const NsaCompression& p, Contract& contract, bool reads_input = true) {
  if (contract.in_c()) {
    contract.floats({DataType::float16, DataType::bfloat16});
  } else {
    contract.floats({DataType::float32, DataType::float16, DataType::bfloat16});
  }
  if (reads_input) {
    contract.input("input", p.input, "TNC", 2);
  } else {
    contract.unread_input("input", p.input, "TNC", 2);
  }
  contract.input("weight", p.weight, "BN", 0);
  if (contract.in_c()) {
    contract.not_empty("input", p.input);
    contract.not_empty("weight", p.weight);
    contract.check(p.channels() % 16 == 0, "input's last dimension", "a positive multiple of 16",
                   p.channels());
  }
  check_ends(p, contract);
}

// That `rows` has a row for each window. Ends in device memory are checked by the kernel.
static void check_windows(const NsaCompression& p, const Contract& contract, std::string_view rows,
                          int64_t count) {
  if (p.ends_on_gpu || !contract.reads_data()) return;
  const std::string_view ends = contract.name(kEndsField, p.sequence_ends);
  refuse_mismatch(find_mismatch(sliding_windows(p), count, {ends, rows}), contract);
}

void check(const NsaCompress& p, Contract& contract) {
  check_inputs(p, contract);
  contract.output("output", p.output, "WNC", 2);
  check_windows(p, contract, "output", p.windows());
}

// The gradient's, and the double backward's.
template <class Problem>
static void check_gradients(const Problem& p, Contract& contract) {
  contract.input("grad_output", p.grad_output, "WNC", 2);
  if (contract.in_c()) contract.not_empty("outputGrad", p.grad_output);
  contract.optional_output("grad_input", p.grad_input, "TNC", 2);
  contract.optional_output("grad_weight", p.grad_weight, "BN", 0);
  check_windows(p, contract, contract.name("grad_output", p.grad_output), p.windows());
}

void check(const NsaCompressBackward& p, Contract& contract) {
  check_inputs(p, contract, p.grad_weight.defined());
  check_gradients(p, contract);
}

void check(const NsaCompressDoubleBackward& p, Contract& contract) {
  check_inputs(p, contract);
  check_gradients(p, contract);
  contract.optional_input("grad_grad_input", p.grad_grad_input, "TNC", 2);
  contract.optional_input("grad_grad_weight", p.grad_grad_weight, "BN", 0);
  contract.optional_output("grad_grad_output", p.grad_grad_output, "WNC", 2);
}

int64_t count_windows(const NsaCompression& p) {
  ContractOfFields contract("count_windows", true);
  contract.shape("input", p.input, "TNC");
  contract.shape("weight", p.weight, "BN");
  check_ends(p, contract);
  const SlidingWindows windows = sliding_windows(p);
  refuse_mismatch(find_wrong_end(windows, kEndsField), contract);
  return total_windows(windows);
}

}  // namespace aclgrad

ACLGRAD_DEFINE_FUNCTION_AND_CUDA(NsaCompress, nsa_compress)
ACLGRAD_DEFINE_FUNCTION_AND_CUDA(NsaCompressBackward, nsa_compress_backward)
ACLGRAD_DEFINE_FUNCTION(NsaCompressDoubleBackward, nsa_compress_double_backward)
