// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Compiled as C++11.
#include <type_traits>

#include "aclnn/opdev/bfloat16.h"
#include "aclnn/opdev/float4_e2m1.h"
#include "aclnn/opdev/float8_e4m3fn.h"
#include "aclnn/opdev/float8_e8m0.h"
#include "aclnn/opdev/fp16_t.h"
#include "aclnn/opdev/hifloat8.h"
#include "aclnn/opdev/platform.h"

#define HAS_TYPE(function, ...) \
  static_assert(std::is_same<decltype(function), __VA_ARGS__>::value, "type of " #function)
#include "functions.h"
