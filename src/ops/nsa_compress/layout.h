// How NSA compress and its gradient lay out the weights in their workspace.
#pragma once

#include <cstdint>

#include "base/data_type.h"

namespace aclgrad::ops::nsa_compress {

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
