// Failures inside the library: thrown as Error, turned into a status code and a message of the calling thread
// at the C interface, where nothing may throw.
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <utility>

namespace aclgrad {

// A value of aclError or aclnnStatus.
using Status = int32_t;

// One failure: what the caller is told, and what a caller might have done to cause it.
class Error : public std::exception {
 public:
  Error(Status status, std::string text, std::string possible_cause = {}, std::string solution = {})
      : status_(status),
        text_(std::move(text)),
        possible_cause_(std::move(possible_cause)),
        solution_(std::move(solution)) {}

  Status status() const { return status_; }
  const std::string& text() const { return text_; }
  const std::string& possible_cause() const { return possible_cause_; }
  const std::string& solution() const { return solution_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  Status status_;
  std::string text_;
  std::string possible_cause_;
  std::string solution_;
};

// Adds the error to what aclGetRecentErrMsg will tell this thread, and to the log, and shows it to the observer.
// Never throws.
void record_error(const Error& error) noexcept;

// Lets `observer` see every error that is recorded. At most one, set before any call.
using FailureObserver = void (*)(const Error&);
void observe_failures(FailureObserver observer) noexcept;

// record_error() for an error with which a call fails; returns its status.
Status fail_with(const Error& error) noexcept;

// The accumulated messages of this thread, newest first, which are thereby cleared; null where there are
// none. The text lives until this thread's next call.
const char* take_recent_error_message() noexcept;

// Runs `body` at the C interface: 0, or the status of the error that it threw, with the error recorded.
template <class Body>
Status guarded(Status out_of_memory_status, Body&& body) noexcept {
  try {
    body();
    return 0;
  } catch (const Error& error) {
    return fail_with(error);
  } catch (const std::exception& error) {
    try {
      fail_with(Error(out_of_memory_status, error.what(), "The host ran out of memory or of threads."));
    } catch (...) {  // not even the message could be made
    }
    return out_of_memory_status;
  }
}

}  // namespace aclgrad
