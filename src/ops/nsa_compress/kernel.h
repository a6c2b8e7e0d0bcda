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
