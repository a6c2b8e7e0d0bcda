// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "tensor/region.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace aclgrad {
namespace {

constexpr int64_t kMaxSteps = 1 << 22;

// True, too, where no steps are left.
bool block_touches(const Region& region, size_t axis, const std::byte* block, const std::byte* begin,
                   const std::byte* end, int64_t& steps_left) {
  if (--steps_left < 0) return true;
  const int64_t extent = region.extent(axis);
  if (block >= end || block + extent <= begin) return false;
  if (block >= begin && block + extent <= end) return true;
  if (axis == region.axes.size()) return true;
  const auto [count, stride] = region.axes[axis];
  const int64_t skipped = begin - block - region.extent(axis + 1);  // blocks that end here lie before `begin`
  const int64_t first = skipped < 0 ? 0 : skipped / stride + 1;
  const int64_t last = std::min(count - 1, (end - block - 1) / stride);
  for (int64_t i = first; i <= last; ++i) {
    if (block_touches(region, axis + 1, block + i * stride, begin, end, steps_left)) return true;
  }
  return false;
}

// Follows the blocks of `first` down to where they are contiguous, as long as `second` touches them.
bool block_overlaps(const Region& first, size_t axis, const std::byte* block, const Region& second,
                    int64_t& steps_left, bool if_unknown) {
  if (--steps_left < 0) return if_unknown;
  if (!block_touches(second, 0, second.start, block, block + first.extent(axis), steps_left)) return false;
  if (axis == first.axes.size()) return true;
  const auto [count, stride] = first.axes[axis];
  const int64_t skipped = second.start - block - first.extent(axis + 1);
  const int64_t begin = skipped < 0 ? 0 : skipped / stride + 1;
  const int64_t last = std::min(count - 1, (second.end() - block - 1) / stride);
  for (int64_t i = begin; i <= last; ++i) {
    if (block_overlaps(first, axis + 1, block + i * stride, second, steps_left, if_unknown)) return true;
  }
  return false;
}

// Whether the runs of one lie in the gaps between those of the other: all lie at multiples of one distance.
bool interleave(const Region& first, const Region& second) {
  int64_t distance = 0;
  for (const Region* region : {&first, &second}) {
    for (const Region::Axis& axis : region->axes) distance = std::gcd(distance, axis.stride);
  }
  if (distance == 0) return false;
  const int64_t beyond = (second.start - first.start) % distance;
  const int64_t begin = beyond < 0 ? beyond + distance : beyond;
  return begin >= first.run && begin + second.run <= distance;
}

}  // namespace

Region Region::contiguous(const void* start, size_t bytes) {
  return {static_cast<const std::byte*>(start), static_cast<int64_t>(bytes), {}};
}

Region Region::rows(const void* start, size_t width, size_t pitch, size_t height) {
  const int64_t shape[] = {static_cast<int64_t>(height), static_cast<int64_t>(width)};
  const int64_t strides[] = {static_cast<int64_t>(pitch), 1};
  return strided(start, 1, 2, shape, strides);
}

Region Region::strided(const void* start, size_t element_bytes, int rank, const int64_t* shape,
                       const int64_t* strides) {
  const auto element = static_cast<int64_t>(element_bytes);
  Region region = contiguous(start, element_bytes);
  for (int i = 0; i < rank; ++i) {
    if (shape[i] == 0) return contiguous(start, 0);
    if (shape[i] == 1 || strides[i] == 0) continue;
    region.axes.push_back({shape[i], std::abs(strides[i]) * element});
    if (strides[i] < 0) region.start += (shape[i] - 1) * strides[i] * element;
  }
  std::sort(region.axes.begin(), region.axes.end(),
            [](const Axis& a, const Axis& b) { return a.stride > b.stride; });
  while (!region.axes.empty() && region.axes.back().stride <= region.run) {
    region.run += (region.axes.back().count - 1) * region.axes.back().stride;
    region.axes.pop_back();
  }
  return region;
}

bool Region::touches(const std::byte* begin, const std::byte* end) const {
  int64_t steps_left = kMaxSteps;
  return !empty() && block_touches(*this, 0, start, begin, end, steps_left);
}

int64_t Region::extent(size_t axis) const {
  int64_t bytes = run;
  for (; axis < axes.size(); ++axis) bytes += (axes[axis].count - 1) * axes[axis].stride;
  return bytes;
}

bool overlap(const Region& first, const Region& second, bool if_unknown) {
  if (first.empty() || second.empty() || interleave(first, second)) return false;
  int64_t steps_left = kMaxSteps;
  return block_overlaps(first, 0, first.start, second, steps_left, if_unknown);
}

}  // namespace aclgrad
