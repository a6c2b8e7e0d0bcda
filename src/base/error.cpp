#include "base/error.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <deque>
#include <utility>

#include "base/log.h"

namespace aclgrad {
namespace {

struct Title {
  const char* name;
  const char* code;
};

// The class of a status decides under which title its message appears.
Title title_of(Status status) {
  switch (status) {
    case 161001:
    case 161002:
      return {"AclNN_Parameter_Error", "EZ1001"};
    case 361001:
      return {"AclNN_Runtime_Error", "EZ9903"};
    case 107003:
      return {"Stream_Context_Error", "EE1010"};
    default:
      break;
  }
  switch (status / 100000) {
    case 1:
      return {"Invalid_Argument", "EH0001"};
    case 2:
      return {"Resource_Error", "EL0004"};
    case 3:
      return {"Runtime_Error", "EE1001"};
    default:
      return status / 1000 == 561 ? Title{"AclNN_Inner_Error", "EZ9999"} : Title{"Execution_Error", "EE9999"};
  }
}

std::string format_message(const Error& error) {
  const Title title = title_of(error.status());
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm local{};
  localtime_r(&now, &local);
  std::string message = fmt::format("[PID: {}] {:%Y-%m-%d-%H:%M:%S} {}({}): {}", getpid(), local, title.name,
                                    title.code, error.text());
  if (!error.possible_cause().empty()) message += "\n        Possible Cause: " + error.possible_cause();
  if (!error.solution().empty()) message += "\n        Solution: " + error.solution();
  return message;
}

// A thread that never asks must not collect messages without end.
constexpr size_t kMaxMessages = 16;

struct ThreadMessages {
  std::deque<std::string> newest_first;
  std::string taken;

  ~ThreadMessages();
};

// Set once a thread's messages are gone: destructors of static objects may still call the library.
thread_local bool messages_gone = false;

ThreadMessages::~ThreadMessages() {
  messages_gone = true;
}

ThreadMessages& thread_messages() {
  thread_local ThreadMessages messages;
  return messages;
}

FailureObserver failure_observer = nullptr;

std::string indented(const std::string& text) {
  std::string result = "        ";
  for (char c : text) {
    result += c;
    if (c == '\n') result += "        ";
  }
  return result;
}

}  // namespace

void record_error(const Error& error) noexcept {
  try {
    std::string message = format_message(error);
    log(LogLevel::error, message);
    if (failure_observer != nullptr) failure_observer(error);
    if (messages_gone) return;
    auto& messages = thread_messages().newest_first;
    messages.push_front(std::move(message));
    if (messages.size() > kMaxMessages) messages.pop_back();
  } catch (...) {  // without memory there is no message, and the status still tells
  }
}

void observe_failures(FailureObserver observer) noexcept {
  failure_observer = observer;
}

Status fail_with(const Error& error) noexcept {
  record_error(error);
  return error.status();
}

const char* take_recent_error_message() noexcept {
  if (messages_gone) return nullptr;
  try {
    ThreadMessages& messages = thread_messages();
    if (messages.newest_first.empty()) return nullptr;
    std::string text = std::move(messages.newest_first.front());
    messages.newest_first.pop_front();
    if (!messages.newest_first.empty()) text += "\n        TraceBack (most recent call last):";
    for (const std::string& older : messages.newest_first) text += "\n" + indented(older);
    messages.newest_first.clear();
    messages.taken = std::move(text);
    return messages.taken.c_str();
  } catch (...) {
    return nullptr;
  }
}

}  // namespace aclgrad
