// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Makes requests of this process for memory or threads fail. A program that is linked with it has these functions of
// the C library, and operator new, replaced in itself and in every library that it loads.
#pragma once

#include <cstdint>

namespace faults {

enum class Resource { memory, threads };

// Which requests fail, counted from 1.
enum class Extent { one, all_later };

// From now on the request number `first` fails, in whatever thread it is made.
void arm(Resource resource, int64_t first, Extent extent);

struct Count {
  int64_t requested;
  int64_t refused;
};

// Since arm(). From now on nothing fails.
Count disarm();

// From now on a thread can start only while fewer than `max_threads` others than the first live, whoever starts it.
void limit_threads(int64_t max_threads);

// Allocations that were not freed yet.
int64_t live_allocations();

}  // namespace faults
