// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// NSA compress, its gradient, and that gradient's.
#include "ops/nsa_compress/kernel.h"

#include <array>
#include <optional>

#include "arguments.h"
#include "binding.h"
#include "operand.h"
#include "ops/nsa_compress/reference.h"
#include "tensor/contract.h"

namespace aclgrad::python {
namespace {

struct Compression {
  Array x;
  Array weight;
  std::vector<int64_t> sequence_ends;
  NsaCompression problem;  // of the arrays where they lie
  int64_t window_count;

  int64_t tokens() const { return x.size(0); }
  int64_t heads() const { return x.size(1); }
  int64_t channels() const { return x.size(2); }
};

// Without ends, all tokens are one sequence.
std::vector<int64_t> read_ends(const Arguments& arguments, const Argument& cu_seqlens, int64_t tokens) {
  constexpr const char* name = "cu_seqlens";
  if (cu_seqlens.is_none()) return {tokens};
  const Array ends = arguments.integers(name, cu_seqlens);
  arguments.check(!ends.on_gpu(), name,
                  "an array in the memory of the CPU, since the number of windows follows from its contents",
                  "one on a GPU");
  arguments.check_rank(ends, 1);
  if (ends.empty()) return {tokens};
  std::vector<int64_t> values = integers_of(ends.view);
  arguments.check_ends(name, values);
  arguments.check(values.back() == tokens, name, "the number of tokens as its last entry", values.back());
  return values;
}

Compression read_compression(const Arguments& arguments, const Argument& x, const Argument& weight,
                             const Argument& cu_seqlens, const Argument& block_object,
                             const Argument& stride_object) {
  const int64_t block = arguments.integer("block", block_object);
  const int64_t stride = arguments.integer("stride", stride_object);
  Compression compression{arguments.floats("x", x), arguments.floats("weight", weight), {}, {}, 0};
  arguments.check_same_type(compression.x, {&compression.weight});
  arguments.check_type_on_gpu(compression.x);
  arguments.check_rank(compression.x, 3);
  arguments.check(block >= 1, "block", "at least 1", block);
  arguments.check(stride >= 1, "stride", "at least 1", stride);
  arguments.check(stride <= Contract::kMaxElements, "stride", "at most 2^53 - 1", stride);
  arguments.check_shape(compression.weight, {block, compression.heads()});

  compression.sequence_ends = read_ends(arguments, cu_seqlens, compression.tokens());
  NsaCompression& problem = compression.problem;
  problem.input = tensor_at(nullptr, compression.x.view);
  problem.weight = tensor_at(nullptr, compression.weight.view);
  problem.stride = stride;
  problem.sequence_ends = {compression.sequence_ends.data(),
                           {static_cast<int64_t>(compression.sequence_ends.size())}};
  compression.window_count = count_windows(problem);
  return compression;
}

reference::NsaSizes sizes_of(const Compression& compression) {
  return {compression.heads(), compression.channels(), compression.problem.block(),
          compression.problem.stride, compression.sequence_ends};
}

template <class Problem>
Problem describe(const Compression& compression, const Operand& x, const Operand& weight) {
  Problem problem;
  static_cast<NsaCompression&>(problem) = compression.problem;
  problem.input = x.tensor();
  problem.weight = weight.tensor();
  return problem;
}

void compute_forward(const Place& place, const Compression& compression, const Array& output) {
  if (output.empty()) return;
  if (compression.x.type() == DataType::float64) {
    return write_doubles(reference::nsa_compress(sizes_of(compression), doubles_of(compression.x.view),
                                                 doubles_of(compression.weight.view)),
                         output.view);
  }
  const Operand x = Operand::read(place, compression.x.view, 2);
  const Operand weight = Operand::read(place, compression.weight.view, 0);
  const Operand output_operand = Operand::write(place, output.view, 2);
  auto problem = describe<NsaCompress>(compression, x, weight);
  problem.output = output_operand.tensor();
  place.run(problem);
  output_operand.finish();
}

// What is not needed keeps undefined contents.
void compute_backward(const Place& place, const Compression& compression, const Array& grad_output,
                      const Array& grad_x, const Array& grad_weight, bool needs_x, bool needs_weight) {
  if (grad_output.empty()) {
    place.fill_zero(grad_x.view);
    return place.fill_zero(grad_weight.view);
  }
  if (compression.x.type() == DataType::float64) {
    const reference::NsaGradients expected =
        reference::nsa_compress_grad(sizes_of(compression), doubles_of(grad_output.view),
                                     doubles_of(compression.x.view), doubles_of(compression.weight.view));
    write_doubles(expected.input, grad_x.view);
    return write_doubles(expected.weight, grad_weight.view);
  }
  const Operand grad_output_operand = Operand::read(place, grad_output.view, 2);
  const Operand x = Operand::read(place, compression.x.view, 2);
  const Operand weight = Operand::read(place, compression.weight.view, 0);
  const Operand x_operand = Operand::write(place, grad_x.view, 2);
  const Operand weight_operand = Operand::write(place, grad_weight.view, 0);
  auto problem = describe<NsaCompressBackward>(compression, x, weight);
  problem.grad_output = grad_output_operand.tensor();
  if (needs_x) problem.grad_input = x_operand.tensor();
  if (needs_weight) problem.grad_weight = weight_operand.tensor();
  place.run(problem);
  x_operand.finish();
  weight_operand.finish();
}

Array forward(const Argument& x, const Argument& weight, const Argument& cu_seqlens, const Argument& block,
              const Argument& stride, const Argument& out) {
  const Arguments arguments("nsa_compress", Arguments::Memory::cpu_or_gpu);
  const Compression compression = read_compression(arguments, x, weight, cu_seqlens, block, stride);
  const Array output = arguments.result(
      "out", compression.x, {compression.window_count, compression.heads(), compression.channels()}, out);
  const Place place(arguments, compression.x, {&compression.weight, &output});
  arguments.claim({&output}, {&compression.x, &compression.weight});
  place.compute([&] { compute_forward(place, compression, output); });
  return output;
}

Results backward(const Argument& grad_output_object, const Argument& x, const Argument& weight,
                 const Argument& cu_seqlens, const Argument& block, const Argument& stride,
                 const Argument& output_mask, const Argument& out) {
  const Arguments arguments("nsa_compress_backward", Arguments::Memory::cpu_or_gpu);
  const Array grad_output = arguments.floats("grad_output", grad_output_object);
  const Compression compression = read_compression(arguments, x, weight, cu_seqlens, block, stride);
  const std::vector<bool> needs = arguments.flags("output_mask", output_mask, 2);
  const bool needs_x = needs[0], needs_weight = needs[1];
  const int64_t heads = compression.heads(), channels = compression.channels();
  arguments.check_same_type(compression.x, {&grad_output});
  arguments.check_rank(grad_output, 3);
  arguments.check_shape(grad_output, {compression.window_count, heads, channels});
  const Array grad_x = arguments.result("out[0]", compression.x, {compression.tokens(), heads, channels},
                                        needs_x ? arguments.entry("out", out, 2, 0) : Argument());
  const Array grad_weight = arguments.result("out[1]", compression.x, {compression.problem.block(), heads},
                                             needs_weight ? arguments.entry("out", out, 2, 1) : Argument());
  const Place place(arguments, compression.x, {&compression.weight, &grad_output, &grad_x, &grad_weight});
  arguments.claim({&grad_x, &grad_weight}, {&grad_output, &compression.x, &compression.weight});
  place.compute(
      [&] { compute_backward(place, compression, grad_output, grad_x, grad_weight, needs_x, needs_weight); });
  Results results(2);
  if (needs_x) results[0] = grad_x;
  if (needs_weight) results[1] = grad_weight;
  return results;
}

// ---- The gradient of the gradient, on CPUs

// Of what is None or not wanted there is none.
struct SecondGradients {
  Array grad_output;
  std::optional<Array> grad_grad_x;
  std::optional<Array> grad_grad_weight;
  Results results;  // grad_grad_output, grad_x, grad_weight
};

std::vector<double> doubles_or_zeros(const std::optional<Array>& array, const Array& like) {
  if (array) return doubles_of(array->view);
  return std::vector<double>(static_cast<size_t>(like.view.size()));
}

void compute_double_backward_in_double(const Compression& compression, const SecondGradients& arrays) {
  const reference::NsaSecondGradients expected = reference::nsa_compress_double_backward(
      sizes_of(compression), doubles_of(arrays.grad_output.view), doubles_of(compression.x.view),
      doubles_of(compression.weight.view), doubles_or_zeros(arrays.grad_grad_x, compression.x),
      doubles_or_zeros(arrays.grad_grad_weight, compression.weight));
  const std::vector<double>* values[] = {&expected.output_grad, &expected.input, &expected.weight};
  for (size_t i = 0; i < 3; ++i) {
    if (arrays.results[i]) write_doubles(*values[i], arrays.results[i]->view);
  }
}

void compute_double_backward(const Place& place, const Compression& compression,
                             const SecondGradients& arrays) {
  if (compression.x.type() == DataType::float64)
    return compute_double_backward_in_double(compression, arrays);
  constexpr std::array kFirstDense{2, 2, 0};
  const auto read = [&](const Array& array, int first_dense) {
    return Operand::read(place, array.view, first_dense);
  };
  auto problem =
      describe<NsaCompressDoubleBackward>(compression, read(compression.x, 2), read(compression.weight, 0));
  problem.grad_output = read(arrays.grad_output, 2).tensor();
  if (arrays.grad_grad_x) problem.grad_grad_input = read(*arrays.grad_grad_x, 2).tensor();
  if (arrays.grad_grad_weight) problem.grad_grad_weight = read(*arrays.grad_grad_weight, 0).tensor();
  Tensor* const outputs[] = {&problem.grad_grad_output, &problem.grad_input, &problem.grad_weight};
  std::array<std::optional<Operand>, 3> operands;
  for (size_t i = 0; i < 3; ++i) {
    if (!arrays.results[i]) continue;
    operands[i] = Operand::write(place, arrays.results[i]->view, kFirstDense[i]);
    *outputs[i] = operands[i]->tensor();
  }
  place.run(problem);
  for (const auto& operand : operands) {
    if (operand) operand->finish();
  }
}

Results double_backward(const Argument& grad_output, const Argument& x, const Argument& weight,
                        const Argument& cu_seqlens, const Argument& grad_grad_x,
                        const Argument& grad_grad_weight, const Argument& block, const Argument& stride,
                        const Argument& output_mask, const Argument& out) {
  const Arguments arguments("nsa_compress_double_backward");
  SecondGradients arrays{arguments.floats("grad_output", grad_output), {}, {}, Results(3)};
  const Compression compression = read_compression(arguments, x, weight, cu_seqlens, block, stride);
  const std::vector<bool> needs = arguments.flags("output_mask", output_mask, 3);
  const Shape shapes[] = {{compression.window_count, compression.heads(), compression.channels()},
                          {compression.tokens(), compression.heads(), compression.channels()},
                          {compression.problem.block(), compression.heads()}};
  const auto check = [&](const Array& array, const Shape& shape) {
    arguments.check_same_type(compression.x, {&array});
    arguments.check_shape(array, shape);
  };
  arguments.check_rank(arrays.grad_output, 3);
  check(arrays.grad_output, shapes[0]);
  if (!grad_grad_x.is_none()) {
    arrays.grad_grad_x = arguments.floats("grad_grad_x", grad_grad_x);
    check(*arrays.grad_grad_x, shapes[1]);
  }
  if (!grad_grad_weight.is_none()) {
    arrays.grad_grad_weight = arguments.floats("grad_grad_weight", grad_grad_weight);
    check(*arrays.grad_grad_weight, shapes[2]);
  }
  constexpr std::array kNames{"out[0]", "out[1]", "out[2]"};
  for (size_t i = 0; i < 3; ++i) {
    const Argument given = arguments.entry("out", out, 3, i);
    if (needs[i]) arrays.results[i] = arguments.result(kNames[i], compression.x, shapes[i], given);
  }
  const Place place(arguments, compression.x, {&compression.weight, &arrays.grad_output});
  const auto given = [](const std::optional<Array>& array) { return array ? &*array : nullptr; };
  arguments.claim({given(arrays.results[0]), given(arrays.results[1]), given(arrays.results[2])},
                  {&arrays.grad_output, &compression.x, &compression.weight, given(arrays.grad_grad_x),
                   given(arrays.grad_grad_weight)});
  place.compute([&] { compute_double_backward(place, compression, arrays); });
  return arrays.results;
}

const Binding kBinding([](nb::module_& module) {
  define(module, "nsa_compress", forward);
  define(module, "nsa_compress_backward", backward);
  define(module, "nsa_compress_double_backward", double_backward);
});

}  // namespace

}  // namespace aclgrad::python
