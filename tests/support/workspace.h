// Scratch memory of an operator, on a boundary as problem.h asks for.
#pragma once

#include <cstddef>
#include <vector>

namespace aclgrad::test {

class Workspace {
 public:
  explicit Workspace(size_t bytes) : lines_((bytes + sizeof(Line) - 1) / sizeof(Line)) {}
  void* data() { return lines_.data(); }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines_;
};

}  // namespace aclgrad::test
