// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Failures inside the library: thrown as Error, turned into a status code and a message of the calling thread
// at the C interface, where nothing may throw.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "base/never_destroyed.h"

namespace aclgrad {

// A value of aclError or aclnnStatus.
using Status = int32_t;

// One failure: what the caller is told, and what a caller might have done to cause it. Copies share the words, so that
// an error can be kept and handed on where there is no memory left.
class Error : public std::exception {
 public:
  Error(Status status, std::string text, std::string possible_cause = {}, std::string solution = {})
      : status_(status),
        words_(std::make_shared<const Words>(
            Words{std::move(text), std::move(possible_cause), std::move(solution)})) {}

  // For what a library below has thrown. Where memory is what is missing, this takes none.
  static Error from(const std::exception& exception, Status status) noexcept {
    const bool is_out_of_memory = dynamic_cast<const std::bad_alloc*>(&exception) != nullptr;
    const bool is_from_system = dynamic_cast<const std::system_error*>(&exception) != nullptr;
    try {
      if (is_from_system) {
        return Error(status, exception.what(), "The host ran out of threads or of another resource.",
                     "End threads that are not needed, or raise the limit of the user or the container.");
      }
      if (!is_out_of_memory) {
        return Error(status, exception.what(),
                     "A library that aclgrad uses has failed, or aclgrad is at fault.",
                     "Report the message, with the call that failed, to aclgrad's developers.");
      }
    } catch (...) {  // then memory is missing, too
    }
    return {status, std::shared_ptr<const Words>()};
  }

  Error with_status(Status status) const noexcept { return {status, words_}; }

  Status status() const { return status_; }
  const std::string& text() const { return words().text; }
  const std::string& possible_cause() const { return words().possible_cause; }
  const std::string& solution() const { return words().solution; }
  const char* what() const noexcept override { return words().text.c_str(); }

 private:
  struct Words {
    std::string text;
    std::string possible_cause;
    std::string solution;
  };

  Error(Status status, std::shared_ptr<const Words> words) noexcept
      : status_(status), words_(std::move(words)) {}

  // Made while the library is loaded.
  inline static NeverDestroyed<const Words> out_of_memory_{
      Words{"The host ran out of memory.",
            "The program holds more memory than it needs, or the machine has too little.",
            "Free memory that is not used any more, or make the problem smaller."}};

  const Words& words() const { return words_ != nullptr ? *words_ : *out_of_memory_; }

  Status status_;
  std::shared_ptr<const Words> words_;  // null where memory has run out
};

// Adds the error to what aclGetRecentErrMsg will tell this thread, and to the log, and shows it to the observer.
// Never throws.
void record_error(const Error& error) noexcept;

// record_error() for an error with which a call fails; returns its status.
Status fail_with(const Error& error) noexcept;

// The accumulated messages of this thread, newest first, which are thereby cleared; null where there are
// none. Where there was no memory for a message, the text says so. The text lives until this thread's next call.
const char* take_recent_error_message() noexcept;

// Runs `body` at the C interface: 0, or the status of the error that it threw, with the error recorded.
template <class Body>
Status guarded(Status out_of_memory_status, Body&& body) noexcept {
  try {
    body();
    return 0;
  } catch (const Error& error) {
    return fail_with(error);
  } catch (const std::exception& exception) {
    return fail_with(Error::from(exception, out_of_memory_status));
  }
}

}  // namespace aclgrad
