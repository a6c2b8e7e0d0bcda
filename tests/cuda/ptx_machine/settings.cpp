// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "settings.h"

#include <cstdlib>
#include <initializer_list>

#include "findings.h"

namespace ptx {
namespace {

std::string text_of(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

uint32_t number(const char* name) {
  return static_cast<uint32_t>(std::strtoul(text_of(name).c_str(), nullptr, 10));
}

// The word's number in the list. Nothing is the first.
template <class Enum>
Enum choice(const char* name, std::initializer_list<const char*> words) {
  const std::string text = text_of(name);
  int number = 0;
  for (const char* word : words) {
    if (text == word || text.empty()) return static_cast<Enum>(number);
    ++number;
  }
  refuse(std::string(name) + "=" + text);
}

}  // namespace

Settings& settings() {
  static auto& settings = *new Settings{
      text_of("PTX_ARCHITECTURE"),
      choice<Schedule>("PTX_SCHEDULE", {"lowest", "highest", "random"}),
      choice<int>("PTX_REVERSED", {"0", "1"}) == 1,
      number("PTX_BLOCKS"),
      choice<Plant>("PTX_PLANT", {"nothing", "barriers", "atomics"}),
      text_of("PTX_COUNTS"),
      number("PTX_SAMPLE"),
  };
  return settings;
}

}  // namespace ptx
