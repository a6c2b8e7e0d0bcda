// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What NSA compress and its gradients expect of their problems, and their functions of the C++ and the C interface.
#include "tensor/contract.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "acl/error_codes/rt_error_codes.h"
#include "aclnnop/aclnn_nsa_compress.h"
#include "aclnnop/aclnn_nsa_compress_grad.h"
#include "base/never_destroyed.h"
#include "executor/call.h"
#include "ops/nsa_compress/kernel.h"
#include "ops/nsa_compress/windows.h"

namespace aclgrad {

using namespace ops::nsa_compress;

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
  if (const auto wrong = find_mismatch(sliding_windows(p), count))
    contract.refuse(wrong->is_of_ends ? contract.name(kEndsField, p.sequence_ends) : rows, wrong->expected,
                    wrong->got);
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
  if (const auto wrong = find_wrong_end(windows)) contract.refuse(kEndsField, wrong->expected, wrong->got);
  return total_windows(windows);
}

}  // namespace aclgrad

ACLGRAD_DEFINE_FUNCTION_AND_CUDA(NsaCompress, nsa_compress)
ACLGRAD_DEFINE_FUNCTION_AND_CUDA(NsaCompressBackward, nsa_compress_backward)
ACLGRAD_DEFINE_FUNCTION(NsaCompressDoubleBackward, nsa_compress_double_backward)

// ---- The C interface

namespace aclgrad::ops::nsa_compress {
namespace {

constexpr int64_t kMultiple = 16;  // of block, stride and channels

struct Attributes {
  int64_t block;
  int64_t stride;
  int64_t sequence_type;
  const char* layout;  // null where it was not given
};

void check_attributes(const Call& call, const Attributes& attributes) {
  const auto check_multiple = [&](const char* name, int64_t value) {
    call.check(value > 0 && value % kMultiple == 0, name, "a positive multiple of 16", value);
  };
  check_multiple("compressBlockSize", attributes.block);
  check_multiple("compressStride", attributes.stride);
  call.check(attributes.stride <= attributes.block, "compressStride", "at most compressBlockSize",
             attributes.stride);
  const std::string layout =
      attributes.layout == nullptr ? "null" : '"' + std::string(attributes.layout) + '"';
  call.check(layout == "\"TND\"", "layoutOptional", "\"TND\"", layout);
  call.check(attributes.sequence_type == 0, "actSeqLenType", "0 (ends of the sequences)",
             attributes.sequence_type);
}

// Ends in the memory of a CPU device, which the running task alone may read.
void check_windows_on_device(const NsaCompressBackward& problem) {
  const auto wrong = find_mismatch(sliding_windows(problem), problem.windows());
  if (!wrong) return;
  throw Error(
      ACL_ERROR_RT_AICORE_EXCEPTION,
      fmt::format("aclnnNsaCompressGrad.{}: expected {}, got {}.",
                  wrong->is_of_ends ? "actSeqLenOptional" : "outputGrad", wrong->expected, wrong->got));
}

Error wrong_data(const char* text) {
  return Error(ACL_ERROR_RT_AICORE_EXCEPTION, text,
               "The contents of actSeqLenOptional, in device memory, do not fit the shapes of the tensors.");
}

// Made while the library is loaded: where they are needed, nothing can be done about a lack of memory.
NeverDestroyed<const Error> wrong_sequence_ends(wrong_data(
    "aclnnNsaCompressGrad.actSeqLenOptional: expected entries that rise from 0 or more to the number of "
    "tokens, got others."));
NeverDestroyed<const Error> wrong_window_count(wrong_data(
    "aclnnNsaCompressGrad.outputGrad: expected a row for each window of the sequences, got another "
    "number."));

const Error& data_error(uint32_t code) noexcept {
  return code == cuda::kWrongSequenceEnds ? *wrong_sequence_ends : *wrong_window_count;
}

// The ends of the sequences come as an array of the host or as a tensor of the device, or not at all.
void plan_grad(Call& call, const aclTensor* outputGrad, const aclTensor* input_tensor,
               const aclTensor* weight, const aclIntArray* ends_array, const aclTensor* ends_tensor,
               Attributes attributes, const aclTensor* inputGradOut, const aclTensor* weightGradOut) {
  auto& problem = call.problem<NsaCompressBackward>();
  call.input("outputGrad", outputGrad, problem.grad_output);
  const Argument& input = call.input("input", input_tensor, problem.input);
  call.input("weight", weight, problem.weight);
  const Argument& act_seq_len = call.optional_input("actSeqLenOptional", ends_tensor, problem.sequence_ends);
  call.output("inputGradOut", inputGradOut, problem.grad_input);
  call.output("weightGradOut", weightGradOut, problem.grad_weight);

  if (attributes.layout == nullptr) attributes.layout = "TND";
  check_attributes(call, attributes);
  if (call.is_strict()) {  // the document of the gradient alone says so
    call.check(attributes.stride < attributes.block, "compressStride", "less than compressBlockSize (strict)",
               attributes.stride);
  }
  std::vector<int64_t> ends = call.integers("actSeqLenOptional", ends_array, problem.sequence_ends);
  problem.stride = attributes.stride;
  problem.ends_on_gpu = act_seq_len.given && !act_seq_len.empty();
  call.set_size('B', attributes.block);
  check(problem, call);

  if (problem.ends_on_gpu) call.checks_data(data_error);
  call.use_partly(input);  // without tokens outside of the windows
  call.plan_problem<NsaCompressBackward>(
      problem, [ends = std::move(ends)](const Launch& launch, NsaCompressBackward& bound) {
        if (!bound.ends_on_gpu) {
          bound.sequence_ends.data = ends.data();
        } else if (!launch.on_gpu()) {
          check_windows_on_device(bound);
        }
      });
}

void plan_forward(Call& call, const aclTensor* input_tensor, const aclTensor* weight,
                  const aclIntArray* ends_array, const Attributes& attributes,
                  const aclTensor* output_tensor) {
  auto& problem = call.problem<NsaCompress>();
  const Argument& input = call.input("input", input_tensor, problem.input);
  call.input("weight", weight, problem.weight);
  const Argument& output = call.output("output", output_tensor, problem.output);

  check_attributes(call, attributes);
  std::vector<int64_t> ends = call.integers("actSeqLenOptional", ends_array, problem.sequence_ends);
  call.check(!ends.empty(), "actSeqLenOptional", "at least one entry", "none");
  problem.stride = attributes.stride;
  call.set_size('B', attributes.block);
  check(problem, call);

  if (output.empty()) return call.plan_nothing();
  call.use_partly(input);  // without tokens outside of the windows
  call.plan_problem<NsaCompress>(problem, [ends = std::move(ends)](const Launch&, NsaCompress& bound) {
    bound.sequence_ends.data = ends.data();
  });
}

}  // namespace
}  // namespace aclgrad::ops::nsa_compress

using namespace aclgrad;
using namespace aclgrad::ops::nsa_compress;

aclnnStatus aclnnNsaCompressGradGetWorkspaceSize(
    const aclTensor* outputGrad, const aclTensor* input, const aclTensor* weight,
    const aclIntArray* actSeqLenOptional, int64_t compressBlockSize, int64_t compressStride,
    int64_t actSeqLenType, char* layoutOptional, const aclTensor* inputGradOut,
    const aclTensor* weightGradOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan_call("aclnnNsaCompressGrad", workspaceSize, executor, [&](Call& call) {
    plan_grad(call, outputGrad, input, weight, actSeqLenOptional, nullptr,
              {compressBlockSize, compressStride, actSeqLenType, layoutOptional}, inputGradOut,
              weightGradOut);
  });
}

aclnnStatus aclnnNsaCompressGradTensorGetWorkspaceSize(
    const aclTensor* outputGrad, const aclTensor* input, const aclTensor* weight,
    const aclTensor* actSeqLenOptional, int64_t compressBlockSize, int64_t compressStride,
    int64_t actSeqLenType, char* layoutOptional, const aclTensor* inputGradOut,
    const aclTensor* weightGradOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan_call("aclnnNsaCompressGrad", workspaceSize, executor, [&](Call& call) {
    plan_grad(call, outputGrad, input, weight, nullptr, actSeqLenOptional,
              {compressBlockSize, compressStride, actSeqLenType, layoutOptional}, inputGradOut,
              weightGradOut);
  });
}

ACLGRAD_DEFINE_PHASE2(aclnnNsaCompressGrad)

aclnnStatus aclnnNsaCompressGetWorkspaceSize(const aclTensor* input, const aclTensor* weight,
                                             const aclIntArray* actSeqLenOptional, char* layoutOptional,
                                             int64_t compressBlockSize, int64_t compressStride,
                                             int64_t actSeqLenType, aclTensor* output,
                                             uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan_call("aclnnNsaCompress", workspaceSize, executor, [&](Call& call) {
    plan_forward(call, input, weight, actSeqLenOptional,
                 {compressBlockSize, compressStride, actSeqLenType, layoutOptional}, output);
  });
}

ACLGRAD_DEFINE_PHASE2(aclnnNsaCompress)
