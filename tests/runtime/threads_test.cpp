// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// How many threads kernels may have.
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cfenv>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/parallel.h"
#include "base/processors.h"
#include "process.h"

namespace aclgrad {
namespace {

// The folders of control groups, as the system shows them.
class ControlGroups : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "aclgrad_cgroup_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    mount_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(mount_); }

  void write(const std::string& group, const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(mount_ / group);
    std::ofstream(mount_ / group / file) << text << '\n';
  }
  int processors_of(const std::string& membership) const {
    return processors_of_quota(membership, mount_.string());
  }

 private:
  std::filesystem::path mount_;
};

TEST_F(ControlGroups, WithoutAQuotaThereIsNoLimit) {
  EXPECT_EQ(processors_of(""), 0);
  EXPECT_EQ(processors_of("0::/a\n"), 0);
  EXPECT_EQ(processors_of("no such line\n:\n"), 0);
  write("a", "cpu.max", "max 100000");
  EXPECT_EQ(processors_of("0::/a\n"), 0);
  write("cpu,cpuacct/a", "cpu.cfs_quota_us", "-1");
  write("cpu,cpuacct/a", "cpu.cfs_period_us", "100000");
  EXPECT_EQ(processors_of("4:cpu,cpuacct:/a\n"), 0);
}

TEST_F(ControlGroups, AQuotaIsRoundedUp) {
  write("a/b", "cpu.max", "150000 100000");
  EXPECT_EQ(processors_of("0::/a/b\n"), 2);
  write("a/b", "cpu.max", "1000 100000");
  EXPECT_EQ(processors_of("0::/a/b\n"), 1);
}

TEST_F(ControlGroups, TheLeastOfTheGroupsAroundCounts) {
  write("a/b", "cpu.max", "800000 100000");
  write("a", "cpu.max", "300000 100000");
  EXPECT_EQ(processors_of("0::/a/b\n"), 3);
}

TEST_F(ControlGroups, InAContainerTheRootIsTheGroup) {
  write("", "cpu.max", "400000 100000");
  EXPECT_EQ(processors_of("0::/\n"), 4);
  EXPECT_EQ(processors_of("0::/docker/0123\n"), 4);
}

TEST_F(ControlGroups, VersionOneHasFoldersByController) {
  for (const std::string folder : {"cpu", "cpu,cpuacct"}) {
    write(folder + "/a", "cpu.cfs_quota_us", "500000");
    write(folder + "/a", "cpu.cfs_period_us", "100000");
    EXPECT_EQ(processors_of("3:cpuset:/a\n2:" + folder + ":/a\n0::/\n"), 5);
    EXPECT_EQ(processors_of("3:cpuset:/a\n0::/\n"), 0) << "of another controller";
  }
}

class ThreadCountTest : public testing::Test {
 protected:
  void TearDown() override {
    set_thread_count(0);
    unsetenv("ACLGRAD_NUM_THREADS");
  }
};

TEST_F(ThreadCountTest, IsAtMostASmallMultipleOfTheProcessors) {
  const int most = 8 * processors();
  for (int wanted : {1, 3, most}) {
    set_thread_count(wanted);
    EXPECT_EQ(thread_count(), wanted);
  }
  for (int wanted : {most + 1, 100000, INT32_MAX}) {
    set_thread_count(wanted);
    EXPECT_EQ(thread_count(), most);
  }
}

TEST_F(ThreadCountTest, StartsAsTheProcessorsThatTheProcessMayUse) {
  EXPECT_CLEAN_EXIT([] {
    cpu_set_t one;
    REQUIRE(sched_getaffinity(0, sizeof one, &one) == 0);
    for (int cpu = 0, found = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &one) && found++ > 0) CPU_CLR(cpu, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    REQUIRE(processors() == 1 && thread_count() == 1);
  });
}

TEST_F(ThreadCountTest, TheVariableIsClampedWithALine) {
  setenv("ACLGRAD_NUM_THREADS", "1000000", 1);
  const auto body = [] {
    REQUIRE(thread_count() == 8 * processors());
    REQUIRE(thread_count() == 8 * processors());
  };
  EXPECT_CLEAN_EXIT_SAYING(
      body,
      "^aclgrad: ACLGRAD_NUM_THREADS=1000000: expected at most 8 threads for each of the [0-9]+ "
      "processors that the process may use; it counts as [0-9]+\\.\n$");
}

TEST_F(ThreadCountTest, AllThreadsRoundAsTheOneThatCalls) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "oneTBB is not built for the thread sanitizer";
#endif
  set_thread_count(4);
  std::atomic<int> started{0}, upward{0};
  const auto body = [&](int64_t) {
    ++started;
    while (started < 2) std::this_thread::yield();  // two threads at least
    if (std::fegetround() == FE_UPWARD) ++upward;
  };
  parallel_for(4, 1e9, body);  // starts the threads
  started = 0;
  std::fesetround(FE_UPWARD);
  parallel_for(4, 1e9, body);
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(upward, 4);
}

}  // namespace
}  // namespace aclgrad
