#include "support/test_tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>

#include "base/data_type.h"

namespace aclgrad::test {
namespace {

constexpr std::byte kPattern{0xA5};

double read(const std::byte* from, DataType type) {
  const auto as = [&]<class T>(T value) {
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  switch (type) {
    case DataType::float32:
      return as(float{});
    case DataType::float16:
      return to_float(as(Half{}));
    case DataType::bfloat16:
      return to_float(as(BFloat16{}));
    case DataType::float64:
      return as(double{});
    case DataType::int32:
      return as(int32_t{});
    case DataType::int64:
      return static_cast<double>(as(int64_t{}));
  }
  return 0;
}

// To the nearest float whose 16-bit rounding is the same as that of the double itself ("round to odd").
float to_float_for_rounding(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || !std::isfinite(nearest) || std::isnan(value)) return nearest;
  const float toward_zero =
      std::fabs(static_cast<double>(nearest)) > std::fabs(value) ? std::nextafter(nearest, 0.0f) : nearest;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(toward_zero) | 1u);
}

void write(double value, std::byte* to, DataType type) {
  const auto put = [&](const auto& typed) { std::memcpy(to, &typed, sizeof typed); };
  switch (type) {
    case DataType::float32:
      return put(static_cast<float>(value));
    case DataType::float16:
      return put(from_float<Half>(to_float_for_rounding(value)));
    case DataType::bfloat16:
      return put(from_float<BFloat16>(to_float_for_rounding(value)));
    case DataType::float64:
      return put(value);
    case DataType::int32:
      return put(static_cast<int32_t>(value));
    case DataType::int64:
      return put(static_cast<int64_t>(value));
  }
}

int mantissa_bits(DataType type) {
  return type == DataType::float16    ? 10
         : type == DataType::bfloat16 ? 7
         : type == DataType::float64  ? 52
                                      : 23;
}

}  // namespace

std::string name_of(Layout layout) {
  return layout == Layout::contiguous ? "contiguous" : layout == Layout::transposed ? "transposed" : "gapped";
}

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

template <class Function>
void TestTensor::for_each_element(Function&& function) const {
  const int64_t count = element_count(shape_);
  for (int64_t index = 0; index < count; ++index) {
    int64_t rest = index;
    int64_t element = offset_;
    for (size_t axis = shape_.size(); axis-- > 0;) {
      element += rest % shape_[axis] * strides_[axis];
      rest /= shape_[axis];
    }
    function(static_cast<size_t>(index), static_cast<size_t>(element) * size_of(type_));
  }
}

TestTensor::TestTensor(Shape shape, DataType type, Layout layout)
    : shape_(std::move(shape)), type_(type), strides_(shape_.size()) {
  const size_t rank = shape_.size();
  int64_t step = layout == Layout::gapped ? 2 : 1;
  for (size_t i = 0; i < rank; ++i) {
    const size_t axis = layout == Layout::transposed ? i : rank - 1 - i;
    strides_[axis] = step;
    step *= std::max<int64_t>(1, shape_[axis]);
    if (layout == Layout::gapped) step += 3;
  }
  offset_ = layout == Layout::gapped ? 5 : 0;
  const int64_t storage_elements = step + offset_;
  storage_.assign(static_cast<size_t>(storage_elements) * size_of(type_), kPattern);
  handle_ = aclCreateTensor(shape_.data(), rank, static_cast<aclDataType>(type_), strides_.data(), offset_,
                            ACL_FORMAT_ND, &storage_elements, 1, storage_.data());
}

TestTensor::TestTensor(Shape shape, DataType type, Layout layout, const std::vector<double>& values)
    : TestTensor(std::move(shape), type, layout) {
  set(values);
}

TestTensor::~TestTensor() {
  aclDestroyTensor(handle_);
}

void TestTensor::set(const std::vector<double>& values) {
  for_each_element([&](size_t index, size_t byte) { write(values.at(index), &storage_[byte], type_); });
}

std::vector<double> TestTensor::values() const {
  std::vector<double> values(static_cast<size_t>(element_count(shape_)));
  for_each_element([&](size_t index, size_t byte) { values[index] = read(&storage_[byte], type_); });
  return values;
}

std::vector<std::byte> TestTensor::bytes() const {
  std::vector<std::byte> bytes;
  const auto size = static_cast<ptrdiff_t>(size_of(type_));
  for_each_element([&](size_t, size_t byte) {
    const auto first = storage_.begin() + static_cast<ptrdiff_t>(byte);
    bytes.insert(bytes.end(), first, first + size);
  });
  return bytes;
}

bool TestTensor::holes_untouched() const {
  std::vector<bool> is_hole(storage_.size(), true);
  for_each_element([&](size_t, size_t byte) {
    for (size_t i = 0; i < size_of(type_); ++i) is_hole[byte + i] = false;
  });
  for (size_t i = 0; i < storage_.size(); ++i) {
    if (is_hole[i] && storage_[i] != kPattern) return false;
  }
  return true;
}

double rounded(double value, DataType type) {
  std::byte bytes[8] = {};
  write(value, bytes, type);
  return read(bytes, type);
}

std::vector<double> rounded(std::vector<double> values, DataType type) {
  for (double& value : values) value = rounded(value, type);
  return values;
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

aclnnStatus run(const Phase1& phase1, Phase2 phase2) {
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  if (const aclnnStatus status = phase1(&workspace_size, &executor); status != OK) return status;
  // Exactly as large as phase 1 asked for, so that sanitizers see a kernel that takes more.
  std::vector<std::byte> workspace(workspace_size);
  const aclnnStatus status =
      phase2(workspace_size > 0 ? workspace.data() : nullptr, workspace_size, executor, nullptr);
  if (status != OK) return status;
  return aclrtSynchronizeStream(nullptr);
}

void print_ulp_histogram(const std::string& title, const std::vector<double>& actual,
                         const std::vector<double>& expected, DataType type) {
  constexpr std::array<double, 8> kLimits = {0.5, 1, 2, 4, 8, 16, 64, 1024};
  std::array<size_t, kLimits.size() + 1> counts{};
  for (size_t i = 0; i < actual.size(); ++i) {
    const double unit =
        std::ldexp(1.0, std::ilogb(std::max(std::fabs(expected[i]), 1e-30)) - mantissa_bits(type));
    const double error = std::fabs(actual[i] - expected[i]) / unit;
    const auto bin =
        std::find_if(kLimits.begin(), kLimits.end(), [&](double limit) { return error <= limit; });
    ++counts[static_cast<size_t>(bin - kLimits.begin())];
  }
  std::printf("%s: error in units in the last place\n", title.c_str());
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const double share = 100.0 * static_cast<double>(counts[i]) / static_cast<double>(actual.size());
    if (i < kLimits.size()) {
      std::printf("  up to %6g: %6.2f %%\n", kLimits[i], share);
    } else {
      std::printf("  above %6g: %6.2f %%\n", kLimits.back(), share);
    }
  }
}

}  // namespace aclgrad::test
