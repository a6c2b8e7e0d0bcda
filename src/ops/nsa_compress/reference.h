// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The reference of NSA compress, of its gradient and of that gradient's gradient, in double precision.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/reference_terms.h"

namespace aclgrad::reference {

struct NsaSizes {
  int64_t heads;
  int64_t channels;
  int64_t block;
  int64_t stride;
  std::vector<int64_t> sequence_ends;
};

// The first token of each window.
inline std::vector<int64_t> window_starts(const NsaSizes& sizes) {
  std::vector<int64_t> starts;
  int64_t begin = 0;
  for (int64_t end : sizes.sequence_ends) {
    for (int64_t start = begin; start + sizes.block <= end; start += sizes.stride) starts.push_back(start);
    begin = end;
  }
  return starts;
}

// Calls visit(y, w, x) for each product of the sums: an output, a weight and an input, by their numbers.
template <class Visit>
void for_each_product(const NsaSizes& sizes, Visit&& visit) {
  const auto [heads, channels, block, stride, ends] = sizes;
  int64_t window = 0;
  for (int64_t start : window_starts(sizes)) {
    for (int64_t j = 0; j < block; ++j) {
      for (int64_t n = 0; n < heads; ++n) {
        for (int64_t d = 0; d < channels; ++d) {
          visit(static_cast<size_t>((window * heads + n) * channels + d), static_cast<size_t>(j * heads + n),
                static_cast<size_t>(((start + j) * heads + n) * channels + d));
        }
      }
    }
    ++window;
  }
}

// input [tokens, heads, channels], weight [block, heads]. Returns [windows, heads, channels].
inline std::vector<double> nsa_compress(const NsaSizes& sizes, const std::vector<double>& input,
                                        const std::vector<double>& weight) {
  const auto row = static_cast<size_t>(sizes.heads * sizes.channels);
  std::vector<double> output(window_starts(sizes).size() * row, 0.0);
  for_each_product(sizes, [&](size_t y, size_t w, size_t x) { output[y] += term(weight[w] * input[x]); });
  return output;
}

struct NsaGradients {
  std::vector<double> input;   // [tokens, heads, channels]
  std::vector<double> weight;  // [block, heads]
};

// output_grad [windows, heads, channels], input and weight as above.
inline NsaGradients nsa_compress_grad(const NsaSizes& sizes, const std::vector<double>& output_grad,
                                      const std::vector<double>& input, const std::vector<double>& weight) {
  NsaGradients gradients{std::vector<double>(input.size(), 0.0), std::vector<double>(weight.size(), 0.0)};
  for_each_product(sizes, [&](size_t y, size_t w, size_t x) {
    gradients.input[x] += term(weight[w] * output_grad[y]);
    gradients.weight[w] += term(output_grad[y] * input[x]);
  });
  return gradients;
}

struct NsaSecondGradients {
  std::vector<double> output_grad;  // [windows, heads, channels]
  std::vector<double> input;        // [tokens, heads, channels]
  std::vector<double> weight;       // [block, heads]
};

// Of nsa_compress_grad, whose results have the gradients input_grad_grad and weight_grad_grad. It is linear in
// each of its arguments.
inline NsaSecondGradients nsa_compress_double_backward(const NsaSizes& sizes,
                                                       const std::vector<double>& output_grad,
                                                       const std::vector<double>& input,
                                                       const std::vector<double>& weight,
                                                       const std::vector<double>& input_grad_grad,
                                                       const std::vector<double>& weight_grad_grad) {
  std::vector<double> output = nsa_compress(sizes, input_grad_grad, weight);
  const std::vector<double> along_weight = nsa_compress(sizes, input, weight_grad_grad);
  for (size_t i = 0; i < output.size(); ++i) output[i] += along_weight[i];
  NsaGradients gradients = nsa_compress_grad(sizes, output_grad, input_grad_grad, weight_grad_grad);
  return {std::move(output), std::move(gradients.input), std::move(gradients.weight)};
}

}  // namespace aclgrad::reference
