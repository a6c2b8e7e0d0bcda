// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// aclOpExecutor: a plan, the addresses it will run on, and who frees it.
#pragma once

#include <memory>
#include <utility>

#include "executor/plan.h"

struct aclOpExecutor {
  explicit aclOpExecutor(std::shared_ptr<const aclgrad::Plan> planned) : plan(std::move(planned)) {
    for (const aclgrad::Argument& argument : plan->arguments) {
      if (argument.given) addresses[static_cast<size_t>(argument.index)] = argument.view.base;
    }
  }

  std::shared_ptr<const aclgrad::Plan> plan;  // shared with the runs that are still queued
  aclgrad::Addresses addresses{};
  bool repeatable = false;  // phase 2 frees it unless this is set
};
