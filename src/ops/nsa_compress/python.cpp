// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// NSA compress, its gradient, and that gradient's.
#include "ops/nsa_compress/kernel.h"

#include <fmt/format.h>

#include "binding.h"
#include "ops/nsa_compress/reference.h"

namespace aclgrad::python {
namespace {

// The ends that are there, or that follow from the number of tokens; none where their contents are not to be read.
std::vector<int64_t> read_ends(const Call& call, const Argument& cu_seqlens, int64_t tokens) {
  constexpr const char* name = "cu_seqlens";
  if (cu_seqlens.is_none()) return {tokens};
  const Array ends = call.integers(name, cu_seqlens);
  call.check(ends.on_cpu(), name,
             "an array in the memory of the CPU, since the number of windows follows from its contents",
             ends.fake == nullptr ? "one on a GPU" : "one on " + ends.fake->device);
  call.check_rank(ends, 1);
  if (ends.size(0) == 0) return {tokens};
  if (!call.can_read(ends)) return {};
  std::vector<int64_t> values = integers_of(tensor_at(ends.view.first(), ends.view));
  call.check_ends(name, values);
  if (values.back() != tokens)
    call.check(false, name, fmt::format("{} as its last entry, the number of tokens", tokens), values.back());
  return values;
}

// The ends of the sequences, to which the problem points.
std::vector<int64_t> read_compression(Call& call, const Argument& x, const Argument& weight,
                                      const Argument& cu_seqlens, const Argument& block_size,
                                      const Argument& stride, NsaCompression& p) {
  const int64_t block = call.integer("block", block_size);
  p.stride = call.integer("stride", stride);
  call.input("x", x, p.input);
  call.input("weight", weight, p.weight);
  call.check(block >= 1, "block", "at least 1", block);
  call.check(p.stride >= 1, "stride", "at least 1", p.stride);
  call.check(p.stride <= Contract::kMaxElements, "stride", "at most 2^53 - 1", p.stride);
  call.floats({DataType::float32, DataType::float16, DataType::bfloat16});
  call.input("input", p.input, "TNC", 2);
  call.set_size('B', block);
  call.input("weight", p.weight, "BN", 0);
  std::vector<int64_t> ends = read_ends(call, cu_seqlens, p.tokens());
  p.sequence_ends = {ends.data(), {static_cast<int64_t>(ends.size())}};
  const bool is_known = !ends.empty() && p.tokens() != Contract::kAnySize;
  if (is_known) call.set_size('W', count_windows(p));
  return ends;
}

reference::NsaSizes sizes_of(const NsaCompression& p, const std::vector<int64_t>& ends) {
  return {p.heads(), p.channels(), p.block(), p.stride, ends};
}

bool is_in_double(const NsaCompression& p) {
  return p.input.type == DataType::float64;
}

Array forward(const Argument& x, const Argument& weight, const Argument& cu_seqlens, const Argument& block,
              const Argument& stride, const Argument& out) {
  Call call(Call::Memory::cpu_or_gpu);
  NsaCompress p;
  const std::vector<int64_t> ends = read_compression(call, x, weight, cu_seqlens, block, stride, p);
  call.output("out", out, p.output);
  check(p, call);
  return only(call.compute([&] {
    if (!is_in_double(p)) return call.launch(p);
    write_doubles(reference::nsa_compress(sizes_of(p, ends), doubles_of(p.input), doubles_of(p.weight)),
                  p.output);
  }));
}

Results backward(const Argument& grad_output, const Argument& x, const Argument& weight,
                 const Argument& cu_seqlens, const Argument& block, const Argument& stride,
                 const Argument& output_mask, const Argument& out) {
  Call call(Call::Memory::cpu_or_gpu);
  NsaCompressBackward p;
  const std::vector<bool> wanted = call.flags("output_mask", output_mask, 2);
  call.check_rank(call.input("grad_output", grad_output, p.grad_output), 3);
  const std::vector<int64_t> ends = read_compression(call, x, weight, cu_seqlens, block, stride, p);
  call.outputs(out, wanted, {&p.grad_input, &p.grad_weight});
  check(p, call);
  return call.compute([&] {
    if (!is_in_double(p)) return call.launch(p);
    const auto expected = reference::nsa_compress_grad(sizes_of(p, ends), doubles_of(p.grad_output),
                                                       doubles_of(p.input), doubles_of(p.weight));
    write_doubles(expected.input, p.grad_input);
    write_doubles(expected.weight, p.grad_weight);
  });
}

// ---- The gradient of the gradient, on CPUs

std::vector<double> doubles_or_zeros(const ConstTensor& tensor, const std::vector<double>& like) {
  return tensor.defined() ? doubles_of(tensor) : std::vector<double>(like.size());
}

void compute_in_double(const NsaCompressDoubleBackward& p, const std::vector<int64_t>& ends) {
  const std::vector<double> input = doubles_of(p.input), weight = doubles_of(p.weight);
  const auto expected = reference::nsa_compress_double_backward(
      sizes_of(p, ends), doubles_of(p.grad_output), input, weight, doubles_or_zeros(p.grad_grad_input, input),
      doubles_or_zeros(p.grad_grad_weight, weight));
  write_doubles(expected.output_grad, p.grad_grad_output);
  write_doubles(expected.input, p.grad_input);
  write_doubles(expected.weight, p.grad_weight);
}

Results double_backward(const Argument& grad_output, const Argument& x, const Argument& weight,
                        const Argument& cu_seqlens, const Argument& grad_grad_x,
                        const Argument& grad_grad_weight, const Argument& block, const Argument& stride,
                        const Argument& output_mask, const Argument& out) {
  Call call(Call::Memory::cpu);
  NsaCompressDoubleBackward p;
  const std::vector<bool> wanted = call.flags("output_mask", output_mask, 3);
  call.check_rank(call.input("grad_output", grad_output, p.grad_output), 3);
  const std::vector<int64_t> ends = read_compression(call, x, weight, cu_seqlens, block, stride, p);
  call.optional_input("grad_grad_x", grad_grad_x, p.grad_grad_input);
  call.optional_input("grad_grad_weight", grad_grad_weight, p.grad_grad_weight);
  call.outputs(out, wanted, {&p.grad_grad_output, &p.grad_input, &p.grad_weight});
  check(p, call);
  return call.compute([&] { is_in_double(p) ? compute_in_double(p, ends) : call.launch(p); });
}

const Binding kBinding([](nb::module_& module) {
  define(module, "nsa_compress", forward);
  define(module, "nsa_compress_backward", backward);
  define(module, "nsa_compress_double_backward", double_backward);
});

}  // namespace

}  // namespace aclgrad::python
