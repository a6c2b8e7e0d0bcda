// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// A pointer that each thread has for itself, and what is done with it when the thread ends. Rather than a thread's object
// with a destructor: the C library ends the process where it has no memory to register that.
#pragma once

#include <pthread.h>

#include <new>

namespace aclgrad {

// To be made while the library is loaded, as making it later could be under way in another thread when the process forks.
class ThreadKey {
 public:
  explicit ThreadKey(void (*at_end)(void*)) : is_made_(pthread_key_create(&key_, at_end) == 0) {}

  // At the thread's end `at_end` is called with the value, which is not null.
  void set(const void* value) const {
    if (!is_made_ || pthread_setspecific(key_, value) != 0) throw std::bad_alloc();
  }

 private:
  pthread_key_t key_{};
  bool is_made_;
};

}  // namespace aclgrad
