#include "base/environment.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/never_destroyed.h"

namespace aclgrad {
namespace {

std::string text_of(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

bool parse(std::string_view text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

int number_of(const char* name, int otherwise) {
  int number = 0;
  return parse(text_of(name, ""), number) ? number : otherwise;
}

std::vector<int> list_of(const char* name) {
  std::vector<int> numbers;
  const std::string text = text_of(name, "");
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    int number = 0;
    if (!parse(rest.substr(0, comma), number)) break;
    numbers.push_back(number);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return numbers;
}

CheckMode check_mode() {
  const std::string text = text_of("ACLGRAD_CHECK", "0");
  if (text == "0") return CheckMode::off;
  if (text == "error") return CheckMode::error;
  return text == "abort" ? CheckMode::abort : CheckMode::report;
}

Environment read() {
  Environment environment;
  environment.devices = text_of("ACLGRAD_DEVICES", "auto");
  environment.num_threads = number_of("ACLGRAD_NUM_THREADS", 0);
  if (environment.num_threads < 0) environment.num_threads = 0;
  environment.strict = number_of("ACLGRAD_STRICT", 0) == 1;
  environment.check = check_mode();
  environment.soc_name = text_of("ACLGRAD_SOC", "Ascend910B1");
  environment.log_level = number_of("ASCEND_GLOBAL_LOG_LEVEL", 3);
  environment.log_to_stdout =
      number_of("ASCEND_SLOG_PRINT_TO_STDOUT", 0) == 1 || number_of("ASCEND_LOG_PRINT_TO_STDOUT", 0) == 1;
  environment.has_visible_devices = std::getenv("ASCEND_RT_VISIBLE_DEVICES") != nullptr;
  environment.visible_devices = list_of("ASCEND_RT_VISIBLE_DEVICES");
  return environment;
}

}  // namespace

const Environment& Environment::get() {
  static NeverDestroyed<const Environment> environment(read());
  return *environment;
}

}  // namespace aclgrad
