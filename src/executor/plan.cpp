#include "executor/plan.h"

#include "executor/call.h"

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

void Launch::run() const {
  for (const Argument& argument : plan_.arguments) {
    const bool packed = argument.packed_at != Argument::kNotPacked;
    if (packed && !argument.is_output) pack(view(argument), workspace_ + argument.packed_at);
  }
  plan_.kernel(*this);
  for (const Argument& argument : plan_.arguments) {
    const bool packed = argument.packed_at != Argument::kNotPacked;
    if (packed && argument.is_output) unpack(workspace_ + argument.packed_at, view(argument));
  }
}

}  // namespace aclgrad
