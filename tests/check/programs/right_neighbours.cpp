// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include <cstring>

#include "program.h"

// What lies beside the destination of a queued copy is used while the copy is under way: the C library looks for the end
// of a string in whole vectors, which reach into the destination.
int main() {
  struct Record {
    char name[12];
    float before;
    float result[kOutputBytes / sizeof(float)];
    float behind;
    char comment[12];
  };
  Session session;
  void* memory = device_ones(kOutputBytes);
  Record record{"gradient", 1, {}, 2, "of a bias"};
  must(aclrtMemcpyAsync(record.result, kOutputBytes, memory, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST,
                        session.stream));
  size_t (*volatile length)(const char*) = std::strlen;
  char* (*volatile last)(const char*, int) = [](const char* text, int c) {
    return const_cast<char*>(std::strrchr(text, c));
  };
  const bool found = last(record.name, 't') != nullptr && last(record.comment, 'b') != nullptr;
  std::printf("%zu %zu %d %g\n", length(record.name), length(record.comment), found,
              record.before + record.behind);
  record.behind = 3;
  must(aclrtSynchronizeStream(session.stream));
  must(aclrtFree(memory));
  return record.result[0] == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
