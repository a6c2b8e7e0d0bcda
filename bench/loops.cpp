// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Loops that Python is too slow for: over calls, and over memory. The latter measure the memory bandwidth: how fast this
// machine reads and copies, with the library's own threads. Each chunk is walked in several places side by side, because
// one place at a time is slower: the processor fetches ahead within a page only.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "base/parallel.h"

namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Bytes = hn::ScalableTag<uint64_t>;

constexpr int64_t kChunkBytes = int64_t{1} << 18;
constexpr int64_t kLineBytes = 64;
constexpr double kNanosecondsPerByte = 0.1;

template <class Body>
void for_each_chunk(int64_t bytes, Body&& body) {
  aclgrad::parallel_for(bytes / kChunkBytes, kNanosecondsPerByte * static_cast<double>(bytes),
                        [&](int64_t chunk) { body(chunk * kChunkBytes); });
}

// Calls body(offset) for each cache line of a chunk, in all places in turn.
template <int kPlaces, class Body>
void for_each_line(Body&& body) {
  constexpr int64_t kStep = kChunkBytes / kPlaces;
  for (int64_t at = 0; at < kStep; at += kLineBytes) {
    for (int place = 0; place < kPlaces; ++place) body(place * kStep + at);
  }
}

}  // namespace

// Calls phase 2 of an operator and waits, many times.
extern "C" ACLGRAD_API void repeat_call(int64_t times, int32_t (*execute)(void*, uint64_t, void*, void*),
                                        int32_t (*wait)(void*), void* workspace, uint64_t size,
                                        void* executor) {
  for (int64_t i = 0; i < times; ++i) {
    execute(workspace, size, executor, nullptr);
    wait(nullptr);
  }
}

// Reads the whole chunks of `bytes` and returns a value that depends on all of them.
extern "C" ACLGRAD_API uint64_t stream_read(const std::byte* from, int64_t bytes) {
  constexpr int kPlaces = 8;
  uint64_t result = 0;
  for_each_chunk(bytes, [&](int64_t chunk) {
    const Bytes d;
    auto sum = hn::Zero(d);
    for_each_line<kPlaces>([&](int64_t offset) {
      const auto* line = reinterpret_cast<const uint64_t*>(from + chunk + offset);
      for (size_t i = 0; i < kLineBytes / sizeof(uint64_t); i += hn::Lanes(d))
        sum = hn::Add(sum, hn::LoadU(d, line + i));
    });
    __atomic_fetch_add(&result, hn::GetLane(hn::SumOfLanes(d, sum)), __ATOMIC_RELAXED);
  });
  return result;
}

// Copies the whole chunks of `bytes` past the caches. `to` is aligned to cache lines.
extern "C" ACLGRAD_API void stream_copy(const std::byte* from, std::byte* to, int64_t bytes) {
  constexpr int kPlaces = 2;
  for_each_chunk(bytes, [&](int64_t chunk) {
    const Bytes d;
    for_each_line<kPlaces>([&](int64_t offset) {
      const auto* line = reinterpret_cast<const uint64_t*>(from + chunk + offset);
      auto* copy = reinterpret_cast<uint64_t*>(to + chunk + offset);
      for (size_t i = 0; i < kLineBytes / sizeof(uint64_t); i += hn::Lanes(d))
        hn::Stream(hn::LoadU(d, line + i), d, copy + i);
    });
    hwy::FlushStream();
  });
}
