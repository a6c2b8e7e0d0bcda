// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Phase 2 takes no memory: from the call to the end of its kernel, in the thread that calls, in the stream's and in
// those of kernels, but for what oneTBB takes for itself.
#include <gtest/gtest.h>

#include <vector>

#include "base/parallel.h"
#include "faults.h"
#include "runtime/fixture.h"
#include "support/operator.h"

namespace aclgrad::test {
namespace {

// Requests for memory, in all threads.
template <class Body>
int64_t requests_in(Body&& body) {
  faults::arm(faults::Resource::memory, INT64_MAX, faults::Extent::one);
  body();
  return faults::disarm().requested;
}

class Phase2Memory : public testing::TestWithParam<const Operator*> {
 protected:
  struct Planned {
    aclOpExecutor* executor = nullptr;
    std::vector<std::byte> workspace;
  };

  Planned planned(const Arguments& arguments) const {
    Planned planned;
    uint64_t size = 0;
    EXPECT_EQ(GetParam()->phase1(arguments.c(), &size, &planned.executor), OK);
    planned.workspace.resize(size);
    return planned;
  }

  void submit(Planned& planned) const {
    EXPECT_EQ(
        GetParam()->phase2(planned.workspace.data(), planned.workspace.size(), planned.executor, nullptr),
        OK);
  }

  // Wherever the stream runs it.
  int64_t requests_of_one(Planned& planned) const {
    return requests_in([&] {
      submit(planned);
      EXPECT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
    });
  }

  // In the stream's thread: who waits with a deadline does not help.
  int64_t requests_of_queued(Planned& first, Planned& second) const {
    Gate gate(nullptr);
    return requests_in([&] {
      submit(first);
      submit(second);
      gate.open();
      EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(nullptr, 600'000), ACL_SUCCESS);
    });
  }

  void expect_no_requests(const Arguments& arguments) const {
    Planned alone = planned(arguments), first = planned(arguments), second = planned(arguments);
    EXPECT_EQ(requests_of_one(alone), 0);
    EXPECT_EQ(requests_of_queued(first, second), 0);

    Planned repeatable = planned(arguments);
    ASSERT_EQ(aclSetAclOpExecutorRepeatable(repeatable.executor), OK);
    EXPECT_EQ(requests_of_one(repeatable), 0);
    requests_of_queued(repeatable, repeatable);  // two at once for the first time
    EXPECT_EQ(requests_of_queued(repeatable, repeatable), 0);
    EXPECT_EQ(aclDestroyAclOpExecutor(repeatable.executor), OK);
  }

  // The threads of the stream and of kernels, and what each takes with its first loop.
  static void start_threads() {
    const auto loop = [] { parallel_for(thread_count(), kMinParallelNanoseconds, [](int64_t) {}); };
    loop();
    queue_of_stream("test", nullptr)->submit_host([loop](Queue&) { loop(); });
    ASSERT_EQ(aclrtSynchronizeStreamWithTimeout(nullptr, 600'000), ACL_SUCCESS);
  }

  void check(int threads, std::vector<Case> (*cases)(DataType)) {
    SCOPED_TRACE(threads);
    set_thread_count(threads);
    start_threads();
    int checked = 0;
    for (DataType type : GetParam()->types) {
      for (const Case& c : cases(type)) {
        SCOPED_TRACE(c.title);
        for (Layout layout : {Layout::contiguous, Layout::transposed}) {
          SCOPED_TRACE(name_of(layout));
          expect_no_requests(Arguments(c.arguments, layout));
          ++checked;
        }
      }
    }
    RecordProperty("checked", checked);
    EXPECT_GT(checked, 0);
  }

  void TearDown() override { set_thread_count(0); }
};

TEST_P(Phase2Memory, IsTheWorkspaceAloneOnOneThread) {
  check(1, GetParam()->cases);
}

TEST_P(Phase2Memory, IsTheWorkspaceAloneOnSeveralThreads) {
  check(4, GetParam()->parallel_cases);
}

INSTANTIATE_TEST_SUITE_P(All, Phase2Memory, testing::ValuesIn(pointers_to(operators())), name_of_described);

}  // namespace
}  // namespace aclgrad::test
