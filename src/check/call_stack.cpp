// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/call_stack.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace aclgrad::check {
namespace {

const void* module_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

bool is_in_this_library(const void* frame) {
  static const int anchor = 0;
  return module_of(frame) == module_of(&anchor);
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 ? text.get() : name;
}

// Tools expect absolute addresses in a program that is linked to a fixed one, else offsets.
uintptr_t offset_in_module(const void* frame, const Dl_info& module) {
  const auto address = reinterpret_cast<uintptr_t>(frame) - 1;  // inside the call, not behind it
  const bool fixed = static_cast<const ElfW(Ehdr)*>(module.dli_fbase)->e_type == ET_EXEC;
  return fixed ? address : address - reinterpret_cast<uintptr_t>(module.dli_fbase);
}

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_in_c_library(const void* frame) {
  Dl_info module{};
  return dladdr(frame, &module) != 0 && file_name(module.dli_fname).starts_with("libc.so");
}

}  // namespace

CallStack CallStack::here() {
  CallStack place;
  place.count_ = backtrace(place.frames_.data(), kMaxFrames);
  return place;
}

CallStack CallStack::interrupted_at(const void* instruction) {
  CallStack handler = here();
  const auto end = handler.frames_.begin() + handler.count_;
  const auto interrupted = std::find(handler.frames_.begin(), end, instruction);
  if (interrupted == end) return handler;
  *interrupted = static_cast<std::byte*>(*interrupted) + 1;  // as if it were the call before a return address
  // A function such as memcpy says less than who called it.
  const auto first = std::find_if_not(interrupted, end, is_in_c_library);
  CallStack place;
  place.count_ = static_cast<int>(std::copy(first, end, place.frames_.begin()) - place.frames_.begin());
  return place;
}

std::string CallStack::text() const {
  std::string text;
  int shown = 0;
  for (int i = 0; i < count_ && shown < kMaxShown; ++i) {
    const void* frame = frames_[static_cast<size_t>(i)];
    Dl_info module{};
    if (is_in_this_library(frame) || dladdr(frame, &module) == 0) continue;
    const std::string_view file = file_name(module.dli_fname);
    if (file.starts_with("libc.so")) break;  // what calls main
    if (shown++ > 0) text += " < ";
    if (module.dli_sname != nullptr) text += demangled(module.dli_sname) + ' ';
    text += fmt::format("({}+{:#x})", file, offset_in_module(frame, module));
  }
  return text.empty() ? "an unknown place" : text;
}

const void* CallStack::innermost() const {
  for (int i = 0; i < count_; ++i) {
    const void* frame = frames_[static_cast<size_t>(i)];
    if (!is_in_this_library(frame)) return frame;
  }
  return nullptr;
}

}  // namespace aclgrad::check
