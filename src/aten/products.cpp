// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Matrix products of groups, and of integers that stand for real numbers.
#include <ATen/ops/arange.h>
#include <ATen/ops/atleast_2d.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "aten/built_in.h"

namespace aclgrad::aten {
namespace {

// ---- Groups ----

// Of each pair of two lists the product, with a bias if there is one.
c10::List<at::Tensor> products_of_pairs(const std::vector<at::Tensor>& x,
                                        const std::vector<at::Tensor>& weight,
                                        const std::vector<at::Tensor>& bias) {
  if (weight.size() != x.size() || (!bias.empty() && bias.size() != x.size()))
    refuse("weight", "lists of weights and biases as long as x", "others");
  c10::List<at::Tensor> products;
  for (size_t i = 0; i < x.size(); ++i) {
    const at::Tensor product = at::matmul(x[i], weight[i]);
    products.push_back(bias.empty() ? product : product.add(bias[i]));
  }
  return products;
}

std::vector<at::Tensor> tensors_of(const IValue& value) {
  return value.isNone() ? std::vector<at::Tensor>() : value.toTensorVector();
}

// One tensor for all groups, or one for each, as the latter.
std::vector<at::Tensor> of_groups(const std::vector<at::Tensor>& tensors) {
  return tensors.size() == 1 && tensors[0].dim() > 1 ? tensors[0].unbind() : tensors;
}

// The rows of x in groups, each with a weight of its own. Rows behind the last group give zeros.
at::Tensor product_of_groups(const at::Tensor& x, const std::vector<at::Tensor>& weight,
                             const std::vector<at::Tensor>& bias, const at::Tensor& group_list,
                             bool are_counts) {
  const auto groups = static_cast<int64_t>(weight.size());
  if (groups == 0 || group_list.numel() != groups || (!bias.empty() && bias.size() != weight.size()))
    refuse("groupListOptional", "an entry for each weight, and a bias for each or none", "others");
  at::Tensor product = at::zeros({x.size(0), weight[0].size(-1)}, x.options());
  if (x.is_meta()) return product;
  const at::Tensor entries = group_list.to(at::kLong).contiguous();
  int64_t start = 0;
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t entry = entries.const_data_ptr<int64_t>()[group];
    const int64_t end = std::clamp(are_counts ? start + entry : entry, start, x.size(0));
    at::Tensor rows = product.slice(0, start, end);
    rows.copy_(at::matmul(x.slice(0, start, end), weight[static_cast<size_t>(group)]));
    if (!bias.empty()) rows.add_(bias[static_cast<size_t>(group)]);
    start = end;
  }
  return product;
}

// ---- Numbers of few bits ----

std::string text_of(const at::Tensor& tensor) {
  return c10::toString(tensor.scalar_type());
}

// A scale as real numbers: trans_quant_param() may have put it into the lower half of 64 bits.
at::Tensor real_scale(const at::Tensor& scale) {
  const bool is_packed = scale.scalar_type() == at::kLong || scale.scalar_type() == at::kUInt64;
  if (!is_packed) return scale.to(at::kDouble);
  return scale.contiguous().view(at::kFloat).slice(-1, 0, std::nullopt, 2).to(at::kDouble);
}

// A row for each of so many rows: there may be one for all of them, or one for each group of rows.
at::Tensor of_each_row(const IValue& values, const char* parameter, int64_t rows, int64_t group) {
  const at::Tensor given = at::atleast_2d(values.toTensor()).to(at::kFloat);
  if (given.size(0) == 1) return given;
  const int64_t groups = group > 0 ? (rows + group - 1) / group : 1;
  if (given.size(0) != groups)
    refuse(parameter, std::to_string(groups) + " rows", std::to_string(given.size(0)));
  return given.repeat_interleave(group, 0).slice(0, 0, rows);
}

}  // namespace

// x, weight, bias, group list, group type, whether the group list holds counts.
IValue grouped_matmul(const Arguments& arguments) {
  const auto x = tensors_of(arguments.at(0));
  const auto weight = tensors_of(arguments.at(1));
  const auto bias = tensors_of(arguments.at(2));
  if (arguments.at(3).isNone()) return products_of_pairs(x, weight, bias);
  if (x.size() != 1 || arguments.at(4).toInt() != 0)
    refuse("groupType", "0 and one tensor x with a group list", "something else");
  const IValue& list = arguments[3];
  const at::Tensor group_list = list.isTensor() ? list.toTensor() : at::tensor(list.toIntVector(), at::kLong);
  const at::Tensor product =
      product_of_groups(x[0], of_groups(weight), of_groups(bias), group_list, arguments.at(5).toInt() == 1);
  return c10::List<at::Tensor>({product});
}

at::Tensor signed_nibbles(const at::Tensor& nibbles) {
  return nibbles.bitwise_xor(8).to(at::kChar).sub(8);
}

// Integers of four bits for an output: eight in an element of int32, else each by itself.
IValue nibbles(const Arguments& a) {
  const at::Tensor weight = a.at(0).toTensor();
  if (a.at(1).toTensor().scalar_type() != at::kInt) return weight;
  const at::Tensor shifts = at::arange(0, 32, 4, weight.options().dtype(at::kLong));
  const at::Tensor eights = weight.to(at::kLong).bitwise_and(15).unflatten(-1, {-1, 8});
  return eights.bitwise_left_shift(shifts).sum(at::IntArrayRef{-1}).to(at::kInt);
}

// The numbers as integers of a type, the nearest that it has.
IValue saturated(const Arguments& a) {
  const auto type = static_cast<at::ScalarType>(a.at(1).toInt());
  const at::Tensor values = a.at(0).toTensor().to(at::kDouble).nan_to_num(0);
  switch (type) {
    case at::kChar:
      return values.clamp(-128, 127).to(type);
    case at::kByte:
      return values.clamp(0, 255).to(type);
    case at::kInt:
      return values.clamp(INT32_MIN, INT32_MAX).to(type);
    default:
      refuse("dstType", "int8, uint8 or int32", c10::toString(type));
  }
}

// scale, offset: the first 19 bits of a float, a mark, and 9 bits of the offset, as the vendor's document has it.
IValue trans_quant_param(const Arguments& a) {
  constexpr int64_t kScale = 0xFFFFE000;
  constexpr int64_t kMark = int64_t{1} << 46;
  const at::Tensor bits = a.at(0).toTensor().to(at::kFloat).contiguous().view(at::kInt).to(at::kLong);
  const at::Tensor scale = bits.bitwise_and(kScale).bitwise_or(kMark);
  if (a.at(1).isNone()) return scale;
  const at::Tensor offset = a[1].toTensor().to(at::kFloat).round().clamp(-256, 255).to(at::kLong);
  return scale.bitwise_or(offset.bitwise_and(0x1FF).bitwise_left_shift(37));
}

// x1, x2, scale, offset, scale of each row, bias, transposed x1, transposed x2, output: exact products of integers, scaled.
IValue quant_matmul(const Arguments& a) {
  const auto matrix = [&](size_t index, const char* parameter) {
    const at::Tensor x = a.at(index).toTensor();
    if (x.scalar_type() != at::kChar) refuse(parameter, "int8 or int4", text_of(x));
    return (to_integer(a.at(index + 6)) != 0 ? x.transpose(-1, -2) : x).to(at::kDouble);
  };
  const IValue type = int64_t(a.at(8).toTensor().scalar_type());
  const at::Tensor bias = a.at(5).isNone() ? at::Tensor() : a[5].toTensor();
  const bool adds_before = bias.defined() && bias.scalar_type() == at::kInt;
  at::Tensor product = at::matmul(matrix(0, "x1"), matrix(1, "x2"));
  if (adds_before) product = product.add(bias);
  if (type.toInt() == int64_t(at::kInt)) return saturated({product, type});
  product = product.mul(real_scale(a.at(2).toTensor()));
  if (!a.at(4).isNone()) product = product.mul(a[4].toTensor().to(at::kDouble).unsqueeze(-1));
  if (bias.defined() && !adds_before) product = product.add(bias);
  if (!a.at(3).isNone()) product = product.add(a[3].toTensor());
  if (type.toInt() == int64_t(at::kChar)) return saturated({product.round(), type});
  return product;
}

// x, weight, scale, offset, bias, rows of a group: the product with a weight whose elements stand for
// (element + offset) * scale.
IValue weight_quant_matmul(const Arguments& a) {
  const at::Tensor x = a.at(0).toTensor();
  at::Tensor weight = a.at(1).toTensor();
  if (weight.scalar_type() == at::kInt) weight = signed_nibbles(fields(weight, 4)).flatten(-2);
  if (weight.scalar_type() != at::kChar) refuse("weight", "int8 or int4", text_of(weight));
  if (!x.is_floating_point()) refuse("x", "float16 or bfloat16", text_of(x));
  const int64_t rows = weight.size(-2);
  const int64_t group = a.at(5).toInt();
  weight = weight.to(at::kFloat);
  if (!a.at(3).isNone()) weight = weight.add(of_each_row(a[3], "antiquantOffsetOptional", rows, group));
  weight = weight.mul(of_each_row(a.at(2), "antiquantScale", rows, group));
  const at::Tensor product = at::matmul(x.to(at::kFloat), weight);
  return a.at(4).isNone() ? product : product.add(a[4].toTensor());
}

}  // namespace aclgrad::aten
