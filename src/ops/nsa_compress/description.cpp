// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// NSA compress and its gradient as the tests see them.
#include <algorithm>
#include <limits>
#include <utility>

#include "aclgrad/nsa_compress.h"
#include "aclnnop/aclnn_nsa_compress.h"
#include "aclnnop/aclnn_nsa_compress_grad.h"
#include "ops/nsa_compress/cases.h"
#include "support/function.h"

namespace aclgrad::test {
namespace {

using namespace nsa_compress_cases;

// The last one but one has the ends of the sequences on the device, the last one is the gradient of the gradient.
enum class Kind { forward, grad, grad_with_tensor, second };

std::string title_of(const NsaSizes& sizes) {
  std::string ends;
  for (int64_t end : sizes.sequence_ends) ends += " " + std::to_string(end);
  return text({sizes.heads, sizes.channels, sizes.block, sizes.stride}) + " ends" + ends;
}

Value ends_of(const std::vector<int64_t>& ends, bool as_tensor) {
  if (!as_tensor) return ends;
  return TensorValue{
      {static_cast<int64_t>(ends.size())}, DataType::int64, std::vector<double>(ends.begin(), ends.end())};
}

// As the C++ interface has them.
template <Kind kind>
std::vector<Value> problem_of(const NsaSizes& sizes, DataType type, const Values& values) {
  const TensorValue input{{tokens_of(sizes), sizes.heads, sizes.channels}, type, values.input};
  const TensorValue weight{{sizes.block, sizes.heads}, type, values.weight};
  const Shape rows{windows_of(sizes), sizes.heads, sizes.channels};
  std::vector<Value> result = {input, weight, ends_of(sizes.sequence_ends, true)};
  if (kind != Kind::forward) result.push_back(TensorValue{rows, type, values.output_grad});
  if (kind == Kind::second) {
    result.push_back(TensorValue{input.shape, type, values.input_grad_grad});
    result.push_back(TensorValue{weight.shape, type, values.weight_grad_grad});
  }
  if (kind == Kind::forward || kind == Kind::second) result.push_back(TensorValue{rows, type});
  if (kind != Kind::forward)
    result.insert(result.end(), {TensorValue{input.shape, type}, TensorValue{weight.shape, type}});
  result.push_back(sizes.stride);
  return result;
}

// As the C interface has them.
template <Kind kind>
std::vector<Value> arguments_of(const NsaSizes& sizes, DataType type, const Values& values) {
  const std::vector<Value> problem = problem_of<kind>(sizes, type, values);
  const Value ends = ends_of(sizes.sequence_ends, kind == Kind::grad_with_tensor);
  const std::string layout = "TND";
  constexpr int64_t kEndsType = 0;
  if (kind == Kind::forward)
    return {problem[0], problem[1], ends, layout, sizes.block, sizes.stride, kEndsType, problem[3]};
  return {problem[3],   problem[0], problem[1], ends,       sizes.block,
          sizes.stride, kEndsType,  layout,     problem[4], problem[5]};
}

// What the references read of a call: two of its tensors, ends as an array, a tensor or not at all, and the stride.
struct Compression {
  const TensorValue &input, &weight;
  NsaSizes sizes;
  double allowed;

  Compression(const Value& of_input, const Value& of_weight, const Value& ends, const Value& stride)
      : input(std::get<TensorValue>(of_input)),
        weight(std::get<TensorValue>(of_weight)),
        sizes{input.shape[1], input.shape[2], weight.shape[0], std::get<int64_t>(stride), {}},
        allowed(tolerance(input.type, false)) {
    if (const auto* array = std::get_if<std::vector<int64_t>>(&ends)) sizes.sequence_ends = *array;
    if (const auto* tensor = std::get_if<TensorValue>(&ends))
      sizes.sequence_ends = integers_of(tensor->values);
    if (sizes.sequence_ends.empty()) sizes.sequence_ends = {input.shape[0]};
  }

  Outputs forward() const {
    return {Expected{reference::nsa_compress(sizes, input.values, weight.values), allowed}};
  }
  Outputs backward(const Value& output_grad) const {
    auto gradients = reference::nsa_compress_grad(sizes, std::get<TensorValue>(output_grad).values,
                                                  input.values, weight.values);
    return {Expected{std::move(gradients.input), allowed}, Expected{std::move(gradients.weight), allowed}};
  }
};

template <Kind kind>
Outputs outputs_of(const std::vector<Value>& arguments, bool) {
  if (kind == Kind::forward)
    return Compression(arguments[0], arguments[1], arguments[2], arguments[5]).forward();
  return Compression(arguments[1], arguments[2], arguments[3], arguments[5]).backward(arguments[0]);
}

template <Kind kind>
Case case_of(const NsaSizes& sizes, DataType type) {
  return {title_of(sizes), arguments_of<kind>(sizes, type, Values(sizes, type))};
}

template <Kind kind>
std::vector<Case> cases(DataType type) {
  std::vector<Case> result;
  for (const NsaSizes& sizes : kDocumentedSizes) result.push_back(case_of<kind>(sizes, type));
  result.push_back(case_of<kind>({2, 16, 32, 16, {0, 0, 100, 100}}, type));
  if (kind != Kind::forward) {
    // Without ends there is one sequence; without a layout it is TND.
    for (const Value& none : {Value(Null{}), ends_of({}, kind == Kind::grad_with_tensor)}) {
      result.push_back(case_of<kind>({2, 16, 32, 16, {100}}, type));
      result.back().title += ", no ends and no layout";
      result.back().arguments[3] = none;
      result.back().arguments[7] = Null{};
    }
  }
  return result;
}

template <Kind kind>
std::vector<Case> parallel_cases(DataType type) {
  std::vector<Case> result;
  for (const NsaSizes& sizes :
       {NsaSizes{4, 128, 32, 16, {300, 320, 3000}}, {40, 64, 32, 16, {272}}, {1, 192, 64, 16, {4000}}}) {
    result.push_back(case_of<kind>(sizes, type));
  }
  return result;
}

// NaN and infinity stay with the tokens that they concern: in the tail of a sequence and in one without windows, where
// nobody reads them, and in a gradient and a weight.
std::vector<Case> hard_cases_of(DataType type, auto arguments) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const NsaSizes sizes{1, 16, 16, 16, {40, 50}};  // windows [0, 16) and [16, 32)
  Values values(sizes, type);
  std::fill_n(values.input.begin() + 32 * 16, 8 * 16, kNan);
  std::fill_n(values.input.begin() + 40 * 16, 10 * 16, kInfinity);
  std::vector<Case> result = {{"where nobody reads", arguments(sizes, type, values)}};
  std::fill_n(values.output_grad.begin() + 16, 16, kNan);
  values.weight[3] = kInfinity;
  result.push_back({"in a gradient and a weight", arguments(sizes, type, values)});
  return result;
}

template <Kind kind>
std::vector<Case> hard_cases(DataType type) {
  std::vector<Case> result = hard_cases_of(type, arguments_of<kind>);
  if (kind == Kind::forward) result.push_back(case_of<kind>({2, 16, 32, 16, {31, 62}}, type));  // no windows
  return result;
}

// Where the arguments of the two functions stand.
struct Positions {
  size_t input, weight, ends, layout, block, stride, ends_type, output;
};
constexpr Positions kForward{0, 1, 2, 3, 4, 5, 6, 7};
constexpr Positions kGrad{1, 2, 3, 7, 4, 5, 6, 0};

template <Kind kind>
std::vector<Mistake> mistakes() {
  constexpr bool is_forward = kind == Kind::forward;
  constexpr Positions at = is_forward ? kForward : kGrad;
  constexpr DataType kHalf = DataType::float16;
  const NsaSizes sizes{2, 16, 32, 16, {100}};
  const auto arguments = [](const NsaSizes& of, DataType type) {
    return arguments_of<kind>(of, type, Values(of, type));
  };
  std::vector<Mistake> result;
  const auto add = [&](std::string title, std::string parameter, std::vector<Value> wrong) {
    result.push_back({std::move(title), std::move(wrong), 161002, std::move(parameter)});
  };
  const auto change = [&](std::string title, std::string parameter, size_t index, Value value) {
    std::vector<Value> wrong = arguments(sizes, kHalf);
    wrong.at(index) = std::move(value);
    add(std::move(title), std::move(parameter), std::move(wrong));
  };
  const auto half = [](Shape shape) { return TensorValue{std::move(shape), kHalf}; };
  const char* const output = is_forward ? "output" : "outputGrad";

  add("float", "input", arguments(sizes, DataType::float32));
  change("no tokens", "input", at.input, half({0, 2, 16}));
  change("no windows in output", output, at.output, half({0, 2, 16}));
  change("an empty weight", "weight", at.weight, half({0, 2}));
  for (int64_t stride : {0, -16, 8, 48})
    change("stride " + std::to_string(stride), "compressStride", at.stride, stride);
  for (int64_t block : {0, -32}) change("block " + std::to_string(block), "", at.block, block);
  add("block 24", "compressBlockSize", arguments({2, 16, 24, 8, {100}}, kHalf));
  add("24 channels", "", arguments({2, 24, 32, 16, {100}}, kHalf));
  change("layout BSND", "layoutOptional", at.layout, std::string("BSND"));
  change("an empty layout", "layoutOptional", at.layout, std::string());
  change("type 1 of the ends", "actSeqLenType", at.ends_type, int64_t{1});
  if (kind == Kind::grad_with_tensor) {
    change("ends of another type", "actSeqLenOptional", at.ends, TensorValue{{1}, DataType::int32, {100}});
    change("ends of rank 2", "actSeqLenOptional", at.ends, TensorValue{{1, 1}, DataType::int64, {100}});
  } else {
    for (const std::vector<int64_t>& ends :
         {std::vector<int64_t>{-1, 100}, {60, 50, 100}, {101}, {99}, {100, 101}, {40, 100, 100, 99}}) {
      change("ends that do not fit", "actSeqLenOptional", at.ends, ends);
    }
    change("another number of windows", output, at.ends, std::vector<int64_t>{50, 100});
  }
  if (is_forward) {
    change("no ends", "actSeqLenOptional", at.ends, Null{});
    change("ends of size 0", "actSeqLenOptional", at.ends, std::vector<int64_t>{});
    change("no layout", "layoutOptional", at.layout, Null{});
  } else {
    add("sequences without windows", output, arguments({2, 16, 32, 16, {31, 62}}, kHalf));
    add("the windows of two sequences, and no ends", output, arguments({2, 16, 32, 16, {50, 100}}, kHalf));
    result.back().arguments[at.ends] = Null{};
  }
  return result;
}

const std::vector<Parameter> kGradParameters = {{"outputGrad", Role::input, {0}},
                                                {"input", Role::input},
                                                {"weight", Role::input},
                                                {"actSeqLenOptional", Role::optional_input, {0}},
                                                {"compressBlockSize", Role::attribute},
                                                {"compressStride", Role::attribute},
                                                {"actSeqLenType", Role::attribute},
                                                {"layoutOptional", Role::attribute},
                                                {"inputGradOut", Role::output},
                                                {"weightGradOut", Role::output}};

template <Kind kind>
Operator operator_of(const char* name, const char* said_name, const std::vector<Parameter>& parameters,
                     auto phase1, Phase2 phase2) {
  return {.name = name,
          .said_name = said_name,
          .parameters = parameters,
          .types = {DataType::float16, DataType::bfloat16},
          .phase1 = phase1,
          .phase2 = phase2,
          .expected = outputs_of<kind>,
          .cases = cases<kind>,
          .parallel_cases = parallel_cases<kind>,
          .hard_cases = hard_cases<kind>,
          .mistakes = mistakes<kind>};
}

const Registration kCompress(
    operator_of<Kind::forward>("aclnnNsaCompress", "aclnnNsaCompress",
                               {{"input", Role::input},
                                {"weight", Role::input},
                                {"actSeqLenOptional", Role::attribute},
                                {"layoutOptional", Role::attribute},
                                {"compressBlockSize", Role::attribute},
                                {"compressStride", Role::attribute},
                                {"actSeqLenType", Role::attribute},
                                {"output", Role::output}},
                               phase1_of<aclnnNsaCompressGetWorkspaceSize, const aclTensor*, const aclTensor*,
                                         const aclIntArray*, char*, int64_t, int64_t, int64_t, aclTensor*>,
                               aclnnNsaCompress));

const Registration kCompressGrad(operator_of<Kind::grad>(
    "aclnnNsaCompressGrad", "aclnnNsaCompressGrad", kGradParameters,
    phase1_of<aclnnNsaCompressGradGetWorkspaceSize, const aclTensor*, const aclTensor*, const aclTensor*,
              const aclIntArray*, int64_t, int64_t, int64_t, char*, const aclTensor*, const aclTensor*>,
    aclnnNsaCompressGrad));

const Registration kCompressGradTensor(operator_of<Kind::grad_with_tensor>(
    "aclnnNsaCompressGradTensor", "aclnnNsaCompressGrad", kGradParameters,
    phase1_of<aclnnNsaCompressGradTensorGetWorkspaceSize, const aclTensor*, const aclTensor*,
              const aclTensor*, const aclTensor*, int64_t, int64_t, int64_t, char*, const aclTensor*,
              const aclTensor*>,
    aclnnNsaCompressGrad));

// ---- The C++ interface

template <Kind kind>
Outputs function_outputs(const std::vector<Value>& arguments, bool) {
  const Compression of(arguments[0], arguments[1], arguments[2], arguments.back());
  if (kind == Kind::forward) return of.forward();
  if (kind != Kind::second) return of.backward(arguments[3]);
  const auto values_or_zeros = [](const Value& tangent, const TensorValue& like) {
    const auto* tensor = std::get_if<TensorValue>(&tangent);
    return tensor != nullptr ? tensor->values : std::vector<double>(like.values.size());
  };
  auto gradients = reference::nsa_compress_double_backward(
      of.sizes, std::get<TensorValue>(arguments[3]).values, of.input.values, of.weight.values,
      values_or_zeros(arguments[4], of.input), values_or_zeros(arguments[5], of.weight));
  return {Expected{std::move(gradients.output_grad), of.allowed},
          Expected{std::move(gradients.input), of.allowed},
          Expected{std::move(gradients.weight), of.allowed}};
}

template <Kind kind>
Case function_case(const NsaSizes& sizes, DataType type) {
  return {title_of(sizes), problem_of<kind>(sizes, type, Values(sizes, type))};
}

template <Kind kind>
std::vector<Case> function_cases(DataType type) {
  std::vector<NsaSizes> all(std::begin(kAnySizes), std::end(kAnySizes));
  all.insert(all.end(), std::begin(kDocumentedSizes), std::end(kDocumentedSizes));
  // Without tokens, windows, heads or channels.
  all.insert(all.end(), {{2, 16, 4, 2, {0}}, {2, 16, 4, 2, {3}}, {0, 16, 4, 2, {9}}, {2, 0, 4, 2, {9}}});
  std::vector<Case> result;
  result.reserve(all.size() + 1);
  for (const NsaSizes& sizes : all) result.push_back(function_case<kind>(sizes, type));
  Case without_ends = function_case<kind>({3, 20, 8, 4, {40}}, type);
  without_ends.title = "without ends";
  without_ends.arguments[2] = Null{};
  result.push_back(std::move(without_ends));
  // Of what the second gradient multiplies with, either may be left out.
  for (size_t tangent : {4u, 5u}) {
    if (kind != Kind::second) break;
    result.push_back(function_case<kind>({3, 20, 8, 4, {17, 40}}, type));
    result.back().arguments[tangent] = Null{};
  }
  return result;
}

// The last of a few windows that lie far apart.
template <Kind kind>
std::vector<LargeCase> large_cases() {
  constexpr bool is_forward = kind == Kind::forward;
  constexpr DataType kType = DataType::bfloat16;
  constexpr int64_t kStride = int64_t{1} << (is_forward ? 30 : 26), kWindows = is_forward ? 4 : 3,
                    kBlock = 32;
  constexpr int64_t kTokens = (kWindows - 1) * kStride + kBlock, kHeads = is_forward ? 2 : 1;
  static_assert(kTokens * kHeads * 16 > int64_t{1} << 31);
  const NsaSizes one_window{kHeads, 16, kBlock, kStride, {kBlock}};
  const std::vector<Value> small = problem_of<kind>(one_window, kType, Values(one_window, kType));
  std::vector<Value> large = small;
  const auto make_longer = [&](size_t field, int64_t rows) {
    large[field] = TensorValue{{rows, kHeads, 16}, kType};
  };
  make_longer(0, kTokens);
  large[2] = ends_of({kTokens}, true);
  make_longer(3, kWindows);
  const LargeCase::Part tokens{{kTokens - kBlock, 0, 0}}, window{{kWindows - 1, 0, 0}};
  if (is_forward) return {{"tokens", large, small, {tokens, {}, {}, window}}};
  make_longer(4, kTokens);
  return {{"tokens", large, small, {tokens, {}, {}, window, tokens, {}}, int64_t{6} << 30}};
}

template <Kind kind, class P>
FunctionOf<P> function_of(const char* name, auto run, auto run_on_gpu) {
  static constexpr int64_t falling_ends[] = {INT64_MAX, 0};
  FunctionOf<P> of{.name = name,
                   .workspace_size = workspace_size,
                   .run = run,
                   .run_on_gpu = run_on_gpu,
                   .fields = {{"input", Role::input, &P::input, 1, {0}},
                              {"weight", Role::input, &P::weight, kContiguous, {0}},
                              {"sequence_ends", Role::optional_input, &P::sequence_ends, kContiguous, {0}}},
                   .attributes = {{"stride", [](P& p, int64_t v) { p.stride = v; }}},
                   .types = {std::begin(kFloatTypes), std::end(kFloatTypes)},
                   .expected = function_outputs<kind>,
                   .cases = function_cases<kind>,
                   .hard_cases = [](DataType type) { return hard_cases_of(type, problem_of<kind>); },
                   .mistakes = {{"input: expected data type", [](P& p) { p.input.type = DataType::float64; }},
                                {"input: expected at most",
                                 [](P& p) { p.input.shape[0] = p.input.shape[2] = int64_t{1} << 40; }},
                                {"weight.shape[0]", [](P& p) { p.weight.shape[0] = 0; }},
                                {"stride", [](P& p) { p.stride = 0; }},
                                {"sequence_ends",
                                 [](P& p) {
                                   p.sequence_ends = {falling_ends, {2}};
                                 },
                                 true}}};
  if constexpr (kind == Kind::forward) {
    of.fields.push_back({"output", Role::output, &P::output, 1});
    of.mistakes.push_back({"output: expected at most", [](P& p) { p.output.shape[0] = int64_t{1} << 60; }});
  } else {
    of.fields.push_back({"grad_output", Role::input, &P::grad_output, 1});
    if constexpr (kind == Kind::second)
      of.fields.insert(of.fields.end(),
                       {{"grad_grad_input", Role::optional_input, &P::grad_grad_input, 1},
                        {"grad_grad_weight", Role::optional_input, &P::grad_grad_weight, kContiguous},
                        {"grad_grad_output", Role::optional_output, &P::grad_grad_output, 1}});
    of.fields.push_back({"grad_input", Role::optional_output, &P::grad_input, 1});
    of.fields.push_back({"grad_weight", Role::optional_output, &P::grad_weight, kContiguous});
  }
  if constexpr (kind != Kind::second) {
    of.workspace_size_on_gpu = cuda::workspace_size;
    of.large_cases = large_cases<kind>;
  }
  return of;
}

const FunctionRegistration kFunction(function_of<Kind::forward, aclgrad::NsaCompress>("nsa_compress",
                                                                                      aclgrad::nsa_compress,
                                                                                      cuda::nsa_compress));
const FunctionRegistration kBackwardFunction(function_of<Kind::grad, NsaCompressBackward>(
    "nsa_compress_backward", nsa_compress_backward, cuda::nsa_compress_backward));
const FunctionRegistration kDoubleBackwardFunction(function_of<Kind::second, NsaCompressDoubleBackward>(
    "nsa_compress_double_backward", nsa_compress_double_backward, nullptr));

// Of the results in each type; others where the cases or the mathematics are others: test_determinism says which.
const HashRegistration kHashes({
    {"aclnnNsaCompress", {0xE7A1D0AD9C172AF8, 0xAE8802BF8C97659A}},
    {"aclnnNsaCompressGrad", {0x3AF5DC3E98BC010E, 0xEF5B7709919EC8B}},
    {"aclnnNsaCompressGradTensor", {0x3AF5DC3E98BC010E, 0xEF5B7709919EC8B}},
    {"nsa_compress", {0xEB8D1FE073302EA7, 0x82ACF290458EF3BA, 0x4D044776F8A6B05D}},
    {"nsa_compress_backward", {0xACED00C8DF3EA88C, 0x97F6C9A9983B7A3D, 0x3DB900BC9672F1D4}},
    {"nsa_compress_double_backward", {0x844349B60D139E31, 0x8A511ED093F3736C, 0xB4CEAE14D54231E8}},
});

}  // namespace
}  // namespace aclgrad::test
