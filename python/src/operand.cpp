// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "operand.h"

#include <new>

#include "runtime/device.h"

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

Place::Place(const Arguments& arguments, const Array& first, std::initializer_list<const Array*> others)
    : first_(first) {
  arguments.check_same_device(first, others);
  if (!on_gpu()) return;
  const nb::object are_deterministic =
      nb::module_::import_("torch").attr("are_deterministic_algorithms_enabled");
  launch_ = {first.stream, nb::cast<bool>(are_deterministic()), nullptr};
}

void Place::compute(const std::function<void()>& body) const {
  if (first_.handle) return body();  // the lock is not held
  const Unlocked unlocked;
  on_gpu() ? DeviceDriver::get(DeviceKind::cuda, first_.gpu).call(body) : body();
}

void* Place::memory(size_t bytes) const {
  if (!on_gpu()) {
    allocated_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
    return allocated_.back().get();
  }
  if (bytes == 0) return nullptr;
  const Locked locked;
  const nb::object byte = nb::module_::import_("torch").attr("uint8");
  const nb::object tensor = first_.object.attr("new_empty")(bytes, nb::arg("dtype") = byte);
  tensors_.push_back(tensor);
  return reinterpret_cast<void*>(nb::cast<uintptr_t>(tensor.attr("data_ptr")()));
}

Operand::Operand(const Place& place, const TensorView& array, int first_dense)
    : place_(&place), array_(array), view_(array) {
  if (suits_kernel(array, first_dense)) return;
  copy_ = place.memory(static_cast<size_t>(array.bytes()));
  view_ = contiguous(array, copy_);
}

Operand Operand::read(const Place& place, const TensorView& array, int first_dense) {
  Operand operand(place, array, first_dense);
  if (operand.copy_ != nullptr) place.run(Packing{array, operand.copy_});
  return operand;
}

Operand Operand::write(const Place& place, const TensorView& array, int first_dense) {
  return {place, array, first_dense};
}

void Operand::finish() const {
  if (copy_ != nullptr) place_->run(Unpacking{copy_, array_});
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
    run_kernel(Packing{view, values.data()}, nullptr);
  } else {
    std::vector<int32_t> narrow(values.size());
    run_kernel(Packing{view, narrow.data()}, nullptr);
    values.assign(narrow.begin(), narrow.end());
  }
  return values;
}

std::vector<double> doubles_of(const TensorView& float64_view) {
  std::vector<double> values(static_cast<size_t>(float64_view.size()));
  run_kernel(Packing{float64_view, values.data()}, nullptr);
  return values;
}

void write_doubles(const std::vector<double>& values, const TensorView& float64_view) {
  run_kernel(Unpacking{values.data(), float64_view}, nullptr);
}

void* scratch(size_t bytes) {
  thread_local Scratch memory;
  return memory.reserve(bytes);
}

}  // namespace aclgrad::python
