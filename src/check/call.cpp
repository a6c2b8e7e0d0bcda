// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/call.h"

#include "check/host_copies.h"
#include "check/memory.h"
#include "check/order.h"
#include "check/results.h"
#include "check/views.h"

namespace aclgrad::check {
namespace {

struct Sides {
  Side destination;
  Side source;
};

Side side_of(const void* memory) {
  return is_device_memory(memory) ? Side::device : Side::host;
}

Sides sides_of(const Copy& copy, aclrtMemcpyKind kind) {
  switch (kind) {
    case ACL_MEMCPY_HOST_TO_HOST:
      return {Side::host, Side::host};
    case ACL_MEMCPY_HOST_TO_DEVICE:
    case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE:
      return {Side::device, Side::host};
    case ACL_MEMCPY_DEVICE_TO_HOST:
      return {Side::host, Side::device};
    case ACL_MEMCPY_DEFAULT:
      return {side_of(copy.destination), side_of(copy.source)};
    default:
      return {Side::device, Side::device};
  }
}

// Memory that the library has allocated can be put out of the host's reach; other memory is written late.
Copy to_host(std::string_view function, const Copy& copy, const Region& destination, bool is_open) {
  expect_change(destination);
  if (!is_allocated_memory(copy.destination)) return to_staging(function, copy, newest_task(), is_open);
  arrives_in_place(copy, newest_task());
  if (!is_open) deny_destination(destination);
  return copy;
}

}  // namespace

void begin(const Call& call) {
  check_results(call);
  check_memory(call);
  check_order(call);
}

Copy begin_copy(std::string_view function, const Copy& copy, aclrtMemcpyKind kind, Queue* queue) {
  const Sides sides = sides_of(copy, kind);
  const Region to = Region::rows(copy.destination, copy.width, copy.destination_pitch, copy.height);
  const Region from = Region::rows(copy.source, copy.width, copy.source_pitch, copy.height);
  begin({function,
         {{"dst", to, true, sides.destination, false}, {"src", from, false, sides.source, false}},
         queue,
         false});
  const bool is_queued = queue != nullptr && !to.empty();
  const bool waits_for_unknown = is_queued && is_open(*queue);
  Copy done = copy;
  if (is_queued && sides.destination == Side::host) done = to_host(function, done, to, waits_for_unknown);
  if (is_queued && !is_device_memory(copy.source)) {
    done = from_snapshot(function, done, newest_task(), *queue, waits_for_unknown);
  }
  if (!waits_for_unknown) copy_unset(copy);
  done.destination = library_view(done.destination);
  done.source = library_view(done.source);
  return done;
}

Fill begin_fill(std::string_view function, const Fill& fill, const Queue* queue) {
  const Region region = Region::contiguous(fill.destination, fill.bytes);
  begin({function, {{"devPtr", region, true, Side::allocated, false}}, queue, false});
  return {library_view(fill.destination), fill.value, fill.bytes};
}

}  // namespace aclgrad::check
