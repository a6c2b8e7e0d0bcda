// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The two phases of the functions in functions.txt.
//
// Phase 1 evaluates a function's mathematics on PyTorch's meta device, which computes shapes and types alone, and compares
// them with the outputs. What it finds is kept for later calls of the same types, shapes and attributes, which are most.
// Where PyTorch has no meta kernel, phase 2 compares instead.
// Phase 2 evaluates it on views of the caller's memory, without a copy of inputs, except where an output lies in an input's
// memory. Results go straight into the outputs where the operator has such a variant, the types are the results' and outputs
// are contiguous.
#include <ATen/Parallel.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <c10/util/SmallVector.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "aten/arguments.h"
#include "aten/built_in.h"
#include "aten/language.h"

namespace aclgrad::aten {
namespace {

// ---- What phase 1 finds out ----

std::string text_of(at::IntArrayRef sizes, at::ScalarType type) {
  std::ostringstream text;
  text << sizes << " of " << c10::toString(type);
  return text.str();
}

// PyTorch's words without its stack and its advice, which is to report some of them as bugs.
std::string words_of(const c10::Error& error) {
  const std::string words = error.what_without_backtrace();
  constexpr std::string_view kAdvice = "please report a bug to PyTorch. ";
  const size_t advice = words.find(kAdvice);
  const size_t begin = advice == std::string::npos ? 0 : advice + kAdvice.size();
  const std::string rest = words.substr(begin, words.find("\nException raised from", begin) - begin);
  return rest.empty() ? words.substr(0, words.find(" INTERNAL ASSERT FAILED")) + " does not hold" : rest;
}

// Whether the operator cannot tell shapes without computing.
bool lacks_meta(const c10::Error& error) {
  const std::string words = words_of(error);  // not the stack, which has names of such functions
  const auto has = [&](const char* part) { return words.find(part) != std::string::npos; };
  return has("meta") || has("Meta") || has("_overrideable");
}

// PyTorch warns on the standard error stream, of nothing that a C program could change.
class Quiet final : public c10::WarningHandler {
 public:
  static Quiet& get() {
    static Quiet handler;
    return handler;
  }
  void process(const c10::Warning&) override {}
};

struct Prepared {
  const Function* function;
  const Program* program;
  Values values;                                   // of the attributes; None where a tensor belongs
  std::vector<TensorSpec> tensors;                 // in the order of the storages
  std::vector<size_t> lists;                       // how many of these are members of each list
  std::vector<size_t> targets;                     // of these: where results go
  mutable std::atomic<bool> into_outputs = false;  // the operator may write into them itself
  double serial_nanoseconds = 0;
};

// Puts the tensors where they belong among the values.
Values with_tensors(const Prepared& prepared, const std::vector<at::Tensor>& tensors) {
  Values values = prepared.values;
  values.reserve(values.size() + 8);  // for names that the mathematics defines
  size_t next = 0;
  size_t list = 0;
  for (size_t i = 0; i < prepared.function->count; ++i) {
    const Kind kind = prepared.function->parameters[i].kind;
    if (kind == Kind::tensor) {
      const at::Tensor& tensor = tensors[next++];
      if (tensor.defined()) values[i] = tensor;
    } else if (kind == Kind::tensor_list && !values[i].isNone()) {
      const size_t end = next + prepared.lists[list++];
      values[i] = std::vector<at::Tensor>(tensors.begin() + static_cast<ptrdiff_t>(next),
                                          tensors.begin() + static_cast<ptrdiff_t>(end));
      next = end;
    }
  }
  return values;
}

// The results, one for each target; a list counts as its members.
std::vector<at::Tensor> flatten(const std::vector<IValue>& results) {
  std::vector<at::Tensor> tensors;
  for (const IValue& result : results) {
    if (result.isTensor()) {
      tensors.push_back(result.toTensor());
    } else if (result.isList()) {
      for (const IValue& member : result.toListRef()) tensors.push_back(member.toTensor());
    } else if (!result.isNone()) {
      tensors.push_back(c10::scalar_to_tensor(result.toScalar()));
    } else {
      tensors.emplace_back();
    }
  }
  return tensors;
}

bool same_sizes(at::IntArrayRef given, at::IntArrayRef result) {
  const bool both_single = given.size() + result.size() == 1 && (given.empty() ? result : given)[0] == 1;
  return given == result || both_single;  // a number may have one axis of one element, or none
}

// Throws std::invalid_argument where a result does not fit its target, or is too large for one whose shape the data decides.
void check_result(const TensorSpec& target, const at::Tensor& result, bool any_type) {
  const bool by_data = target.role == Role::sized_by_data;
  const bool has_room =
      target.sizes.size() == result.sizes().size() && c10::multiply_integers(target.sizes) >= result.numel();
  const bool fits = by_data ? has_room : same_sizes(target.sizes, result.sizes());
  if (fits && (any_type || c10::canCast(result.scalar_type(), target.type))) return;
  refuse(target.parameter, (by_data ? "room for " : "") + text_of(result.sizes(), result.scalar_type()),
         text_of(target.sizes, target.type));
}

void check_count(const Prepared& prepared, size_t results) {
  if (results == prepared.targets.size() || results == 0) return;
  refuse("arguments", std::to_string(results) + " tensors for the results",
         std::to_string(prepared.targets.size()));
}

// ---- Phase 2 ----

at::Tensor unpacked_int4(const TensorSpec& spec, void* first) {
  const auto bytes = static_cast<int64_t>(spec.bytes / 2 + spec.bytes % 2);
  return signed_nibbles(fields(at::from_blob(first, {bytes}, at::kByte), 4))
      .flatten()
      .as_strided(spec.sizes, spec.strides);
}

void pack_int4(const at::Tensor& numbers, void* first) {
  const at::Tensor flat = numbers.flatten().to(at::kByte).bitwise_and(15);
  const at::Tensor pairs = at::constant_pad_nd(flat, {0, flat.numel() % 2}).view({-1, 2});
  const at::Tensor bytes = pairs.select(1, 0).bitwise_or(pairs.select(1, 1).bitwise_left_shift(4));
  at::from_blob(first, bytes.sizes(), at::kByte).copy_(bytes);
}

at::Tensor view(const TensorSpec& spec, void* first) {
  if (spec.is_int4 && spec.role == Role::output) return at::empty(spec.sizes, at::kChar);
  if (spec.is_int4 && spec.bytes != 0) return unpacked_int4(spec, first);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(c10::Storage::use_byte_size_t(), spec.bytes, at::DataPtr(first, at::kCPU), nullptr, false),
      c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(spec.type));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(spec.sizes, spec.strides);
  return tensor;
}

class Call final : public companion::Computation {
 public:
  Call(std::shared_ptr<const Prepared> prepared, std::vector<int64_t> offsets)
      : prepared_(std::move(prepared)), offsets_(std::move(offsets)) {
    serial_nanoseconds = prepared_->serial_nanoseconds;
  }

  void run(void* const* storages, const SetShape& set_shape) const override {
    const c10::InferenceMode without_gradients;
    const c10::WarningUtils::WarningHandlerGuard quiet(&Quiet::get());
    std::vector<at::Tensor> tensors(prepared_->tensors.size());
    const auto first = [&](size_t i) { return static_cast<std::byte*>(storages[i]) + offsets_[i]; };
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (prepared_->tensors[i].is_given()) tensors[i] = view(prepared_->tensors[i], first(i));
    }
    try {
      copy_shared_inputs(tensors);
      compute(tensors, set_shape);
      for (const size_t i : prepared_->targets) {
        if (prepared_->tensors[i].is_int4) pack_int4(tensors[i], first(i));
      }
    } catch (const c10::Error& error) {
      throw std::runtime_error("PyTorch: " + words_of(error));
    }
  }

 private:
  void compute(const std::vector<at::Tensor>& tensors, const SetShape& set_shape) const {
    const Prepared& prepared = *prepared_;
    Values values = with_tensors(prepared, tensors);
    if (prepared.into_outputs && computed_into_outputs(values, tensors)) return;
    const std::vector<at::Tensor> results = flatten(prepared.program->evaluate(std::move(values)));
    check_count(prepared, results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      const size_t target = prepared.targets[i];
      const at::Tensor& output = tensors[target];
      if (!results[i].defined() || !output.defined()) continue;
      check_result(prepared.tensors[target], results[i], prepared.program->is_copy());
      if (results[i].is_same(output)) continue;
      if (prepared.tensors[target].role == Role::sized_by_data) {
        output.flatten().slice(0, 0, results[i].numel()).copy_(results[i].flatten());
        set_shape(target, results[i].sizes().vec());
      } else {
        output.copy_(results[i].view_as(output));
      }
    }
  }

  // False where the operator would have made an output another size in between, as some do: it may then not be asked again.
  bool computed_into_outputs(const Values& values, const std::vector<at::Tensor>& tensors) const {
    std::vector<at::Tensor> outputs;
    for (const size_t target : prepared_->targets) outputs.push_back(tensors[target]);
    try {
      prepared_->program->evaluate_into(values, outputs);
      return true;
    } catch (const c10::Error& error) {
      if (std::string(error.what()).find("resize storage that is not resizable") == std::string::npos) throw;
      prepared_->into_outputs = false;
      for (const size_t target : prepared_->targets) {
        const TensorSpec& spec = prepared_->tensors[target];
        tensors[target].unsafeGetTensorImpl()->set_sizes_and_strides(spec.sizes, spec.strides);
      }
      return false;
    }
  }

  // The memory of a tensor, from its first element to behind its last.
  struct Range {
    const std::byte* first;
    const std::byte* end;
    size_t tensor;
  };
  using Ranges = c10::SmallVector<Range, 8>;

  // In the order of addresses.
  Ranges ranges_of(const std::vector<at::Tensor>& tensors) const {
    Ranges ranges;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const size_t bytes = prepared_->tensors[i].bytes;
      if (bytes == 0) continue;
      const auto* first = static_cast<const std::byte*>(tensors[i].const_data_ptr());
      ranges.push_back({first, first + bytes, i});
    }
    std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
    return ranges;
  }

  // Copies the inputs in whose memory the call writes. They are found in groups of tensors whose memory is connected.
  void copy_shared_inputs(std::vector<at::Tensor>& tensors) const {
    const Ranges ranges = ranges_of(tensors);
    const auto is_input = [&](const Range& range) {
      return prepared_->tensors[range.tensor].role == Role::input;
    };
    for (auto group = ranges.begin(); group != ranges.end();) {
      auto behind = group;
      for (const std::byte* end = group->end; behind != ranges.end() && behind->first < end; ++behind)
        end = std::max(end, behind->end);
      const bool is_written = !std::all_of(group, behind, is_input);
      for (; group != behind; ++group) {
        at::Tensor& tensor = tensors[group->tensor];
        if (is_written && is_input(*group)) tensor = tensor.clone();
      }
    }
  }

  const std::shared_ptr<const Prepared> prepared_;
  const std::vector<int64_t> offsets_;  // of the first element from the storage, in bytes
};

// ---- Phase 1 ----

// Results go into outputs, and where there is none, into what is changed in place.
void find_targets(Prepared& prepared) {
  const auto is_output = [](Role role) { return role == Role::output || role == Role::sized_by_data; };
  const Parameter* parameters = prepared.function->parameters;
  const bool makes_int4 = std::strstr(prepared.function->mathematics, "@nibbles/") != nullptr;
  const bool has_outputs = std::any_of(parameters, parameters + prepared.function->count,
                                       [&](const Parameter& parameter) { return is_output(parameter.role); });
  for (size_t i = 0; i < prepared.tensors.size(); ++i) {
    const TensorSpec& spec = prepared.tensors[i];
    if (has_outputs ? is_output(spec.role) : spec.role == Role::in_place) prepared.targets.push_back(i);
    if (spec.is_int4 && spec.role != Role::input && !makes_int4)
      refuse(spec.parameter, "a data type that PyTorch computes with", "int4");
  }
}

[[noreturn]] void refuse_with(const std::string& words, const std::string& parameter = "arguments") {
  throw std::invalid_argument(parameter + ": expected such that PyTorch takes, got: " + words);
}

// The parameter with a number that does not convert: a complex one, where there is one.
std::string unconverted(const Prepared& prepared) {
  for (size_t i = 0; i < prepared.function->count; ++i) {
    const IValue& value = prepared.values[i];
    if (value.isComplexDouble()) return prepared.function->parameters[i].name;
  }
  return "arguments";
}

// The results' shapes and types; none where PyTorch cannot tell them without computing.
std::optional<std::vector<at::Tensor>> results_on_meta(const Prepared& prepared,
                                                       std::vector<at::Tensor>& tensors) {
  for (const TensorSpec& spec : prepared.tensors) {
    tensors.emplace_back();
    if (!spec.is_given()) continue;
    tensors.back() =
        at::empty_strided(spec.sizes, spec.strides, at::TensorOptions(at::kMeta).dtype(spec.type));
  }
  try {
    return flatten(prepared.program->evaluate(with_tensors(prepared, tensors)));
  } catch (const c10::Error& error) {
    if (lacks_meta(error)) return std::nullopt;
    refuse_with(words_of(error));
  } catch (const std::invalid_argument&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // such as a number that a type does not hold
    refuse_with(error.what(), unconverted(prepared));
  }
}

// Whether the data decides the shape of a result; such outputs have to be contiguous.
bool is_sized_by_data(const Prepared& prepared) {
  bool found = false;
  for (const TensorSpec& spec : prepared.tensors) {
    if (spec.role != Role::sized_by_data || !spec.is_given()) continue;
    found = true;
    if (!spec.is_contiguous()) refuse(spec.parameter, "a contiguous tensor", "one of other strides");
  }
  return found;
}

void check_on_meta(Prepared& prepared) {
  if (is_sized_by_data(prepared)) return;
  std::vector<at::Tensor> tensors;
  const auto results = results_on_meta(prepared, tensors);
  if (!results) return;
  check_count(prepared, results->size());
  bool can_be_written = results->size() == prepared.targets.size();
  for (size_t i = 0; i < results->size(); ++i) {
    const TensorSpec& target = prepared.tensors[prepared.targets[i]];
    const at::Tensor& result = (*results)[i];
    const bool is_written = result.defined() && target.is_given();
    if (is_written) check_result(target, result, prepared.program->is_copy());
    // Many kernels write an output of other strides as if it were contiguous.
    can_be_written = can_be_written && is_written && tensors[prepared.targets[i]].is_contiguous() &&
                     result.scalar_type() == target.type && result.sizes() == target.sizes;
  }
  prepared.into_outputs = can_be_written && prepared.program->has_out();
}

class AtenInterpreter final : public companion::Interpreter {
 public:
  explicit AtenInterpreter(std::mutex& mutex) : mutex_(mutex) {}

  std::unique_ptr<companion::Computation> plan(const Function& function,
                                               const companion::Value* arguments) override {
    std::vector<int64_t> offsets;
    offsets.reserve(8);
    for_each_tensor(function, arguments, [&](const Parameter& parameter, const aclTensor* tensor) {
      if (tensor == nullptr) return offsets.push_back(0);
      const size_t element = c10::elementSize(known_type(tensor->type, parameter.name, true));
      const int64_t in_element = tensor->type == ACL_INT4 ? 2 : 1;
      if (tensor->offset % in_element != 0)
        refuse(parameter.name, "an even offset of int4 elements", std::to_string(tensor->offset));
      offsets.push_back(tensor->offset * static_cast<int64_t>(element) / in_element);
    });
    return std::make_unique<Call>(prepared(function, arguments), std::move(offsets));
  }

 private:
  std::shared_ptr<const Prepared> prepared(const Function& function, const companion::Value* arguments) {
    thread_local std::unordered_map<std::string, std::shared_ptr<const Prepared>> known;
    constexpr size_t kMaxKnown = 4096;
    const std::string key = key_of(function, arguments);
    if (const auto found = known.find(key); found != known.end()) return found->second;
    if (known.size() >= kMaxKnown) known.clear();
    return known[key] = prepare(function, arguments);
  }

  std::shared_ptr<const Prepared> prepare(const Function& function, const companion::Value* arguments) {
    const c10::InferenceMode without_gradients;
    const c10::WarningUtils::WarningHandlerGuard quiet(&Quiet::get());
    auto prepared = std::make_shared<Prepared>();
    prepared->function = &function;
    prepared->program = &program(function);
    int64_t elements = 0;
    for_each_tensor(function, arguments, [&](const Parameter& parameter, const aclTensor* tensor) {
      prepared->tensors.push_back(tensor != nullptr ? spec_of(parameter, *tensor)
                                                    : TensorSpec{nullptr, parameter.role});
      if (tensor != nullptr) elements += c10::multiply_integers(tensor->view_shape);
    });
    for (size_t i = 0; i < function.count; ++i) {
      const bool is_list = function.parameters[i].kind == Kind::tensor_list && arguments[i].handle != nullptr;
      prepared->values.push_back(is_list ? IValue(false) : attribute(function.parameters[i], arguments[i]));
      if (is_list) prepared->lists.push_back(object<aclTensorList>(arguments[i]).members.size());
    }
    constexpr double kNanosecondsOfElement = 4;
    prepared->serial_nanoseconds = static_cast<double>(elements) * kNanosecondsOfElement;
    find_targets(*prepared);
    check_on_meta(*prepared);
    return prepared;
  }

  const Program& program(const Function& function) {
    const std::lock_guard lock(mutex_);
    auto& program = programs_[&function];
    if (program == nullptr) program = std::make_unique<const Program>(function);
    return *program;
  }

  std::mutex& mutex_;  // of load.cpp, which lets no thread fork meanwhile
  std::unordered_map<const Function*, std::unique_ptr<const Program>> programs_;
};

}  // namespace
}  // namespace aclgrad::aten

// Called once. OpenMP's threads do not come along into a forked child.
extern "C" __attribute__((visibility("default"))) aclgrad::companion::Interpreter& aclgrad_aten_interpreter(
    std::mutex& mutex) {
  at::set_num_threads(aclgrad::thread_count());
  pthread_atfork(nullptr, nullptr, [] { at::set_num_threads(1); });
  return *new aclgrad::aten::AtenInterpreter(mutex);
}
