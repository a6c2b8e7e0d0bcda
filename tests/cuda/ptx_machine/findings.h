// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What a kernel has done and must not do. Like a sanitizer, the machine says what it was and ends the program, unless a test
// of the machine itself collects the findings.
#pragma once

#include <string>
#include <vector>

namespace ptx {

// `what` in the words of the message, with the kernel, the instruction and the block added.
void report(const std::string& what);

// Until the end of the scope findings are kept, and the program goes on.
class CollectedFindings {
 public:
  CollectedFindings();
  ~CollectedFindings();
  CollectedFindings(const CollectedFindings&) = delete;
  CollectedFindings& operator=(const CollectedFindings&) = delete;

  std::vector<std::string> take();
};

// For PTX that the machine does not know: nothing is guessed.
[[noreturn]] void refuse(const std::string& what);

std::string demangled(const std::string& name);

}  // namespace ptx
