// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: event-unrecorded: the host waits for stream
#include "program.h"

int main() {
  Session session;
  aclrtStream second = new_stream();
  aclrtEvent done = new_event();
  must(aclrtStreamWaitEvent(second, done));  // aclrtRecordEvent is missing
  aclrtSynchronizeStream(second);            // would hang; the checker lets it fail
  must(aclrtDestroyStream(second));
  must(aclrtDestroyEvent(done));
}
