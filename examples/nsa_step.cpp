// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// One step of the key compression of native sparse attention: 32768 tokens of sequences of many lengths,
/// packed one after the other, in half precision. Blocks of 32 tokens, every 16 tokens, become one compressed
/// key each.

#include "aclnnop/aclnn_nsa_compress.h"
#include "aclnnop/aclnn_nsa_compress_grad.h"
#include "example.h"

using example::Comparison;
using example::Device;
using example::Handle;
using example::Operator;
using example::Random;
using example::ReferenceSum;
using example::Tensor;
using op::fp16_t;

namespace {

constexpr int64_t heads = 4;
constexpr int64_t channels = 128;
constexpr int64_t block_size = 32;
constexpr int64_t stride = 16;

// Ragged as in practice: one sequence is empty, one shorter than a block, and most have a tail that fills no
// block.
const std::vector<int64_t> sequence_lengths = {8192, 5000, 0, 37, 1023, 31, 12288, 2048, 517, 3000, 632};

// "The integers of actSeqLenOptional are the ends of the sequences."
constexpr int64_t sequence_ends = 0;
char layout[] = "TND";

/// First token of each window, over all sequences: row k of the compressed keys comes from window k.
std::vector<int64_t> window_starts() {
  std::vector<int64_t> starts;
  int64_t begin = 0;
  for (int64_t length : sequence_lengths) {
    for (int64_t offset = 0; offset + block_size <= length; offset += stride)
      starts.push_back(begin + offset);
    begin += length;
  }
  return starts;
}

/// The inputs on the host.
struct Step {
  std::vector<int64_t> window_starts;
  std::vector<fp16_t> input;        // [tokens, heads, channels]
  std::vector<fp16_t> weight;       // [block_size, heads]
  std::vector<fp16_t> output_grad;  // [windows, heads, channels]

  double input_at(int64_t token, int64_t head, int64_t channel) const {
    return static_cast<double>(input[(token * heads + head) * channels + channel]);
  }
  double weight_at(int64_t position, int64_t head) const {
    return static_cast<double>(weight[position * heads + head]);
  }
  double output_grad_at(int64_t window, int64_t head, int64_t channel) const {
    return static_cast<double>(output_grad[(window * heads + head) * channels + channel]);
  }
};

Comparison<fp16_t> compare_output(const Step& step, const Tensor<fp16_t>& output) {
  constexpr int64_t window_step = 37;
  const std::vector<fp16_t> result = output.download();
  Comparison<fp16_t> comparison("output", output.shape());
  const int64_t windows = static_cast<int64_t>(step.window_starts.size());
  for (int64_t window = 0; window < windows; window += window_step) {
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t channel = 0; channel < channels; ++channel) {
        ReferenceSum reference;
        for (int64_t position = 0; position < block_size; ++position)
          reference.add(step.weight_at(position, head) *
                        step.input_at(step.window_starts[window] + position, head, channel));
        comparison.compare(result[(window * heads + head) * channels + channel], reference);
      }
    }
  }
  return comparison;
}

Comparison<fp16_t> compare_input_grad(const Step& step, const Tensor<fp16_t>& input_grad) {
  constexpr int64_t token_step = 97;
  const std::vector<fp16_t> result = input_grad.download();
  Comparison<fp16_t> comparison("inputGrad", input_grad.shape());
  const auto starts_begin = step.window_starts.begin(), starts_end = step.window_starts.end();
  for (int64_t token = 0; token < input_grad.shape()[0]; token += token_step) {
    // The windows that cover the token: they start at most block_size - 1 tokens before it.
    const int64_t first = std::lower_bound(starts_begin, starts_end, token - block_size + 1) - starts_begin;
    const int64_t last = std::upper_bound(starts_begin, starts_end, token) - starts_begin;
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t channel = 0; channel < channels; ++channel) {
        ReferenceSum reference;
        for (int64_t window = first; window < last; ++window)
          reference.add(step.weight_at(token - step.window_starts[window], head) *
                        step.output_grad_at(window, head, channel));
        comparison.compare(result[(token * heads + head) * channels + channel], reference);
      }
    }
  }
  return comparison;
}

/// Every element: each sums over all windows and channels.
Comparison<fp16_t> compare_weight_grad(const Step& step, const Tensor<fp16_t>& weight_grad) {
  const std::vector<fp16_t> result = weight_grad.download();
  Comparison<fp16_t> comparison("weightGrad", weight_grad.shape());
  const int64_t windows = static_cast<int64_t>(step.window_starts.size());
  for (int64_t position = 0; position < block_size; ++position) {
    for (int64_t head = 0; head < heads; ++head) {
      ReferenceSum reference;
      for (int64_t window = 0; window < windows; ++window)
        for (int64_t channel = 0; channel < channels; ++channel)
          reference.add(step.output_grad_at(window, head, channel) *
                        step.input_at(step.window_starts[window] + position, head, channel));
      comparison.compare(result[position * heads + head], reference);
    }
  }
  return comparison;
}

}  // namespace

int main() {
  std::vector<int64_t> ends(sequence_lengths.size());
  std::partial_sum(sequence_lengths.begin(), sequence_lengths.end(), ends.begin());
  const int64_t tokens = ends.back();

  Random random(1);
  Step step;
  step.window_starts = window_starts();
  const int64_t windows = static_cast<int64_t>(step.window_starts.size());
  step.input = random.uniform_vector<fp16_t>(tokens * heads * channels, -1, 1);
  step.weight = random.uniform_vector<fp16_t>(block_size * heads, 0, 2.0 / block_size);
  step.output_grad = random.uniform_vector<fp16_t>(windows * heads * channels, -1, 1);

  const Device device;
  const Tensor<fp16_t> input({tokens, heads, channels}, step.input);
  const Tensor<fp16_t> weight({block_size, heads}, step.weight);
  const Tensor<fp16_t> output_grad({windows, heads, channels}, step.output_grad);
  const Tensor<fp16_t> output(output_grad.shape());
  const Tensor<fp16_t> input_grad(input.shape());
  const Tensor<fp16_t> weight_grad(weight.shape());
  const Handle<aclIntArray> sequences(aclCreateIntArray(ends.data(), ends.size()), aclDestroyIntArray);

  const Operator forward(device, "aclnnNsaCompress", aclnnNsaCompress, aclnnNsaCompressGetWorkspaceSize,
                         input, weight, sequences, layout, block_size, stride, sequence_ends, output);
  const Operator backward(device, "aclnnNsaCompressGrad", aclnnNsaCompressGrad,
                          aclnnNsaCompressGradGetWorkspaceSize, output_grad, input, weight, sequences,
                          block_size, stride, sequence_ends, layout, input_grad, weight_grad);
  forward.enqueue();
  backward.enqueue();
  device.synchronize();

  std::printf("NSA key compression, half precision: %lld tokens in %zu sequences, %lld windows\n",
              static_cast<long long>(tokens), sequence_lengths.size(), static_cast<long long>(windows));
  example::print_times({&forward, &backward});

  return example::report<fp16_t>({compare_output(step, output), compare_input_grad(step, input_grad),
                                  compare_weight_grad(step, weight_grad)});
}
