// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The functions of the mathematics that the interpreter computes itself.
#pragma once

#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "aten/language.h"

namespace aclgrad::aten {

using BuiltIn = std::function<IValue(const Nodes& arguments, const Values& values)>;

const std::map<std::string, BuiltIn>& built_in_functions();

// Compositions of PyTorch's operators, of arguments that stand in the order of their functions in functions.txt.
using Arguments = std::vector<IValue>;
IValue grouped_matmul(const Arguments& arguments);
IValue quant_matmul(const Arguments& arguments);
IValue weight_quant_matmul(const Arguments& arguments);
IValue trans_quant_param(const Arguments& arguments);
IValue saturated(const Arguments& arguments);
IValue nibbles(const Arguments& arguments);
IValue attention(const Arguments& arguments);

// The parts of so many bits that lie in the elements, the lowest first: another axis at the end.
at::Tensor fields(const at::Tensor& packed, int64_t bits);
// Numbers of four bits with their signs, as int8.
at::Tensor signed_nibbles(const at::Tensor& nibbles);

[[noreturn]] inline void refuse(const std::string& parameter, const std::string& expected,
                                const std::string& got) {
  throw std::invalid_argument(parameter + ": expected " + expected + ", got " + got + ".");
}

}  // namespace aclgrad::aten
