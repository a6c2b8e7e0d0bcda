// One head of one batch, the unit that the kernels work on: its rows of value lie far apart in the tensor,
// and are copied to a plane where they lie side by side as soon as there are enough points to sample.
#pragma once

#include <hwy/cache_control.h>

#include <cstdint>
#include <cstring>

#include "base/data_type.h"
#include "base/divide.h"
#include "ops/multi_scale_deformable_attention/levels.h"

namespace aclgrad::ops::multi_scale_deformable_attention {

// Channels are taken 16 at a time.
inline constexpr int64_t kChunkChannels = 16;

inline int64_t chunks_of(int64_t channels) {
  return divide_up(channels, kChunkChannels);
}

// What one call of a kernel works on.
struct HeadTask {
  int64_t batch;
  int64_t head;
  int64_t first_query;
  int64_t last_query;  // one past it, as below
  int64_t first_level;
  int64_t last_level;

  // The head's rows, in the tensor or in a plane. Readable in whole chunks, with zeros after the last
  // channel.
  const void* value;
  int64_t value_stride;  // elements from row to row
};

// Sums of grad_value for one head, in `count` planes that are to be added.
struct GradPlanes {
  float* first;
  int64_t row_stride;  // floats from row to row
  int64_t count;
  int64_t stride;  // floats from plane to plane
  // Which rows a point has touched, where most never are: the others hold nothing. Null where all are summed.
  bool* is_touched;
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

inline const std::byte* value_of_head(const MultiScaleDeformableSampling& problem, int64_t batch,
                                      int64_t head) {
  const int64_t element = batch * problem.value.stride(0) + head * problem.value.stride(2);
  return static_cast<const std::byte*>(problem.value.data) +
         element * static_cast<int64_t>(size_of(problem.value.type));
}

// Copies rows of a head to a plane with rows of `row_bytes` bytes, and sets the rest of each row to zero.
inline void pack_rows(const MultiScaleDeformableSampling& problem, int64_t batch, int64_t head, RowRange rows,
                      std::byte* plane, int64_t row_bytes) {
  constexpr int64_t kRowsAhead = 16;
  const auto element = static_cast<int64_t>(size_of(problem.value.type));
  const int64_t bytes = problem.channels() * element;
  const int64_t stride = problem.value.stride(1) * element;
  const std::byte* value = value_of_head(problem, batch, head);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    // The rows lie too far apart for the processor to foresee.
    const std::byte* ahead = value + std::min(row + kRowsAhead, rows.end - 1) * stride;
    for (int64_t i = 0; i < bytes; i += 64) hwy::Prefetch(ahead + i);
    std::memcpy(plane + row * row_bytes, value + row * stride, static_cast<size_t>(bytes));
    std::memset(plane + row * row_bytes + bytes, 0, static_cast<size_t>(row_bytes - bytes));
  }
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention
