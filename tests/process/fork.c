// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/* A program in C that forks while another thread has work in flight. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"

#define REQUIRE(condition)                                \
  do {                                                    \
    if (!(condition)) {                                   \
      fprintf(stderr, "does not hold: %s\n", #condition); \
      _Exit(1);                                           \
    }                                                     \
  } while (0)

enum { kBytes = 16 << 20, kForks = 40, kSecondsOfChild = 60 };

static atomic_int stop;
static aclrtStream shared;

/* Large enough for several threads, through memory of the device and an event. */
static void compute_on(aclrtStream stream) {
  unsigned char last = 0;
  void* memory = NULL;
  aclrtEvent event = NULL;
  REQUIRE(aclrtMalloc(&memory, kBytes, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
  REQUIRE(aclrtCreateEvent(&event) == ACL_SUCCESS);
  REQUIRE(aclrtMemsetAsync(memory, kBytes, 7, kBytes, stream) == ACL_SUCCESS);
  REQUIRE(aclrtRecordEvent(event, stream) == ACL_SUCCESS);
  REQUIRE(aclrtSynchronizeEvent(event) == ACL_SUCCESS);
  REQUIRE(aclrtMemcpyAsync(&last, 1, (char*)memory + kBytes - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST, stream) ==
          ACL_SUCCESS);
  REQUIRE(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
  REQUIRE(last == 7);
  REQUIRE(aclrtDestroyEvent(event) == ACL_SUCCESS);
  REQUIRE(aclrtFree(memory) == ACL_SUCCESS);
}

static void* keep_busy(void* unused) {
  (void)unused;
  REQUIRE(aclrtSetDevice(0) == ACL_SUCCESS);
  while (!stop) compute_on(shared);
  return NULL;
}

static void run_child(int number) {
  aclrtStream own = NULL;
  alarm(kSecondsOfChild);
  const aclError status = aclrtSynchronizeStream(shared);
  if (status != ACL_SUCCESS) {
    const char* message = aclGetRecentErrMsg();
    REQUIRE(status == ACL_ERROR_RT_STREAM_ABORT && message != NULL && strstr(message, "forked") != NULL);
  }
  REQUIRE(aclrtCreateStream(&own) == ACL_SUCCESS);
  compute_on(own);
  compute_on(NULL);
  REQUIRE(aclrtDestroyStream(own) == ACL_SUCCESS);
  if (number % 2 == 0) REQUIRE(aclFinalize() == ACL_SUCCESS);
  exit(0);
}

int main(void) {
  pthread_t thread;
  REQUIRE(aclInit(NULL) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS);
  REQUIRE(aclrtCreateStream(&shared) == ACL_SUCCESS);
  REQUIRE(pthread_create(&thread, NULL, keep_busy, NULL) == 0);
  for (int i = 0; i < kForks; ++i) {
    usleep((useconds_t)(i % 5) * 1000);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) run_child(i);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
  }
  stop = 1;
  REQUIRE(pthread_join(thread, NULL) == 0);
  REQUIRE(aclFinalize() == ACL_SUCCESS);
  return 0;
}
