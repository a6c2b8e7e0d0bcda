// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// All elements of a tensor, of which a thread takes four neighbours at a time.
#pragma once

#include "cuda/kernel.h"

namespace aclgrad::cuda {

// Axes that can be counted as one are, so that of most tensors no index is divided.
template <class T>
struct Elements {
  static constexpr int kMaxAxes = 5;

  T* data;
  int axes = 1;
  int64_t sizes[kMaxAxes];    // of the innermost axis first, a row
  int64_t strides[kMaxAxes];  // in elements
  int64_t quads_of_row;
  int64_t quads = 0;  // of all rows
  int row_shift = 0;  // quads_of_row is 2 to this power, or -1
  bool whole;         // rows consist of quads, which lie as vectors want them

  // keeps_rows: the innermost axis stays a row.
  Elements(T* first, const Shape& shape, const Shape& steps, bool keeps_rows = false) : data(first) {
    sizes[0] = shape[shape.rank() - 1];
    strides[0] = steps[shape.rank() - 1];
    for (int axis = shape.rank() - 1; axis-- > 0;) {
      const int last = axes - 1;
      if (shape[axis] == 1) continue;
      if ((last > 0 || !keeps_rows) && steps[axis] == strides[last] * sizes[last]) {
        sizes[last] *= shape[axis];
      } else {
        sizes[axes] = shape[axis];
        strides[axes++] = steps[axis];
      }
    }
    quads = quads_of_row = divide_up(sizes[0], kQuad);
    whole = strides[0] == 1 && (axes == 1 || sizes[0] % kQuad == 0) && holds_quads<T>(data, {});
    for (int axis = 1; axis < axes; ++axis) {
      quads *= sizes[axis];
      whole = whole && strides[axis] % kQuad == 0;
    }
    while (int64_t{1} << row_shift < quads_of_row) ++row_shift;
    if (int64_t{1} << row_shift != quads_of_row) row_shift = -1;
  }

  // Calls body(index of the row's first element, place in the row, elements left there, address) for the thread's quads.
  template <class Body>
  __device__ void for_each_quad(Body&& body) const {
    for (int64_t quad = thread_index(); quad < quads; quad += thread_count_of_grid()) {
      int64_t row = 0, at = 0;
      if (axes > 1) row = row_shift < 0 ? quad / quads_of_row : quad >> row_shift;
      const int64_t in_row = kQuad * (quad - row * quads_of_row);
      int64_t rest = row;
#pragma unroll
      for (int axis = 1; axis < kMaxAxes; ++axis) {
        if (axis >= axes) break;
        const int64_t next = axis + 1 < axes ? rest / sizes[axis] : 0;
        at += (rest - next * sizes[axis]) * strides[axis];
        rest = next;
      }
      body(row * sizes[0], in_row, sizes[0] - in_row, data + at + in_row * strides[0]);
    }
  }

  __device__ auto load(const T* from, int64_t count) const {
    if (strides[0] == 1) return load_quad(from, count, whole);
    Quad<RealOf<std::remove_const_t<T>>> quad{};
    for (int i = 0; i < kQuad; ++i) {
      if (i < count) quad.lane[i] = widen(from[i * strides[0]]);
    }
    return quad;
  }

  __device__ void store(T* to, const Quad<RealOf<T>>& quad, int64_t count) const {
    if (strides[0] == 1) return store_quad(to, quad, count, whole);
    for (int i = 0; i < kQuad; ++i) {
      if (i < count) to[i * strides[0]] = narrow<T>(quad.lane[i]);
    }
  }
};

}  // namespace aclgrad::cuda
