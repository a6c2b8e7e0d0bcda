// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "call.h"
#include "interpreter_lock.h"
#include "runtime/device.h"
#include "tensor/region.h"

namespace aclgrad::python {
namespace {

bool suits_kernel(const TensorView& view, int first_dense) {
  if (reinterpret_cast<uintptr_t>(view.first()) % size_of(view.type) != 0) return false;
  const auto strides = std::span(view.strides).first(static_cast<size_t>(view.rank));
  const bool is_forward = std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s >= 0; });
  return is_forward && view.is_dense_from(first_dense);
}

TensorView view_of(const ConstTensor& tensor) {
  TensorView view;
  view.type = tensor.type;
  view.rank = tensor.shape.rank();
  std::copy(tensor.shape.begin(), tensor.shape.end(), view.shape.begin());
  std::copy(tensor.strides.begin(), tensor.strides.end(), view.strides.begin());
  view.base = const_cast<void*>(tensor.data);
  return view;
}

template <class Void>
void put_contiguous(BasicTensor<Void>& tensor, void* memory) {
  tensor.data = memory;
  tensor.strides = tensor.shape.contiguous_strides();
}

}  // namespace

Results Call::compute(const std::function<void()>& body) {
  claim();
  const bool wants_any = std::any_of(members_.begin(), members_.end(),
                                     [](const Bound& bound) { return bound.output != nullptr; });
  const Array& first = first_->array;
  if (wants_any && first.fake == nullptr) {
    const std::function<void()> packed_body = [&] {
      pack();
      body();
      unpack();
    };
    if (first.handle) {
      packed_body();  // the lock is not held
    } else {
      find_stream();
      const Unlocked unlocked;
      first.on_gpu() ? DeviceDriver::get(DeviceKind::cuda, first.gpu).call(packed_body) : packed_body();
    }
  }
  Results results;
  for (Bound& bound : members_) {
    if (bound.input != nullptr) continue;
    results.emplace_back();
    if (bound.output != nullptr) results.back() = std::move(bound.array);
  }
  return results;
}

// Results that the caller gave must share no memory with each other or with what is read. PyTorch hears that they change,
// so that its autograd does not use overwritten values.
void Call::claim() const {
  const auto region_of = [](const TensorView& view) {
    return Region::strided(view.first(), size_of(view.type), view.rank, view.shape.data(),
                           view.strides.data());
  };
  const auto check_apart = [&](const Array& result, const Array& other) {
    if (result.gpu == other.gpu && overlap(region_of(result.view), region_of(other.view), true))
      refuse(result.name, "memory of its own", fmt::format("memory that {} has, too", other.name));
  };
  for (const Bound& result : members_) {
    if (!result.array.given) continue;
    for (const Bound& other : members_) {
      if (other.input != nullptr || (other.array.given && &other < &result))
        check_apart(result.array, other.array);
    }
  }
  for (const Bound& result : members_) {
    if (result.array.given) note_change(result.array);
  }
}

void Call::find_stream() {
  if (!first_->array.on_gpu()) return;
  const nb::object are_deterministic =
      nb::module_::import_("torch").attr("are_deterministic_algorithms_enabled");
  launch_ = {first_->array.stream, nb::cast<bool>(are_deterministic()), nullptr};
}

void* Call::memory(size_t bytes) {
  if (!first_->array.on_gpu()) {
    allocated_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
    return allocated_.back().get();
  }
  if (bytes == 0) return nullptr;
  const Locked locked;
  const nb::object byte = nb::module_::import_("torch").attr("uint8");
  const nb::object tensor = first_->array.object.attr("new_empty")(bytes, nb::arg("dtype") = byte);
  tensors_.push_back(tensor);
  return reinterpret_cast<void*>(nb::cast<uintptr_t>(tensor.attr("data_ptr")()));
}

void Call::pack() {
  for (Bound& bound : members_) {
    const TensorView& view = bound.array.view;
    const bool is_used = bound.input != nullptr || bound.output != nullptr;
    if (!is_used || suits_kernel(view, bound.dense_from)) continue;
    bound.copy = memory(static_cast<size_t>(view.bytes()));
    if (bound.input != nullptr) {
      run_on_device(Packing{view, bound.copy});
      put_contiguous(*bound.input, bound.copy);
    } else {
      put_contiguous(*bound.output, bound.copy);
    }
  }
}

void Call::unpack() {
  for (const Bound& bound : members_) {
    if (bound.output != nullptr && bound.copy != nullptr)
      run_on_device(Unpacking{bound.copy, bound.array.view});
  }
}

bool Call::has_empty_input() const {
  return std::any_of(members_.begin(), members_.end(), [](const Bound& bound) {
    return bound.input != nullptr && !is_integer(bound.array.type()) && bound.array.empty();
  });
}

void Call::fill_zeros() {
  for (const Bound& bound : members_) {
    if (bound.output != nullptr) run_on_device(Unpacking{nullptr, view_of(*bound.output)});
  }
}

std::vector<int64_t> integers_of(const ConstTensor& tensor) {
  const TensorView view = view_of(tensor);
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

std::vector<double> doubles_of(const ConstTensor& tensor) {
  if (!tensor.defined()) return {};
  const TensorView view = view_of(tensor);
  std::vector<double> values(static_cast<size_t>(view.size()));
  run_kernel(Packing{view, values.data()}, nullptr);
  return values;
}

void write_doubles(const std::vector<double>& values, const Tensor& tensor) {
  if (tensor.defined()) run_kernel(Unpacking{values.data(), view_of(tensor)}, nullptr);
}

void* scratch(size_t bytes) {
  thread_local Workspace memory(0);
  if (WorkspaceView(memory).bytes < bytes) {
    memory = Workspace(0);  // so that there are never both
    memory = Workspace(bytes);
  }
  return memory.data();
}

}  // namespace aclgrad::python
