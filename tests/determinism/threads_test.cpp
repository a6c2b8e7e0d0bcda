// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Every function of the C++ interface is bitwise reproducible: for any number of threads, each time, and with a
// workspace that holds anything. tests/operators/ has the same of the C functions.
#include <gtest/gtest.h>

#include <cstring>

#include "base/data_type.h"
#include "support/function.h"

namespace aclgrad::test {
namespace {

class Threads : public testing::TestWithParam<Typed<Function>> {
 protected:
  void TearDown() override { set_thread_count(0); }
};

INSTANTIATE_TEST_SUITE_P(, Threads, testing::ValuesIn(typed(functions())), name_of_typed);

TEST_P(Threads, GiveTheSameBits) {
  const auto [of, type] = GetParam();
  for (const Case& one : of->cases(type)) {
    SCOPED_TRACE(one.title);
    std::vector<std::byte> first;
    int contents = 0;
    for (int threads : {1, 2, 3, 4, 7, 64, 1}) {
      set_thread_count(threads);
      const FunctionCall call(*of, one.arguments, threads % 2 == 0 ? Layout::gapped : Layout::contiguous);
      const size_t size = call.problem().workspace_size();
      const Workspace workspace(size);
      const WorkspaceView view = workspace;
      if (size > 0) std::memset(view.data, contents, size);
      contents = (contents + 0x5A) & 0xFF;
      call.problem().run(view);
      if (first.empty()) first = call.bytes(of->outputs());
      EXPECT_EQ(call.bytes(of->outputs()), first) << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace aclgrad::test
