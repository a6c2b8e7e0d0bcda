// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The grouped bias-add gradient on a GPU, without atomics.
//
// The rows of each group are cut into tiles of 256. A block sums one tile of a strip of columns: a warp reads one row of
// the strip at a time, 16 bytes in each lane. A group of one tile is then done; the others leave partial sums, which a
// second kernel adds in a fixed order.
#include "cuda/kernel.h"
#include "ops/grouped_bias_add/kernel.h"

namespace aclgrad::ops::grouped_bias_add {

using namespace cuda;

namespace {

constexpr int64_t kRowsPerTile = 256;
constexpr int kRowLanes = 8;  // warps of a block: each takes every eighth row of a tile, or tile of a group

struct Group {
  int64_t offset;      // of its first row in grad_output, in elements
  int64_t rows;        // may be 0
  int64_t first_tile;  // number of its first tile

  __device__ int64_t tiles() const { return rows <= kRowsPerTile ? 1 : divide_up(rows, kRowsPerTile); }
};

struct Workspace {
  Group* groups;            // [groups]
  int64_t* tiles_to_group;  // [groups], tiles up to and with each
  float* partials;          // [tile capacity, columns]; null where every group has one tile

  Workspace(const GroupedBiasAddBackward& problem, WorkspaceAllocator& allocator);
};

// Tiles that have room in the workspace: as many as groups can have that do not overlap. Of groups that do, whatever
// finds no room is summed by the second kernel.
int64_t tile_capacity(const GroupedBiasAddBackward& problem) {
  const int64_t tiles = divide_up(problem.rows(), kRowsPerTile);
  if (problem.has_equal_groups()) return problem.groups() * std::max<int64_t>(1, tiles);
  return problem.groups() + tiles;
}

Workspace::Workspace(const GroupedBiasAddBackward& problem, WorkspaceAllocator& allocator)
    : groups(allocator.take<Group>(problem.groups())),
      tiles_to_group(allocator.take<int64_t>(problem.groups())),
      partials(problem.rows() <= kRowsPerTile
                   ? nullptr
                   : allocator.take<float>(tile_capacity(problem) * problem.columns())) {}

// Sums of int64 that cannot overflow.
using Wide = __int128;

// One block: finds the rows and tiles of each group, whatever group_idx holds.
__global__ void find_groups(GroupedBiasAddBackward problem, Workspace workspace) {
  __shared__ Wide ends[kThreads];
  __shared__ int64_t tiles[kThreads];
  Wide rows_before = 0;  // of the groups before this round's, with counts
  int64_t tiles_before = 0;
  for (int64_t first = 0; first < problem.groups(); first += kThreads) {
    const int64_t g = first + threadIdx.x;
    const bool exists = g < problem.groups();
    Group group{};
    if (problem.has_equal_groups()) {
      group = {g * problem.grad_output.stride(0), problem.rows(), 0};
    } else {
      const bool counts = problem.kind == GroupKind::counts;
      const Wide given = exists ? element(problem.group_idx, g) : 0;
      const Wide end = counts ? rows_before + inclusive_scan(given, ends) : given;
      const Wide start = counts            ? end - given
                         : g > 0 && exists ? Wide{element(problem.group_idx, g - 1)}
                                           : Wide{0};
      const Wide limit = problem.rows();
      const auto begin = static_cast<int64_t>(start < 0 ? Wide{0} : start > limit ? limit : start);
      const auto stop = static_cast<int64_t>(end < 0 ? Wide{0} : end > limit ? limit : end);
      group = {begin * row_stride_of(problem), stop > begin ? stop - begin : 0, 0};
      if (counts) rows_before += ends[kThreads - 1];
    }
    const int64_t own_tiles = exists ? group.tiles() : 0;
    const int64_t tiles_to = tiles_before + inclusive_scan(own_tiles, tiles);
    if (exists) {
      group.first_tile = tiles_to - own_tiles;
      workspace.groups[g] = group;
      workspace.tiles_to_group[g] = tiles_to;
    }
    tiles_before += tiles[kThreads - 1];
    __syncthreads();
  }
}

// A block's strip of columns. Lane l of every warp has as many elements of it as fit 16 bytes: neighbours where a
// vector may be read, else every 32nd. The sum of a column does not depend on that.
template <class T>
struct Strip {
  static constexpr int kElements = 16 / sizeof(T);  // of a lane
  static constexpr int64_t kColumns = 32 * kElements;

  struct alignas(16) Vector {
    T element[kElements];
  };

  int64_t first;
  int64_t columns;  // of the problem
  bool vectors;

  __device__ int64_t column(int i) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    return first + (vectors ? lane * kElements + i : lane + 32 * i);
  }

  // Adds this warp's share of the rows to `sums`.
  __device__ void add_rows(const T* row, int64_t row_stride, int64_t rows, float (&sums)[kElements]) const {
    const bool whole = vectors && column(0) < columns;
#pragma unroll 4
    for (int64_t r = threadIdx.x / 32; r < rows; r += kRowLanes) {
      const T* from = row + r * row_stride;
      if (whole) {
        const auto vector = *reinterpret_cast<const Vector*>(from + column(0));
        for (int i = 0; i < kElements; ++i) sums[i] += widen(vector.element[i]);
      } else if (!vectors) {
        for (int i = 0; i < kElements; ++i) {
          if (column(i) < columns) sums[i] += widen(from[column(i)]);
        }
      }
    }
  }

  // In warp 0 the sum over the warps. All threads of the block call it.
  __device__ void add_warps(float (&sums)[kElements]) const {
    __shared__ float of_warps[kRowLanes][kColumns];
    const auto warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = 0; i < kElements; ++i) of_warps[warp][i * 32 + lane] = sums[i];
    for (unsigned half = kRowLanes / 2; half > 0; half /= 2) {
      __syncthreads();
      if (warp >= half) continue;
      for (int i = 0; i < kElements; ++i) {
        of_warps[warp][i * 32 + lane] += of_warps[warp + half][i * 32 + lane];
      }
    }
    for (int i = 0; i < kElements; ++i) sums[i] = of_warps[warp][i * 32 + lane];
    __syncthreads();
  }

  template <class To>
  __device__ void store(const float (&sums)[kElements], To* row) const {
    if (threadIdx.x >= 32) return;
    for (int i = 0; i < kElements; ++i) {
      if (column(i) < columns) row[column(i)] = narrow<To>(sums[i]);
    }
  }
};

// The sum of tile `tile` of the group over a strip, in warp 0.
template <class T>
__device__ void sum_tile(const GroupedBiasAddBackward& problem, const Group& group, int64_t tile,
                         const Strip<T>& strip, float (&sums)[Strip<T>::kElements]) {
  for (float& sum : sums) sum = 0;
  const int64_t row = tile * kRowsPerTile;
  const T* first =
      static_cast<const T*>(problem.grad_output.data) + group.offset + row * row_stride_of(problem);
  const int64_t left = group.rows - row;
  strip.add_rows(first, row_stride_of(problem), left < kRowsPerTile ? left : kRowsPerTile, sums);
  strip.add_warps(sums);
}

// One block for each tile and strip.
template <class T>
__global__ void __launch_bounds__(32 * kRowLanes)
    sum_tiles(GroupedBiasAddBackward problem, Workspace workspace, int64_t capacity, bool vectors) {
  const int64_t strips = divide_up(problem.columns(), Strip<T>::kColumns);
  const int64_t used = workspace.tiles_to_group[problem.groups() - 1];
  const int64_t tiles = used < capacity ? used : capacity;
  for (int64_t block = blockIdx.x; block < tiles * strips; block += gridDim.x) {
    const int64_t tile = block / strips;
    const Strip<T> strip{block % strips * Strip<T>::kColumns, problem.columns(), vectors};
    const int64_t g = upper_bound(workspace.tiles_to_group, problem.groups(), tile);
    const Group group = workspace.groups[g];
    float sums[Strip<T>::kElements];
    sum_tile(problem, group, tile - group.first_tile, strip, sums);
    if (group.tiles() == 1) {
      strip.store(sums, static_cast<T*>(problem.grad_bias.data) + g * problem.columns());
    } else {
      strip.store(sums, workspace.partials + tile * problem.columns());
    }
  }
}

// One block for each group of several tiles and 32 columns. Warp w adds every eighth tile from w on.
template <class T>
__global__ void __launch_bounds__(32 * kRowLanes)
    add_tiles(GroupedBiasAddBackward problem, Workspace workspace, int64_t capacity) {
  __shared__ float of_warps[kRowLanes][32];
  const int64_t strips = divide_up(problem.columns(), 32);
  const auto warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int64_t block = blockIdx.x; block < problem.groups() * strips; block += gridDim.x) {
    const int64_t g = block / strips;
    const int64_t column = block % strips * 32 + lane;
    const Group group = workspace.groups[g];
    if (group.tiles() == 1 || group.first_tile + group.tiles() > capacity) continue;
    BlockedSum sum;
    if (column < problem.columns()) {
#pragma unroll 4
      for (int64_t tile = warp; tile < group.tiles(); tile += kRowLanes) {
        sum.add(workspace.partials[(group.first_tile + tile) * problem.columns() + column]);
      }
    }
    of_warps[warp][lane] = sum.value();
    __syncthreads();
    if (warp == 0 && column < problem.columns()) {
      float total = 0;
      for (int w = 0; w < kRowLanes; ++w) total += of_warps[w][lane];
      static_cast<T*>(problem.grad_bias.data)[g * problem.columns() + column] = narrow<T>(total);
    }
    __syncthreads();
  }
}

// One block for each group and strip: groups whose tiles have no room, because others overlap them.
template <class T>
__global__ void __launch_bounds__(32 * kRowLanes)
    sum_whole_groups(GroupedBiasAddBackward problem, Workspace workspace, int64_t capacity, bool vectors) {
  const int64_t strips = divide_up(problem.columns(), Strip<T>::kColumns);
  for (int64_t block = blockIdx.x; block < problem.groups() * strips; block += gridDim.x) {
    const int64_t g = block / strips;
    const Group group = workspace.groups[g];
    if (group.first_tile + group.tiles() <= capacity) continue;
    const Strip<T> strip{block % strips * Strip<T>::kColumns, problem.columns(), vectors};
    BlockedSum totals[Strip<T>::kElements];
    float sums[Strip<T>::kElements];
    for (int64_t tile = 0; tile < group.tiles(); ++tile) {
      sum_tile(problem, group, tile, strip, sums);
      for (int i = 0; i < Strip<T>::kElements; ++i) totals[i].add(sums[i]);
    }
    for (int i = 0; i < Strip<T>::kElements; ++i) sums[i] = totals[i].value();
    strip.store(sums, static_cast<T*>(problem.grad_bias.data) + g * problem.columns());
  }
}

template <class T>
void run_typed(const GroupedBiasAddBackward& problem, const Workspace& workspace, const CudaLaunch& on) {
  constexpr int kElements = Strip<T>::kElements;
  const bool vectors = reinterpret_cast<uintptr_t>(problem.grad_output.data) % 16 == 0 &&
                       problem.columns() % kElements == 0 && row_stride_of(problem) % kElements == 0 &&
                       problem.grad_output.stride(0) % kElements == 0;
  const int64_t capacity = tile_capacity(problem);
  const int64_t strips = divide_up(problem.columns(), Strip<T>::kColumns);
  constexpr int kBlock = 32 * kRowLanes;
  launch(on, 1, kThreads, 0, find_groups, problem, workspace);
  launch(on, capacity * strips, kBlock, 0, sum_tiles<T>, problem, workspace, capacity, vectors);
  if (problem.rows() > kRowsPerTile) {
    launch(on, problem.groups() * divide_up(problem.columns(), 32), kBlock, 0, add_tiles<T>, problem,
           workspace, capacity);
  }
  if (!problem.has_equal_groups()) {
    launch(on, problem.groups() * strips, kBlock, 0, sum_whole_groups<T>, problem, workspace, capacity,
           vectors);
  }
}

size_t workspace_size(const GroupedBiasAddBackward& problem, const CudaLaunch&) {
  return size_of_workspace<Workspace>(problem);
}

void run(const GroupedBiasAddBackward& problem, void* workspace, const CudaLaunch& on) {
  if (problem.groups() == 0 || problem.columns() == 0) return;
  WorkspaceAllocator allocator(workspace);
  const Workspace parts(problem, allocator);
  visit_float_type(problem.grad_output.type, [&]<class T>(T) { run_typed<T>(problem, parts, on); });
}

const CudaKernel<GroupedBiasAddBackward> kKernel(workspace_size, run);

}  // namespace
}  // namespace aclgrad::ops::grouped_bias_add
