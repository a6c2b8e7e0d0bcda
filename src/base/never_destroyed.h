// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Objects that outlive all others of the process: programs call the library in destructors of their own static objects.
#pragma once

#include <cstddef>
#include <new>
#include <utility>

namespace aclgrad {

// In static memory, so that none has to be had when it is first used.
template <class Object>
class NeverDestroyed {
 public:
  template <class... Arguments>
  explicit NeverDestroyed(Arguments&&... arguments) {
    new (storage_) Object(std::forward<Arguments>(arguments)...);
  }
  NeverDestroyed(const NeverDestroyed&) = delete;
  NeverDestroyed& operator=(const NeverDestroyed&) = delete;

  Object& operator*() { return *std::launder(reinterpret_cast<Object*>(storage_)); }

 private:
  alignas(Object) std::byte storage_[sizeof(Object)];
};

// Called, gives the only object of its type in the library, which the first call makes.
template <class Object>
struct Singleton {
  Object& operator()() const {
    static NeverDestroyed<Object> object;
    return *object;
  }
};

}  // namespace aclgrad
