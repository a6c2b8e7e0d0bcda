// NSA compress and its gradient: the C++ interface. See aclgrad/types.h, too.
//
// The key compression of native sparse attention slides a window of B tokens over each sequence, in steps
// of S, and sums each window with one weight for each position and head. Window k starts at token start_k:
//
//   output[k, n, d] = sum over j < B of weight[j, n] * input[start_k + j, n, d]
//
// Its gradient:
//
//   input_grad[t, n, d] = sum over windows k that cover t of weight[t - start_k, n] * output_grad[k, n, d]
//   weight_grad[j, n]   = sum over k and d of output_grad[k, n, d] * input[start_k + j, n, d]
//
// A token that no window covers gets exact zeros: the tail of a sequence, one shorter than B, and the gaps
// where S > B.
//
// Types: float32, float16 or bfloat16, the same for all tensors. Sums are in float, rounded once to nearest
// even. The products of weight_grad are summed in 16 lanes over the channels, in order over the windows of a
// chunk of tokens, and pairwise over the chunks, so that the error grows slowly with the number of tokens.
// The forward operator sums a window in blocks of 32 tokens.
// Deterministic: the same bits for any number of threads, any strides and any instruction set with fused
// multiply-add.
// On a CUDA GPU: the same bits run after run.
// Source: the document of aclnnNsaCompressGrad.
#pragma once

#include "aclgrad/types.h"

namespace aclgrad {

// The windows over sequences that lie one after the other along the token axis. Windows do not cross
// sequences: one of n tokens has (n - block) / stride + 1 of them, or none if n < block.
struct SlidingWindows {
  int64_t tokens = 0;  // T, of all sequences together
  int64_t block = 1;   // B, tokens of a window, at least 1
  int64_t stride = 1;  // S, tokens from one window to the next, at least 1

  // [sequences]: the token after the last one of each sequence (the documents' actSeqLen).
  // Without any, all tokens are one sequence.
  const int64_t* sequence_ends = nullptr;
  int64_t sequences = 0;
  bool ends_on_gpu =
      false;  // whether sequence_ends lies in device memory, where the operator runs on a CUDA GPU
};

// Number of windows of all sequences. Throws std::invalid_argument unless the ends rise from 0 or more to `tokens`.
ACLGRAD_API int64_t count_windows(const SlidingWindows& windows);

// A tensor of `heads` times `channels` elements in each row, a row for each token or window. The channels of
// a head are contiguous. Strides are in elements.
template <class Void>
struct HeadRows {
  Void* data = nullptr;
  int64_t row_stride = 0;
  int64_t head_stride = 0;
};

struct NsaCompress {
  DataType type = DataType::float32;
  SlidingWindows windows;
  int64_t window_count = 0;  // rows of output, as count_windows says
  int64_t heads = 0;         // N
  int64_t channels = 0;      // D, of a head

  HeadRows<const void> input;    // [tokens, heads, channels]
  const void* weight = nullptr;  // [block, heads], contiguous
  HeadRows<void> output;         // [window_count, heads, channels]
};

struct NsaCompressGrad {
  DataType type = DataType::float32;
  SlidingWindows windows;
  int64_t window_count = 0;  // rows of output_grad, as count_windows says
  int64_t heads = 0;         // N
  int64_t channels = 0;      // D, of a head

  HeadRows<const void> output_grad;  // [window_count, heads, channels]
  HeadRows<const void> input;        // [tokens, heads, channels]
  const void* weight = nullptr;      // [block, heads], contiguous

  // What is not wanted is not written, and its pointer may be null. Without weight_grad, input is not read.
  bool wants_input_grad = true;
  bool wants_weight_grad = true;
  HeadRows<void> input_grad;    // [tokens, heads, channels]
  void* weight_grad = nullptr;  // [block, heads], contiguous
};

// Bytes of workspace that the operator needs; it must be 64-byte aligned. Depends on sizes alone.
ACLGRAD_API size_t workspace_size(const NsaCompress& problem);
ACLGRAD_API size_t workspace_size(const NsaCompressGrad& problem);

// Estimate of the time on one thread.
ACLGRAD_API double serial_nanoseconds(const NsaCompress& problem);
ACLGRAD_API double serial_nanoseconds(const NsaCompressGrad& problem);

// Both check sequence_ends first: where they do not rise from 0 or more to `tokens`, or do not make `window_count`
// windows, nothing is computed and std::invalid_argument thrown.
ACLGRAD_API void nsa_compress(const NsaCompress& problem, void* workspace);
ACLGRAD_API void nsa_compress_grad(const NsaCompressGrad& problem, void* workspace);

// The same on a CUDA GPU, where the kernel finds what is wrong with sequence_ends in device memory: nothing is computed
// then, and the launch's `failure` set. They throw std::exception where CUDA refuses, or the library was built without CUDA.
namespace cuda {

enum NsaCompressFailure : uint32_t {
  kWrongSequenceEnds = 1,  // they fall, or do not end with the last token
  kWrongWindowCount = 2,   // it is not the sequences'
};

ACLGRAD_API size_t workspace_size(const NsaCompress& problem, const CudaLaunch& on);
ACLGRAD_API size_t workspace_size(const NsaCompressGrad& problem, const CudaLaunch& on);
ACLGRAD_API void nsa_compress(const NsaCompress& problem, void* workspace, const CudaLaunch& on);
ACLGRAD_API void nsa_compress_grad(const NsaCompressGrad& problem, void* workspace, const CudaLaunch& on);

}  // namespace cuda

}  // namespace aclgrad
