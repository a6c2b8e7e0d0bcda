// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "aten/built_in.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ScalarOps.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace aclgrad::aten {
namespace {

// ---- Those that do not evaluate all of their arguments ----

// For a refusal, of an argument that selects something.
std::string name_of(const Node& node) {
  return node.subject.empty() ? "mode" : node.subject;
}

IValue choose(const Nodes& nodes, const Values& values) {
  const int64_t index = to_integer(nodes.at(0).evaluate(values));
  const auto choices = static_cast<int64_t>(nodes.size()) - 1;
  if (index >= 0 && index < choices) return nodes[static_cast<size_t>(index) + 1].evaluate(values);
  refuse(name_of(nodes[0]), "0 to " + std::to_string(choices - 1), std::to_string(index));
}

IValue default_of(const Nodes& nodes, const Values& values) {
  IValue value = nodes.at(0).evaluate(values);
  return value.isNone() ? nodes.at(1).evaluate(values) : value;
}

// The first, where all others are null.
IValue without(const Nodes& nodes, const Values& values) {
  for (size_t i = 1; i < nodes.size(); ++i) {
    if (!nodes[i].evaluate(values).isNone())
      refuse(nodes[i].name, "null, because the companion library does not compute with it", "an argument");
  }
  return nodes.at(0).evaluate(values);
}

void check_size(const Node& node, const at::Tensor& tensor, const IValue& size, int64_t free_axes) {
  if (size.isInt()) {
    if (tensor.numel() == size.toInt() || size.toInt() == 0) return;
    refuse(name_of(node), std::to_string(size.toInt()) + " elements", std::to_string(tensor.numel()));
  }
  std::vector<int64_t> shape;
  if (size.isTensor()) shape = size.toTensor().sizes().vec();
  for (size_t i = 0; !size.isTensor() && i < size.toListRef().size(); ++i)
    shape.push_back(size.toListRef()[i].toInt());
  const at::IntArrayRef got = tensor.sizes();
  const size_t fixed = shape.size() - static_cast<size_t>(free_axes);
  if (got.size() == shape.size() && got.slice(0, fixed).equals(at::IntArrayRef(shape).slice(0, fixed)))
    return;
  const std::string where = free_axes == 0 ? "" : c10::str(", but for the last axes (", free_axes, ")");
  refuse(name_of(node), c10::str("shape ", at::IntArrayRef(shape), where), c10::str(got));
}

void check_entries(const Node& node, size_t entries, int64_t expected) {
  if (entries == static_cast<size_t>(expected)) return;
  refuse(name_of(node), std::to_string(expected) + " entries", std::to_string(entries));
}

// A tensor or a list as it is, with so many elements or of a shape, but for axes at the end; null stays null. For operators
// that read outside of tensors that are too small.
IValue sized(const Nodes& nodes, const Values& values) {
  const IValue x = nodes.at(0).evaluate(values), size = nodes.at(1).evaluate(values);
  const int64_t free_axes = nodes.size() > 2 ? nodes[2].evaluate(values).toInt() : 0;
  if (x.isTensor()) check_size(nodes[0], x.toTensor(), size, free_axes);
  if (x.isIntList()) check_entries(nodes[0], x.toIntList().size(), size.toInt());
  if (!x.isList() || x.isIntList()) return x;
  const auto members = x.toListRef(), sizes = size.toListRef();
  if (members.size() != sizes.size())
    refuse(name_of(nodes[0]), std::to_string(sizes.size()) + " tensors", std::to_string(members.size()));
  for (size_t i = 0; i < members.size(); ++i) check_size(nodes[0], members[i].toTensor(), sizes[i], 0);
  return x;
}

// For operators that take what they are given for granted.
IValue needed(const Nodes& nodes, const Values& values) {
  IValue x = nodes.at(0).evaluate(values);
  if (x.isNone()) refuse(name_of(nodes[0]), "an argument", "null");
  return x;
}

// A tensor none of whose last axes is empty, or none at all.
IValue filled(const Nodes& nodes, const Values& values) {
  const IValue x = nodes.at(0).evaluate(values);
  const at::IntArrayRef sizes = x.toTensor().sizes();
  const size_t axes =
      nodes.size() > 1 ? static_cast<size_t>(nodes[1].evaluate(values).toInt()) : sizes.size();
  if (c10::multiply_integers(sizes.slice(sizes.size() - std::min(axes, sizes.size()))) != 0) return x;
  refuse(name_of(nodes[0]), c10::str("elements along each of the last ", axes, " axes"), c10::str(sizes));
}

// A number that is not 0; with a tensor, one that is not 0 in the tensor's type, where that has integers. For operators
// whose division by 0 would end the process.
IValue divisor(const Nodes& nodes, const Values& values) {
  const IValue x = nodes.at(0).evaluate(values);
  at::Scalar number = x.toScalar();
  if (nodes.size() > 1) {
    const at::ScalarType type = nodes[1].evaluate(values).toTensor().scalar_type();
    if (!c10::isIntegralType(type, true)) return x;
    number = c10::scalar_to_tensor(number).to(type).item();
  }
  if (number.equal(0)) refuse(name_of(nodes[0]), "a number that is not 0", c10::str(x));
  return x;
}

// A scale along an axis, with the axis' size before and after; none where it is not positive. With one that is too small,
// some operators read behind the axis.
IValue scale(const Nodes& nodes, const Values& values) {
  const IValue x = nodes.at(0).evaluate(values);
  const double factor = x.toDouble();
  const int64_t before = nodes.at(1).evaluate(values).toInt(), after = nodes.at(2).evaluate(values).toInt();
  if (!(factor > 0)) return {};
  if (static_cast<double>(after - 1) < static_cast<double>(before) * factor) return x;
  refuse(name_of(nodes[0]), c10::str("a scale from ", before, " to ", after), c10::str(factor));
}

void check_indices(const Node& node, const at::Tensor& indices, int64_t end) {
  if (indices.is_meta() || indices.numel() == 0) return;
  for (const at::Tensor& extreme : {indices.min(), indices.max()}) {
    const int64_t index = extreme.item().toLong();
    if (index < 0 || index >= end)
      refuse(name_of(node), "indices from 0 to " + std::to_string(end - 1), std::to_string(index));
  }
}

// Indices as they are, from 0 to below a number; of rows with lengths, those within. For operators that do not look at them.
IValue below(const Nodes& nodes, const Values& values) {
  const at::Tensor indices = nodes.at(0).evaluate(values).toTensor();
  const int64_t end = nodes.at(1).evaluate(values).toInt();
  if (nodes.size() == 2 || indices.dim() != 2) {
    check_indices(nodes[0], indices, end);
    return indices;
  }
  const std::vector<int64_t> lengths = nodes[2].evaluate(values).toIntVector();
  for (int64_t row = 0; row < std::min<int64_t>(indices.size(0), std::ssize(lengths)); ++row) {
    const int64_t length = std::clamp<int64_t>(lengths[static_cast<size_t>(row)], 0, indices.size(1));
    check_indices(nodes[0], indices[row].narrow(0, 0, length), end);
  }
  return indices;
}

// Both halves along an axis.
IValue halves(const Nodes& nodes, const Values& values) {
  const at::Tensor x = nodes.at(0).evaluate(values).toTensor();
  const int64_t axis = nodes.at(1).evaluate(values).toInt(), size = x.size(axis);
  if (size % 2 != 0) refuse(name_of(nodes[0]), "an even size to halve", std::to_string(size));
  return x.chunk(2, axis);
}

// The place of a text among others.
IValue index_of(const Nodes& nodes, const Values& values) {
  const IValue text = nodes.at(0).evaluate(values);
  std::string expected;
  for (size_t i = 1; i < nodes.size(); ++i) {
    const std::string candidate = nodes[i].evaluate(values).toStringRef();
    if (text.isString() && text.toStringRef() == candidate) return static_cast<int64_t>(i) - 1;
    expected += (expected.empty() ? "'" : " or '") + candidate + "'";
  }
  refuse(name_of(nodes[0]), expected, text.isString() ? "'" + text.toStringRef() + "'" : "null");
}

// ---- Random numbers ----

IValue seeded_generator(const Arguments& parts) {
  uint64_t seed = 0;
  for (const IValue& part : parts) {
    const bool is_known = !part.isTensor() || !part.toTensor().is_meta();
    const IValue number = part.isTensor() && is_known ? IValue(part.toTensor().item()) : part;
    constexpr uint64_t kOddMultiplier = 0x9E3779B97F4A7C15;  // lets every offset give other numbers
    if (is_known) seed = seed * kOddMultiplier + static_cast<uint64_t>(to_integer(number));
  }
  return at::detail::createCPUGenerator(seed);
}

// Shape, probability of false, generator, a tensor of the device.
IValue kept(const Arguments& a) {
  const at::Tensor like = a.at(3).toTensor();
  at::Tensor kept = at::empty(a.at(0).toIntVector(), like.options().dtype(at::kBool));
  return like.is_meta() ? kept : kept.bernoulli_(1 - a.at(1).toDouble(), a.at(2).toGenerator());
}

// ---- Bits ----

// Booleans as the bits of bytes, the lowest first. Zeros pad them to a multiple of 128 bits.
IValue to_bits(const Arguments& a) {
  constexpr int64_t kBits = 128;
  const at::Tensor flat = a.at(0).toTensor().flatten();
  const int64_t padding = (kBits - flat.numel() % kBits) % kBits;
  const at::Tensor bits = at::constant_pad_nd(flat.to(at::kByte), {0, padding}).view({-1, 8});
  const at::Tensor weights = at::tensor({1, 2, 4, 8, 16, 32, 64, 128}, at::kByte).to(flat.device());
  return bits.mul(weights).sum(at::IntArrayRef{1}, false, at::kByte);
}

// The other way round, in the shape of a tensor.
IValue from_bits(const Arguments& a) {
  const at::Tensor mask = a.at(0).toTensor();
  const at::Tensor like = a.at(1).toTensor();
  if (mask.scalar_type() != at::kByte || mask.numel() * 8 < like.numel())
    refuse("mask", "uint8, a bit for each element",
           std::to_string(mask.numel()) + " elements of " + c10::toString(mask.scalar_type()));
  return fields(mask.flatten(), 1).flatten().slice(0, 0, like.numel()).view(like.sizes());
}

// ---- Numbers, shapes, axes ----

IValue dense(const Arguments& a) {
  if (a.at(0).isNone()) return {};
  if (!a[0].isList()) return a[0].toTensor().contiguous();
  c10::List<at::Tensor> list;
  for (const IValue& member : a[0].toListRef()) list.push_back(member.toTensor().contiguous());
  return list;
}

// Of the axes of a tensor. An empty vector of integers stands for an axis without an index where another axis has one.
IValue indexed(const Arguments& a) {
  const std::vector<at::Tensor> given = a.at(0).toTensorVector();
  if (given.empty()) refuse("indices", "indices of at least one axis", "none");
  const auto is_empty = [](const at::Tensor& index) {
    return index.dim() == 1 && index.numel() == 0 && c10::isIntegralType(index.scalar_type(), false);
  };
  const bool has_index = !std::all_of(given.begin(), given.end(), is_empty);
  c10::List<std::optional<at::Tensor>> indices;
  for (const at::Tensor& index : given)
    indices.push_back(has_index && is_empty(index) ? std::nullopt : std::optional(index));
  return indices;
}

// The tensors in the type to which all convert, as the vendor's matrix products take them.
IValue promote(const Arguments& tensors) {
  at::ScalarType type = tensors.at(0).toTensor().scalar_type();
  for (const IValue& tensor : tensors) type = c10::promoteTypes(type, tensor.toTensor().scalar_type());
  c10::List<at::Tensor> promoted;
  for (const IValue& tensor : tensors) promoted.push_back(tensor.toTensor().to(type));
  return promoted;
}

// In float32 where the type has fewer bits, in which statistics would overflow or be rounded.
IValue widened(const Arguments& a) {
  if (a.at(0).isNone()) return {};
  const at::Tensor x = a[0].toTensor();
  return x.to(c10::promoteTypes(x.scalar_type(), at::kFloat));
}

// Padding of both ends, from that of each end: [top, bottom, left, right] and [top, left, bottom, right] are in use.
IValue equal_pads(const Arguments& arguments) {
  const std::vector<int64_t> pads = arguments.at(0).toIntVector();
  if (pads.size() < 3) return pads;
  if (std::equal(pads.begin() + 1, pads.end(), pads.begin())) return std::vector<int64_t>{pads[0]};
  refuse("pads", "equal entries", "others");
}

IValue product(const Arguments& a) {
  const std::vector<int64_t> factors = a.at(0).toIntVector();
  return std::accumulate(factors.begin(), factors.end(), int64_t{1}, std::multiplies<>());
}

IValue largest(const Arguments& a) {
  const std::vector<int64_t> numbers = a.at(0).toIntVector();
  return numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end());
}

// A vector, so that it broadcasts along an axis of a tensor.
IValue along(const Arguments& a) {
  const at::Tensor vector = a.at(0).toTensor();
  if (vector.dim() != 1 || vector.numel() == 1) return vector;
  const int64_t rank = a.at(2).toTensor().dim();
  std::vector<int64_t> shape(static_cast<size_t>(rank), 1);
  shape.at(static_cast<size_t>(c10::maybe_wrap_dim(a.at(1).toInt(), rank, false))) = vector.numel();
  return vector.view(shape);
}

std::vector<int64_t> last_axes(int64_t count) {
  std::vector<int64_t> axes;
  for (int64_t axis = -count; axis < 0; ++axis) axes.push_back(axis);
  return axes;
}

}  // namespace

at::Tensor fields(const at::Tensor& packed, int64_t bits) {
  const at::Tensor shifts = at::arange(0, packed.element_size() * 8, bits, packed.options());
  return packed.unsqueeze(-1).bitwise_right_shift(shifts).bitwise_and((1 << bits) - 1);
}

const std::map<std::string, BuiltIn>& built_in_functions() {
  using A = const Arguments&;
  const auto evaluated = [](IValue (*compute)(A)) -> BuiltIn {
    return [compute](const Nodes& nodes, const Values& values) {
      Arguments arguments;
      for (const Node& node : nodes) arguments.push_back(node.evaluate(values));
      return compute(arguments);
    };
  };
  static const auto* const functions = new std::map<std::string, BuiltIn>{
      {"choose", choose},
      {"default", default_of},
      {"without", without},
      {"index_of", index_of},
      {"sized", sized},
      {"below", below},
      {"needed", needed},
      {"filled", filled},
      {"divisor", divisor},
      {"scale", scale},
      {"halves", halves},
      {"generator", evaluated(seeded_generator)},
      {"kept", evaluated(kept)},
      {"keep_scale", evaluated([](A a) -> IValue {
         const double dropped = a.at(0).toDouble();
         return dropped < 1 ? 1 / (1 - dropped) : 0.0;
       })},
      {"to_bits", evaluated(to_bits)},
      {"from_bits", evaluated(from_bits)},
      {"promote", evaluated(promote)},
      {"widened", evaluated(widened)},
      {"equal_pads", evaluated(equal_pads)},
      {"along", evaluated(along)},
      {"grouped_matmul", evaluated(grouped_matmul)},
      {"quant_matmul", evaluated(quant_matmul)},
      {"weight_quant_matmul", evaluated(weight_quant_matmul)},
      {"trans_quant_param", evaluated(trans_quant_param)},
      {"saturated", evaluated(saturated)},
      {"nibbles", evaluated(nibbles)},
      {"attention", evaluated(attention)},
      {"dense", evaluated(dense)},
      {"indexed", evaluated(indexed)},
      {"given", evaluated([](A a) -> IValue { return !a.at(0).isNone(); })},
      {"none_if", evaluated([](A a) { return a.at(0).toInt() == a.at(1).toInt() ? IValue() : a[0]; })},
      {"dtype", evaluated([](A a) -> IValue { return int64_t(a.at(0).toTensor().scalar_type()); })},
      {"shape", evaluated([](A a) -> IValue { return a.at(0).toTensor().sizes(); })},
      {"size", evaluated([](A a) -> IValue { return a.at(0).toTensor().size(a.at(1).toInt()); })},
      {"rank", evaluated([](A a) -> IValue { return a.at(0).toTensor().dim(); })},
      {"numel", evaluated([](A a) -> IValue { return a.at(0).toTensor().numel(); })},
      {"plus", evaluated([](A a) -> IValue { return a.at(0).toInt() + a.at(1).toInt(); })},
      {"times", evaluated([](A a) -> IValue { return a.at(0).toInt() * a.at(1).toInt(); })},
      {"quotient",
       evaluated([](A a) -> IValue { return a.at(0).toInt() / std::max<int64_t>(a.at(1).toInt(), 1); })},
      {"negative", evaluated([](A a) -> IValue { return -a.at(0).toScalar(); })},
      {"positive", evaluated([](A a) { return a.at(0).toScalar().toDouble() > 0 ? a[0] : IValue(); })},
      {"product", evaluated(product)},
      {"largest", evaluated(largest)},
      {"keeps_all",  // where no axes mean none, and there are none
       evaluated([](A a) -> IValue { return to_integer(a.at(0)) != 0 && a.at(1).toIntVector().empty(); })},
      {"axes", evaluated([](A a) {
         return a.at(0).toIntVector().empty() ? IValue(last_axes(a.at(1).toTensor().dim())) : a[0];
       })},
      {"last", evaluated([](A a) -> IValue { return last_axes(a.at(0).toInt()); })},
      {"iota",  // 0, 1, ... on the device of a tensor
       evaluated([](A a) -> IValue {
         return at::arange(a.at(0).toInt(), a.at(1).toTensor().options().dtype(at::kLong));
       })},
      {"vector",  // the integers as a tensor on the device of another one
       evaluated([](A a) -> IValue {
         return at::tensor(a.at(0).toIntVector(), at::kLong).to(a.at(1).toTensor().device());
       })},
  };
  return *functions;
}

}  // namespace aclgrad::aten
