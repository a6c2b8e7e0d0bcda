#include "support/test_tensor.h"

#include <algorithm>
#include <utility>

#include "base/data_type.h"

namespace aclgrad::test {
namespace {

constexpr std::byte kPattern{0xA5};

}  // namespace

std::string name_of(Layout layout) {
  return layout == Layout::contiguous ? "contiguous" : layout == Layout::transposed ? "transposed" : "gapped";
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
  for_each_element(
      [&](size_t index, size_t byte) { write_element(values.at(index), &storage_[byte], type_); });
}

std::vector<double> TestTensor::values() const {
  std::vector<double> values(static_cast<size_t>(element_count(shape_)));
  for_each_element([&](size_t index, size_t byte) { values[index] = read_element(&storage_[byte], type_); });
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

}  // namespace aclgrad::test
