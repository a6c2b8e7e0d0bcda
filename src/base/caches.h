// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace aclgrad {

// Whether a tensor of so many bytes is better written past the caches: in them it would replace everything else without
// staying itself, and each of its lines would be fetched before it is overwritten.
inline bool outgrows_caches(int64_t bytes) {
  return bytes >= int64_t{4} << 20;
}

// Where a line is fetched to, as __builtin_prefetch numbers it.
enum CacheLevel : int { kSecondLevel = 2, kFirstLevel = 3 };

// Asks for a cache line that is read some time later, in the second-level cache: the first one has few requests under way
// at a time, and less room.
[[gnu::always_inline]] inline void prefetch_for_later(const void* line) {
  constexpr int kIsRead = 0;
  __builtin_prefetch(line, kIsRead, kSecondLevel);
}

// Asks for all lines of some memory, of which the first and the last may hold other things, too.
template <CacheLevel kLevel = kSecondLevel>
[[gnu::always_inline]] inline void prefetch_lines(const void* begin, int64_t bytes) {
  constexpr uintptr_t kLine = 64;
  constexpr int kIsRead = 0;
  const auto end = reinterpret_cast<uintptr_t>(begin) + static_cast<uintptr_t>(bytes);
  for (uintptr_t line = reinterpret_cast<uintptr_t>(begin) / kLine * kLine; line < end; line += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(line), kIsRead, kLevel);
}

}  // namespace aclgrad
