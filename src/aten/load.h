// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/companion.h"

namespace aclgrad::aten {

// Opens the interpreter, and with it PyTorch, at the first call.
companion::Interpreter& interpreter();

}  // namespace aclgrad::aten
