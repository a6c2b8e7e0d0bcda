// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: callback-waits: a callback waits for work that comes after it: stream
#include <pthread.h>

#include "program.h"

void wait_for_stream(void* stream) {
  aclrtSynchronizeStream(stream);  // would hang: the stream waits for this function
}

int main() {
  Session session;
  must(aclrtSubscribeReport(pthread_self(), session.stream));
  must(aclrtLaunchCallback(wait_for_stream, session.stream, ACL_CALLBACK_BLOCK, session.stream));
  must(aclrtProcessReport(-1));
  must(aclrtUnSubscribeReport(pthread_self(), session.stream));
}
