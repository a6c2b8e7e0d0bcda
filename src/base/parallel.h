// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Threads for kernels: one pool for the process, shared by all streams.
#pragma once

#include <hwy/cache_control.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "aclgrad/types.h"

namespace aclgrad {

// Work below this is not worth waking another thread for.
inline constexpr double kMinParallelNanoseconds = 50e3;

namespace detail {
// False where there are no other threads any more.
bool run_parallel(int64_t count, void (*body)(const void* context, int64_t index), const void* context);
}  // namespace detail

// Calls body(i) once for each i in [0, count), on several threads where that pays. `serial_nanoseconds`
// estimates the whole on one thread. Which thread runs which index is left open, so a result may depend on
// the index only. What bodies stored past the caches is complete when it returns. Throws what a body threw.
template <class Body>
void parallel_for(int64_t count, double serial_nanoseconds, Body&& body) {
  using Function = std::remove_reference_t<Body>;
  const auto call_body = [](const void* context, int64_t i) { (*static_cast<const Function*>(context))(i); };
  const bool pays = count > 1 && serial_nanoseconds >= kMinParallelNanoseconds && thread_count() > 1;
  if (pays && detail::run_parallel(count, call_body, &body)) return;
  for (int64_t i = 0; i < count; ++i) body(i);
  hwy::FlushStream();
}

// The same for body(i, slot) with a slot in [0, slots) that no other thread has at that time: for memory that the bodies
// of a thread use one after the other.
template <class Body>
void parallel_for_with_slots(int64_t count, int64_t slots, double serial_nanoseconds, Body&& body) {
  std::atomic<int64_t> next{0};
  const int64_t workers = std::min({count, slots, static_cast<int64_t>(thread_count())});
  parallel_for(workers, serial_nanoseconds, [&](int64_t slot) {
    for (int64_t i = next++; i < count; i = next++) body(i, slot);
  });
}

}  // namespace aclgrad
