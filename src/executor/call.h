// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The two phases of a call, and the words in which an operator's phase 1 states its checks and its plan.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "aclnn/acl_meta.h"
#include "base/error.h"
#include "base/handle_registry.h"
#include "base/kernel.h"
#include "base/workspace.h"
#include "executor/plan.h"
#include "tensor/contract.h"
#include "tensor/tensor.h"

namespace aclgrad {

// Phase 1 of one call. An operator makes the call's problem, brings the arguments into it in the order of the call, checks
// it with its contract, and ends with one of the plan functions. Whatever is wrong throws the status of the failure, with a
// message that names operator and parameter.
class Call final : public Contract {
 public:
  explicit Call(std::string_view operator_name);

  // Makes the call's problem. The operator fills it in place, so that nothing is copied.
  template <class Problem>
  Problem& problem();

  // An argument that may be null. A dead handle is refused, and so is a view that leaves its storage: by the first check
  // that fails, by check_views() or by finish(). The reference stays valid as long as the plan, so that a kernel may capture it.
  const Argument& declare(const char* name, const aclTensor* tensor, bool is_input, bool is_output);
  void check_views() const {
    if (wrong_view_) throw *wrong_view_;
  }

  // The same as members of the problem. Each launch puts the address into the tensor.
  template <class Void>
  const Argument& input(const char* name, const aclTensor* handle, BasicTensor<Void>& tensor) {
    check_given(handle, name);  // null: 161001
    return bind(declare(name, handle, true, false), tensor);
  }
  template <class Void>
  const Argument& optional_input(const char* name, const aclTensor* handle, BasicTensor<Void>& tensor) {
    return bind(declare(name, handle, true, false), tensor);  // null: not given
  }
  const Argument& output(const char* name, const aclTensor* handle, Tensor& tensor) {
    check_given(handle, name);
    return bind(declare(name, handle, false, true), tensor);
  }
  // The copy of the values, at which the tensor points: none where the array is null.
  std::vector<int64_t> integers(const char* name, const aclIntArray* array, ConstTensor& tensor);
  template <class Enum>
  void mode(const char* name, int64_t value, Enum& member) {
    member = static_cast<Enum>(value);
    members_[member_count_++] = {name, &member, value, nullptr, nullptr, nullptr, 0};
  }

  std::span<const Argument> arguments() const {
    return std::span(plan_->arguments).first(plan_->argument_count);
  }

  // Checks beside those of the contract: 161002, and for null 161001.
  using Contract::check;
  using Contract::integers;
  using Contract::mode;
  void check_live(const void* handle, HandleKind kind, std::string_view parameter) const;
  void check_not_null(const void* pointer, std::string_view parameter) const;
  // Of a tensor that is no argument of the plan, so that its address is the one of phase 1: its view, and that it has data.
  void check_fixed(const char* name, const aclTensor& tensor, bool is_output) const;
  [[noreturn]] void refuse(std::string_view parameter, std::string_view expected,
                           std::string_view got) const override;

  // Plans.
  void leave_out(const Argument& argument);   // the kernel will not touch it: it may be without data
  void use_partly(const Argument& argument);  // parts that the kernel will not touch may be without contents
  void may_alias() { plan_->may_alias = true; }  // its tensors may share memory
  void runs_once() { plan_->can_repeat = false; }
  // Its kernel may refuse what lies in device memory, with a code.
  void checks_data(Queue::DataError error) { plan_->data_error = error; }

  // Runs the problem's kernel on either kind of device. Tensors that the contract wants denser than they are get packed.
  // `prepare` gets the launch's own copy of the problem before.
  template <class Problem>
  using Prepare = std::function<void(const Launch&, Problem&)>;
  template <class Problem>
  void plan_problem(const Problem& problem, Prepare<Problem> prepare = nullptr);
  void plan_work(double serial_nanoseconds, std::unique_ptr<const Work> work) {
    plan(serial_nanoseconds, 0, std::move(work));
  }
  void plan_nothing() {}
  void plan_zeros(std::initializer_list<const Argument*> outputs);  // sets them to zero

  std::shared_ptr<Plan> finish();
  std::shared_ptr<const Plan> begun() const { return plan_; }

 private:
  // A member of the problem.
  struct Bound {
    const char* name;  // as the caller calls it
    const void* address;
    int64_t value;  // of an attribute
    // Of a tensor:
    const Argument* argument;
    const Shape* shape;
    Shape* strides;
    int dense_from;
  };

  void check_given(const aclTensor* tensor, std::string_view parameter) const;  // 161001
  void take_view(TensorView& view, const char* name, const aclTensor& tensor, bool is_output) const;
  template <class Void>
  const Argument& bind(const Argument& argument, BasicTensor<Void>& tensor);

  const Bound* find(const Member& member) const;
  std::string_view name_of(const Member& member) const override;
  int64_t value_of(const Member& member, int64_t value) const override;
  void lay_out(const Member& member, const Facts& tensor, const Access& access, std::string_view axes,
               int dense_from) override;

  int64_t reserve(int64_t bytes);  // tells where in the workspace
  void pack_tensors();
  void plan(double serial_nanoseconds, size_t scratch_bytes, std::unique_ptr<const Work> work);

  std::shared_ptr<Plan> plan_;
  WorkspaceAllocator reserved_;
  std::unique_ptr<Work> work_;    // the problem's, until it is planned
  std::byte* problem_ = nullptr;  // in work_
  std::array<Bound, kMaxArguments + 2> members_;
  size_t member_count_ = 0;
  std::optional<Error> wrong_view_;  // the first one
};

// A problem and its kernel.
template <class Problem>
class ProblemWork final : public Work {
 public:
  void run(const Launch& launch) const override {
    Problem bound = problem;
    launch.bind(&bound);
    if (prepare) prepare(launch, bound);
    launch.run_problem(bound);
  }

  Problem problem;
  Call::Prepare<Problem> prepare;
};

template <class Problem>
Problem& Call::problem() {
  auto work = std::make_unique<ProblemWork<Problem>>();
  Problem& problem = work->problem;
  problem_ = reinterpret_cast<std::byte*>(&problem);
  work_ = std::move(work);
  return problem;
}

template <class Void>
const Argument& Call::bind(const Argument& argument, BasicTensor<Void>& tensor) {
  if (!argument.given) return argument;
  const TensorView& view = argument.view;
  tensor.type = view.type;
  tensor.shape = Shape(view.shape.data(), view.rank);
  tensor.strides = Shape(view.strides.data(), view.rank);
  plan_->operands[plan_->operand_count++] = {argument.index,
                                             reinterpret_cast<std::byte*>(&tensor.data) - problem_};
  members_[member_count_++] = {argument.name,   &tensor,        0, &argument, &tensor.shape,
                               &tensor.strides, Shape::kMaxRank};
  return argument;
}

template <class Problem>
void Call::plan_problem(const Problem& problem, Prepare<Problem> prepare) {
  pack_tensors();
  static_cast<ProblemWork<Problem>&>(*work_).prepare = std::move(prepare);
  const size_t scratch =
      visible_device_kind() == DeviceKind::cuda
          ? kernel_workspace_size(problem, CudaLaunch{.deterministic = plan_->deterministic})
          : kernel_workspace_size(problem);
  plan(kernel_nanoseconds(problem), scratch, std::move(work_));
}

namespace detail {
aclnnStatus plan_call(std::string_view operator_name, uint64_t* workspace_size, aclOpExecutor** executor,
                      void (*body)(const void* context, Call&), const void* context) noexcept;
}

// Phase 1: checks the two results, runs body(call) on a new Call and hands out an executor of what it planned.
template <class Body>
aclnnStatus plan_call(std::string_view operator_name, uint64_t* workspace_size, aclOpExecutor** executor,
                      const Body& body) noexcept {
  // No std::function, which may take memory before anything catches the failure.
  return detail::plan_call(
      operator_name, workspace_size, executor,
      [](const void* context, Call& call) { (*static_cast<const Body*>(context))(call); }, &body);
}

// The error for a tensor with a null address: 161001.
Error lacks_data(std::string_view function, std::string_view parameter);

// Phase 2: binds the executor's plan to the workspace and submits it to the stream.
aclnnStatus run_call(std::string_view operator_name, void* workspace, uint64_t workspace_size,
                     aclOpExecutor* executor, aclrtStream stream) noexcept;

}  // namespace aclgrad

// Defines phase 2 of an operator, which is the same for each.
#define ACLGRAD_DEFINE_PHASE2(function)                                                  \
  aclnnStatus function(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, \
                       aclrtStream stream) {                                             \
    return aclgrad::run_call(#function, workspace, workspaceSize, executor, stream);     \
  }
