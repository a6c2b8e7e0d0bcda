#include "executor/plan.h"

#include "executor/call.h"
#include "tensor/view_cuda.h"

namespace aclgrad {

Launch::Launch(const Plan& plan, const Addresses& addresses, void* workspace, Queue& queue)
    : plan_(plan), addresses_(addresses), workspace_(align_workspace(workspace)), queue_(queue) {}

void* Launch::data(const Argument& argument) const {
  if (argument.packed_at != Argument::kNotPacked) return workspace_ + argument.packed_at;
  return argument.given && argument.used ? view(argument).first() : nullptr;
}

TensorView Launch::view(const Argument& argument) const {
  TensorView view = argument.view;
  view.base = addresses_[static_cast<size_t>(argument.index)];
  return view;
}

CudaLaunch Launch::cuda() const {
  const Queue::DataError error = plan_.data_error;
  return {queue_.native_handle(), plan_.deterministic, error ? queue_.data_failure(error) : nullptr};
}

void Launch::run() const {
  for (const Argument& argument : plan_.arguments) {
    const bool packed = argument.packed_at != Argument::kNotPacked;
    if (packed && !argument.is_output) pack_input(argument);
  }
  plan_.kernel(*this);
  for (const Argument& argument : plan_.arguments) {
    const bool packed = argument.packed_at != Argument::kNotPacked;
    if (packed && argument.is_output) unpack_output(argument);
  }
}

void Launch::set_to_zero(const Argument& argument) const {
  on_gpu() ? fill_zero(view(argument), cuda()) : fill_zero(view(argument));
}

void Launch::pack_input(const Argument& argument) const {
  void* to = workspace_ + argument.packed_at;
  on_gpu() ? pack(view(argument), to, cuda()) : pack(view(argument), to);
}

void Launch::unpack_output(const Argument& argument) const {
  const void* from = workspace_ + argument.packed_at;
  on_gpu() ? unpack(from, view(argument), cuda()) : unpack(from, view(argument));
}

}  // namespace aclgrad
