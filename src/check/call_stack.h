// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Where in the calling program something happened.
#pragma once

#include <array>
#include <string>

namespace aclgrad::check {

// The call stack outside of this library, innermost frame first. Taking one is cheap; reading it is not.
class CallStack {
 public:
  static CallStack here();

  // For a signal handler: where the program was interrupted, at this instruction.
  static CallStack interrupted_at(const void* instruction);

  // "main (program+0x1234) < start (program+0x5678)": what addr2line -e program 0x1234 turns into a line.
  std::string text() const;

  // Tells places apart; null where the stack is not known.
  const void* innermost() const;

 private:
  static constexpr int kMaxFrames = 24;
  static constexpr int kMaxShown = 4;

  std::array<void*, kMaxFrames> frames_;
  int count_ = 0;
};

}  // namespace aclgrad::check
