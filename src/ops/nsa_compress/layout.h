// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// How NSA compress and its gradient read windows and rows, and lay out the weights in their workspace.
#pragma once

#include <cstdint>

#include "aclgrad/nsa_compress.h"
#include "base/data_type.h"

namespace aclgrad::ops::nsa_compress {

// The windows of a problem. Without ends, all tokens are one sequence.
struct SlidingWindows {
  int64_t tokens;  // of all sequences together
  int64_t block;
  int64_t stride;
  const int64_t* sequence_ends;
  int64_t sequences;
  bool ends_on_gpu;
};

inline SlidingWindows sliding_windows(const NsaCompression& problem) {
  return {problem.tokens(),
          problem.block(),
          problem.stride,
          static_cast<const int64_t*>(problem.sequence_ends.data),
          problem.sequence_ends.size(0),
          problem.ends_on_gpu};
}

// A tensor of `heads` times `channels` elements in each row, a row for each token or window. The channels of
// a head are contiguous. Strides are in elements.
template <class T>
struct HeadRows {
  T* data = nullptr;
  int64_t row_stride = 0;
  int64_t head_stride = 0;
};

// Weights of [block, heads] as float [heads, block], where the kernels walk along the block.
inline void read_weights(DataType type, const void* from, int64_t block, int64_t heads, float* to) {
  visit_float_type(type, [&]<class T>(T) {
    const T* weight = static_cast<const T*>(from);
    for (int64_t j = 0; j < block; ++j) {
      for (int64_t n = 0; n < heads; ++n) to[n * block + j] = to_float(weight[j * heads + n]);
    }
  });
}

inline void write_weights(DataType type, const float* from, int64_t block, int64_t heads, void* to) {
  visit_float_type(type, [&]<class T>(T) {
    T* weight = static_cast<T*>(to);
    for (int64_t j = 0; j < block; ++j) {
      for (int64_t n = 0; n < heads; ++n) weight[j * heads + n] = from_float<T>(from[n * block + j]);
    }
  });
}

}  // namespace aclgrad::ops::nsa_compress
