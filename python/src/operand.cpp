#include "operand.h"

#include <new>

namespace aclgrad::python {
namespace {

bool suits_kernel(const TensorView& view, int first_dense) {
  if (reinterpret_cast<uintptr_t>(view.first()) % size_of(view.type) != 0) return false;
  int64_t dense = 1;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    const auto i = static_cast<size_t>(axis);
    if (view.strides[i] < 0 || (axis >= first_dense && view.strides[i] != dense)) return false;
    dense *= view.shape[i];
  }
  return true;
}

TensorView contiguous(TensorView view, void* memory) {
  view.base = memory;
  int64_t stride = 1;
  for (auto axis = static_cast<size_t>(view.rank); axis-- > 0;) {
    view.strides[axis] = stride;
    stride *= view.shape[axis];
  }
  return view;
}

constexpr std::align_val_t kAlignment{64};

// Memory of a thread that grows to the largest size asked for and goes with the thread.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { ::operator delete(memory_, kAlignment); }

  void* reserve(size_t bytes) {
    if (bytes > size_) {
      ::operator delete(memory_, kAlignment);
      memory_ = nullptr;
      size_ = 0;
      memory_ = ::operator new(bytes, kAlignment);
      size_ = bytes;
    }
    return memory_;
  }

 private:
  void* memory_ = nullptr;
  size_t size_ = 0;
};

}  // namespace

Operand::Operand(const TensorView& array, int first_dense) : array_(array), view_(array) {
  if (suits_kernel(array, first_dense)) return;
  copy_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(array.bytes()));
  view_ = contiguous(array, copy_.get());
}

Operand Operand::read(const TensorView& array, int first_dense) {
  Operand operand(array, first_dense);
  if (operand.copy_ != nullptr) pack(array, operand.copy_.get());
  return operand;
}

Operand Operand::write(const TensorView& array, int first_dense) {
  return {array, first_dense};
}

void Operand::finish() const {
  if (copy_ != nullptr) unpack(copy_.get(), array_);
}

TensorView split_last_axis(TensorView view, int64_t outer) {
  const auto last = static_cast<size_t>(view.rank - 1);
  const int64_t inner = outer == 0 ? 0 : view.shape[last] / outer;
  view.shape[last] = outer;
  view.shape[last + 1] = inner;
  view.strides[last + 1] = view.strides[last];
  view.strides[last] *= inner;
  ++view.rank;
  return view;
}

std::vector<int64_t> integers_of(const TensorView& view) {
  std::vector<int64_t> values(static_cast<size_t>(view.size()));
  if (view.type == DataType::int64) {
    pack(view, values.data());
  } else {
    std::vector<int32_t> narrow(values.size());
    pack(view, narrow.data());
    values.assign(narrow.begin(), narrow.end());
  }
  return values;
}

std::vector<double> doubles_of(const TensorView& float64_view) {
  std::vector<double> values(static_cast<size_t>(float64_view.size()));
  pack(float64_view, values.data());
  return values;
}

void write_doubles(const std::vector<double>& values, const TensorView& float64_view) {
  unpack(values.data(), float64_view);
}

void* scratch(size_t bytes) {
  thread_local Scratch memory;
  return memory.reserve(bytes);
}

}  // namespace aclgrad::python
