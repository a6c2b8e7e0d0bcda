// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The kernel behind the C and the C++ interface; base/kernel.h says what each function must do.
#pragma once

#include <span>

#include "aclgrad/nsa_compress.h"
#include "base/kernel.h"

ACLGRAD_DECLARE_KERNEL(nsa_compress, NsaCompress)
ACLGRAD_DECLARE_KERNEL(nsa_compress, NsaCompressBackward)
ACLGRAD_DECLARE_KERNEL(nsa_compress, NsaCompressDoubleBackward)

namespace aclgrad::ops::nsa_compress {

// The windows of a problem. Without ends, all tokens are one sequence.
struct SlidingWindows {
  int64_t tokens;  // of all sequences together
  int64_t block;
  int64_t stride;
  const int64_t* sequence_ends;
  int64_t sequences;
  bool ends_on_gpu;
};

inline SlidingWindows sliding_windows(const NsaCompression& problem) {
  return {problem.tokens(),
          problem.block(),
          problem.stride,
          static_cast<const int64_t*>(problem.sequence_ends.data),
          problem.sequence_ends.size(0),
          problem.ends_on_gpu};
}

// The compression of one pair of tensors, shaped as the problem's.
struct CompressionTerm {
  ConstTensor input;
  ConstTensor weight;
};

inline constexpr int64_t kMaxTerms = 2;

// The problem's kernel for the sum of one term or more, in a workspace for these. Its own input and weight tell
// no more than shapes.
size_t terms_workspace_size(const NsaCompress& problem, int64_t terms);
void run_terms(const NsaCompress& problem, std::span<const CompressionTerm> terms, void* workspace);

}  // namespace aclgrad::ops::nsa_compress
