// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <deque>
#include <memory>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/observer.h"
#include "base/thread_key.h"

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

// How far local time is from UTC when the library is loaded. The C library's functions that tell it take a lock, which a
// fork may leave locked in the child: a message would then hang there.
const std::chrono::seconds local_offset = [] {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return std::chrono::seconds(local.tm_gmtoff);
}();

std::string local_time() {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()) + local_offset;
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(now - day);
  return fmt::format("{:04}-{:02}-{:02}-{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count(), time.seconds().count());
}

std::string format_message(const Error& error) {
  const Title title = title_of(error.status());
  std::string message =
      fmt::format("[PID: {}] {} {}({}): {}", getpid(), local_time(), title.name, title.code, error.text());
  if (!error.possible_cause().empty()) message += "\n        Possible Cause: " + error.possible_cause();
  if (!error.solution().empty()) message += "\n        Solution: " + error.solution();
  return message;
}

// A thread that never asks must not collect messages without end.
constexpr size_t kMaxMessages = 16;

struct ThreadMessages {
  std::deque<std::string> newest_first;
  std::string taken;
};

// Plain data with a key to release it. Without the object there may be the flag.
thread_local ThreadMessages* thread_messages = nullptr;
thread_local bool message_lost = false;

void release_messages(void* messages) {
  delete static_cast<ThreadMessages*>(messages);
  thread_messages = nullptr;
}

const ThreadKey messages_key(release_messages);

ThreadMessages& make_thread_messages() {
  if (thread_messages != nullptr) return *thread_messages;
  auto messages = std::make_unique<ThreadMessages>();
  messages_key.set(messages.get());
  return *(thread_messages = messages.release());
}

constexpr const char* kNoMemoryForMessage = "The host ran out of memory, and so there is no message.";

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
    if (observer != nullptr) observer->error_recorded(error);
    auto& messages = make_thread_messages().newest_first;
    messages.push_front(std::move(message));
    if (messages.size() > kMaxMessages) messages.pop_back();
  } catch (...) {
    message_lost = true;
  }
}

Status fail_with(const Error& error) noexcept {
  record_error(error);
  return error.status();
}

const char* take_recent_error_message() noexcept {
  const bool lost = std::exchange(message_lost, false);
  if (thread_messages == nullptr || thread_messages->newest_first.empty())
    return lost ? kNoMemoryForMessage : nullptr;
  try {
    ThreadMessages& messages = *thread_messages;
    std::string text = std::move(messages.newest_first.front());
    messages.newest_first.pop_front();
    if (!messages.newest_first.empty()) text += "\n        TraceBack (most recent call last):";
    for (const std::string& older : messages.newest_first) text += "\n" + indented(older);
    messages.newest_first.clear();
    messages.taken = std::move(text);
    return messages.taken.c_str();
  } catch (...) {
    return kNoMemoryForMessage;
  }
}

}  // namespace aclgrad
