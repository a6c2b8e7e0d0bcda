// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The C entry points of NSA compress and its gradient.
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
  const auto mismatch =
      find_mismatch(sliding_windows(problem), problem.windows(), {"actSeqLenOptional", "outputGrad"});
  if (!mismatch) return;
  throw Error(ACL_ERROR_RT_AICORE_EXCEPTION,
              fmt::format("aclnnNsaCompressGrad.{}: expected {}, got {}.", mismatch->parameter,
                          mismatch->expected, mismatch->got));
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

aclnnStatus aclnnNsaCompressGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                 aclrtStream stream) {
  return run_call("aclnnNsaCompressGrad", workspace, workspaceSize, executor, stream);
}

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

aclnnStatus aclnnNsaCompress(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                             aclrtStream stream) {
  return run_call("aclnnNsaCompress", workspace, workspaceSize, executor, stream);
}
