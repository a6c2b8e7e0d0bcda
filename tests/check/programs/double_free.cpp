// Finding: double-free: aclrtFree
#include "program.h"

int main() {
  Session session;
  void* memory = device_memory(kInputBytes);
  must(aclrtFree(memory));
  aclrtFree(memory);
}
