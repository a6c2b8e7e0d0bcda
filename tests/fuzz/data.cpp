// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Calls of every operator and of every function of the C++ interface, with any contents of device memory: the cases that
// each describes, with other sizes, modes and values. Nothing may leave its tensor, results must not depend on strides,
// and where the values are small numbers they must be those of the reference.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/resize.h"
#include "support/function.h"

namespace aclgrad::test {
namespace {

using Bytes = FuzzedDataProvider;
using Values = std::vector<double>;

// Ends the process, with the message of the last call, where something does not hold.
void require(bool holds, const std::string& what) {
  if (holds) return;
  const char* message = aclGetRecentErrMsg();
  std::fprintf(stderr, "does not hold: %s\n%s\n", what.c_str(), message != nullptr ? message : "");
  std::abort();
}

template <class T>
const T& one_of(Bytes& bytes, const std::vector<T>& all) {
  return all[bytes.ConsumeIntegralInRange<size_t>(0, all.size() - 1)];
}

// ---- What operators and functions differ in

std::string name_of(const Operator& of, size_t argument) {
  return of.parameters[argument].name;
}
std::string name_of(const Function& of, size_t argument) {
  return of.fields[argument].name;
}
Role role_of(const Operator& of, size_t argument) {
  return of.parameters[argument].role;
}
Role role_of(const Function& of, size_t argument) {
  return argument < of.fields.size() ? of.fields[argument].role : Role::attribute;
}

struct Results {
  bool is_taken = false;          // and so the arguments, with what lies in memory
  std::vector<Values> outputs{};  // without elements where one is left out
};

Results results_of(bool is_taken, const std::string& name, const CallTensors& call,
                   const std::vector<size_t>& outputs) {
  require(call.holes_untouched(), name + " leaves holes alone");
  Results results{is_taken};
  for (size_t i : outputs)
    results.outputs.push_back(call.tensor(i) != nullptr ? call.tensor(i)->values() : Values());
  return results;
}

// Both phases in a stream of their own, with a workspace of exactly the size that phase 1 asks for.
Results run(const Operator& of, const std::vector<Value>& values, Layout layout, bool is_right) {
  const Arguments arguments(values, layout);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  const bool is_planned = of.phase1(arguments.c(), &size, &executor) == OK;
  require(is_planned || !is_right, "phase 1 takes right arguments");
  aclGetRecentErrMsg();
  if (!is_planned) return {};
  const std::unique_ptr<void, decltype(&std::free)> workspace(size > 0 ? std::malloc(size) : nullptr,
                                                              &std::free);
  aclrtStream stream = nullptr;
  require(aclrtCreateStream(&stream) == ACL_SUCCESS, "a stream can be made");
  require(of.phase2(workspace.get(), size, executor, stream) == OK, "phase 2 takes what phase 1 has planned");
  const bool is_taken = aclrtSynchronizeStream(stream) == ACL_SUCCESS;
  require(aclrtDestroyStream(stream) == ACL_SUCCESS, "a stream can be destroyed");
  aclGetRecentErrMsg();
  return results_of(is_taken, std::string(of.name), arguments, of.outputs());
}

// What lies in memory is checked, too.
Results run(const Function& of, const std::vector<Value>& arguments, Layout layout, bool) {
  const FunctionCall call(of, arguments, layout);
  bool is_taken = true;
  try {
    call.run();
  } catch (const std::invalid_argument&) {
    is_taken = false;
  }
  return results_of(is_taken, of.name, call, of.outputs());
}

// ---- Drawing

constexpr int64_t kMaxElements = 1 << 17;  // of a call that takes little time

bool is_small(const std::vector<Value>& arguments) {
  const std::vector<int64_t> counts = element_counts_in(arguments);
  return std::accumulate(counts.begin(), counts.end(), int64_t{0}) <= kMaxElements;
}

// Of the small cases that an operator or a function describes for its first type, some thirty: all of them, and those of
// all types, would take more memory than libFuzzer allows, and long to make.
template <class Described>
const std::vector<std::vector<Value>>& arguments_of(const Described& of) {
  static std::map<const Described*, std::vector<std::vector<Value>>> all;
  const auto [at, is_new] = all.try_emplace(&of);
  if (is_new) {
    std::vector<Case> cases = of.cases(of.types.front());
    std::erase_if(cases, [](const Case& one) { return !is_small(one.arguments); });
    for (size_t i = 0; i < cases.size(); i += 1 + cases.size() / 30)
      at->second.push_back(std::move(cases[i].arguments));
  }
  return at->second;
}

template <class Described>
std::vector<Value> draw_arguments(Bytes& bytes, const Described& of, DataType type) {
  std::vector<Value> arguments = one_of(bytes, arguments_of(of));
  for (Value& argument : arguments) {
    auto* tensor = std::get_if<TensorValue>(&argument);
    if (tensor == nullptr || tensor->type != of.types.front() || tensor->type == type) continue;
    *tensor = {tensor->shape, type, rounded(std::move(tensor->values), type)};
  }
  return arguments;
}

bool is_index(const TensorValue& tensor) {
  return tensor.type == DataType::int32 || tensor.type == DataType::int64;
}

bool holds_positions(const std::string& name) {
  return name == "grid" || name == "location" || name == "sampling_locations";
}

enum class Contents { small, any };

// Most positions lie near the image.
double draw_value(Bytes& bytes, Contents contents, bool is_position) {
  const bool is_any = is_position ? bytes.ConsumeBool() : contents == Contents::any;
  if (is_any) return static_cast<double>(std::bit_cast<float>(bytes.ConsumeIntegral<uint32_t>()));
  return is_position ? bytes.ConsumeIntegralInRange(-80, 80) / 64.0 : bytes.ConsumeIntegralInRange(-4, 4);
}

double draw_index(Bytes& bytes, DataType type) {
  if (bytes.ConsumeBool()) return bytes.ConsumeIntegralInRange(-1, 40);
  const auto index = bytes.ConsumeIntegral<int64_t>();
  if (type == DataType::int32) return static_cast<int32_t>(index);
  // The largest doubles below 2^63 are 1024 apart.
  return std::min(static_cast<double>(index), 0x1p63 - 1024);
}

// What lies side by side stays so: stretched, mirrored and moved along each axis.
void move_positions(Bytes& bytes, TensorValue& positions) {
  const auto axes = static_cast<size_t>(positions.shape.back());
  std::vector<double> factors, steps;
  for (size_t axis = 0; axis < axes; ++axis) {
    factors.push_back(bytes.ConsumeIntegralInRange(-80, 80) / 64.0);
    steps.push_back(bytes.ConsumeIntegralInRange(-80, 80) / 64.0);
  }
  for (size_t i = 0; i < positions.values.size(); ++i) {
    double& value = positions.values[i];
    value = rounded(value * factors[i % axes] + steps[i % axes], positions.type);
  }
}

// Other values, or as many as the shape has elements now; or those that it has, which it tells.
bool draw_values(Bytes& bytes, Contents contents, bool are_positions, TensorValue& tensor) {
  const auto count = static_cast<size_t>(element_count(tensor.shape));
  if (tensor.values.size() == count && bytes.ConsumeBool()) {
    if (are_positions && count > 0 && bytes.ConsumeBool()) move_positions(bytes, tensor);
    return false;
  }
  // The bytes may not last, so that what they give is repeated.
  const size_t drawn = std::min<size_t>(count, 64);
  tensor.values.resize(count);
  for (size_t i = 0; i < count; ++i) {
    tensor.values[i] = i >= drawn         ? tensor.values[i * 7 % drawn]
                       : is_index(tensor) ? draw_index(bytes, tensor.type)
                                          : rounded(draw_value(bytes, contents, are_positions), tensor.type);
  }
  return true;
}

// ---- A call

bool same(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

// Sums of products of small whole numbers are exact, and rounded once.
template <class Described>
void require_reference(const Described& of, DataType type, const std::vector<Value>& arguments,
                       bool are_whole_numbers, const std::vector<Values>& outputs) {
  const double allowed = are_whole_numbers ? 0 : 64 * kAllowedInTerms;  // values are chosen to cancel
  const Outputs expected = outputs_with_terms(of.expected, arguments);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!expected[i] || outputs[i].empty()) continue;
    Values wanted = expected[i]->values;
    for (size_t k = 0; k < wanted.size(); ++k)  // which may be more than the type holds
      if (!std::isfinite(outputs[i][k])) wanted[k] = rounded(wanted[k], type);
    const Values errors = errors_in_terms(outputs[i], wanted, expected[i]->terms, type);
    require(std::all_of(errors.begin(), errors.end(), [&](double error) { return error <= allowed; }),
            std::string(of.name) + ": output " + std::to_string(i) + " is as the reference");
  }
}

template <class Described>
void fuzz_call(Bytes& bytes, const Described& of) {
  const DataType type = one_of(bytes, of.types);
  std::vector<Value> arguments = draw_arguments(bytes, of, type);
  const Contents contents = bytes.PickValueInArray({Contents::small, Contents::any});
  const Layout layout = bytes.ConsumeBool() ? Layout::gapped : Layout::transposed;
  bool is_right = type != DataType::float64;  // which not every mode has
  bool are_whole_numbers = true, are_indices_right = true;
  for (; bytes.ConsumeBool(); is_right = false)
    fuzz::resize(arguments, [&](auto first, auto last) { return bytes.ConsumeIntegralInRange(first, last); });
  if (!is_small(arguments)) return;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Role role = role_of(of, i);
    if (role == Role::optional_output && bytes.ConsumeBool()) arguments[i] = Null{};
    if (auto* mask = std::get_if<std::vector<bool>>(&arguments[i]))
      for (auto&& flag : *mask) flag = bytes.ConsumeBool();
    auto* number = std::get_if<int64_t>(&arguments[i]);
    if (number != nullptr && *number <= 2) {
      const int64_t mode = bytes.ConsumeIntegralInRange(0, 2);
      is_right = is_right && mode == *number;
      *number = mode;
    }
    auto* tensor = std::get_if<TensorValue>(&arguments[i]);
    if (tensor == nullptr || is_output(role)) continue;
    const bool are_positions = holds_positions(name_of(of, i));
    const bool are_drawn = draw_values(bytes, contents, are_positions, *tensor);
    if (is_index(*tensor)) {
      are_indices_right = are_indices_right && !are_drawn;
    } else {
      are_whole_numbers = are_whole_numbers && are_drawn && !are_positions;
    }
  }
  const Results contiguous = run(of, arguments, Layout::contiguous, is_right),
                other = run(of, arguments, layout, is_right);
  const std::string name(of.name);
  require(contiguous.is_taken == other.is_taken, name + " refuses data whatever the strides");
  require(contiguous.is_taken || !is_right || !are_indices_right, name + " takes what is right");
  if (!contiguous.is_taken) return;
  for (size_t i = 0; i < contiguous.outputs.size(); ++i) {
    const Values &values = contiguous.outputs[i], &others = other.outputs[i];
    require(std::equal(values.begin(), values.end(), others.begin(), others.end(), same),
            name + ": strides do not matter");
  }
  if (contents == Contents::small)
    require_reference(of, type, arguments, are_whole_numbers, contiguous.outputs);
}

}  // namespace
}  // namespace aclgrad::test

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  return aclInit(nullptr) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS ? 0 : 1;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace aclgrad::test;
  Bytes bytes(data, size);
  bytes.ConsumeBool() ? fuzz_call(bytes, one_of(bytes, operators()))
                      : fuzz_call(bytes, one_of(bytes, functions()));
  return 0;
}
