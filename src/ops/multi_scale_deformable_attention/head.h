// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// One head of one batch, the unit that the kernels work on: its rows of value lie far apart in the tensor,
// and are copied to a plane where they lie side by side as soon as there are enough points to sample.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/caches.h"
#include "base/data_type.h"
#include "base/divide.h"
#include "ops/multi_scale_deformable_attention/levels.h"

namespace aclgrad::ops::multi_scale_deformable_attention {

// Channels are taken 16 at a time.
inline constexpr int64_t kChunkChannels = 16;

inline int64_t chunks_of(int64_t channels) {
  return divide_up(channels, kChunkChannels);
}

// The rows of a head, in the tensor or in a plane. Readable in whole chunks, with zeros after the last channel.
struct HeadRows {
  const void* first;
  int64_t stride;  // elements from row to row
};

// What one call of a kernel works on.
struct HeadTask {
  int64_t batch;
  int64_t head;
  int64_t first_query;
  int64_t last_query;  // one past it, as below
  int64_t first_level;
  int64_t last_level;
  HeadRows value;
  HeadRows grad_grad_value;  // without data where none is given
  int64_t outside = -1;  // the row that pixels outside have: none, or one of zeros, behind those of a plane
};

// Whether value is copied. Reading it in the tensor is better where most of its rows are never sampled, but
// works for whole chunks only.
inline bool packs_value(const MultiScaleDeformableSampling& problem) {
  return problem.channels() % kChunkChannels != 0 ||
         problem.queries() * problem.levels() * problem.samples() >= problem.rows();
}

// Bytes of a row of value in a plane.
inline int64_t packed_row_bytes(const MultiScaleDeformableSampling& problem) {
  return chunks_of(problem.channels()) * kChunkChannels * static_cast<int64_t>(size_of(problem.value.type));
}

// Where a head of value, or of a tensor of its shape, begins.
inline const std::byte* first_of_head(const ConstTensor& value, int64_t batch, int64_t head) {
  const int64_t element = batch * value.stride(0) + head * value.stride(2);
  return static_cast<const std::byte*>(value.data) + element * static_cast<int64_t>(size_of(value.type));
}

// How many rows before it is worked on one is asked for.
inline constexpr int64_t kRowsAhead = 16;

// Copies rows of a head of value to places of a plane that are `row_bytes` apart, and sets the rest of the first
// `filled_bytes` of each place to zero.
inline void pack_rows(const ConstTensor& value, int64_t batch, int64_t head, RowRange rows, std::byte* plane,
                      int64_t row_bytes, int64_t filled_bytes) {
  const auto element = static_cast<int64_t>(size_of(value.type));
  const int64_t bytes = value.size(3) * element;
  const int64_t stride = value.stride(1) * element;
  const std::byte* first = first_of_head(value, batch, head);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    // The rows lie too far apart for the processor to foresee.
    prefetch_lines(first + std::min(row + kRowsAhead, rows.end - 1) * stride, bytes);
    std::memcpy(plane + row * row_bytes, first + row * stride, static_cast<size_t>(bytes));
    std::memset(plane + row * row_bytes + bytes, 0, static_cast<size_t>(filled_bytes - bytes));
  }
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention
