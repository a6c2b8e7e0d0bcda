// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Problems of NSA compress and its gradient with any contents of device memory.
#include "fuzz/data.h"
#include "ops/nsa_compress/reference.h"

namespace aclgrad::test {
namespace {

void fuzz(Bytes& bytes) {
  const DataType type = bytes.ConsumeBool() ? DataType::float16 : DataType::bfloat16;
  const Contents contents = draw_contents(bytes);
  const Layout layout = draw_layout(bytes);
  const bool ends_on_device = bytes.ConsumeBool();
  reference::NsaSizes sizes;
  sizes.heads = bytes.ConsumeIntegralInRange<int64_t>(1, 3);
  sizes.channels = 16 * bytes.ConsumeIntegralInRange<int64_t>(1, 3);
  sizes.stride = 16 * bytes.ConsumeIntegralInRange<int64_t>(1, 2);
  sizes.block = sizes.stride + 16 * bytes.ConsumeIntegralInRange<int64_t>(0, 3);
  const auto sequences = bytes.ConsumeIntegralInRange<int64_t>(1, 4);
  int64_t tokens = 0;
  for (int64_t i = 0; i < sequences; ++i) {
    tokens += bytes.ConsumeIntegralInRange<int64_t>(0, 90);
    sizes.sequence_ends.push_back(tokens);
  }
  const auto windows = static_cast<int64_t>(reference::window_starts(sizes).size());
  if (windows == 0) return;
  const Shape rows{tokens, sizes.heads, sizes.channels};
  const Shape compressed{windows, sizes.heads, sizes.channels};
  const Shape weights{sizes.block, sizes.heads};
  const TensorValue input{rows, type, draw_values(bytes, rows, contents)};
  const TensorValue weight{weights, type, draw_values(bytes, weights, contents)};
  const TensorValue grad{compressed, type, draw_values(bytes, compressed, contents)};
  // The device's copy of the ends may hold anything, whatever the sizes of the tensors say.
  std::vector<int64_t> device_ends = sizes.sequence_ends;
  const bool wrong_ends = ends_on_device && bytes.ConsumeBool();
  if (wrong_ends) {
    for (int64_t& end : device_ends) end = draw_index(bytes, tokens + 2);
  }
  const Value ends = ends_on_device ? Value(TensorValue{{sequences}, DataType::int64, to_values(device_ends)})
                                    : Value(sizes.sequence_ends);

  const auto outputs = run_in_layouts("aclnnNsaCompress",
                                      {input, weight, sizes.sequence_ends, std::string("TND"), sizes.block,
                                       sizes.stride, int64_t{0}, TensorValue{compressed, type}},
                                      layout);
  const auto gradients =
      run_in_layouts(ends_on_device ? "aclnnNsaCompressGradTensor" : "aclnnNsaCompressGrad",
                     {grad, input, weight, ends, sizes.block, sizes.stride, int64_t{0}, Null{},
                      TensorValue{rows, type}, TensorValue{weights, type}},
                     layout, wrong_ends ? Data::any : Data::right);
  if (wrong_ends || contents != Contents::whole_numbers) return;
  const auto expected = reference::nsa_compress_grad(sizes, grad.values, input.values, weight.values);
  require_exact(outputs[0], reference::nsa_compress(sizes, input.values, weight.values), type,
                "NSA: output as the reference");
  require_exact(gradients[0], expected.input, type, "NSA: inputGrad as the reference");
  require_exact(gradients[1], expected.weight, type, "NSA: weightGrad as the reference");
}

const FuzzTarget kTarget(1, fuzz);

}  // namespace
}  // namespace aclgrad::test
