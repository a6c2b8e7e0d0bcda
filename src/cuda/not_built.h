// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What a library does that was built without CUDA, where it is asked for a GPU. Each folder has a file no_cuda.cpp, which
// takes the place of its CUDA files.
#pragma once

#include <stdexcept>

namespace aclgrad {

[[noreturn]] inline void refuse_cuda() {
  throw std::runtime_error("This library was built without CUDA.");
}

}  // namespace aclgrad
