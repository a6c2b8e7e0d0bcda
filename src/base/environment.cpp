// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "base/environment.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/never_destroyed.h"

namespace aclgrad {
namespace {

constexpr const char* kSwitchValues = "1, true, on or yes; 0, false, off or no";

std::string_view without_spaces_around(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

// Nothing where the variable is unset or empty.
std::optional<std::string> text_of(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  const std::string_view text = without_spaces_around(value);
  return text.empty() ? std::nullopt : std::optional<std::string>(text);
}

std::string in_lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');  // in any locale
  return text;
}

std::optional<bool> parse_switch(const std::string& text) {
  const std::string value = in_lower_case(text);
  for (const char* on : {"1", "true", "on", "yes"})
    if (value == on) return true;
  for (const char* off : {"0", "false", "off", "no"})
    if (value == off) return false;
  return std::nullopt;
}

std::optional<int> parse_number(std::string_view text, int least, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number && number >= least && number <= most ? std::optional(number) : std::nullopt;
}

// Numbers, separated by commas.
std::optional<std::vector<int>> parse_list(std::string_view text) {
  std::vector<int> numbers;
  for (;;) {
    const size_t comma = text.find(',');
    const std::optional<int> number = parse_number(without_spaces_around(text.substr(0, comma)), 0, INT_MAX);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
    if (comma == std::string_view::npos) return numbers;
    text.remove_prefix(comma + 1);
  }
}

// Every variable is read here. `parse` gives nothing for a wrong value.
template <class Value, class Parse>
Value value_of(const char* name, Value otherwise, std::string_view possible, Value strictest,
               std::string_view counts_as, Parse&& parse) {
  const std::optional<std::string> text = text_of(name);
  if (!text) return otherwise;
  const std::optional<Value> value = parse(*text);
  if (value) return *value;
  report_wrong_value(name, *text, possible, counts_as);
  return strictest;
}

bool switch_of(const char* name) {
  return value_of(name, false, kSwitchValues, true, "1", parse_switch);
}

int number_of(const char* name, int otherwise, int least, int most, std::string_view possible) {
  return value_of(name, otherwise, possible, least, fmt::format("{}", least),
                  [&](const std::string& text) { return parse_number(text, least, most); });
}

CheckMode check_mode() {
  return value_of("ACLGRAD_CHECK", CheckMode::off, fmt::format("{}; error; abort", kSwitchValues),
                  CheckMode::abort, "abort", [](const std::string& text) -> std::optional<CheckMode> {
                    const std::string mode = in_lower_case(text);
                    if (mode == "error") return CheckMode::error;
                    if (mode == "abort") return CheckMode::abort;
                    const std::optional<bool> on = parse_switch(text);
                    if (!on) return std::nullopt;
                    return *on ? CheckMode::report : CheckMode::off;
                  });
}

DeviceChoice device_choice() {
  return value_of("ACLGRAD_DEVICES", DeviceChoice::automatic, "auto, cpu or cuda", DeviceChoice::cuda, "cuda",
                  [](const std::string& text) -> std::optional<DeviceChoice> {
                    const std::string choice = in_lower_case(text);
                    if (choice == "auto") return DeviceChoice::automatic;
                    if (choice == "cpu") return DeviceChoice::cpu;
                    if (choice == "cuda") return DeviceChoice::cuda;
                    return std::nullopt;
                  });
}

Environment read() {
  Environment environment;
  environment.devices = device_choice();
  environment.num_threads = number_of("ACLGRAD_NUM_THREADS", 0, 1, INT_MAX, "a number of at least 1");
  environment.strict = switch_of("ACLGRAD_STRICT");
  environment.check = check_mode();
  environment.soc_name = text_of("ACLGRAD_SOC").value_or("Ascend910B1");
  environment.log_level = number_of("ASCEND_GLOBAL_LOG_LEVEL", 3, 0, 4, "a number from 0 to 4");
  const bool slog = switch_of("ASCEND_SLOG_PRINT_TO_STDOUT");
  const bool log = switch_of("ASCEND_LOG_PRINT_TO_STDOUT");
  environment.log_to_stdout = slog || log;
  environment.has_visible_devices = std::getenv("ASCEND_RT_VISIBLE_DEVICES") != nullptr;
  environment.visible_devices =
      value_of("ASCEND_RT_VISIBLE_DEVICES", std::vector<int>(), "numbers of devices, separated by commas",
               std::vector<int>(), "no device", parse_list);
  environment.devices_text = text_of("ACLGRAD_DEVICES").value_or("auto");
  environment.visible_devices_text = text_of("ASCEND_RT_VISIBLE_DEVICES").value_or("");
  return environment;
}

}  // namespace

const Environment& Environment::get() {
  static NeverDestroyed<const Environment> environment(read());
  return *environment;
}

void report_wrong_value(const char* name, std::string_view value, std::string_view possible,
                        std::string_view counts_as) noexcept {
  std::fprintf(stderr, "aclgrad: %s=%.*s: expected %.*s; it counts as %.*s.\n", name,
               static_cast<int>(value.size()), value.data(), static_cast<int>(possible.size()),
               possible.data(), static_cast<int>(counts_as.size()), counts_as.data());
}

}  // namespace aclgrad
