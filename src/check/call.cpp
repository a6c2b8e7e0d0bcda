#include "check/call.h"

#include "check/memory.h"
#include "check/order.h"
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

}  // namespace

void begin(const Call& call) {
  check_memory(call);
  check_order(call);
}

Copy begin_copy(std::string_view function, const Copy& copy, aclrtMemcpyKind kind, const Queue* queue) {
  const Sides sides = sides_of(copy, kind);
  const Region to = Region::rows(copy.destination, copy.width, copy.destination_pitch, copy.height);
  const Region from = Region::rows(copy.source, copy.width, copy.source_pitch, copy.height);
  begin({function,
         {{"dst", to, true, sides.destination, false}, {"src", from, false, sides.source, false}},
         queue,
         false});
  Copy done = copy;
  if (queue != nullptr) {
    if (sides.destination == Side::host) deny_destination(to);
    const bool reads_host_later = !from.empty() && !is_device_memory(copy.source);
    if (reads_host_later) done = snapshot_source(function, copy, *queue);
  }
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
