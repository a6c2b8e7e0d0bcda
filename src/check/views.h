// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Memory in two views: the same pages at two addresses. The program gets addresses in one
// view, to which the host's access can be taken away, as an NPU's memory is out of the host's reach. The
// library works through the other, so that its threads are never in the way.
#pragma once

#include <cstddef>

#include "base/fork.h"

namespace aclgrad::check {

// Whole pages of zeros that the host may access; null where the system offers no views, as under a sanitizer.
std::byte* map_views(size_t bytes);
void unmap_views(std::byte* start, size_t bytes);

bool is_in_program_view(const void* address);

// The library's address of the same byte. Memory that is not in views is left as it is.
void* library_view(void* address);
const void* library_view(const void* address);

// From memory of the program that may be gone: false where any of it is not readable, or the system does not
// allow to find out.
bool read_memory(const void* from, std::byte* to, size_t bytes);

// Of all pages that hold a byte of [begin, end), where these are in views.
void allow_host_access(const std::byte* begin, const std::byte* end);
void deny_host_access(const std::byte* begin, const std::byte* end);

// The nearest beginnings of pages.
const std::byte* page_at_or_before(const std::byte* address);
const std::byte* page_at_or_behind(const std::byte* address);

void act_on_view_lock(LockAction action);  // for a fork

// For the child of a fork: it shares the views with its parent, and so takes no new memory from them.
void keep_views_to_parent();

}  // namespace aclgrad::check
