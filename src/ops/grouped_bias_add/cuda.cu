// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The grouped bias-add gradient on a GPU, without atomics.
//
// The rows of each group are cut into tiles of 256. A block sums one tile of a strip of columns: a warp reads a row of the
// strip at a time, 16 bytes in each lane. A group of one tile is then done; the others leave partial sums, which a second
// kernel adds in a fixed order.
#include "cuda/kernel.h"
#include "ops/grouped_bias_add/kernel.h"

namespace aclgrad::ops::grouped_bias_add {

using namespace cuda;

namespace {

constexpr int64_t kRowsPerTile = 256;
constexpr int kAtOnce = 4;  // rows that a thread loads before it uses any

struct Group {
  int64_t index;
  int64_t offset;      // of its first row in grad_output, in elements
  int64_t rows;        // may be 0
  int64_t first_tile;  // number of its first tile

  __device__ int64_t tiles() const { return rows <= kRowsPerTile ? 1 : divide_up(rows, kRowsPerTile); }
  // Whether the workspace has room for its tiles.
  __device__ bool fits(int64_t capacity) const { return first_tile + tiles() <= capacity; }
};

// Of a row of partial sums: vectors may be loaded everywhere.
__host__ __device__ int64_t row_size(const GroupedBiasAddBackward& problem) {
  constexpr int kElements = Vector<float>::kElements;
  return (problem.columns() + kElements - 1) / kElements * kElements;
}

// Groups that overlap may have more tiles than there is room for: the second kernel sums those groups from their rows.
struct Workspace {
  Group* groups;            // [groups]
  int64_t* tiles_to_group;  // [groups], tiles up to and with each
  Group* open_groups;       // [groups], those that one tile does not finish
  int64_t* open_count;
  float* partials;  // [tile_capacity(), row_size()]; null where every group has one tile

  Workspace(const GroupedBiasAddBackward& problem, WorkspaceAllocator& allocator)
      : groups(allocator.take<Group>(problem.groups())),
        tiles_to_group(allocator.take<int64_t>(problem.groups())),
        open_groups(allocator.take<Group>(problem.groups())),
        open_count(allocator.take<int64_t>(1)),
        partials(problem.rows() <= kRowsPerTile
                     ? nullptr
                     : allocator.take<float>(tile_capacity(problem, kRowsPerTile) * row_size(problem))) {}
};

using Wide = __int128;  // for sums of int64

// One block: finds the rows and tiles of each group, whatever group_idx holds.
__global__ void find_groups(GroupedBiasAddBackward problem, Workspace workspace, int64_t capacity) {
  __shared__ int64_t of_warps[kWarps];
  Wide rows_before = 0;  // of the groups before this round's, with counts
  int64_t tiles_before = 0, open_before = 0;
  for (int64_t first = 0; first < problem.groups(); first += kThreads) {
    const int64_t g = first + threadIdx.x;
    const bool exists = g < problem.groups();
    Group group{g, g * problem.grad_output.stride(0), problem.rows(), 0};
    if (!problem.has_equal_groups()) {
      const bool counts = problem.kind == GroupKind::counts;
      const int64_t given = exists ? element(problem.group_idx, g) : 0;
      Wide start = g > 0 && exists ? element(problem.group_idx, g - 1) : 0, end = given;
      if (counts) {
        // In halves, whose sums cannot overflow.
        const Scan high = scan(given >> 32, of_warps), low = scan(given & 0xffffffff, of_warps);
        end = rows_before + (Wide{high.up_to} << 32) + low.up_to;
        start = end - given;
        rows_before += (Wide{high.total} << 32) + low.total;
      }
      const Wide limit = problem.rows();
      const auto begin = static_cast<int64_t>(start < 0 ? Wide{0} : start > limit ? limit : start);
      const auto stop = static_cast<int64_t>(end < 0 ? Wide{0} : end > limit ? limit : end);
      group.offset = begin * row_stride_of(problem);
      group.rows = stop > begin ? stop - begin : 0;
    }
    const int64_t own_tiles = exists ? group.tiles() : 0;
    const Scan tiles = scan(own_tiles, of_warps);
    group.first_tile = tiles_before + tiles.up_to - own_tiles;
    const bool is_open = exists && (own_tiles > 1 || !group.fits(capacity));
    const Scan open = scan(is_open, of_warps);
    if (exists) {
      workspace.groups[g] = group;
      workspace.tiles_to_group[g] = tiles_before + tiles.up_to;
    }
    if (is_open) workspace.open_groups[open_before + open.up_to - 1] = group;
    tiles_before += tiles.total;
    open_before += open.total;
  }
  if (threadIdx.x == 0) *workspace.open_count = open_before;
}

// A block's strip of columns. Lane l of every warp has as many elements of it as fit 16 bytes: neighbours with kVectors,
// where a vector may be read, else every 32nd. The sum of a column does not depend on that.
template <class T, bool kVectors>
struct Strip {
  static constexpr int kElements = Vector<T>::kElements;  // of a lane
  static constexpr int64_t kColumns = 32 * kElements;

  int64_t first;
  int64_t columns;  // of the problem

  __device__ int64_t column(int i) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    return first + (kVectors ? lane * kElements + i : lane + 32 * i);
  }

  // With kVectors, of a lane that has columns.
  __device__ Vector<T> load(const T* row) const {
    if constexpr (kVectors) return load_vector(row + column(0), kElements, true);
    Vector<T> vector{};
    for (int i = 0; i < kElements; ++i) {
      if (column(i) < columns) vector.set(i, row[column(i)]);
    }
    return vector;
  }

  // This warp's share of the rows. A thread loads some before it uses any.
  __device__ void add_rows(const T* row, int64_t row_stride, int rows, float (&sums)[kElements]) const {
    if (column(0) >= columns) return;
    for (int r = static_cast<int>(threadIdx.x) / 32; r < rows; r += kWarps * kAtOnce) {
      Vector<T> vectors[kAtOnce];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        const int at = r + u * kWarps;
        vectors[u] = at < rows ? load(row + at * row_stride) : Vector<T>{};
      }
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        for (int i = 0; i < kElements; ++i) sums[i] += vectors[u][i];
      }
    }
  }

  // In warp 0 the sum over the warps. All threads of the block call it.
  __device__ void add_warps(float (&sums)[kElements]) const {
    __shared__ float of_warps[kWarps][kColumns];
    const auto warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = 0; i < kElements; ++i) of_warps[warp][i * 32 + lane] = sums[i];
    for (unsigned half = kWarps / 2; half > 0; half /= 2) {
      __syncthreads();
      if (warp >= half) continue;
      for (int i = 0; i < kElements; ++i) {
        of_warps[warp][i * 32 + lane] += of_warps[warp + half][i * 32 + lane];
      }
    }
    for (int i = 0; i < kElements; ++i) sums[i] = of_warps[warp][i * 32 + lane];
    __syncthreads();
  }

  // `size`: of the row.
  template <class To>
  __device__ void store(const float (&sums)[kElements], To* row, int64_t size) const {
    if (threadIdx.x >= 32) return;
    for (int i = 0; i < kElements; ++i) {
      if (column(i) < size) row[column(i)] = narrow<To>(sums[i]);
    }
  }
};

// One block for each tile and strip.
template <class T, bool kVectors>
__global__ void __launch_bounds__(kThreads, 5)  // measured: 4 take 1 % longer
    sum_tiles(GroupedBiasAddBackward problem, Workspace workspace, int64_t capacity) {
  using Strip = Strip<T, kVectors>;
  const int64_t strips = divide_up(problem.columns(), Strip::kColumns);
  const int64_t used = workspace.tiles_to_group[problem.groups() - 1];
  const int64_t tiles = used < capacity ? used : capacity;
  for (int64_t block = blockIdx.x; block < tiles * strips; block += gridDim.x) {
    const int64_t tile = block / strips;
    const Strip strip{block % strips * Strip::kColumns, problem.columns()};
    const Group group = workspace.groups[upper_bound(workspace.tiles_to_group, problem.groups(), tile)];
    const int64_t row = (tile - group.first_tile) * kRowsPerTile;
    const auto rows = static_cast<int>(min(group.rows - row, kRowsPerTile));
    float sums[Strip::kElements] = {};
    strip.add_rows(
        static_cast<const T*>(problem.grad_output.data) + group.offset + row * row_stride_of(problem),
        row_stride_of(problem), rows, sums);
    strip.add_warps(sums);
    if (group.tiles() == 1) {
      strip.store(sums, static_cast<T*>(problem.grad_bias.data) + group.index * problem.columns(),
                  problem.columns());
    } else {
      strip.store(sums, workspace.partials + tile * row_size(problem), row_size(problem));
    }
  }
}

// One block for each open group and 128 columns. Warp w adds every eighth tile from w on, or of a group whose tiles have no
// room, because others overlap it, every eighth row.
template <class T>
__global__ void __launch_bounds__(kThreads, kBlocksForHalf)
    finish_groups(GroupedBiasAddBackward problem, Workspace workspace, int64_t capacity) {
  constexpr int kElements = Vector<float>::kElements, kColumns = 32 * kElements;
  __shared__ float of_warps[kWarps][kColumns];
  const int64_t strips = divide_up(problem.columns(), kColumns), size = row_size(problem);
  const auto warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int64_t block = blockIdx.x; block < *workspace.open_count * strips; block += gridDim.x) {
    const Group group = workspace.open_groups[block / strips];
    const int64_t first = block % strips * kColumns, column = first + kElements * lane;
    BlockedSum sums[kElements];
    if (group.fits(capacity)) {
      const float* tiles = workspace.partials + group.first_tile * size + column;
      for (int64_t tile = warp; column < size && tile < group.tiles(); tile += kWarps * kAtOnce) {
        Vector<float> partials[kAtOnce];
#pragma unroll
        for (int u = 0; u < kAtOnce; ++u) {
          const int64_t at = tile + u * kWarps;
          partials[u] =
              at < group.tiles() ? load_vector(tiles + at * size, kElements, true) : Vector<float>{};
        }
#pragma unroll
        for (int u = 0; u < kAtOnce; ++u) {
          for (int i = 0; i < kElements; ++i) sums[i].add(partials[u][i]);
        }
      }
    } else {
      const T* row = static_cast<const T*>(problem.grad_output.data) + group.offset + column;
      for (int64_t r = warp; r < group.rows; r += kWarps) {
        const auto vector = load_vector(row + r * row_stride_of(problem), problem.columns() - column, false);
        for (int i = 0; i < kElements; ++i) sums[i].add(vector[i]);
      }
    }
    for (int i = 0; i < kElements; ++i) of_warps[warp][kElements * lane + i] = sums[i].value();
    __syncthreads();
    if (threadIdx.x < kColumns && first + threadIdx.x < problem.columns()) {
      float total = 0;
      for (int w = 0; w < kWarps; ++w) total += of_warps[w][threadIdx.x];
      static_cast<T*>(problem.grad_bias.data)[group.index * problem.columns() + first + threadIdx.x] =
          narrow<T>(total);
    }
    __syncthreads();
  }
}

template <class T>
void run(const GroupedBiasAddBackward& problem, const Workspace& workspace, const CudaLaunch& on) {
  const bool vectors = holds_vectors<T>(
      problem.grad_output.data, {problem.columns(), row_stride_of(problem), problem.grad_output.stride(0)});
  const int64_t capacity = tile_capacity(problem, kRowsPerTile);
  launch(on, 1, kThreads, find_groups, problem, workspace, capacity);
  launch(on, capacity * divide_up(problem.columns(), Strip<T, true>::kColumns), kThreads,
         vectors ? sum_tiles<T, true> : sum_tiles<T, false>, problem, workspace, capacity);
  if (problem.rows() <= kRowsPerTile) return;
  // Of groups that do not overlap, no more can be open. Blocks go over what is left.
  const int64_t open = problem.has_equal_groups()
                           ? problem.groups()
                           : std::min(problem.groups(), divide_up(problem.rows(), kRowsPerTile));
  launch(on, open * divide_up(problem.columns(), 32 * Vector<float>::kElements), kThreads, finish_groups<T>,
         problem, workspace, capacity);
}

const CudaKernel<GroupedBiasAddBackward> kKernel(
    [](const GroupedBiasAddBackward& problem, const CudaLaunch&) {
      return size_of_workspace<Workspace>(problem);
    },
    [](const GroupedBiasAddBackward& problem, void* workspace, const CudaLaunch& on) {
      if (problem.groups() == 0 || problem.columns() == 0) return;
      WorkspaceAllocator allocator(workspace);
      const Workspace parts(problem, allocator);
      visit_float_type(problem.grad_output.type, [&]<class T>(T) { run<T>(problem, parts, on); });
    });

}  // namespace
}  // namespace aclgrad::ops::grouped_bias_add
