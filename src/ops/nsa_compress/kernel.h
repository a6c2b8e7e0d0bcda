// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The kernel behind the C and the C++ interface; base/kernel.h says what each function must do.
#pragma once

#include <span>

#include "aclgrad/nsa_compress.h"
#include "base/kernel.h"

namespace aclgrad::ops::nsa_compress {

size_t kernel_workspace_size(const NsaCompress& problem);
size_t kernel_workspace_size(const NsaCompressBackward& problem);
size_t kernel_workspace_size(const NsaCompressDoubleBackward& problem);

double kernel_nanoseconds(const NsaCompress& problem);
double kernel_nanoseconds(const NsaCompressBackward& problem);
double kernel_nanoseconds(const NsaCompressDoubleBackward& problem);

void run_kernel(const NsaCompress& problem, void* workspace);
void run_kernel(const NsaCompressBackward& problem, void* workspace);
void run_kernel(const NsaCompressDoubleBackward& problem, void* workspace);

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

namespace aclgrad {  // where argument-dependent lookup finds them

class Contract;
void check(const NsaCompress& problem, Contract& contract);
void check(const NsaCompressBackward& problem, Contract& contract);
void check(const NsaCompressDoubleBackward& problem, Contract& contract);

using ops::nsa_compress::kernel_nanoseconds;
using ops::nsa_compress::kernel_workspace_size;
using ops::nsa_compress::run_kernel;

}  // namespace aclgrad
