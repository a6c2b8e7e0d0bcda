// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The two phases of a call, and the words in which an operator's phase 1 states its checks and its plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "aclnn/acl_meta.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/handle_registry.h"
#include "base/kernel.h"
#include "base/workspace.h"
#include "executor/plan.h"
#include "tensor/tensor.h"

namespace aclgrad {

// Phase 1 of one call. An operator declares its tensors in the order of the call, checks them, and ends with
// one of the plan functions. Every check throws the status of its failure, with a message that names operator
// and parameter.
class Call {
 public:
  explicit Call(std::string_view operator_name);

  // Declarations. A null or dead handle is refused, and so is a view that leaves its storage. The reference
  // stays valid as long as the plan, so that a kernel may capture it.
  const Argument& input(const char* name, const aclTensor* tensor);           // null: 161001
  const Argument& optional_input(const char* name, const aclTensor* tensor);  // null: not given
  const Argument& output(const char* name, const aclTensor* tensor);          // null: 161001

  // Checks. All but the last answer 161002.
  void check(bool passed, std::string_view parameter, std::string_view expected, int64_t got) const;
  void check(bool passed, std::string_view parameter, std::string_view expected, std::string_view got) const;
  void check_type(const Argument& argument, std::initializer_list<DataType> allowed) const;
  void check_same_type(const Argument& first, std::initializer_list<const Argument*> others) const;
  void check_rank(const Argument& argument, std::initializer_list<int> allowed) const;
  void check_shape(const Argument& argument, const Shape& expected) const;
  void check_live(const void* handle, HandleKind kind, std::string_view parameter) const;
  void check_not_null(const void* pointer, std::string_view parameter) const;  // 161001

  // True where ACLGRAD_STRICT asks to refuse what any one of the documents refuses.
  static bool strict() { return Environment::get().strict; }

  // Plans.
  void leave_out(const Argument& argument);   // the kernel will not touch it: it may be without data
  void use_partly(const Argument& argument);  // parts that the kernel will not touch may be without contents
  void may_alias() { plan_->may_alias = true; }  // its tensors may share memory
  // Its kernel may refuse what lies in device memory, with a code.
  void checks_data(Queue::DataError error) { plan_->data_error = error; }

  // The call's problem, which the operator describes where it lies, so that nothing is copied.
  template <class Problem>
  Problem& problem();

  // Makes `tensor`, of the problem, the argument as the kernel gets it: where it lies, or packed unless its elements
  // along the axes from `dense_from` on lie side by side. Each launch puts in the address. Nothing happens where it
  // was not given.
  template <class Void>
  void operand(BasicTensor<Void>& tensor, const Argument& argument, int dense_from);

  // Runs the problem's kernel on either kind of device. `prepare` gets the launch's own copy of the problem before.
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
  void check_given(const aclTensor* tensor, std::string_view parameter) const;  // 161001
  const Argument& declare(const char* name, const aclTensor* tensor, bool is_output);
  int64_t reserve(int64_t bytes);  // tells where in the workspace
  void pack(const Argument& argument);
  void plan(double serial_nanoseconds, size_t scratch_bytes, std::unique_ptr<const Work> work);

  std::shared_ptr<Plan> plan_;
  WorkspaceAllocator reserved_;
  std::unique_ptr<Work> work_;    // the problem's, until it is planned
  std::byte* problem_ = nullptr;  // in work_
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

template <class Problem>
void Call::plan_problem(const Problem& problem, Prepare<Problem> prepare) {
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

// Phase 2: binds the executor's plan to the workspace and submits it to the stream.
aclnnStatus run_call(std::string_view operator_name, void* workspace, uint64_t workspace_size,
                     aclOpExecutor* executor, aclrtStream stream) noexcept;

}  // namespace aclgrad
