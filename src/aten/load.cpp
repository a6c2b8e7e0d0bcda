// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "executor/companion.h"

using namespace aclgrad;

namespace {

constexpr const char* kInterpreter = "libaclgrad_aten_interpreter.so";

companion::Interpreter& open_interpreter() {
  Dl_info self{};
  dladdr(reinterpret_cast<void*>(&open_interpreter), &self);
  const std::string path(self.dli_fname);
  void* library = dlopen((path.substr(0, path.rfind('/') + 1) + kInterpreter).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(std::string("PyTorch cannot be opened: ") + dlerror());
  const auto get =
      reinterpret_cast<companion::Interpreter& (*)()>(dlsym(library, "aclgrad_aten_interpreter"));
  if (get == nullptr) throw std::runtime_error(std::string(kInterpreter) + " is of another build.");
  return get();
}

}  // namespace

// Opens the interpreter, and with it PyTorch, at the first call.
companion::Interpreter& interpreter() {
  static companion::Interpreter& opened = open_interpreter();
  return opened;
}
