// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>

#include "executor/companion.h"

using namespace aclgrad;

namespace {

constexpr const char* kInterpreter = "libaclgrad_aten_interpreter.so";

// Held while the interpreter is opened or reads a function's mathematics, and while a thread forks, so that a child, which
// has no other thread, finds it free. PyTorch registers handlers of fork() while it is opened: glibc lets it from 2.36 on.
std::mutex mutex;
std::atomic<companion::Interpreter*> opened = nullptr;

[[maybe_unused]] const int watches_forks =
    pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });

companion::Interpreter& open_interpreter() {
  Dl_info self{};
  dladdr(reinterpret_cast<void*>(&open_interpreter), &self);
  const std::string path(self.dli_fname);
  void* library = dlopen((path.substr(0, path.rfind('/') + 1) + kInterpreter).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(std::string("PyTorch cannot be opened: ") + dlerror());
  const auto get =
      reinterpret_cast<companion::Interpreter& (*)(std::mutex&)>(dlsym(library, "aclgrad_aten_interpreter"));
  if (get == nullptr) throw std::runtime_error(std::string(kInterpreter) + " is of another build.");
  return get(mutex);
}

}  // namespace

// Opens the interpreter, and with it PyTorch, at the first call.
companion::Interpreter& interpreter() {
  if (companion::Interpreter* const known = opened) return *known;
  const std::lock_guard lock(mutex);
  if (opened == nullptr) opened = &open_interpreter();
  return *opened;
}
