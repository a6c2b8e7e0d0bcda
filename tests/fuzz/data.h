// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What fuzzing of device data is made of. data.cpp has what holds for every operator; src/ops/<operator>/fuzz.cpp draws
// problems of one operator and knows what they must give.
#pragma once

#include <fuzzer/FuzzedDataProvider.h>

#include <string_view>
#include <vector>

#include "support/operator.h"

namespace aclgrad::test {

using Bytes = FuzzedDataProvider;
using Values = std::vector<double>;

// Ends the process, with the message of the last call, where something does not hold.
void require(bool holds, std::string_view what);

// ---- Drawing

// What the values are drawn from.
enum class Contents { whole_numbers, any_bits };

Contents draw_contents(Bytes& bytes);
Layout draw_layout(Bytes& bytes);  // other than contiguous
Values draw_values(Bytes& bytes, const Shape& shape, Contents contents);

// Where to sample: most positions near the image, some anywhere.
Values draw_coordinates(Bytes& bytes, const Shape& shape);

// Mostly from -1 to `usual_last`. As a double, for the values of tensors, rounded and in the range of int64.
int64_t draw_index(Bytes& bytes, int64_t usual_last);
TensorValue draw_indices(Bytes& bytes, const Shape& shape, int64_t usual_last);  // int32 or int64
Values to_values(const std::vector<int64_t>& integers);

// ---- Running

// The contents of device memory are such that the operator must succeed, or may refuse them when it runs.
enum class Data { right, any };

// Runs the call on contiguous tensors and in another layout. Nothing may leave its tensor and the results must be the same.
// Returns those of each output; nothing where the operator has refused the data.
std::vector<Values> run_in_layouts(const Operator& of, const std::vector<Value>& arguments, Layout layout,
                                   Data data = Data::right);
std::vector<Values> run_in_layouts(std::string_view name, const std::vector<Value>& arguments, Layout layout,
                                   Data data = Data::right);

// Of whole numbers the sums are exact, so that the result is the reference's, rounded once.
void require_exact(const Values& actual, const Values& expected, DataType type, std::string_view what);

// Positions are rounded: close, against the largest sum that there can be.
void require_close(const Values& actual, const Values& expected, double allowed, std::string_view what);

// ---- What can be drawn

// A static object of this type adds a way to draw problems. Byte strings number them, so that a number is never given
// again.
struct FuzzTarget {
  FuzzTarget(size_t number, void (*fuzz)(Bytes&));
};

}  // namespace aclgrad::test
