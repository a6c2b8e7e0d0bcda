// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "executor/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/handle_registry.h"
#include "executor/observer.h"
#include "runtime/stream.h"
#include "tensor/handle.h"

namespace aclgrad {
namespace {

[[noreturn]] void refuse(std::string_view operator_name, std::string_view parameter,
                         std::string_view expected, std::string_view got) {
  throw Error(ACLNN_ERR_PARAM_INVALID,
              fmt::format("{}.{}: expected {}, got {}.", operator_name, parameter, expected, got));
}

// Checks that a view whose last element is number `last` lies in its storage, where the storage's shape is
// known.
void check_storage(std::string_view operator_name, const char* name, const aclTensor& tensor, int64_t last) {
  if (tensor.storage_shape.empty()) return;
  int64_t storage = 1;
  for (int64_t extent : tensor.storage_shape) {
    if (extent < 0 || __builtin_mul_overflow(storage, extent, &storage)) {
      refuse(operator_name, name, "a storage shape that the address space can hold",
             format_shape(tensor.storage_shape));
    }
  }
  if (last < storage) return;
  refuse(operator_name, name, fmt::format("a view inside its storage of {} elements", storage),
         fmt::format("shape {}, whose last element is number {}", format_shape(tensor.view_shape), last));
}

// Checks a handle's own consistency and snapshots it. The sizes are checked here once, so that no later
// product of them can overflow.
void take_checked_view(TensorView& view, std::string_view operator_name, const char* name,
                       const aclTensor& tensor) {
  const auto& shape = tensor.view_shape;
  if (shape.size() > static_cast<size_t>(TensorView::kMaxRank)) {
    refuse(operator_name, name, fmt::format("at most {} dimensions", TensorView::kMaxRank),
           std::to_string(shape.size()));
  }
  const bool has_negative_size =
      std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size < 0; });
  if (has_negative_size) refuse(operator_name, name, "a shape without negative sizes", format_shape(shape));
  view.type = static_cast<DataType>(tensor.type);
  view.rank = static_cast<int>(shape.size());
  view.base = tensor.data;
  int64_t size = 1;
  int64_t last = tensor.offset;  // offset of the last element
  bool overflow = false;
  bool empty = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    view.shape[i] = shape[i];
    view.strides[i] = tensor.strides[i];
    empty = empty || shape[i] == 0;
    if (tensor.strides[i] < 0 && shape[i] > 1) {
      refuse(operator_name, name, "strides of at least 0", std::to_string(tensor.strides[i]));
    }
    int64_t step = 0;
    overflow = overflow || __builtin_mul_overflow(size, std::max<int64_t>(shape[i], 1), &size);
    overflow = overflow ||
               __builtin_mul_overflow(std::max<int64_t>(shape[i] - 1, 0), tensor.strides[i], &step) ||
               __builtin_add_overflow(last, step, &last);
  }
  if (overflow || size > Contract::kMaxElements || last > Contract::kMaxElements) {
    refuse(operator_name, name, "a size that the address space can hold", format_shape(shape));
  }
  if (tensor.offset < 0)
    refuse(operator_name, name, "an offset of at least 0", std::to_string(tensor.offset));
  if (!empty) check_storage(operator_name, name, tensor, last);
  // Without an element there is no first one: its place must not be computed from a null address.
  view.offset = empty ? 0 : tensor.offset;
}

class Zeros final : public Work {
 public:
  explicit Zeros(std::initializer_list<const Argument*> outputs) : outputs_(outputs) {}

  void run(const Launch& launch) const override {
    for (const Argument* output : outputs_) launch.run_problem(Unpacking{nullptr, launch.view(*output)});
  }

 private:
  const std::vector<const Argument*> outputs_;  // of the plan
};

}  // namespace

Error lacks_data(std::string_view function, std::string_view parameter) {
  return Error(ACLNN_ERR_PARAM_NULLPTR,
               fmt::format("{}.{}: expected a tensor with data, got a null address.", function, parameter),
               "The tensor was created without data, and no address was set later.",
               "Pass the data to aclCreateTensor, or call aclSetTensorAddr before phase 2.");
}

Call::Call(std::string_view operator_name)
    : Contract(operator_name, Interface::c), plan_(std::make_shared<Plan>(operator_name)) {
  plan_->deterministic = deterministic_requested();
}

const Argument& Call::declare(const char* name, const aclTensor* tensor, bool is_input, bool is_output) {
  Argument& argument = plan_->arguments.at(plan_->argument_count);
  argument.name = name;
  argument.index = static_cast<int>(plan_->argument_count++);
  argument.is_input = is_input;
  argument.is_output = is_output;
  if (tensor == nullptr) return argument;
  try {
    check_live(tensor, HandleKind::tensor, name);
    argument.format = tensor->format;
    argument.handle = tensor;
    take_view(argument.view, name, *tensor, is_output);
    argument.given = true;  // only now: whoever looks at a call that was refused meets no half of a view
  } catch (const Error& error) {  // if a later tensor is null, that comes first
    if (!wrong_view_) wrong_view_ = error;
  }
  return argument;
}

std::vector<int64_t> Call::integers(const char* name, const aclIntArray* array, ConstTensor& tensor) {
  if (array == nullptr) return {};
  check_live(array, HandleKind::int_array, name);
  std::vector<int64_t> values = array->values;
  tensor = {values.data(), {static_cast<int64_t>(values.size())}};
  members_[member_count_++] = {name, &tensor, 0, nullptr, nullptr, nullptr, 0};
  return values;
}

const Call::Bound* Call::find(const Member& member) const {
  const auto end = members_.begin() + member_count_;
  const auto found = std::find_if(members_.begin(), end,
                                  [&](const Bound& bound) { return bound.address == member.address; });
  return found == end ? nullptr : &*found;
}

std::string_view Call::name_of(const Member& member) const {
  const Bound* bound = find(member);
  return bound == nullptr ? member.field : bound->name;
}

int64_t Call::value_of(const Member& member, int64_t value) const {
  const Bound* bound = find(member);
  return bound == nullptr ? value : bound->value;
}

void Call::lay_out(const Member& member, const Facts&, const Access&, std::string_view, int dense_from) {
  const Bound* bound = find(member);
  if (bound != nullptr) members_[bound - members_.data()].dense_from = dense_from;
}

void Call::refuse(std::string_view parameter, std::string_view expected, std::string_view got) const {
  check_views();
  aclgrad::refuse(plan_->operator_name, parameter, expected, got);
}

void Call::check_live(const void* handle, HandleKind kind, std::string_view parameter) const {
  if (is_live_handle(handle, kind)) return;
  const char* kind_name = aclgrad::name_of(kind);
  if (observer != nullptr) observer->dead_handle_passed(plan_->operator_name, kind_name, handle);
  refuse(parameter, fmt::format("a live {}", kind_name), "a handle that was destroyed or never made");
}

void Call::check_not_null(const void* pointer, std::string_view parameter) const {
  aclgrad::check_not_null(plan_->operator_name, parameter, pointer);
}

void Call::take_view(TensorView& view, const char* name, const aclTensor& tensor, bool is_output) const {
  take_checked_view(view, plan_->operator_name, name, tensor);
  if (is_output && repeats_elements(tensor.view_shape, tensor.strides))
    refuse(name, "memory of its own for each element", "strides " + format_shape(tensor.strides));
}

void Call::check_fixed(const char* name, const aclTensor& tensor, bool is_output) const {
  TensorView view;
  take_view(view, name, tensor, is_output);
  if (!view.empty() && view.base == nullptr) throw lacks_data(plan_->operator_name, name);
}

void Call::check_given(const aclTensor* tensor, std::string_view parameter) const {
  if (tensor != nullptr) return;
  throw Error(ACLNN_ERR_PARAM_NULLPTR,
              fmt::format("{}.{}: expected a tensor, got null.", plan_->operator_name, parameter),
              "The tensor is required, and was not created or its creation failed.",
              "Create it first and check that aclCreateTensor does not return null.");
}

int64_t Call::reserve(int64_t bytes) {
  const auto at = static_cast<int64_t>(reserved_.size());
  reserved_.take<std::byte>(bytes);
  return at;
}

void Call::leave_out(const Argument& argument) {
  plan_->arguments[static_cast<size_t>(argument.index)].used = false;
}

void Call::use_partly(const Argument& argument) {
  plan_->arguments[static_cast<size_t>(argument.index)].partly_used = true;
}

void Call::pack_tensors() {
  for (size_t i = 0; i < member_count_; ++i) {
    const Bound& bound = members_[i];
    if (bound.argument == nullptr || !bound.argument->used) continue;
    const TensorView& view = bound.argument->view;
    if (view.is_dense_from(bound.dense_from) || view.is_contiguous()) continue;
    plan_->arguments[static_cast<size_t>(bound.argument->index)].packed_at = reserve(view.bytes());
    plan_->serial_nanoseconds += static_cast<double>(view.size());  // about one for each element
    *bound.strides = bound.shape->contiguous_strides();
  }
}

void Call::plan(double serial_nanoseconds, size_t scratch_bytes, std::unique_ptr<const Work> work) {
  plan_->scratch_at = reserve(static_cast<int64_t>(scratch_bytes));
  plan_->serial_nanoseconds += serial_nanoseconds;
  plan_->work = std::move(work);
}

void Call::plan_zeros(std::initializer_list<const Argument*> outputs) {
  double bytes = 0;
  for (const Argument* output : outputs) bytes += static_cast<double>(output->view.bytes());
  if (bytes > 0) plan(0.1 * bytes, 0, std::make_unique<Zeros>(outputs));
}

std::shared_ptr<Plan> Call::finish() {
  check_views();
  // A problem takes what has no axes for a tensor that is not given.
  for (const Bound& bound : std::span(members_).first(member_count_)) {
    if (bound.argument != nullptr && bound.argument->view.rank == 0)
      refuse(bound.name, "at least 1 dimension", "[]");
  }
  // The caller's workspace may lie on any boundary: room to align it.
  if (plan_->work != nullptr && reserved_.size() > 0)
    plan_->workspace_size = reserved_.size() + kWorkspaceAlignment;
  return std::move(plan_);
}

aclnnStatus detail::plan_call(std::string_view operator_name, uint64_t* workspace_size,
                              aclOpExecutor** executor, void (*body)(const void* context, Call&),
                              const void* context) noexcept {
  if (workspace_size != nullptr) *workspace_size = 0;
  if (executor != nullptr) *executor = nullptr;
  std::shared_ptr<const Plan> begun;  // for the observer
  const aclnnStatus status = guarded(ACLNN_ERR_INNER_CREATE_EXECUTOR, [&] {
    Call call(operator_name);
    if (executor_observer != nullptr) begun = call.begun();
    call.check_not_null(workspace_size, "workspaceSize");
    call.check_not_null(executor, "executor");
    body(context, call);
    auto made = std::make_unique<aclOpExecutor>(call.finish());
    register_handle(made.get(), HandleKind::executor);
    if (executor_observer != nullptr) executor_observer->executor_made(*made, current_device_id());
    *workspace_size = made->plan->workspace_size;
    *executor = made.release();
  });
  if (executor_observer != nullptr && status != OK)
    executor_observer->phase_1_failed(operator_name, begun.get());
  return status;
}

}  // namespace aclgrad
