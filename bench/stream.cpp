// The memory floors: how fast this machine reads and copies, with the library's own threads.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/parallel.h"

namespace {

constexpr int64_t kChunkBytes = int64_t{1} << 18;
constexpr double kNanosecondsPerByte = 0.1;

template <class Body>
void for_each_chunk(int64_t bytes, Body&& body) {
  aclgrad::parallel_for(bytes / kChunkBytes, kNanosecondsPerByte * static_cast<double>(bytes),
                        [&](int64_t chunk) { body(chunk * kChunkBytes); });
}

}  // namespace

// Reads the whole chunks of `bytes` and returns a value that depends on all of them.
extern "C" ACLGRAD_API uint64_t stream_read(const std::byte* from, int64_t bytes) {
  uint64_t result = 0;
  for_each_chunk(bytes, [&](int64_t at) {
    uint64_t sums[16] = {};
    for (int64_t i = 0; i < kChunkBytes; i += 128) {
      uint64_t words[16];
      std::memcpy(words, from + at + i, sizeof words);
      for (int lane = 0; lane < 16; ++lane) sums[lane] += words[lane];
    }
    for (uint64_t sum : sums) __atomic_fetch_add(&result, sum, __ATOMIC_RELAXED);
  });
  return result;
}

extern "C" ACLGRAD_API void stream_copy(const std::byte* from, std::byte* to, int64_t bytes) {
  for_each_chunk(bytes, [&](int64_t at) { std::memcpy(to + at, from + at, kChunkBytes); });
}
