// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: callback-waits: a callback waits for work that comes after it: stream
// Finding: callback-waits: a callback waits for work that comes after it: stream
// Finding: callback-waits: a callback waits for work that comes after it: stream
// Finding: callback-waits: a callback waits for work that comes after it: stream
#include <pthread.h>

#include "program.h"

// What the callback waits for comes after it in its stream, or in another stream that waits for that.
struct Waits {
  aclrtEvent behind;
  aclrtStream other;
};

void wait(void* data) {
  const Waits& waits = *static_cast<Waits*>(data);
  aclrtSynchronizeEvent(waits.behind);
  aclrtSynchronizeStream(waits.other);
  aclrtSynchronizeDevice();  // has two such streams
}

int main() {
  Session session;
  Waits waits{new_event(), new_stream()};
  must(aclrtSubscribeReport(pthread_self(), session.stream));
  must(aclrtLaunchCallback(wait, &waits, ACL_CALLBACK_BLOCK, session.stream));
  must(aclrtRecordEvent(waits.behind, session.stream));
  must(aclrtStreamWaitEvent(waits.other, waits.behind));
  must(aclrtProcessReport(-1));
  must(aclrtUnSubscribeReport(pthread_self(), session.stream));
  must(aclrtDestroyStream(waits.other));
  must(aclrtDestroyEvent(waits.behind));
}
