// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "ops/nsa_compress/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace aclgrad::ops::nsa_compress {
namespace {

std::span<const int64_t> ends_of(const SlidingWindows& windows) {
  if (windows.sequences == 0) return {&windows.tokens, 1};
  return {windows.sequence_ends, static_cast<size_t>(windows.sequences)};
}

int64_t windows_of(int64_t tokens, int64_t block, int64_t stride) {
  return tokens >= block ? (tokens - block) / stride + 1 : 0;
}

}  // namespace

std::optional<WindowMismatch> find_wrong_end(const SlidingWindows& windows) {
  const std::span<const int64_t> ends = ends_of(windows);
  int64_t begin = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    if (ends[i] < 0)
      return WindowMismatch{true, "no negative entry", fmt::format("{} at entry {}", ends[i], i)};
    if (ends[i] < begin) {
      return WindowMismatch{true, "non-decreasing entries",
                            fmt::format("{} at entry {}, after {}", ends[i], i, begin)};
    }
    begin = ends[i];
  }
  if (begin == windows.tokens) return std::nullopt;
  return WindowMismatch{true, fmt::format("{} as its last entry, the number of tokens", windows.tokens),
                        fmt::format("{}", begin)};
}

int64_t total_windows(const SlidingWindows& windows) {
  int64_t total = 0;
  int64_t begin = 0;
  for (int64_t end : ends_of(windows)) {
    total += windows_of(end - begin, windows.block, windows.stride);
    begin = end;
  }
  return total;
}

std::optional<WindowMismatch> find_mismatch(const SlidingWindows& windows, int64_t rows) {
  if (auto wrong_end = find_wrong_end(windows)) return wrong_end;
  const int64_t total = total_windows(windows);
  if (total == rows) return std::nullopt;
  return WindowMismatch{false, fmt::format("a row for each of {} windows", total),
                        fmt::format("{} rows", rows)};
}

WindowTable::WindowTable(const SlidingWindows& windows, WorkspaceAllocator& allocator)
    : block_(windows.block), stride_(windows.stride) {
  const size_t count = ends_of(windows).size();
  ends_ = {allocator.take<int64_t>(static_cast<int64_t>(count)), count};
  first_windows_ = {allocator.take<int64_t>(static_cast<int64_t>(count)), count};
}

void WindowTable::read(const SlidingWindows& windows, int64_t rows) const {
  const std::span<const int64_t> given = ends_of(windows);
  // The copy is what is checked: nobody else can change it afterwards.
  std::copy(given.begin(), given.end(), ends_.begin());
  SlidingWindows copy = windows;
  copy.sequence_ends = ends_.data();
  copy.sequences = static_cast<int64_t>(ends_.size());
  if (const auto mismatch = find_mismatch(copy, rows)) {
    throw std::invalid_argument(fmt::format("{}: expected {}, got {}.",
                                            mismatch->is_of_ends ? kEndsField : "windows", mismatch->expected,
                                            mismatch->got));
  }
  int64_t window = 0;
  for (size_t i = 0; i < ends_.size(); ++i) {
    first_windows_[i] = window;
    window += windows_of(ends_[i] - begin_of(i), block_, stride_);
  }
}

Run WindowTable::run_at(int64_t token, int64_t max_tokens) const {
  const auto sequence =
      static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), token) - ends_.begin());
  const int64_t begin = begin_of(sequence);
  const int64_t windows = windows_of(ends_[sequence] - begin, block_, stride_);
  const int64_t position = token - begin;
  // The windows that start at or before the token and end behind it.
  const int64_t first = position < block_ ? 0 : (position - block_) / stride_ + 1;
  const int64_t last = std::min(position / stride_, windows - 1);
  int64_t tokens = std::min(ends_[sequence] - token, max_tokens);
  // Up to where the next window starts or the first one ends. A window that exists ends inside the sequence,
  // so that these products cannot overflow.
  if (last + 1 < windows) tokens = std::min(tokens, (last + 1) * stride_ - position);
  if (first > last) return {token, tokens, 0, 0, 0};
  tokens = std::min(tokens, first * stride_ + block_ - position);
  return {token, tokens, first_windows_[sequence] + first, last - first + 1, position - first * stride_};
}

int64_t WindowTable::first_token_of(int64_t window) const {
  const auto after = std::upper_bound(first_windows_.begin(), first_windows_.end(), window);
  const auto sequence = static_cast<size_t>(after - first_windows_.begin()) - 1;
  return begin_of(sequence) + (window - first_windows_[sequence]) * stride_;
}

}  // namespace aclgrad::ops::nsa_compress
