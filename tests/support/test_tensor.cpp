// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "support/test_tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/data_type.h"

namespace aclgrad::test {
namespace {

constexpr std::byte kPattern{0xA5};
constexpr int64_t kFar = (int64_t{1} << 31) + 64;  // whole cache lines apart, as some code paths require

std::shared_ptr<std::byte> patterned(size_t bytes) {
  auto* const memory = new std::byte[bytes];
  std::fill_n(memory, bytes, kPattern);
  return {memory, std::default_delete<std::byte[]>()};
}

size_t contiguous_axes(Layout layout) {
  return layout == Layout::far ? 0 : layout == Layout::far_rows ? 1 : 2;
}

std::vector<size_t> axes_from_the_innermost(size_t rank, bool is_transposed, size_t first_dense) {
  std::vector<size_t> axes;
  for (size_t axis = rank; axis-- > 0;) axes.push_back(axis);
  if (is_transposed) std::reverse(axes.end() - static_cast<ptrdiff_t>(first_dense), axes.end());
  return axes;
}

}  // namespace

std::shared_ptr<std::byte> map_zeros(size_t bytes) {
  bytes = std::max<size_t>(bytes, 1);
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // Elements that lie far apart would else take a huge page each.
  madvise(memory, bytes, MADV_NOHUGEPAGE);
  return {static_cast<std::byte*>(memory), [bytes](std::byte* first) { munmap(first, bytes); }};
}

std::string name_of(Layout layout) {
  constexpr const char* kNames[] = {"contiguous", "transposed", "gapped",    "sparse",
                                    "far",        "far_rows",   "far_planes"};
  return kNames[static_cast<size_t>(layout)];
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

TestTensor::TestTensor(Shape shape, DataType type, Layout layout, const std::vector<double>& values,
                       size_t dense_axes)
    : shape_(std::move(shape)), type_(type), strides_(shape_.size()) {
  const size_t rank = shape_.size();
  const bool is_gapped = layout == Layout::gapped, is_far = layout > Layout::sparse;
  if (is_far) dense_axes = std::max(dense_axes, contiguous_axes(layout));
  const size_t first_dense = rank - std::min(rank, dense_axes);
  int64_t step = is_gapped && first_dense == rank ? 2 : 1;
  for (size_t axis : axes_from_the_innermost(rank, layout == Layout::transposed, first_dense)) {
    if (is_far && axis < first_dense) step = std::max(step, kFar);
    strides_[axis] = step;
    step *= std::max<int64_t>(1, shape_[axis]);
    if (is_gapped && axis <= first_dense) step += 3;
    if (is_far && axis < first_dense) step += 64;
  }
  offset_ = is_gapped ? 5 : 0;
  storage_elements_ = step + offset_;
  const size_t bytes = static_cast<size_t>(storage_elements_) * size_of(type_);
  storage_ = layout >= Layout::sparse ? map_zeros(bytes) : patterned(bytes);
  make_handle();
  if (!values.empty()) set(values);
}

TestTensor::TestTensor(const TestTensor& whole, const Shape& first, Shape shape)
    : shape_(std::move(shape)),
      type_(whole.type_),
      strides_(whole.strides_),
      offset_(whole.offset_),
      storage_elements_(whole.storage_elements_),
      storage_(whole.storage_) {
  for (size_t axis = 0; axis < first.size(); ++axis) offset_ += first[axis] * strides_[axis];
  make_handle();
}

void TestTensor::make_handle() {
  handle_ = aclCreateTensor(shape_.data(), shape_.size(), static_cast<aclDataType>(type_), strides_.data(),
                            offset_, ACL_FORMAT_ND, &storage_elements_, 1, data());
}

TestTensor::~TestTensor() {
  aclDestroyTensor(handle_);
}

void TestTensor::set(const std::vector<double>& values) {
  for_each_element(
      [&](size_t index, size_t byte) { write_element(values.at(index), storage_.get() + byte, type_); });
}

std::vector<double> TestTensor::values() const {
  std::vector<double> values(static_cast<size_t>(element_count(shape_)));
  for_each_element(
      [&](size_t index, size_t byte) { values[index] = read_element(storage_.get() + byte, type_); });
  return values;
}

std::vector<std::byte> TestTensor::bytes() const {
  std::vector<std::byte> bytes;
  for_each_element([&](size_t, size_t byte) {
    const std::byte* first = storage_.get() + byte;
    bytes.insert(bytes.end(), first, first + size_of(type_));
  });
  return bytes;
}

bool TestTensor::holes_untouched() const {
  std::vector<bool> is_hole(static_cast<size_t>(storage_elements_) * size_of(type_), true);
  for_each_element([&](size_t, size_t byte) {
    for (size_t i = 0; i < size_of(type_); ++i) is_hole[byte + i] = false;
  });
  for (size_t i = 0; i < is_hole.size(); ++i) {
    if (is_hole[i] && storage_.get()[i] != kPattern) return false;
  }
  return true;
}

Tensor TestTensor::tensor() const {
  const auto rank = static_cast<int>(shape_.size());
  return {storage_.get() + static_cast<size_t>(offset_) * size_of(type_), type_,
          aclgrad::Shape(shape_.data(), rank), aclgrad::Shape(strides_.data(), rank)};
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
