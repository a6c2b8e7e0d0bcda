// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Attention with all scores in memory: softmax(scale * query * key + shift, where the mask is zero) * value.
#include <ATen/ops/arange.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <limits>

#include "aten/built_in.h"

namespace aclgrad::aten {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

enum class SparseMode : int64_t { band, whole_mask, left_up_causal, right_down_causal };

// In the order of the arguments.
struct Problem {
  explicit Problem(const Arguments& a)
      : query(a.at(0).toTensor()),
        key(single(a.at(1), "key")),
        value(single(a.at(2), "value")),
        shift(optional(a.at(3))),
        mask(optional(a.at(4))),
        query_lengths(a.at(5).isNone() ? std::vector<int64_t>() : a[5].toIntVector()),
        key_lengths(a.at(6).isNone() ? std::vector<int64_t>() : a[6].toIntVector()),
        heads(a.at(7).toInt()),
        scale(a.at(8).toDouble()),
        before(a.at(9).toInt()),
        after(a.at(10).toInt()),
        layout(a.at(11).toStringRef()),
        key_heads(a.at(12).toInt() == 0 ? heads : a[12].toInt()),
        mode(static_cast<SparseMode>(a.at(13).toInt())) {}

  static at::Tensor optional(const IValue& value) { return value.isNone() ? at::Tensor() : value.toTensor(); }

  static at::Tensor single(const IValue& value, const char* parameter) {
    if (value.isTensor()) return value.toTensor();
    const auto tensors = value.toTensorVector();
    if (tensors.size() != 1) refuse(parameter, "a list of one tensor", std::to_string(tensors.size()));
    return tensors[0];
  }

  at::Tensor query, key, value;
  at::Tensor shift, mask;  // not defined where they are null
  std::vector<int64_t> query_lengths, key_lengths;
  int64_t heads;
  double scale;
  int64_t before, after;
  std::string layout;
  int64_t key_heads;
  SparseMode mode;
};

// As batches, heads, positions, channels.
at::Tensor by_heads(const at::Tensor& x, const std::string& layout, int64_t heads) {
  if (layout == "BSH") return x.unflatten(-1, {heads, -1}).transpose(1, 2);
  if (layout == "BSND") return x.transpose(1, 2);
  if (layout == "BNSD" || layout == "BNSD_BSND") return x;
  refuse("inputLayout", "BSH, BSND, BNSD or BNSD_BSND", layout);
}

at::Tensor in_layout(const at::Tensor& x, const std::string& layout) {
  if (layout == "BNSD") return x;
  return layout == "BSH" ? x.transpose(1, 2).flatten(2) : x.transpose(1, 2);
}

void check(const Problem& problem, const at::Tensor& query, const at::Tensor& key) {
  const auto shape = [](const at::Tensor& x) {
    std::ostringstream text;
    text << x.sizes();
    return text.str();
  };
  if (problem.key_heads < 1 || problem.heads % problem.key_heads != 0)
    refuse("numKeyValueHeads", "a divisor of numHeads", std::to_string(problem.key_heads));
  if (query.dim() != 4 || query.size(1) != problem.heads) refuse("query", "numHeads heads", shape(query));
  if (key.dim() != 4 || key.size(1) != problem.key_heads) refuse("key", "numKeyValueHeads heads", shape(key));
  for (const int64_t length : problem.query_lengths) {
    if (length != query.size(2)) refuse("actualSeqLengths", "all positions of query", std::to_string(length));
  }
  for (const int64_t length : problem.key_lengths) {
    if (problem.mode == SparseMode::right_down_causal && length != key.size(2))
      refuse("actualSeqLengthsKv", "all positions of key in sparse mode 3", std::to_string(length));
  }
  const auto lengths = static_cast<int64_t>(problem.key_lengths.size());
  if (lengths > 1 && lengths != query.size(0))
    refuse("actualSeqLengthsKv", "a length for each batch", std::to_string(lengths));
}

// Whether positions in the keys are masked because of where they stand; not defined where none are.
at::Tensor mask_of_positions(const Problem& problem, int64_t rows, int64_t columns) {
  const auto options = problem.query.options().dtype(at::kLong);
  switch (problem.mode) {
    case SparseMode::band:
      if (problem.mask.defined() && (problem.before < rows || problem.after < columns))
        refuse("preTokens", "with nextTokens a band that holds all positions", "a narrower one");
      return {};
    case SparseMode::whole_mask:
      return {};
    case SparseMode::left_up_causal:
    case SparseMode::right_down_causal: {
      const int64_t first = problem.mode == SparseMode::left_up_causal ? 0 : columns - rows;
      return at::arange(columns, options).gt(at::arange(first, first + rows, options).unsqueeze(-1));
    }
    default:
      refuse("sparseMode", "0 to 3", std::to_string(static_cast<int64_t>(problem.mode)));
  }
}

at::Tensor masked(const at::Tensor& scores, const at::Tensor& mask) {
  return at::where(mask, kMasked, scores);
}

// Whether keys lie behind the length of their batch: an element for each batch or one for all, and for each of the columns.
at::Tensor behind_lengths(const Problem& problem, int64_t columns) {
  const at::Tensor ends = at::tensor(problem.key_lengths, at::kLong).to(problem.query.device());
  return at::arange(columns, ends.options()).ge(ends.unsqueeze(-1));
}

at::Tensor scores_of(const Problem& problem, const at::Tensor& query, const at::Tensor& key) {
  at::Tensor scores = at::matmul(query.mul(problem.scale), key.transpose(-1, -2));
  if (problem.shift.defined()) scores = scores.add(problem.shift.to(scores.scalar_type()));
  const at::Tensor positions = mask_of_positions(problem, scores.size(2), scores.size(3));
  if (positions.defined()) {
    scores = masked(scores, positions);
  } else if (problem.mask.defined()) {
    const at::Tensor mask = problem.mask.to(at::kBool);
    scores = masked(scores, mask.dim() == 3 ? mask.unsqueeze(1) : mask);
  }
  if (!problem.key_lengths.empty())
    scores = masked(scores, behind_lengths(problem, scores.size(3)).unsqueeze(1).unsqueeze(1));
  return scores;
}

}  // namespace

// The output, and the logarithms of the sums of the exponentials of the scores.
IValue attention(const Arguments& arguments) {
  const Problem problem(arguments);
  const at::ScalarType type = problem.query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor query = by_heads(problem.query, problem.layout, problem.heads).to(type);
  const auto keys = [&](const at::Tensor& x) {
    return by_heads(x, problem.layout, problem.key_heads).to(type);
  };
  at::Tensor key = keys(problem.key);
  at::Tensor value = keys(problem.value);
  check(problem, query, key);
  if (problem.key_heads != problem.heads) {
    key = key.repeat_interleave(problem.heads / problem.key_heads, 1);
    value = value.repeat_interleave(problem.heads / problem.key_heads, 1);
  }
  if (!problem.key_lengths.empty())  // the weights there are 0, but what is not initialised may be NaN
    value = at::where(behind_lengths(problem, value.size(2)).unsqueeze(1).unsqueeze(-1), 0.0, value);
  const at::Tensor scores = scores_of(problem, query, key);
  const at::Tensor all_masked = scores.eq(kMasked).all(-1, true);
  const at::Tensor weights = at::where(all_masked, 0.0, at::softmax(scores, -1));
  const at::Tensor out = in_layout(at::matmul(weights, value), problem.layout);
  return c10::ivalue::Tuple::create({out, scores.logsumexp(-1, true)});
}

}  // namespace aclgrad::aten
