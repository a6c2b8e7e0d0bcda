// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of NSA compress' gradient on the CPU. Compression is linear in its input and in its weight, so
// that it is made of the kernels of the compression and of its gradient.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/data_type.h"
#include "ops/nsa_compress/kernel.h"

namespace aclgrad::ops::nsa_compress {
namespace {

// grad_grad_output: both terms of the product rule.
NsaCompress output_of(const NsaCompressDoubleBackward& problem) {
  NsaCompress output;
  static_cast<NsaCompression&>(output) = problem;
  output.output = problem.grad_grad_output;
  return output;
}

// grad_input and grad_weight: the gradients of a compression of the tangents, which are the gradients with
// respect to the first gradient's results. What follows from a tangent that is left out is zero, and not computed.
NsaCompressBackward gradients_of(const NsaCompressDoubleBackward& problem) {
  NsaCompressBackward gradients;
  static_cast<NsaCompression&>(gradients) = problem;
  gradients.grad_output = problem.grad_output;
  if (problem.grad_grad_weight.defined()) {
    gradients.weight = problem.grad_grad_weight;
    gradients.grad_input = problem.grad_input;
  }
  if (problem.grad_grad_input.defined()) {
    gradients.input = problem.grad_grad_input;
    gradients.grad_weight = problem.grad_weight;
  }
  return gradients;
}

bool wants_any(const NsaCompressBackward& gradients) {
  return gradients.grad_input.defined() || gradients.grad_weight.defined();
}

size_t bytes_of(const Tensor& tensor, int64_t elements) {
  return static_cast<size_t>(elements) * size_of(tensor.type);
}

// Sets [rows, heads, channels] to zero.
void clear_heads(const Tensor& tensor) {
  for (int64_t row = 0; row < tensor.size(0); ++row) {
    for (int64_t head = 0; head < tensor.size(1); ++head) {
      const size_t first = bytes_of(tensor, row * tensor.stride(0) + head * tensor.stride(1));
      std::memset(static_cast<std::byte*>(tensor.data) + first, 0, bytes_of(tensor, tensor.size(2)));
    }
  }
}

void compute_output(const NsaCompressDoubleBackward& problem, void* workspace) {
  std::array<CompressionTerm, kMaxTerms> terms;
  size_t count = 0;
  if (problem.grad_grad_input.defined()) terms[count++] = {problem.grad_grad_input, problem.weight};
  if (problem.grad_grad_weight.defined()) terms[count++] = {problem.input, problem.grad_grad_weight};
  if (count == 0) return clear_heads(problem.grad_grad_output);
  run_terms(output_of(problem), {terms.data(), count}, workspace);
}

void compute_gradients(const NsaCompressDoubleBackward& problem, void* workspace) {
  const NsaCompressBackward gradients = gradients_of(problem);
  if (problem.grad_input.defined() && !gradients.grad_input.defined()) clear_heads(problem.grad_input);
  if (problem.grad_weight.defined() && !gradients.grad_weight.defined())
    std::memset(problem.grad_weight.data, 0,
                bytes_of(problem.grad_weight, problem.block() * problem.heads()));
  if (wants_any(gradients)) run_kernel(gradients, workspace);
}

}  // namespace

size_t kernel_workspace_size(const NsaCompressDoubleBackward& problem) {
  const NsaCompressBackward gradients = gradients_of(problem);
  return std::max(
      problem.grad_grad_output.defined() ? terms_workspace_size(output_of(problem), kMaxTerms) : 0,
      wants_any(gradients) ? kernel_workspace_size(gradients) : 0);
}

double kernel_nanoseconds(const NsaCompressDoubleBackward& problem) {
  return 2 * kernel_nanoseconds(output_of(problem)) + kernel_nanoseconds(gradients_of(problem));
}

void run_kernel(const NsaCompressDoubleBackward& problem, void* workspace) {
  if (problem.grad_grad_output.defined()) compute_output(problem, workspace);
  compute_gradients(problem, workspace);
}

}  // namespace aclgrad::ops::nsa_compress
