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

void check_multiple(const Call& call, const char* name, int64_t value) {
  call.check(value > 0 && value % kMultiple == 0, name, "a positive multiple of 16", value);
}

void check_not_empty(const Call& call, std::initializer_list<const Argument*> arguments) {
  for (const Argument* argument : arguments) {
    if (argument->empty())
      call.check(false, argument->name, "a tensor that is not empty", format_shape(argument->view));
  }
}

void check_block_and_stride(const Call& call, const Attributes& attributes) {
  check_multiple(call, "compressBlockSize", attributes.block);
  check_multiple(call, "compressStride", attributes.stride);
  call.check(attributes.stride <= attributes.block, "compressStride", "at most compressBlockSize",
             attributes.stride);
}

void check_layout_and_type(const Call& call, const Attributes& attributes) {
  const std::string layout =
      attributes.layout == nullptr ? "null" : '"' + std::string(attributes.layout) + '"';
  call.check(layout == "\"TND\"", "layoutOptional", "\"TND\"", layout);
  call.check(attributes.sequence_type == 0, "actSeqLenType", "0 (ends of the sequences)",
             attributes.sequence_type);
}

std::vector<int64_t> checked_ends(const Call& call, const aclIntArray* act_seq_len) {
  if (act_seq_len == nullptr) return {};
  call.check_live(act_seq_len, HandleKind::int_array, "actSeqLenOptional");
  return act_seq_len->values;
}

void check_windows(const Call& call, const NsaCompression& problem, const Argument& rows) {
  const auto mismatch =
      find_mismatch(sliding_windows(problem), rows.size(0), {"actSeqLenOptional", rows.name});
  if (mismatch) call.check(false, mismatch->parameter, mismatch->expected, mismatch->got);
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

ConstTensor tensor_of(const std::vector<int64_t>& ends) {
  return {ends.data(), {static_cast<int64_t>(ends.size())}};
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
               const aclTensor* weight_tensor, const aclIntArray* ends_array, const aclTensor* ends_tensor,
               Attributes attributes, const aclTensor* inputGradOut, const aclTensor* weightGradOut) {
  const Argument& output_grad = call.input("outputGrad", outputGrad);
  const Argument& input = call.input("input", input_tensor);
  const Argument& weight = call.input("weight", weight_tensor);
  const Argument& act_seq_len = call.optional_input("actSeqLenOptional", ends_tensor);
  const Argument& input_grad = call.output("inputGradOut", inputGradOut);
  const Argument& weight_grad = call.output("weightGradOut", weightGradOut);

  call.check_type(output_grad, {DataType::float16, DataType::bfloat16});
  call.check_same_type(output_grad, {&input, &weight, &input_grad, &weight_grad});
  if (act_seq_len.given) call.check_type(act_seq_len, {DataType::int64});
  call.check_rank(output_grad, {3});
  call.check_rank(input, {3});
  call.check_rank(weight, {2});
  call.check_rank(input_grad, {3});
  call.check_rank(weight_grad, {2});
  if (act_seq_len.given) call.check_rank(act_seq_len, {1});
  check_not_empty(call, {&output_grad, &input, &weight, &input_grad, &weight_grad});

  const int64_t tokens = input.size(0), heads = input.size(1), channels = input.size(2);
  call.check_shape(weight, {attributes.block, heads});
  call.check_shape(output_grad, {output_grad.size(0), heads, channels});
  call.check_shape(input_grad, {tokens, heads, channels});
  call.check_shape(weight_grad, {attributes.block, heads});
  check_block_and_stride(call, attributes);
  if (Call::strict()) {  // the document of the gradient alone says so
    call.check(attributes.stride < attributes.block, "compressStride", "less than compressBlockSize (strict)",
               attributes.stride);
  }
  check_multiple(call, "input's last dimension", channels);
  if (attributes.layout == nullptr) attributes.layout = "TND";
  check_layout_and_type(call, attributes);
  std::vector<int64_t> ends = checked_ends(call, ends_array);

  auto& problem = call.problem<NsaCompressBackward>();
  problem.stride = attributes.stride;
  problem.ends_on_gpu = act_seq_len.given && !act_seq_len.empty();
  call.operand(problem.grad_output, output_grad, 2);
  call.use_partly(input);  // without tokens outside of the windows
  call.operand(problem.input, input, 2);
  call.operand(problem.grad_input, input_grad, 2);
  call.operand(problem.weight, weight, 0);
  call.operand(problem.grad_weight, weight_grad, 0);
  if (problem.ends_on_gpu) {
    call.operand(problem.sequence_ends, act_seq_len, 0);
    call.checks_data(data_error);
  } else {
    problem.sequence_ends = tensor_of(ends);
    check_windows(call, problem, output_grad);
  }
  call.plan_problem<NsaCompressBackward>(
      problem, [ends = std::move(ends)](const Launch& launch, NsaCompressBackward& bound) {
        if (!bound.ends_on_gpu) {
          bound.sequence_ends.data = ends.data();
        } else if (!launch.on_gpu()) {
          check_windows_on_device(bound);
        }
      });
}

void plan_forward(Call& call, const aclTensor* input_tensor, const aclTensor* weight_tensor,
                  const aclIntArray* ends_array, const Attributes& attributes,
                  const aclTensor* output_tensor) {
  const Argument& input = call.input("input", input_tensor);
  const Argument& weight = call.input("weight", weight_tensor);
  const Argument& output = call.output("output", output_tensor);

  call.check_type(input, {DataType::float16, DataType::bfloat16});
  call.check_same_type(input, {&weight, &output});
  call.check_rank(input, {3});
  call.check_rank(weight, {2});
  call.check_rank(output, {3});
  check_not_empty(call, {&input, &weight});

  call.check_shape(weight, {attributes.block, input.size(1)});
  call.check_shape(output, {output.size(0), input.size(1), input.size(2)});
  check_block_and_stride(call, attributes);
  check_multiple(call, "input's last dimension", input.size(2));
  check_layout_and_type(call, attributes);
  std::vector<int64_t> ends = checked_ends(call, ends_array);
  call.check(!ends.empty(), "actSeqLenOptional", "at least one entry", "none");

  auto& problem = call.problem<NsaCompress>();
  problem.stride = attributes.stride;
  problem.sequence_ends = tensor_of(ends);
  call.use_partly(input);  // without tokens outside of the windows
  call.operand(problem.input, input, 2);
  call.operand(problem.weight, weight, 0);
  call.operand(problem.output, output, 2);
  check_windows(call, problem, output);
  if (output.empty()) return call.plan_nothing();

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
