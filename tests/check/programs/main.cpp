// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Runs the program of the table with this name; without a name, prints the table: a line for each finding.
#include <algorithm>
#include <string_view>

#include "program.h"

namespace {

std::vector<Program>& table() {
  static std::vector<Program> table;
  return table;
}

}  // namespace

bool enter(Program program) {
  table().push_back(std::move(program));
  return true;
}

int main(int count, char** arguments) {
  if (count < 2) {
    for (const Program& program : table()) {
      for (const char* finding : program.findings) std::printf("%s %s\n", program.name, finding);
    }
    return EXIT_SUCCESS;
  }
  const std::string_view name = arguments[1];
  const auto program =
      std::find_if(table().begin(), table().end(), [&](const Program& each) { return each.name == name; });
  require(program != table().end());
  if (program->whole != nullptr) {
    program->whole();
  } else {
    const Device device;
    const Stream stream = new_stream();
    program->with_stream(stream);
  }
}
