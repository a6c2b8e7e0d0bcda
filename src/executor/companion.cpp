// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "executor/companion.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "acl/acl_base.h"
#include "executor/call.h"
#include "executor/observer.h"
#include "runtime/observer.h"
#include "runtime/stream.h"

namespace aclgrad::companion {
namespace {

// Of the kinds of arguments that are handles, in the order of companion::Kind.
constexpr HandleKind kHandleKinds[] = {
    HandleKind::tensor,    HandleKind::tensor_list, HandleKind::scalar,    HandleKind::scalar_list,
    HandleKind::int_array, HandleKind::float_array, HandleKind::bool_array};

void check_argument(const Call& call, const Parameter& parameter, const Value& value) {
  if (parameter.kind >= Kind::integer) return;
  if (!parameter.optional) call.check_not_null(value.handle, parameter.name);
  if (value.handle == nullptr || parameter.kind == Kind::text) return;
  call.check_live(value.handle, kHandleKinds[static_cast<size_t>(parameter.kind)], parameter.name);
  if (parameter.kind != Kind::scalar_list) return;
  for (const aclScalar* member : static_cast<const aclScalarList*>(value.handle)->members)
    call.check_live(member, HandleKind::scalar, parameter.name);
}

// A tensor of the call, alone or in a list. A call may have more tensors than a plan has arguments. Then only the first
// tensors that are given and not in lists are arguments; the others keep the address that they had in phase 1.
struct Source {
  const Parameter* parameter;
  const aclTensor* tensor;
  const Argument* argument = nullptr;
};

std::vector<Source> tensors_of(const Function& function, const Value* values) {
  std::vector<Source> sources;
  sources.reserve(kMaxArguments);
  for (size_t i = 0; i < function.count; ++i) {
    const Parameter& parameter = function.parameters[i];
    if (parameter.kind == Kind::tensor)
      sources.push_back({&parameter, static_cast<const aclTensor*>(values[i].handle)});
    if (parameter.kind != Kind::tensor_list || values[i].handle == nullptr) continue;
    for (const aclTensor* member : static_cast<const aclTensorList*>(values[i].handle)->members)
      sources.push_back({&parameter, member});
  }
  return sources;
}

void declare(Call& call, std::vector<Source>& sources) {
  const bool all = sources.size() <= kMaxArguments;
  for (Source& source : sources) {
    const Parameter& parameter = *source.parameter;
    const bool in_list = parameter.kind == Kind::tensor_list;
    const bool is_input = parameter.role == Role::input || parameter.role == Role::in_place;
    const bool is_output = parameter.role != Role::input;
    if (in_list) call.check_live(source.tensor, HandleKind::tensor, parameter.name);
    const bool is_given_alone = source.tensor != nullptr && !in_list;
    if (all || (is_given_alone && call.arguments().size() < kMaxArguments)) {
      source.argument = &call.declare(parameter.name, source.tensor, is_input, is_output);
    } else if (source.tensor != nullptr) {
      call.check_fixed(parameter.name, *source.tensor, is_output);
    }
  }
}

class ComputationWork final : public Work {
 public:
  ComputationWork(const char* name, std::unique_ptr<const Computation> computation,
                  const std::vector<Source>& sources)
      : name_(name), computation_(std::move(computation)) {
    for (const Source& source : sources) {
      storages_.push_back({source.argument, source.tensor != nullptr ? source.tensor->data : nullptr,
                           const_cast<aclTensor*>(source.tensor), source.parameter->name});
    }
  }

  void run(const Launch& launch) const override {
    void* few[kMaxArguments];
    std::vector<void*> many;
    void** storages = few;
    if (storages_.size() > kMaxArguments) storages = (many.resize(storages_.size()), many.data());
    for (size_t i = 0; i < storages_.size(); ++i) {
      const auto& [argument, address, handle, name] = storages_[i];
      const bool is_watched = argument == nullptr && executor_observer != nullptr;
      storages[i] = argument != nullptr ? launch.view(*argument).base
                    : is_watched        ? executor_observer->library_address(address)
                                        : address;
    }
    try {
      computation_->run(storages, [this](size_t tensor, const std::vector<int64_t>& shape) {
        set_shape(storages_[tensor], shape);
      });
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& exception) {
      throw Error(ACL_ERROR_RT_AICORE_EXCEPTION, fmt::format("{}: {}", name_, exception.what()));
    }
  }

 private:
  struct Storage {
    const Argument* argument;  // of the plan; null: the address stays
    void* address;
    aclTensor* handle;  // for a shape that the data decides
    const char* name;
  };

  // Phase 2 waits: the handle is alive, unless it was destroyed between the phases.
  static void set_shape(const Storage& storage, const std::vector<int64_t>& shape) {
    if (!is_live_handle(storage.handle, HandleKind::tensor))
      throw std::invalid_argument(storage.name +
                                  std::string(": expected a live tensor, got one that was destroyed."));
    aclTensor& tensor = *storage.handle;
    int64_t stride = 1;
    tensor.view_shape = shape;
    tensor.strides.assign(shape.size(), 1);
    for (size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) tensor.strides[axis] = stride;
  }

  const char* name_;
  std::unique_ptr<const Computation> computation_;
  std::vector<Storage> storages_;
};

void check_device(const char* name) {
  if (visible_device_kind() == DeviceKind::cpu) return;
  throw Error(ACLNN_ERR_INNER_FIND_KERNEL_ERROR,
              fmt::format("{}: expected a CPU device, got a CUDA device.", name),
              "The functions of the companion library run on CPU devices only.", "Set ACLGRAD_DEVICES=cpu.");
}

bool is_sized_by_data(const Function& function) {
  return std::any_of(function.parameters, function.parameters + function.count,
                     [](const Parameter& parameter) { return parameter.role == Role::sized_by_data; });
}

// Handles live until phase 2 returns, so it waits where they get their shapes.
void wait_for_shapes(const Function& function, aclrtStream stream) {
  try {
    runtime_observer->synchronize(*queue_of_stream(function.name, stream), std::nullopt);
  } catch (const std::exception&) {  // NOLINT: it comes out of the program's own synchronisation
  }
}

}  // namespace

aclnnStatus plan_function(const Function& function, const Value* arguments, Interpreter& (*interpreter)(),
                          uint64_t* workspace_size, aclOpExecutor** executor) noexcept {
  return plan_call(function.name, workspace_size, executor, [&](Call& call) {
    check_device(function.name);
    for (size_t i = 0; i < function.count; ++i) check_argument(call, function.parameters[i], arguments[i]);
    std::vector<Source> sources = tensors_of(function, arguments);
    declare(call, sources);
    call.check_views();
    call.may_alias();
    if (is_sized_by_data(function)) call.runs_once();  // by then the handle may be gone that gets the shape
    Interpreter& by = interpreter();
    try {
      std::unique_ptr<const Computation> computation = by.plan(function, arguments);
      const double nanoseconds = computation->serial_nanoseconds;
      call.plan_work(nanoseconds,
                     std::make_unique<ComputationWork>(function.name, std::move(computation), sources));
    } catch (const std::invalid_argument& refusal) {
      throw Error(ACLNN_ERR_PARAM_INVALID, fmt::format("{}.{}", function.name, refusal.what()));
    }
  });
}

aclnnStatus run_function(const Function& function, void* workspace, uint64_t workspace_size,
                         aclOpExecutor* executor, aclrtStream stream) noexcept {
  const aclnnStatus status = run_call(function.name, workspace, workspace_size, executor, stream);
  if (status == OK && is_sized_by_data(function)) wait_for_shapes(function, stream);
  return status;
}

}  // namespace aclgrad::companion
