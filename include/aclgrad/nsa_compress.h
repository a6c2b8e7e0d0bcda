// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// NSA compress and its gradient: the C++ interface. See aclgrad/types.h, too.
//
// The key compression of native sparse attention slides a window of B tokens over each sequence, in steps
// of S, and sums each window with one weight for each position and head. Window k starts at token start_k:
//
//   output[k, n, d] = sum over j < B of weight[j, n] * input[start_k + j, n, d]
//
// Its gradient:
//
//   grad_input[t, n, d] = sum over windows k that cover t of weight[t - start_k, n] * grad_output[k, n, d]
//   grad_weight[j, n]   = sum over k and d of grad_output[k, n, d] * input[start_k + j, n, d]
//
// The gradient of the gradient, the double backward, is made of the same sums, as these are linear in each tensor. With
// output(x, w) for the output of any two tensors:
//
//   grad_grad_output = output(grad_grad_input, weight) + output(input, grad_grad_weight)
//   grad_input       = as above, with grad_grad_weight in place of weight
//   grad_weight      = as above, with grad_grad_input in place of input
//
// A token that no window covers gets exact zeros: the tail of a sequence, one shorter than B, and the gaps
// where S > B.
//
// Types: float32, float16 or bfloat16, the same for all tensors. Sums are in float, rounded once to nearest
// even. The products of grad_weight are summed in 16 lanes over the channels, in order over the windows of a
// chunk of tokens, and pairwise over the chunks, so that the error grows slowly with the number of tokens.
// The forward operator sums a window in blocks of 32 tokens.
// Deterministic: bitwise the same results for any number of threads, any strides and any instruction set with fused
// multiply-add.
// On a CUDA GPU: bitwise the same results run after run.
// Source: the document of aclnnNsaCompressGrad.
#pragma once

#include "aclgrad/types.h"

namespace aclgrad {

// What the operator and its gradient share. Sequences lie one after the other along the token axis, and windows do not
// cross them: one of n tokens has (n - block) / stride + 1 windows, or none if n < block.
struct NsaCompression {
  ConstTensor input;   // [tokens, heads, channels]; the channels of a head lie side by side
  ConstTensor weight;  // [block, heads], contiguous; at least 1 token in a block
  int64_t stride = 1;  // tokens from one window to the next, at least 1

  // [sequences], int64, contiguous: the token after the last one of each sequence (the documents' actSeqLen), in host
  // memory unless `ends_on_gpu`. Without it, or without entries, all tokens are one sequence.
  ConstTensor sequence_ends;
  bool ends_on_gpu = false;  // for the operator on a CUDA GPU: sequence_ends lies in its memory

  constexpr int64_t tokens() const { return input.size(0); }
  constexpr int64_t heads() const { return input.size(1); }
  constexpr int64_t channels() const { return input.size(2); }
  constexpr int64_t block() const { return weight.size(0); }
};

struct NsaCompress : NsaCompression {
  Tensor output;  // [windows, heads, channels], windows from count_windows; layout as of input

  constexpr int64_t windows() const { return output.size(0); }
};

struct NsaCompressBackward : NsaCompression {
  ConstTensor grad_output;  // [windows, heads, channels]; layout as of input
  Tensor grad_input;        // as input, if wanted
  Tensor grad_weight;       // as weight, if wanted; without it, the elements of input are not read

  constexpr int64_t windows() const { return grad_output.size(0); }
};

// On the CPU only.
struct NsaCompressDoubleBackward : NsaCompression {
  ConstTensor grad_output;  // [windows, heads, channels]; layout as of input

  // Each may be left out, and is zero then.
  ConstTensor grad_grad_input;   // as input
  ConstTensor grad_grad_weight;  // as weight

  Tensor grad_grad_output;  // as grad_output, if wanted
  Tensor grad_input;        // as input, if wanted
  Tensor grad_weight;       // as weight, if wanted

  constexpr int64_t windows() const { return grad_output.size(0); }
};

// Number of windows of all sequences. Throws std::invalid_argument unless the ends are non-decreasing, none is negative and
// the last one equals the number of tokens. The addresses of input and weight may be null.
ACLGRAD_API int64_t count_windows(const NsaCompression& problem);

// Bytes of workspace that the operator needs. They follow from shapes and what is wanted.
ACLGRAD_API size_t workspace_size(const NsaCompress& problem);
ACLGRAD_API size_t workspace_size(const NsaCompressBackward& problem);
ACLGRAD_API size_t workspace_size(const NsaCompressDoubleBackward& problem);

// All check sequence_ends first, as count_windows does. If they are wrong, or the number of windows differs from that of the
// tensors, nothing is computed and std::invalid_argument is thrown.
ACLGRAD_API void nsa_compress(const NsaCompress& problem, const WorkspaceView& workspace);
ACLGRAD_API void nsa_compress_backward(const NsaCompressBackward& problem, const WorkspaceView& workspace);
ACLGRAD_API void nsa_compress_double_backward(const NsaCompressDoubleBackward& problem,
                                              const WorkspaceView& workspace);

// The operator and its gradient on a CUDA GPU, where the kernel finds what is wrong with sequence_ends in device memory:
// nothing is computed then, and the launch's `failure` set. They throw std::exception where CUDA refuses, or the library
// was built without CUDA.
namespace cuda {

enum NsaCompressFailure : uint32_t {
  kWrongSequenceEnds = 1,  // they decrease, or the last one is not the number of tokens
  kWrongWindowCount = 2,   // the sequences have another number of windows
};

ACLGRAD_API size_t workspace_size(const NsaCompress& problem, const CudaLaunch& on);
ACLGRAD_API size_t workspace_size(const NsaCompressBackward& problem, const CudaLaunch& on);
ACLGRAD_API void nsa_compress(const NsaCompress& problem, const WorkspaceView& workspace,
                              const CudaLaunch& on);
ACLGRAD_API void nsa_compress_backward(const NsaCompressBackward& problem, const WorkspaceView& workspace,
                                       const CudaLaunch& on);

}  // namespace cuda

}  // namespace aclgrad
