// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "support/test_tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "base/data_type.h"
#include "support/kernel_memory.h"

namespace aclgrad::test {
namespace {

constexpr std::byte kPattern{0xA5};
constexpr int64_t kFar = (int64_t{1} << 31) + 64;  // whole cache lines apart, as some code paths require

std::shared_ptr<std::byte> patterned(size_t bytes) {
  const auto memory = std::make_shared<KernelBytes>(bytes, kPattern);
  return {memory, memory->data()};
}

template <size_t kSize>
void copy_elements(const std::byte* from, int64_t stride, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i, from += stride, to += kSize) std::memcpy(to, from, kSize);
}

size_t contiguous_axes(Layout layout) {
  return layout == Layout::far ? 0 : layout == Layout::far_rows ? 1 : 2;
}

std::vector<size_t> axes_from_the_innermost(size_t rank, Layout layout, size_t first_dense) {
  std::vector<size_t> axes;
  for (size_t axis = rank; axis-- > 0;) axes.push_back(axis);
  if (layout == Layout::transposed)
    std::reverse(axes.end() - static_cast<ptrdiff_t>(first_dense), axes.end());
  if (layout == Layout::channels_last) std::rotate(axes.begin(), axes.end() - 2, axes.end() - 1);
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
  let_kernels_use(memory, bytes);
  return {static_cast<std::byte*>(memory), [bytes](std::byte* first) {
            let_kernels_use_no_longer(first);
            munmap(first, bytes);
          }};
}

std::string name_of(Layout layout) {
  constexpr const char* kNames[] = {"contiguous", "transposed", "gapped",   "channels_last",
                                    "sparse",     "far",        "far_rows", "far_planes"};
  return kNames[static_cast<size_t>(layout)];
}

// Calls function(index of the first element, where it is, count) for the elements along the last axis. They lie
// row_stride() bytes apart.
template <class Function>
void TestTensor::for_each_row(Function&& function) const {
  const int64_t count = element_count(shape_);
  const int64_t length = shape_.empty() ? 1 : shape_.back();
  for (int64_t index = 0; index < count; index += length) {
    int64_t rest = index;
    int64_t element = offset_;
    for (size_t axis = shape_.size(); axis-- > 0;) {
      element += rest % shape_[axis] * strides_[axis];
      rest /= shape_[axis];
    }
    function(index, storage_.get() + static_cast<size_t>(element) * size_of(type_), length);
  }
}

int64_t TestTensor::row_stride() const {
  return shape_.empty() ? 0 : strides_.back() * static_cast<int64_t>(size_of(type_));
}

TestTensor::TestTensor(Shape shape, DataType type, Layout layout, const std::vector<double>& values,
                       size_t dense_axes)
    : shape_(std::move(shape)), type_(type), strides_(shape_.size()) {
  const size_t rank = shape_.size();
  const bool is_gapped = layout == Layout::gapped, is_far = layout > Layout::sparse;
  if (is_far) dense_axes = std::max(dense_axes, contiguous_axes(layout));
  const size_t first_dense = rank - std::min(rank, dense_axes);
  int64_t step = is_gapped && first_dense == rank ? 2 : 1;
  for (size_t axis : axes_from_the_innermost(rank, layout, first_dense)) {
    if (is_far && axis < first_dense) step = std::max(step, kFar);
    strides_[axis] = step;
    step *= std::max<int64_t>(1, shape_[axis]);
    if (is_gapped && axis <= first_dense) step += 3;
    if (is_far && axis < first_dense) step += 64;
  }
  offset_ = is_gapped ? 5 : 0;
  storage_elements_ = offset_ + (element_count(shape_) == 0 ? 1 : step);
  const size_t bytes = static_cast<size_t>(storage_elements_) * size_of(type_);
  storage_ = layout >= Layout::sparse ? map_zeros(bytes) : patterned(bytes);
  make_handle();
  if (!values.empty()) set(values);
}

TestTensor::TestTensor(Shape shape, DataType type, const aclgrad::Shape& strides, int64_t elements_after,
                       const std::vector<double>& values)
    : shape_(std::move(shape)), type_(type) {
  const auto line = static_cast<int64_t>(64 / size_of(type));
  storage_elements_ = 2 * line + elements_after;
  for (size_t axis = 0; axis < shape_.size(); ++axis) {
    strides_.push_back(strides[static_cast<int>(axis)]);
    storage_elements_ += (shape_[axis] - 1) * strides_.back();
  }
  storage_ = patterned(static_cast<size_t>(storage_elements_) * size_of(type));
  const auto past_line = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data()) / size_of(type)) % line;
  offset_ = line - past_line + elements_after;
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
  if (std::cmp_less(values.size(), element_count(shape_)))
    throw std::out_of_range("TestTensor: too few values");
  for_each_row([&](int64_t index, std::byte* first, int64_t count) {
    write_elements(values.data() + index, count, type_, first, row_stride());
  });
}

std::vector<double> TestTensor::values() const {
  std::vector<double> values(static_cast<size_t>(element_count(shape_)));
  for_each_row([&](int64_t index, const std::byte* first, int64_t count) {
    read_elements(first, row_stride(), count, type_, values.data() + index);
  });
  return values;
}

std::vector<std::byte> TestTensor::bytes() const {
  const size_t size = size_of(type_);
  const int64_t stride = row_stride();
  std::vector<std::byte> bytes(static_cast<size_t>(element_count(shape_)) * size);
  for_each_row([&](int64_t index, const std::byte* first, int64_t count) {
    std::byte* const to = bytes.data() + static_cast<size_t>(index) * size;
    if (size == 2) return copy_elements<2>(first, stride, count, to);
    if (size == 4) return copy_elements<4>(first, stride, count, to);
    copy_elements<8>(first, stride, count, to);
  });
  return bytes;
}

bool TestTensor::holes_untouched() const {
  const size_t size = size_of(type_);
  const int64_t stride = row_stride() / static_cast<int64_t>(size);
  std::vector<char> is_hole(static_cast<size_t>(storage_elements_), true);
  for_each_row([&](int64_t, const std::byte* first, int64_t count) {
    char* at = is_hole.data() + (first - storage_.get()) / static_cast<ptrdiff_t>(size);
    for (int64_t i = 0; i < count; ++i, at += stride) *at = false;
  });
  for (size_t element = 0; element < is_hole.size(); ++element) {
    if (is_hole[element] == 0) continue;
    for (size_t i = 0; i < size; ++i) {
      if (storage_.get()[element * size + i] != kPattern) return false;
    }
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
  KernelBytes workspace(workspace_size);
  const aclnnStatus status =
      phase2(workspace_size > 0 ? workspace.data() : nullptr, workspace_size, executor, nullptr);
  if (status != OK) return status;
  return aclrtSynchronizeStream(nullptr);
}

}  // namespace aclgrad::test
