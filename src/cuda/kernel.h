// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels of all operators share.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "aclgrad/types.h"
#include "base/data_type.h"
#include "base/workspace.h"
#include "cuda/instructions.h"

namespace aclgrad::cuda {

// The type that arithmetic on T is done in.
template <class T>
using RealOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class Indices>
__device__ int64_t element(const Indices& indices, int64_t i) {
  return indices.type == DataType::int32 ? static_cast<const int32_t*>(indices.data)[i]
                                         : static_cast<const int64_t*>(indices.data)[i];
}

// ---- Launching

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // so that it does not come out of a later call, too
  throw std::runtime_error(std::string(what) + ": CUDA error " + cudaGetErrorName(error) + ", " +
                           cudaGetErrorString(error));
}

inline cudaStream_t stream_of(const CudaLaunch& on) {
  return static_cast<cudaStream_t>(on.stream);
}

// A grid has at most 2^31 - 1 blocks: kernels go over their work in steps of the grid.
inline constexpr int64_t kMaxBlocks = int64_t{1} << 30;

template <class... Parameters, class... Arguments>
void launch(const CudaLaunch& on, int64_t blocks, int threads, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  if (blocks <= 0) return;
  cudaLaunchConfig_t shape{};
  shape.gridDim = dim3(static_cast<unsigned>(std::min(blocks, kMaxBlocks)));
  shape.blockDim = dim3(static_cast<unsigned>(threads));
  shape.stream = stream_of(on);
  check(cudaLaunchKernelEx(&shape, kernel, std::forward<Arguments>(arguments)...), "kernel launch");
}

inline constexpr int kQuad = 4;  // elements that a thread takes together

inline constexpr int kWarp = 32;      // threads
inline constexpr int kThreads = 256;  // of a block, where nothing speaks for another number

inline constexpr int kWarps = kThreads / kWarp;

// As many blocks as hold half of the threads that a multiprocessor can run: with fewer, too little hides the latency of
// memory. The second number of __launch_bounds__.
inline constexpr int kBlocksForHalf = 1024 / kThreads;

// One thread for each of `count` items.
template <class... Parameters, class... Arguments>
void launch_for_each(const CudaLaunch& on, int64_t count, void (*kernel)(Parameters...),
                     Arguments&&... arguments) {
  launch(on, divide_up(count, kThreads), kThreads, kernel, std::forward<Arguments>(arguments)...);
}

// As many threads as a GPU runs at a time, or one for each of `count` items where these are fewer.
template <class... Parameters, class... Arguments>
void launch_to_fill(const CudaLaunch& on, int64_t count, void (*kernel)(Parameters...),
                    Arguments&&... arguments) {
  launch(on, std::min<int64_t>(1024, divide_up(count, kThreads)), kThreads, kernel,
         std::forward<Arguments>(arguments)...);
}

__device__ inline int64_t thread_index() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t thread_count_of_grid() {
  return static_cast<int64_t>(gridDim.x) * blockDim.x;
}

inline void zero(const CudaLaunch& on, void* memory, size_t bytes) {
  if (bytes > 0) check(cudaMemsetAsync(memory, 0, bytes, stream_of(on)), "cudaMemsetAsync");
}

// The block's share of some pieces of work, which it does one after another: blocks that run at the same time work on
// pieces that lie together, and meet in the caches.
struct PiecesOfBlock {
  int64_t first, end;

  __device__ explicit PiecesOfBlock(int64_t pieces) : first(blockIdx.x), end(blockIdx.x + int64_t{1}) {
    if (pieces <= gridDim.x) return;
    first = pieces * first / gridDim.x;
    end = pieces * end / gridDim.x;
  }
};

// Where only the data tells which of two implementations suits, both are launched, each with a condition on what an earlier
// kernel has counted. A kernel whose condition does not hold returns at once.
struct Condition {
  const unsigned* count = nullptr;  // null: always
  unsigned least = 0, most = 0;

  __device__ bool holds() const { return count == nullptr || (*count >= least && *count <= most); }
};

// As launch(), with blocks of kThreads: with few of them if there is a condition, as blocks that return at once take time.
template <class... Parameters, class... Arguments>
void launch_if(const CudaLaunch& on, const Condition& condition, int64_t blocks,
               void (*kernel)(Condition, Parameters...), Arguments&&... arguments) {
  constexpr int64_t kFewBlocks = 2048;
  if (condition.count != nullptr) blocks = std::min(blocks, kFewBlocks);
  launch(on, blocks, kThreads, kernel, condition, std::forward<Arguments>(arguments)...);
}

// ---- Groups of lanes that share the channels of a row, four channels each

// As many lanes as the channels fill, a power of two of at most a warp.
inline int lanes_for(int64_t channels, int channels_of_lane = kQuad) {
  int lanes = 1;
  while (lanes < 32 && lanes * channels_of_lane < channels) lanes *= 2;
  return lanes;
}

struct Lanes {
  int count;
  int index;      // of the thread in its group
  int first;      // lane of the warp
  unsigned mask;  // the lanes of the warp that read from each other

  // `together`: all lanes of the warp take part whenever one of them reads from another.
  __device__ explicit Lanes(int lane_count, bool together = false)
      : count(lane_count),
        index(static_cast<int>(threadIdx.x) & (lane_count - 1)),
        first(static_cast<int>(threadIdx.x) & 31 & ~(lane_count - 1)),
        mask(together || lane_count == 32 ? ~0u : ((1u << lane_count) - 1u) << first) {}

  // The group's number in the grid, and the number of groups there. The count is a power of two: nothing is divided.
  __device__ int64_t group() const { return thread_index() >> (31 - __clz(count)); }
  __device__ int group_in_warp() const { return first >> (31 - __clz(count)); }
  __device__ int64_t groups() const { return thread_count_of_grid() >> (31 - __clz(count)); }

  // The value that a lane of the group has.
  template <class Value>
  __device__ Value from(int lane, Value value) const {
    return __shfl_sync(mask, value, first + lane);
  }

  // In every lane the sum over the group, always added up the same way.
  template <class Real>
  __device__ Real sum(Real value) const {
    Real values[] = {value};
    sum(values);
    return values[0];
  }
  template <class Real, int kValues>
  __device__ void sum(Real (&values)[kValues]) const {
    for (int offset = count / 2; offset > 0; offset /= 2) {
      for (Real& value : values) value += __shfl_xor_sync(mask, value, offset);
    }
  }

  template <class Value>
  __device__ Value smallest(Value value) const {
    for (int offset = count / 2; offset > 0; offset /= 2) {
      const Value other = __shfl_xor_sync(mask, value, offset);
      value = other < value ? other : value;
    }
    return value;
  }

  // Of groups of at least four lanes, lane by lane: a quarter of the group has sums of one of four values.
  __device__ int quarter() const { return count >> 2; }
  template <class Real>
  __device__ Real sum_of_quarter(const Real (&values)[4]) const {
    const bool second_half = (index & 2 * quarter()) != 0, odd = (index & quarter()) != 0;
    Real halves[2];
    for (int i = 0; i < 2; ++i) {
      halves[i] = second_half ? values[i + 2] : values[i];
      halves[i] += __shfl_xor_sync(mask, second_half ? values[i] : values[i + 2], 2 * quarter());
    }
    Real sum = odd ? halves[1] : halves[0];
    sum += __shfl_xor_sync(mask, odd ? halves[0] : halves[1], quarter());
    for (int offset = count >> 3; offset > 0; offset >>= 1) sum += __shfl_xor_sync(mask, sum, offset);
    return sum;
  }
  // Value j of quarter k goes to value k of quarter j.
  template <class Real>
  __device__ void exchange_between_quarters(Real (&values)[4]) const {
    for (int bit = 2; bit > 0; bit /= 2) {
      const bool is_set = (index & bit * quarter()) != 0;
      for (int i = 0; i < 4; ++i) {
        if ((i & bit) != 0) continue;
        const Real other = __shfl_xor_sync(mask, is_set ? values[i] : values[i + bit], bit * quarter());
        values[i] = is_set ? other : values[i];
        values[i + bit] = is_set ? values[i + bit] : other;
      }
    }
  }
};

// Rows of a tensor that are so many bytes apart. With 32 bits for both numbers, the compiler makes one instruction of it.
template <class T, class Index>
__device__ T* row_at(T* first, Index row, Index bytes) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  int64_t offset;
  if constexpr (sizeof(Index) == 4) {
    asm("mul.wide.s32 %0, %1, %2;" : "=l"(offset) : "r"(row), "r"(bytes));
  } else {
    offset = row * bytes;
  }
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(first) + offset);
}

template <class Real>
struct Quad {
  Real lane[kQuad];
};

// Vectors are loaded and stored in pieces of at most 16 bytes.
template <class T>
struct alignas(sizeof(T) * kQuad > 16 ? 16 : sizeof(T) * kQuad) PackedQuad {
  T lane[kQuad];
};

// Whether quads of T at `data` and at all multiples of the strides, in elements, lie on boundaries of PackedQuad.
template <class T>
bool holds_quads(const void* data, std::initializer_list<int64_t> strides) {
  return reinterpret_cast<uintptr_t>(data) % alignof(PackedQuad<T>) == 0 &&
         std::all_of(strides.begin(), strides.end(), [](int64_t stride) { return stride % kQuad == 0; });
}

template <class T>
__device__ Quad<RealOf<T>> load_whole_quad(const T* from) {
  const auto packed = *reinterpret_cast<const PackedQuad<T>*>(from);
  Quad<RealOf<T>> quad;
  for (int i = 0; i < kQuad; ++i) quad.lane[i] = widen(packed.lane[i]);
  return quad;
}

// Up to four elements, of which `count` are there; the others are zero.
template <class T>
__device__ Quad<RealOf<T>> load_quad(const T* from, int64_t count, bool whole) {
  if (whole && count >= kQuad) return load_whole_quad(from);
  Quad<RealOf<T>> quad{};
  for (int i = 0; i < kQuad; ++i) {
    if (i < count) quad.lane[i] = widen(from[i]);
  }
  return quad;
}

template <class T>
__device__ void store_quad(T* to, const Quad<RealOf<T>>& quad, int64_t count, bool whole) {
  if (whole && count >= kQuad) {
    PackedQuad<T> packed;
    for (int i = 0; i < kQuad; ++i) packed.lane[i] = narrow<T>(quad.lane[i]);
    *reinterpret_cast<PackedQuad<T>*>(to) = packed;
  } else {
    for (int i = 0; i < kQuad; ++i) {
      if (i < count) to[i] = narrow<T>(quad.lane[i]);
    }
  }
}

// Elements that lie side by side: as many as a thread can load at once. They stay packed until they are used.
template <class T>
struct alignas(16) Vector {
  static constexpr int kElements = 16 / sizeof(T);
  static constexpr int kOfWord = 4 / sizeof(T);

  uint32_t words[4];

  __device__ float operator[](int i) const {
    if constexpr (kOfWord == 1) {
      return std::bit_cast<float>(words[i]);
    } else {
      return widen(T{static_cast<uint16_t>(words[i / kOfWord] >> (i % kOfWord * 16))});
    }
  }
  __device__ void set(int i, T value) {
    if constexpr (kOfWord == 1) {
      words[i] = std::bit_cast<uint32_t>(value);
    } else {
      words[i / kOfWord] |= uint32_t{value.bits} << (i % kOfWord * 16);
    }
  }
};

// Whether vectors of T at `data` and at all multiples of the strides, in elements, lie on boundaries of 16 bytes.
template <class T>
bool holds_vectors(const void* data, std::initializer_list<int64_t> strides) {
  return reinterpret_cast<uintptr_t>(data) % alignof(Vector<T>) == 0 &&
         std::all_of(strides.begin(), strides.end(),
                     [](int64_t stride) { return stride % Vector<T>::kElements == 0; });
}

// `whole`, a constant where loads should not wait for each other: all elements are there, and lie as vectors want them.
// Else `count` are, which may be more than fit; what is missing is zero.
template <class T>
__device__ Vector<T> load_vector(const T* from, int64_t count, bool whole) {
  if (whole) return *reinterpret_cast<const Vector<T>*>(from);
  Vector<T> vector{};
  for (int i = 0; i < Vector<T>::kElements; ++i) {
    if (i < count) vector.set(i, from[i]);
  }
  return vector;
}

template <class T>
__device__ void store_vector(T* to, const float (&values)[Vector<T>::kElements], int64_t count, bool whole) {
  if (whole) {
    Vector<T> vector{};
    for (int i = 0; i < Vector<T>::kElements; ++i) vector.set(i, narrow<T>(values[i]));
    *reinterpret_cast<Vector<T>*>(to) = vector;
  } else {
    for (int i = 0; i < Vector<T>::kElements; ++i) {
      if (i < count) to[i] = narrow<T>(values[i]);
    }
  }
}

template <class Real>
__device__ Real dot(const Quad<Real>& a, const Quad<Real>& b, Real sum) {
  for (int i = 0; i < kQuad; ++i) sum = std::fma(a.lane[i], b.lane[i], sum);
  return sum;
}

template <class Real>
__device__ void add_scaled(Quad<Real>& sum, Real factor, const Quad<Real>& quad) {
  for (int i = 0; i < kQuad; ++i) sum.lane[i] = std::fma(factor, quad.lane[i], sum.lane[i]);
}

// ---- Sums and prefix sums that always come out the same

// A long sum in blocks of 16 and 256, so that its error grows slowly.
class BlockedSum {
 public:
  __device__ void add(float value) {
    inner_ += value;
    if (++count_ % 16 == 0) {
      middle_ += inner_;
      inner_ = 0;
    }
    if (count_ % 256 == 0) {
      outer_ += middle_;
      middle_ = 0;
    }
  }
  __device__ float value() const { return outer_ + (middle_ + inner_); }

 private:
  float inner_ = 0;
  float middle_ = 0;
  float outer_ = 0;
  unsigned count_ = 0;  // modulo 2^32
};

// Sums over the threads of a block.
struct Scan {
  int64_t up_to;  // and with this thread
  int64_t total;
};

// All kThreads threads of the block call it. `of_warps` has room for a value of each warp.
__device__ inline Scan scan(int64_t value, int64_t* of_warps) {
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  for (unsigned offset = 1; offset < kWarp; offset *= 2) {
    const int64_t before = __shfl_sync(~0u, value, lane - offset);
    if (lane >= offset) value += before;
  }
  __syncthreads();  // of_warps may still be read
  if (lane == kWarp - 1) of_warps[warp] = value;
  __syncthreads();
  Scan scan{value, 0};
  for (unsigned w = 0; w < kWarps; ++w) {
    if (w < warp) scan.up_to += of_warps[w];
    scan.total += of_warps[w];
  }
  return scan;
}

// Index of the first of `count` rising values that is above `value`; `count` where none is.
__device__ inline int64_t upper_bound(const int64_t* values, int64_t count, int64_t value) {
  int64_t begin = 0;
  while (count > 0) {
    const int64_t half = count / 2;
    if (values[begin + half] <= value) {
      begin += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return begin;
}

}  // namespace aclgrad::cuda
