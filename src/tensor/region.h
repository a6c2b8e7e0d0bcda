// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Which bytes a tensor or a copy uses: memory in runs of equal length at regular distances.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace aclgrad {

struct Region {
  struct Axis {
    int64_t count;
    int64_t stride;  // bytes

    bool operator==(const Axis& other) const = default;
  };

  const std::byte* start = nullptr;
  int64_t run = 0;         // contiguous bytes
  std::vector<Axis> axes;  // by falling strides

  static Region contiguous(const void* start, size_t bytes);
  static Region rows(const void* start, size_t width, size_t pitch, size_t height);
  // Strides count elements.
  static Region strided(const void* start, size_t element_bytes, int rank, const int64_t* shape,
                        const int64_t* strides);

  bool operator==(const Region& other) const = default;

  bool empty() const { return run == 0; }
  bool is_contiguous() const { return axes.empty(); }
  const std::byte* end() const { return start + extent(0); }
  int64_t bytes_spanned() const { return extent(0); }

  // Whether any byte of the region lies in [begin, end). If the search takes more than 2^22 steps, the result is true.
  bool touches(const std::byte* begin, const std::byte* end) const;

  // From the first byte to the last of one block of the axes from `axis` on.
  int64_t extent(size_t axis) const;
};

// Whether the regions share a byte. If the search takes more than 2^22 steps, the result is `if_unknown`.
bool overlap(const Region& first, const Region& second, bool if_unknown = false);

}  // namespace aclgrad
