// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "support/values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

#include "base/data_type.h"

namespace aclgrad::test {
namespace {

// To the nearest float whose 16-bit rounding is the same as that of the double itself ("round to odd").
float to_float_for_rounding(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || !std::isfinite(nearest) || std::isnan(value)) return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;  // toward zero
  return std::bit_cast<float>(bits | 1u);
}

template <class T>
double to_double(T element) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(element);
  } else {
    return static_cast<double>(to_float(element));
  }
}

// The largest integer of 64 bits is none that double has: 2^63 and more stand for it.
template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, int64_t>) {
    return value >= 0x1p63 ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(value);
  } else if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<T>(value);
  } else {
    return from_float<T>(to_float_for_rounding(value));
  }
}

// As visit_element_type, for integers, too.
template <class Function>
void visit_any_type(DataType type, Function&& function) {
  if (type == DataType::int32) return function(int32_t{});
  if (type == DataType::int64) return function(int64_t{});
  visit_element_type(type, function);
}

int mantissa_bits(DataType type) {
  return type == DataType::float16    ? 10
         : type == DataType::bfloat16 ? 7
         : type == DataType::float64  ? 52
                                      : 23;
}

// Half the distance from a number to the next one of the type.
double half_unit_of(double value, DataType type) {
  const int least = type == DataType::float16 ? -14 : type == DataType::float64 ? -1022 : -126;
  const int exponent = value == 0 ? least : std::max(std::ilogb(value), least);
  return std::ldexp(0.5, exponent - mantissa_bits(type));
}

}  // namespace

void read_elements(const std::byte* from, int64_t stride, int64_t count, DataType type, double* to) {
  visit_any_type(type, [&]<class T>(T element) {
    for (int64_t i = 0; i < count; ++i, from += stride) {
      std::memcpy(&element, from, sizeof element);
      to[i] = to_double(element);
    }
  });
}

void write_elements(const double* from, int64_t count, DataType type, std::byte* to, int64_t stride) {
  visit_any_type(type, [&]<class T>(T element) {
    for (int64_t i = 0; i < count; ++i, to += stride) {
      element = from_double<T>(from[i]);
      std::memcpy(to, &element, sizeof element);
    }
  });
}

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

double rounded(double value, DataType type) {
  visit_any_type(type, [&]<class T>(T) { value = to_double(from_double<T>(value)); });
  return value;
}

std::vector<double> rounded(std::vector<double> values, DataType type) {
  for (double& value : values) value = rounded(value, type);
  return values;
}

std::vector<int64_t> integers_of(const std::vector<double>& values) {
  std::vector<int64_t> integers;
  for (double value : values) integers.push_back(from_double<int64_t>(value));
  return integers;
}

std::vector<double> uniform(int64_t count, double low, double high, uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> distribution(low, high);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = distribution(engine);
  return values;
}

double relative_error(const std::vector<double>& actual, const std::vector<double>& expected) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (actual.size() != expected.size()) return kInfinity;
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(actual[i]) || std::isnan(expected[i]) || std::isinf(actual[i]) ||
        std::isinf(expected[i])) {
      const bool agree = std::isnan(expected[i]) ? std::isnan(actual[i]) : actual[i] == expected[i];
      if (!agree) return kInfinity;
      continue;
    }
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  if (difference == 0) return 0;
  return norm == 0 ? kInfinity : std::sqrt(difference / norm);
}

std::vector<double> errors_in_terms(const std::vector<double>& actual, const std::vector<double>& expected,
                                    const std::vector<double>& terms, DataType type) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> errors(expected.size(), kInfinity);
  if (actual.size() != expected.size() || terms.size() != expected.size()) return errors;
  const double unit = type == DataType::float64 ? 0x1p-53 : 0x1p-24;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(actual[i]) || !std::isfinite(expected[i])) {
      const bool agree = std::isnan(expected[i]) ? std::isnan(actual[i]) : actual[i] == expected[i];
      errors[i] = agree ? 0 : kInfinity;
      continue;
    }
    const double difference = std::fabs(actual[i] - expected[i]) - half_unit_of(expected[i], type);
    errors[i] = difference <= 0 ? 0 : difference / (unit * std::fabs(terms[i]));
  }
  return errors;
}

double tolerance(DataType type, bool uses_coordinates) {
  switch (type) {
    case DataType::float16:
      return 4e-4;
    case DataType::bfloat16:
      return 3e-3;
    case DataType::float64:
      return 1e-12;
    default:
      return uses_coordinates ? 5e-6 : 1e-6;
  }
}

}  // namespace aclgrad::test
