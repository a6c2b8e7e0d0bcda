// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Values for tests as doubles: made, rounded to a type and compared. Needs no library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "aclgrad/types.h"

namespace aclgrad::test {

inline constexpr DataType kFloatTypes[] = {DataType::float32, DataType::float16, DataType::bfloat16};
using Shape = std::vector<int64_t>;

// Elements in memory, `stride` bytes apart. Writing rounds to the type.
void read_elements(const std::byte* from, int64_t stride, int64_t count, DataType type, double* to);
void write_elements(const double* from, int64_t count, DataType type, std::byte* to, int64_t stride);

int64_t element_count(const Shape& shape);
double rounded(double value, DataType type);  // to the nearest value of the type
std::vector<double> rounded(std::vector<double> values, DataType type);
std::vector<int64_t> integers_of(const std::vector<double>& values);  // as a tensor of int64 has them

// Random values in [low, high], reproducible.
std::vector<double> uniform(int64_t count, double low, double high, uint32_t seed);

// |actual - expected| / |expected|, in the L2 norm. NaNs must agree, or the error is infinite.
double relative_error(const std::vector<double>& actual, const std::vector<double>& expected);

// How far each element lies from the expected one beyond the one rounding to its type, in rounding errors of the sum of
// its terms: relative to the sum of their absolute values, `terms`, in the arithmetic of the type. NaN and infinity must
// agree, or the error is infinite.
std::vector<double> errors_in_terms(const std::vector<double>& actual, const std::vector<double>& expected,
                                    const std::vector<double>& terms, DataType type);

// The bound on errors_in_terms that every operator keeps.
inline constexpr double kAllowedInTerms = 16;

// The bound on relative_error that every operator keeps. `uses_coordinates`: positions are computed in float.
double tolerance(DataType type, bool uses_coordinates);

}  // namespace aclgrad::test
