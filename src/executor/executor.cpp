// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Phase 2, and the executor functions of acl_meta.h.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <utility>

#include "aclnn/acl_meta.h"
#include "base/error.h"
#include "base/handle_registry.h"
#include "executor/call.h"
#include "executor/observer.h"
#include "executor/plan.h"
#include "runtime/entry.h"
#include "runtime/observer.h"
#include "runtime/stream.h"
#include "tensor/handle.h"

namespace aclgrad {
namespace {

[[noreturn]] void refuse_null(std::string_view function, std::string_view expected) {
  throw Error(ACLNN_ERR_INNER_NULLPTR, fmt::format("{}: expected {}, got null.", function, expected),
              "The object was not made, or its creation failed.",
              "Check the status of the call that makes it before it is used.");
}

// Sole use of an executor: until it is given back no other thread finds it, so that none can run, change or
// free it at the same time.
class ExecutorClaim {
 public:
  ExecutorClaim(std::string_view function, aclOpExecutor* executor) {
    if (executor != nullptr && change_handle(executor, HandleKind::executor, HandleKind::executor_in_use)) {
      executor_ = executor;
      return;
    }
    if (executor_observer != nullptr) executor_observer->dead_executor_passed(function, executor);
    if (executor == nullptr) refuse_null(function, "an executor");
    throw Error(
        ACLNN_ERR_INNER,
        fmt::format("{}: expected a live executor, got one that is gone, in use or was never made.",
                    function),
        "It was destroyed, or phase 2 freed it because it is not repeatable, or another thread uses it.",
        "Call phase 1 again, or call aclSetAclOpExecutorRepeatable between the phases.");
  }

  ~ExecutorClaim() {
    if (executor_ != nullptr) change_handle(executor_, HandleKind::executor_in_use, HandleKind::executor);
  }

  ExecutorClaim(const ExecutorClaim&) = delete;
  ExecutorClaim& operator=(const ExecutorClaim&) = delete;

  aclOpExecutor* operator->() const { return executor_; }
  aclOpExecutor& operator*() const { return *executor_; }

  // The executor is no longer given back; the caller frees it.
  Taken<aclOpExecutor> take() {
    const aclOpExecutor* executor = std::exchange(executor_, nullptr);
    unregister_handle(executor, HandleKind::executor_in_use);
    return Taken<aclOpExecutor>(executor);
  }

 private:
  aclOpExecutor* executor_ = nullptr;
};

// Refused before the executor is used up: the operator that it belongs to can still run it.
void check_operator(std::string_view function, const aclOpExecutor& executor) {
  const std::string_view planned = executor.plan->operator_name;
  if (planned == function) return;
  if (executor_observer != nullptr) executor_observer->foreign_executor_passed(function, executor);
  throw Error(
      ACLNN_ERR_PARAM_INVALID,
      fmt::format("{}.executor: expected an executor of {}GetWorkspaceSize, got one of {}GetWorkspaceSize.",
                  function, function, planned),
      "The executors of two operators were mixed up.",
      fmt::format("Pass the executor to {}, which can still run it.", planned));
}

void check_workspace(std::string_view function, const Plan& plan, const void* workspace, uint64_t size) {
  if (plan.workspace_size == 0) return;
  if (workspace == nullptr) {
    throw Error(ACLNN_ERR_PARAM_NULLPTR,
                fmt::format("{}.workspace: expected {} bytes of device memory, got null.", function,
                            plan.workspace_size),
                "Phase 1 returned a workspaceSize above 0, but no memory was allocated for it.",
                "Allocate workspaceSize bytes with aclrtMalloc and pass them to phase 2.");
  }
  if (size < plan.workspace_size) {
    throw Error(ACLNN_ERR_PARAM_INVALID,
                fmt::format("{}.workspaceSize: expected at least {} bytes, got {}.", function,
                            plan.workspace_size, size),
                "The workspace was made for another call.",
                "Pass the workspaceSize that phase 1 of this call returned.");
  }
}

void check_addresses(std::string_view function, const aclOpExecutor& executor) {
  for (const Argument& argument : executor.plan->arguments) {
    if (!argument.given || !argument.used || argument.empty()) continue;
    if (executor.addresses[static_cast<size_t>(argument.index)] != nullptr) continue;
    throw lacks_data(function, argument.name);
  }
}

// Gives the failures of the runtime the status that phase 2 reports them with.
void submit(std::string_view function, const aclOpExecutor& executor, void* workspace, aclrtStream stream) {
  try {
    const std::shared_ptr<Queue> queue = queue_of_stream(function, stream);
    if (executor.plan->work == nullptr) return;  // nothing to do
    Addresses addresses = executor.addresses;
    submit_observed([&] {
      if (executor_observer != nullptr)
        executor_observer->work_begins(function, *executor.plan, addresses, workspace, *queue);
      queue->submit(executor.plan->serial_nanoseconds, Launch::of(executor.plan, addresses, workspace));
    });
  } catch (const Error& error) {
    record_error(error_of(function, error));
    throw Error(ACLNN_ERR_RUNTIME_ERROR,
                fmt::format("{}.stream: expected a stream that takes work, got runtime error {}.", function,
                            error.status()));
  }
}

// Phase 2 of an executor that nobody else uses now.
void run(std::string_view operator_name, const aclOpExecutor& executor, void* workspace,
         uint64_t workspace_size, aclrtStream stream) {
  if (executor.plan->work != nullptr) {
    check_workspace(operator_name, *executor.plan, workspace, workspace_size);
    check_addresses(operator_name, executor);
  }
  submit(operator_name, executor, workspace, stream);
}

aclnnStatus destroy(std::string_view function, aclOpExecutor* executor) {
  return guarded(ACLNN_ERR_INNER, [&] { ExecutorClaim(function, executor).take(); });
}

enum class Counted { all, inputs, outputs };

template <class Body>
void for_each_counted(const Plan& plan, Counted counted, Body&& body) {
  for (const Argument& argument : plan.arguments)
    if (argument.is_input && counted != Counted::outputs) body(argument);
  for (const Argument& argument : plan.arguments)
    if (argument.is_output && counted != Counted::inputs) body(argument);
}

aclnnStatus set_address(std::string_view function, aclOpExecutor* executor, Counted counted, size_t index,
                        const aclTensor* tensor, void* address) {
  return guarded(ACLNN_ERR_INNER, [&] {
    const ExecutorClaim claim(function, executor);
    if (tensor == nullptr) refuse_null(function, "a tensor");
    check_handle(function, tensor);
    size_t count = 0;
    const Argument* found = nullptr;
    for_each_counted(*claim->plan, counted, [&](const Argument& argument) {
      if (count++ == index) found = &argument;
    });
    if (found == nullptr) {
      const char* what = std::array{"tensors", "inputs", "outputs"}[static_cast<size_t>(counted)];
      throw Error(ACLNN_ERR_PARAM_INVALID,
                  fmt::format("{}.index: expected less than {}, the number of {}, got {}.", function, count,
                              what, index),
                  "The index counts other arguments than the function does.",
                  fmt::format("Count the {} of phase 1 in their order, from 0.", what));
    }
    if (!found->given) {
      throw Error(
          ACLNN_ERR_PARAM_INVALID,
          fmt::format("{}.index: expected a tensor that was given in phase 1, got {}, which was null.",
                      function, index),
          "The argument is optional, and this call goes without it.", "Call phase 1 again with the tensor.");
    }
    claim->addresses[static_cast<size_t>(found->index)] = address;
  });
}

// None of the operators takes a list of tensors, so there is no dynamic argument to refresh.
aclnnStatus refuse_dynamic(std::string_view function, aclOpExecutor* executor, size_t ir_index,
                           const aclTensorList* tensors) {
  return guarded(ACLNN_ERR_INNER, [&] {
    const ExecutorClaim claim(function, executor);
    if (tensors == nullptr) refuse_null(function, "a tensor list");
    check_handle(function, tensors);
    throw Error(
        ACLNN_ERR_PARAM_INVALID,
        fmt::format("{}.irIndex: expected an argument that is a tensor list, got {} of {}, which has none.",
                    function, ir_index, claim->plan->operator_name),
        "The function is for operators that take lists of tensors.", "Call aclSetTensorAddr instead.");
  });
}

}  // namespace

aclnnStatus run_call(std::string_view operator_name, void* workspace, uint64_t workspace_size,
                     aclOpExecutor* executor, aclrtStream stream) noexcept {
  return guarded(ACLNN_ERR_RUNTIME_ERROR, [&] {
    ExecutorClaim claim(operator_name, executor);
    check_operator(operator_name, *claim);
    if (executor_observer != nullptr) executor_observer->phase_2_begins(operator_name, *claim);
    if (claim->repeatable) {
      run(operator_name, *claim, workspace, workspace_size, stream);
    } else {
      run(operator_name, *claim.take(), workspace, workspace_size, stream);
    }
  });
}

}  // namespace aclgrad

using namespace aclgrad;

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  return guarded(ACLNN_ERR_INNER, [&] {
    const ExecutorClaim claim("aclSetAclOpExecutorRepeatable", executor);
    if (!claim->plan->can_repeat) {
      throw Error(
          ACLNN_ERR_INNER,
          fmt::format("aclSetAclOpExecutorRepeatable: expected an operator that can be repeated, got {}.",
                      claim->plan->operator_name),
          "Phase 2 sets the shape of an output, whose handle need not live that long.",
          "Call phase 1 again before each phase 2.");
    }
    claim->repeatable = true;
  });
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  return destroy("aclDestroyAclOpExecutor", executor);
}

aclnnStatus aclDestroyOpExecutor(aclOpExecutor* executor) {
  return destroy("aclDestroyOpExecutor", executor);
}

aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
  return set_address("aclSetTensorAddr", executor, Counted::all, index, tensor, addr);
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                  void* addr) {
  return set_address("aclSetInputTensorAddr", executor, Counted::inputs, index, tensor, addr);
}

aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                   void* addr) {
  return set_address("aclSetOutputTensorAddr", executor, Counted::outputs, index, tensor, addr);
}

aclnnStatus aclSetDynamicTensorAddr(aclOpExecutor* executor, size_t irIndex, const size_t,
                                    aclTensorList* tensors, void*) {
  return refuse_dynamic("aclSetDynamicTensorAddr", executor, irIndex, tensors);
}

aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor* executor, size_t irIndex, const size_t,
                                         aclTensorList* tensors, void*) {
  return refuse_dynamic("aclSetDynamicInputTensorAddr", executor, irIndex, tensors);
}

aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor* executor, size_t irIndex, const size_t,
                                          aclTensorList* tensors, void*) {
  return refuse_dynamic("aclSetDynamicOutputTensorAddr", executor, irIndex, tensors);
}

// The same functions under their older names.
#define ACLGRAD_ALIAS(name, of) extern "C" decltype(of) name __attribute__((alias(#of)))
ACLGRAD_ALIAS(AclSetTensorAddr, aclSetTensorAddr);
ACLGRAD_ALIAS(AclSetInputTensorAddr, aclSetInputTensorAddr);
ACLGRAD_ALIAS(AclSetOutputTensorAddr, aclSetOutputTensorAddr);
ACLGRAD_ALIAS(AclSetDynamicTensorAddr, aclSetDynamicTensorAddr);
ACLGRAD_ALIAS(AclSetDynamicInputTensorAddr, aclSetDynamicInputTensorAddr);
ACLGRAD_ALIAS(AclSetDynamicOutputTensorAddr, aclSetDynamicOutputTensorAddr);
