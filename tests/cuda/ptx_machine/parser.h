// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// From the PTX of a module to kernels. PTX that is not known ends the program.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "kernel.h"

namespace ptx {

// The kernel of that name, null where the module has none. The module's text must stay.
std::unique_ptr<Kernel> parse_kernel(std::string_view module, const std::string& name);

// Such as 90.
std::string architecture_of(std::string_view module);

}  // namespace ptx
