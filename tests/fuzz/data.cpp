// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Valid calls of every operator and of every function of the C++ interface, with any contents of device memory:
// coordinates, grids, level shapes, indices and values from raw bytes. Nothing may leave its tensor, results must not
// depend on strides, and where the values are small whole numbers they must be those of the reference.
#include "data.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

#include "support/function.h"

namespace aclgrad::test {
namespace {

// By number; a number without a target is one more of the cases that every operator describes.
constexpr size_t kNumbers = 16;

using Target = void (*)(Bytes&);

Target (&targets())[kNumbers] {
  static Target targets[kNumbers] = {};
  return targets;
}

double any_float(Bytes& bytes) {
  return static_cast<double>(std::bit_cast<float>(bytes.ConsumeIntegral<uint32_t>()));
}

double draw_value(Bytes& bytes, Contents contents) {
  return contents == Contents::any_bits ? any_float(bytes) : bytes.ConsumeIntegralInRange(-4, 4);
}

// Both phases in a stream of their own, with a workspace of exactly the size that phase 1 asks for. What the operator
// answers when it runs.
aclError run_exactly(const Operator& of, const Arguments& arguments) {
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  require(of.phase1(arguments.c(), &size, &executor) == OK, "phase 1 takes valid arguments");
  const std::unique_ptr<void, decltype(&std::free)> workspace(size > 0 ? std::malloc(size) : nullptr,
                                                              &std::free);
  aclrtStream stream = nullptr;
  require(aclrtCreateStream(&stream) == ACL_SUCCESS, "a stream can be made");
  require(of.phase2(workspace.get(), size, executor, stream) == OK, "phase 2 takes valid arguments");
  const aclError status = aclrtSynchronizeStream(stream);
  require(aclrtDestroyStream(stream) == ACL_SUCCESS, "a stream can be destroyed");
  aclGetRecentErrMsg();
  return status;
}

bool same(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

bool all_same(const Values& a, const Values& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

template <class T>
const T& one_of(Bytes& bytes, const std::vector<T>& all) {
  return all[bytes.ConsumeIntegralInRange<size_t>(0, all.size() - 1)];
}

// Of the cases that an operator or a function describes, every `step`th. What they must give is not kept.
template <class Described>
const std::vector<std::vector<Value>>& arguments_of(const Described& of, DataType type, size_t step) {
  static std::map<std::pair<const Described*, DataType>, std::vector<std::vector<Value>>> all;
  const auto [at, is_new] = all.try_emplace({&of, type});
  if (is_new) {
    std::vector<Case> cases = of.cases(type);
    for (size_t i = 0; i < cases.size(); i += step) at->second.push_back(std::move(cases[i].arguments));
  }
  return at->second;
}

// Of one input, which may be no tensor.
void draw_other_values(Bytes& bytes, Contents contents, Value& argument) {
  auto* tensor = std::get_if<TensorValue>(&argument);
  if (tensor == nullptr || bytes.ConsumeBool()) return;
  const bool is_index = tensor->type == DataType::int32 || tensor->type == DataType::int64;
  tensor->values = is_index ? draw_indices(bytes, tensor->shape, 100).values
                            : rounded(draw_values(bytes, tensor->shape, contents), tensor->type);
  if (tensor->type == DataType::int32) {
    for (double& value : tensor->values) value = static_cast<int32_t>(static_cast<int64_t>(value));
  }
}

// A case that an operator describes, with other contents.
void fuzz_described(Bytes& bytes) {
  const Operator& of = one_of(bytes, operators());
  std::vector<Value> arguments = one_of(bytes, arguments_of(of, one_of(bytes, of.types), 1));
  const Contents contents = draw_contents(bytes);
  const Layout layout = draw_layout(bytes);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (of.parameters[i].role != Role::output) draw_other_values(bytes, contents, arguments[i]);
  }
  run_in_layouts(of, arguments, layout, Data::any);
}

// Whether the function takes what lies in memory.
bool runs(const FunctionCall& call) {
  try {
    call.run();
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

// The same of a function of the C++ interface.
void fuzz_function(Bytes& bytes) {
  const Function& of = one_of(bytes, functions());
  // All of them would not fit into libFuzzer's memory.
  constexpr size_t kStep = 7;
  std::vector<Value> arguments = one_of(bytes, arguments_of(of, one_of(bytes, of.types), kStep));
  const Contents contents = draw_contents(bytes);
  const Layout layout = draw_layout(bytes);
  for (size_t i = 0; i < of.fields.size(); ++i) {
    if (!is_output(of.fields[i].role)) draw_other_values(bytes, contents, arguments[i]);
  }
  const FunctionCall contiguous(of, arguments), other(of, arguments, layout);
  const bool is_taken = runs(contiguous);
  require(runs(other) == is_taken, of.name + " refuses data whatever the strides");
  require(contiguous.holes_untouched() && other.holes_untouched(), of.name + " leaves holes alone");
  if (!is_taken) return;
  for (size_t output : of.outputs()) {
    if (contiguous.tensor(output) == nullptr) continue;
    require(all_same(contiguous.tensor(output)->values(), other.tensor(output)->values()),
            of.name + ": strides do not matter");
  }
}

const FuzzTarget kFunctions(15, fuzz_function);

}  // namespace

void require(bool holds, std::string_view what) {
  if (holds) return;
  const char* message = aclGetRecentErrMsg();
  std::fprintf(stderr, "does not hold: %s\n%s\n", std::string(what).c_str(),
               message != nullptr ? message : "");
  std::abort();
}

Contents draw_contents(Bytes& bytes) {
  return bytes.PickValueInArray({Contents::whole_numbers, Contents::any_bits});
}

Layout draw_layout(Bytes& bytes) {
  return bytes.ConsumeBool() ? Layout::gapped : Layout::transposed;
}

Values draw_values(Bytes& bytes, const Shape& shape, Contents contents) {
  Values values(static_cast<size_t>(element_count(shape)));
  // The bytes may not last, so that what they give is repeated.
  const size_t drawn = std::min<size_t>(values.size(), 64);
  for (size_t i = 0; i < drawn; ++i) values[i] = draw_value(bytes, contents);
  for (size_t i = drawn; i < values.size(); ++i) values[i] = values[(i * 7) % drawn];
  return values;
}

Values draw_coordinates(Bytes& bytes, const Shape& shape) {
  Values values(static_cast<size_t>(element_count(shape)));
  for (double& value : values) {
    value = bytes.ConsumeBool() ? bytes.ConsumeIntegralInRange(-80, 80) / 64.0 : any_float(bytes);
  }
  return values;
}

int64_t draw_index(Bytes& bytes, int64_t usual_last) {
  return bytes.ConsumeProbability<float>() < 0.7f ? bytes.ConsumeIntegralInRange<int64_t>(-1, usual_last)
                                                  : bytes.ConsumeIntegral<int64_t>();
}

TensorValue draw_indices(Bytes& bytes, const Shape& shape, int64_t usual_last) {
  const DataType type = bytes.ConsumeBool() ? DataType::int64 : DataType::int32;
  std::vector<int64_t> drawn(static_cast<size_t>(element_count(shape)));
  for (int64_t& index : drawn) {
    index = draw_index(bytes, usual_last);
    if (type == DataType::int32) index = static_cast<int32_t>(index);
  }
  return {shape, type, to_values(drawn)};
}

Values to_values(const std::vector<int64_t>& integers) {
  Values values;
  // The largest doubles below 2^63 are 1024 apart.
  for (int64_t integer : integers) values.push_back(std::min(static_cast<double>(integer), 0x1p63 - 1024));
  return values;
}

std::vector<Values> run_in_layouts(const Operator& of, const std::vector<Value>& arguments, Layout layout,
                                   Data data) {
  const std::string name(of.name);
  std::vector<Values> results[2];
  aclError status[2];
  for (int i : {0, 1}) {
    const Arguments made(arguments, i == 0 ? Layout::contiguous : layout);
    status[i] = run_exactly(of, made);
    require(status[i] == ACL_SUCCESS || data == Data::any, name + " succeeds");
    for (size_t output : of.outputs()) {
      require(made.tensor(output)->holes_untouched(), name + " leaves holes alone");
      results[i].push_back(made.tensor(output)->values());
    }
  }
  require(status[0] == status[1], name + " refuses data whatever the strides");
  if (status[0] != ACL_SUCCESS) return {};
  require(std::equal(results[0].begin(), results[0].end(), results[1].begin(), all_same),
          name + ": strides do not matter");
  return results[0];
}

std::vector<Values> run_in_layouts(std::string_view name, const std::vector<Value>& arguments, Layout layout,
                                   Data data) {
  return run_in_layouts(operator_named(name), arguments, layout, data);
}

void require_exact(const Values& actual, const Values& expected, DataType type, std::string_view what) {
  require(actual == rounded(expected, type), what);  // 0 == -0
}

void require_close(const Values& actual, const Values& expected, double allowed, std::string_view what) {
  for (size_t i = 0; i < actual.size(); ++i) require(std::fabs(actual[i] - expected[i]) <= allowed, what);
}

FuzzTarget::FuzzTarget(size_t number, void (*fuzz)(Bytes&)) {
  require(number < kNumbers && targets()[number] == nullptr, "a number is given once");
  targets()[number] = fuzz;
}

}  // namespace aclgrad::test

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  return aclInit(nullptr) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS ? 0 : 1;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace aclgrad::test;
  Bytes bytes(data, size);
  const Target target = targets()[bytes.ConsumeIntegral<uint8_t>() % kNumbers];
  target != nullptr ? target(bytes) : fuzz_described(bytes);
  return 0;
}
