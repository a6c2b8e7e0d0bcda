// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "fixture.h"

namespace aclgrad {
namespace {

using MemoryTest = RuntimeTest;

TEST_F(MemoryTest, DeviceMemoryIsAlignedAndHasRoom) {
  for (size_t size : {size_t{1}, size_t{31}, size_t{32}, size_t{100}, size_t{5} << 20}) {
    void* const memory = new_memory(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
    std::memset(memory, 1, (size + 31) / 32 * 32 + 32);
    EXPECT_EQ(aclrtFree(memory), ACL_SUCCESS);
  }
  for (auto* allocate : {&aclrtMallocAlign32, &aclrtMallocCached}) {
    void* memory = nullptr;
    ASSERT_EQ(allocate(&memory, 33, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_SUCCESS);
    std::memset(memory, 1, 64);
    EXPECT_EQ(aclrtFree(memory), ACL_SUCCESS);
  }
  void* memory = nullptr;
  ASSERT_EQ(aclrtMallocWithCfg(&memory, 33, ACL_MEM_TYPE_HIGH_BAND_WIDTH, nullptr), ACL_SUCCESS);
  EXPECT_EQ(aclrtFree(memory), ACL_SUCCESS);
}

TEST_F(MemoryTest, AllocationChecksParameters) {
  void* memory = nullptr;
  EXPECT_EQ(aclrtMalloc(nullptr, 1, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtMalloc(&memory, 0, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
  EXPECT_THAT(recent_message(), HasSubstr("aclrtMalloc.size: expected a positive number of bytes, got 0."));
  EXPECT_EQ(aclrtMalloc(&memory, 1, outside_of<aclrtMemMallocPolicy>(99)), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtMallocHost(nullptr, 1), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtMallocHost(&memory, 0), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(memory, nullptr);
}

TEST_F(MemoryTest, OutOfMemory) {
  size_t free = 0;
  size_t total = 0;
  ASSERT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), ACL_SUCCESS);
  EXPECT_GT(free, 0u);
  EXPECT_LE(free, total);
  void* memory = nullptr;
  for (size_t size :
       {total + 1, std::numeric_limits<size_t>::max() / 2, std::numeric_limits<size_t>::max()}) {
    EXPECT_EQ(aclrtMalloc(&memory, size, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION);
    EXPECT_EQ(aclrtMallocHost(&memory, size), ACL_ERROR_RT_MEMORY_ALLOCATION);
  }
  EXPECT_EQ(memory, nullptr);
}

TEST_F(MemoryTest, WhatIsNotLiveIsNotFreed) {
  void* const device = new_memory(64);
  void* host = nullptr;
  ASSERT_EQ(aclrtMallocHost(&host, 64), ACL_SUCCESS);
  EXPECT_EQ(aclrtFree(host), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtFreeHost(device), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtFree(static_cast<char*>(device) + 32), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtFree(device), ACL_SUCCESS);
  EXPECT_EQ(aclrtFree(device), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtFreeHost(host), ACL_SUCCESS);
  EXPECT_EQ(aclrtFreeHost(host), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtFree(nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtFreeHost(nullptr), ACL_ERROR_INVALID_PARAM);
  void* foreign = std::malloc(64);
  EXPECT_EQ(aclrtFree(foreign), ACL_ERROR_INVALID_PARAM);
  std::free(foreign);
}

TEST_F(MemoryTest, IsFreedByAThreadWithoutAContext) {
  void* const memory = new_memory(64);
  in_other_thread([memory] { EXPECT_EQ(aclrtFree(memory), ACL_SUCCESS) << "freeing needs no context"; });
}

TEST_F(MemoryTest, OutlivesItsDevicesReset) {
  void* const memory = new_memory(64);
  ASSERT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
  EXPECT_EQ(aclrtFree(memory), ACL_SUCCESS);
  EXPECT_EQ(aclrtFree(memory), ACL_ERROR_INVALID_PARAM) << "once only";
  ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
}

TEST_F(MemoryTest, CopyChecksParameters) {
  char from[8] = "abcdefg";
  char to[8] = "";
  EXPECT_EQ(aclrtMemcpy(nullptr, 8, from, 8, ACL_MEMCPY_DEFAULT), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtMemcpy(to, 8, nullptr, 8, ACL_MEMCPY_DEFAULT), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtMemcpy(to, 8, from, 8, outside_of<aclrtMemcpyKind>(8)), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtMemcpy(to, 7, from, 8, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_THAT(recent_message(),
              HasSubstr("aclrtMemcpy.count: expected at most the destination's 7 bytes, got 8."));
  EXPECT_EQ(aclrtMemcpy(to, 8, from, 0, ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
  EXPECT_STREQ(to, "");
  EXPECT_EQ(aclrtMemcpy(to, 8, from, 8, ACL_MEMCPY_HOST_TO_HOST), ACL_SUCCESS);
  EXPECT_STREQ(to, "abcdefg");
  EXPECT_EQ(aclrtMemcpy(to, 8, to, 8, ACL_MEMCPY_DEVICE_TO_DEVICE), ACL_SUCCESS) << "onto itself";
  EXPECT_EQ(aclrtMemcpyAsync(to, 8, from, 8, ACL_MEMCPY_HOST_TO_HOST, stream_),
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  in_other_thread(
      [&] { EXPECT_EQ(aclrtMemcpy(to, 8, from, 8, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_CONTEXT_NULL); });
}

TEST_F(MemoryTest, LargeCopiesAreWhole) {
  std::vector<uint32_t> from((10 << 20) / 4 + 3);
  std::iota(from.begin(), from.end(), 0u);
  std::vector<uint32_t> to(from.size());
  const size_t bytes = from.size() * 4;
  ASSERT_EQ(aclrtMemcpy(to.data(), bytes, from.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
  EXPECT_EQ(to, from);
  ASSERT_EQ(aclrtMemset(to.data(), bytes, 0x1FF, bytes - 1), ACL_SUCCESS);
  EXPECT_EQ(to.front(), 0xFFFFFFFFu) << "the low byte of the value";
  EXPECT_EQ(to.back(), 0xFFFFFFu | (from.back() & 0xFF000000u)) << "no more than count bytes";
  ASSERT_EQ(aclrtMemcpyAsync(to.data(), bytes, from.data(), bytes, ACL_MEMCPY_DEVICE_TO_HOST, stream_),
            ACL_SUCCESS);
  ASSERT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
  EXPECT_EQ(to, from);
}

TEST_F(MemoryTest, OverlappingCopyIsAMove) {
  std::vector<uint8_t> bytes(3 << 20);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7);
  const std::vector<uint8_t> before = bytes;
  const size_t count = bytes.size() - 5;
  ASSERT_EQ(aclrtMemcpy(bytes.data() + 5, count, bytes.data(), count, ACL_MEMCPY_DEVICE_TO_DEVICE),
            ACL_SUCCESS);
  EXPECT_TRUE(std::equal(before.begin(), before.end() - 5, bytes.begin() + 5));
}

TEST_F(MemoryTest, Fills) {
  uint8_t bytes[8] = {};
  EXPECT_EQ(aclrtMemset(nullptr, 8, 1, 8), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtMemset(bytes, 7, 1, 8), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtMemset(bytes, 8, 1, 0), ACL_SUCCESS);
  EXPECT_EQ(bytes[0], 0);
  Gate gate(stream_);
  ASSERT_EQ(aclrtMemsetAsync(bytes, 8, 3, 4, stream_), ACL_SUCCESS);
  EXPECT_EQ(bytes[0], 0) << "still queued";
  gate.open();
  ASSERT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
  EXPECT_EQ(bytes[3], 3);
  EXPECT_EQ(bytes[4], 0);
}

TEST_F(MemoryTest, PitchedCopies) {
  constexpr size_t kWidth = 3;
  const std::vector<char> from = {'a', 'b', 'c', '.', 'd', 'e', 'f', '.'};
  std::vector<char> to(10, '-');
  EXPECT_EQ(aclrtMemcpy2d(to.data(), 2, from.data(), 4, kWidth, 2, ACL_MEMCPY_HOST_TO_DEVICE),
            ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtMemcpy2d(to.data(), 5, from.data(), 2, kWidth, 2, ACL_MEMCPY_HOST_TO_DEVICE),
            ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_EQ(aclrtMemcpy2d(to.data(), 5, from.data(), 4, kWidth, 2, ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
  const std::string expected = "abc--def--";
  EXPECT_EQ(std::string(to.begin(), to.end()), expected);
  std::vector<char> packed(6);
  ASSERT_EQ(aclrtMemcpy2dAsync(packed.data(), 3, to.data(), 5, kWidth, 2, ACL_MEMCPY_DEVICE_TO_HOST, stream_),
            ACL_SUCCESS);
  ASSERT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
  EXPECT_EQ(std::string(packed.begin(), packed.end()), "abcdef");
  EXPECT_EQ(aclrtMemcpy2dAsync(packed.data(), 3, to.data(), 5, kWidth, 2, ACL_MEMCPY_HOST_TO_HOST, stream_),
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

// However many rows there are then, and however far apart.
TEST_F(MemoryTest, PitchedCopiesOfNothing) {
  char byte = 'a';
  EXPECT_EQ(aclrtMemcpy2d(&byte, 0, &byte, 0, 0, SIZE_MAX, ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
  EXPECT_EQ(aclrtMemcpy2d(&byte, SIZE_MAX, &byte, SIZE_MAX, SIZE_MAX, 0, ACL_MEMCPY_HOST_TO_DEVICE),
            ACL_SUCCESS);
  EXPECT_EQ(aclrtMemcpy2dAsync(&byte, SIZE_MAX, &byte, 1, 0, SIZE_MAX, ACL_MEMCPY_HOST_TO_DEVICE, stream_),
            ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
}

TEST_F(MemoryTest, PitchesDoNotMatterToASingleRow) {
  const char from = 'a';
  char to = '-';
  EXPECT_EQ(aclrtMemcpy2d(&to, SIZE_MAX, &from, SIZE_MAX / 2, 1, 1, ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
  EXPECT_EQ(to, 'a');
  EXPECT_EQ(aclrtMemcpy2d(&to, SIZE_MAX, &from, 1, 1, 2, ACL_MEMCPY_HOST_TO_DEVICE),
            ACL_ERROR_RT_PARAM_INVALID)
      << "no memory is so large";
}

TEST_F(MemoryTest, WhatIsPromisedIsNotFree) {
  if (visible_device(0).kind() != DeviceKind::cpu) GTEST_SKIP() << "a GPU counts itself";
  size_t free = 0;
  size_t total = 0;
  ASSERT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), ACL_SUCCESS);
  const size_t half = total / 2;
  for (int round = 0; round < 2; ++round) {
    void* const memory = new_memory(half);
    ASSERT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), ACL_SUCCESS);
    EXPECT_LE(free, total - half) << "though nothing was written yet";
    EXPECT_GT(free, 0u) << "what was freed counts no more";
    EXPECT_EQ(aclrtFree(memory), ACL_SUCCESS);
  }
}

TEST_F(MemoryTest, OfTheHostIsNoneOfAGpu) {
  if (visible_device(0).kind() == DeviceKind::cpu) GTEST_SKIP() << "a CPU shares its memory with the host";
  size_t free = 0;
  size_t total = 0;
  ASSERT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), ACL_SUCCESS);
  void* memory = nullptr;
  ASSERT_EQ(aclrtMallocHost(&memory, 1 << 20), ACL_SUCCESS);
  size_t free_now = 0;
  ASSERT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &free_now, &total), ACL_SUCCESS);
  EXPECT_EQ(free_now, free);
  EXPECT_EQ(aclrtFreeHost(memory), ACL_SUCCESS);
}

TEST_F(MemoryTest, MemoryInfoChecksParameters) {
  size_t free = 0;
  size_t total = 0;
  EXPECT_EQ(aclrtGetMemInfo(outside_of<aclrtMemAttr>(18), &free, &total), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtGetMemInfo(ACL_DDR_MEM, nullptr, &total), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtGetMemInfo(ACL_DDR_MEM, &free, nullptr), ACL_ERROR_INVALID_PARAM);
}

// As programs do to find out whether there is memory apart from its addresses.
TEST_F(MemoryTest, HasNoGranularity) {
  aclrtPhysicalMemProp properties = {ACL_MEM_HANDLE_TYPE_NONE,
                                     ACL_MEM_ALLOCATION_TYPE_PINNED,
                                     ACL_HBM_MEM_HUGE,
                                     {0, ACL_MEM_LOCATION_TYPE_DEVICE},
                                     0};
  size_t granularity = 0;
  void* start = nullptr;
  aclrtDrvMemHandle handle = nullptr;
  constexpr aclError kRefused = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
  EXPECT_EQ(
      aclrtMemGetAllocationGranularity(&properties, ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED, &granularity),
      kRefused);
  EXPECT_THAT(recent_message(), HasSubstr("aclrtMemGetAllocationGranularity: Physical memory is not"));
  EXPECT_EQ(aclrtReserveMemAddress(&start, 1 << 20, 0, nullptr, 1), kRefused);
  EXPECT_EQ(aclrtMallocPhysical(&handle, 1 << 20, &properties, 0), kRefused);
  EXPECT_EQ(aclrtMapMem(start, 1 << 20, 0, handle, 0), kRefused);
  EXPECT_EQ(aclrtUnmapMem(start), kRefused);
  EXPECT_EQ(aclrtFreePhysical(handle), kRefused);
  EXPECT_EQ(aclrtReleaseMemAddress(start), kRefused);
}

}  // namespace
}  // namespace aclgrad
