// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/host_copies.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/never_destroyed.h"
#include "check/check.h"
#include "check/views.h"

namespace aclgrad::check {
namespace {

using Bytes = std::vector<std::byte>;

// Rows in the host's memory.
struct HostRows {
  const std::byte* start;
  size_t pitch;
  size_t width;
  size_t height;

  Region region;

  const std::byte* row(size_t i) const { return start + i * pitch; }
};

HostRows rows_at(const void* start, size_t pitch, const Copy& copy) {
  return {static_cast<const std::byte*>(start), pitch, copy.width, copy.height,
          Region::rows(start, copy.width, pitch, copy.height)};
}

struct HostCopy {
  bool is_source;
  std::string parameter;  // "aclrtMemcpyAsync.src"
  HostRows rows;
  Task task;
  CallStack place = CallStack::here();
  std::shared_ptr<Bytes> copied = {};  // what the queued copy reads or writes; null: the host's own memory
  Bytes before = {};                   // what the program's memory must hold until it has synchronised
};

struct HostCopies {
  std::vector<HostCopy> sources;
  std::vector<HostCopy> destinations;  // in the order in which they were queued
};

constexpr Singleton<HostCopies> host_copies{};

// Row after row; false where some of it cannot be read.
bool read_rows(const HostRows& rows, Bytes& to) {
  to.resize(rows.width * rows.height);
  for (size_t i = 0; i < rows.height; ++i) {
    if (!read_memory(rows.row(i), to.data() + i * rows.width, rows.width)) return false;
  }
  return true;
}

void write_rows(const Bytes& from, const HostRows& rows) {
  for (size_t i = 0; i < rows.height; ++i) {
    std::memcpy(const_cast<std::byte*>(rows.row(i)), from.data() + i * rows.width, rows.width);
  }
}

// Writes into `to`, which holds `rows`, what it shares with `other`, which `from` holds.
void overlay(const HostRows& rows, Bytes& to, const HostRows& other, const Bytes& from) {
  for (size_t i = 0; i < rows.height; ++i) {
    for (size_t j = 0; j < other.height; ++j) {
      const std::byte* begin = std::max(rows.row(i), other.row(j));
      const std::byte* end = std::min(rows.row(i) + rows.width, other.row(j) + other.width);
      if (begin >= end) continue;
      std::memcpy(to.data() + i * rows.width + (begin - rows.row(i)),
                  from.data() + j * other.width + (begin - other.row(j)), static_cast<size_t>(end - begin));
    }
  }
}

// Allocates nothing, since that could be the very memory if the program has freed it.
bool holds(const HostRows& rows, const Bytes& expected) {
  std::array<std::byte, 4096> chunk;
  for (size_t done = 0; done < expected.size();) {
    const size_t column = done % rows.width;
    const size_t size = std::min(chunk.size(), rows.width - column);
    const std::byte* from = rows.row(done / rows.width) + column;
    if (!read_memory(from, chunk.data(), size)) return false;
    if (std::memcmp(chunk.data(), expected.data() + done, size) != 0) return false;
    done += size;
  }
  return true;
}

bool check_unchanged(const HostCopy& copy) {
  const bool is_checked = !copy.before.empty();
  if (!is_checked || holds(copy.rows, copy.before)) return true;
  as_far_as_memory_goes([&] {
    report(
        copy.is_source ? "source-changed" : "destination-changed", copy.place,
        "{} ({}, {} bytes) was overwritten or freed on the host before the stream was synchronised. Queued "
        "at {}, noticed at {}",
        copy.parameter, static_cast<const void*>(copy.rows.start), copy.before.size(), copy.place.text(),
        CallStack::here().text());
  });
  return false;
}

// What copies bring to the host's memory.
using Arrivals = std::vector<std::pair<HostRows, std::shared_ptr<Bytes>>>;

Arrivals arrivals_before(Task task, const HostRows& rows, const std::vector<HostCopy>& destinations) {
  Arrivals arriving;
  for (const HostCopy& destination : destinations) {
    const bool comes_later = destination.task.stream == task.stream && destination.task.number > task.number;
    if (comes_later || destination.copied == nullptr) continue;
    if (overlap(rows.region, destination.rows.region))
      arriving.emplace_back(destination.rows, destination.copied);
  }
  return arriving;
}

void gather(const HostRows& rows, Bytes& gathered, const Arrivals& arriving) {
  read_rows(rows, gathered);
  for (const auto& [other, bytes] : arriving) overlay(rows, gathered, other, *bytes);
}

}  // namespace

Copy from_snapshot(std::string_view function, const Copy& copy, Task task, Queue& queue, bool is_open) {
  HostCopies& all = host_copies();
  HostCopy source{true, fmt::format("{}.src", function), rows_at(copy.source, copy.source_pitch, copy), task};
  source.copied = std::make_shared<Bytes>();
  if (!read_rows(source.rows, *source.copied)) return copy;
  const bool is_arriving = std::any_of(
      all.destinations.begin(), all.destinations.end(),
      [&](const HostCopy& destination) { return overlap(source.rows.region, destination.rows.region); });
  // Put together when its turn comes.
  if (is_open) {
    queue.submit_host([task, rows = source.rows, gathered = source.copied](Queue&) {
      std::lock_guard lock(calls_mutex);
      gather(rows, *gathered, arrivals_before(task, rows, host_copies().destinations));
    });
  } else if (is_arriving) {
    queue.submit_host([rows = source.rows, gathered = source.copied,
                       arriving = arrivals_before(task, source.rows, all.destinations)](Queue&) {
      gather(rows, *gathered, arriving);
    });
  } else {
    source.before = *source.copied;
  }
  Copy done = copy;
  done.source = source.copied->data();
  done.source_pitch = copy.width;
  all.sources.push_back(std::move(source));
  return done;
}

Copy to_staging(std::string_view function, const Copy& copy, Task task, bool is_open) {
  HostCopy destination{false, fmt::format("{}.dst", function),
                       rows_at(copy.destination, copy.destination_pitch, copy), task};
  if (!read_rows(destination.rows, destination.before)) return copy;
  destination.copied =
      std::make_shared<Bytes>(destination.before);  // changes nothing where the copy is dropped
  Copy done = copy;
  done.destination = destination.copied->data();
  done.destination_pitch = copy.width;
  if (is_open) destination.before.clear();
  host_copies().destinations.push_back(std::move(destination));
  return done;
}

void arrives_in_place(const Copy& copy, Task task) {
  host_copies().destinations.push_back(
      {false, {}, rows_at(copy.destination, copy.destination_pitch, copy), task, {}});
}

void expect_change(const Region& destination) {
  for (HostCopy& source : host_copies().sources) {
    if (!overlap(source.rows.region, destination)) continue;
    check_unchanged(source);
    source.before.clear();
  }
}

void finish_host_copies(const std::function<bool(Task)>& is_done) noexcept {
  HostCopies& all = host_copies();
  std::erase_if(all.sources, [&](const HostCopy& source) {
    if (!is_done(source.task)) return false;
    check_unchanged(source);
    return true;
  });
  for (HostCopy& destination : all.destinations) {
    if (destination.copied == nullptr || !is_done(destination.task)) continue;
    if (check_unchanged(destination)) write_rows(*destination.copied, destination.rows);
    // Later copies to the same memory find this there.
    for (HostCopy& later : all.destinations) {
      const bool is_checked = !later.before.empty();
      if (is_checked && overlap(later.rows.region, destination.rows.region))
        read_rows(later.rows, later.before);
    }
  }
  std::erase_if(all.destinations, [&](const HostCopy& destination) { return is_done(destination.task); });
}

void forget_host_copies(Task task) noexcept {
  const auto is_of_task = [&](const HostCopy& copy) { return copy.task == task; };
  std::erase_if(host_copies().sources, is_of_task);
  std::erase_if(host_copies().destinations, is_of_task);
}

}  // namespace aclgrad::check
