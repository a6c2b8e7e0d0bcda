// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Multi-scale deformable attention and its gradient on a GPU.
//
// A group of lanes owns one query of one head, and each lane four channels of it: rows of value and sums of grad_value
// are read and added to 16 bytes at a time, grad_location and grad_attention_weight are sums over the group.
#include "cuda/sums.h"
#include "ops/multi_scale_deformable_attention/kernel.h"

namespace aclgrad::ops::multi_scale_deformable_attention {

using namespace cuda;

namespace {

struct Level {
  int64_t height;
  int64_t width;
  int64_t start;

  __device__ Level(const MultiScaleDeformableSampling& problem, int64_t index)
      : height(element(problem.spatial_shapes, 2 * index)),
        width(element(problem.spatial_shapes, 2 * index + 1)),
        start(element(problem.level_start_index, index)) {}

  // Whether the tensor has a row for a pixel of the level.
  __device__ bool has_row(int64_t y, int64_t x, int64_t rows) const {
    constexpr int64_t kSmall = int64_t{1} << 30;
    if (y < kSmall && width < kSmall && start < kSmall && start > -kSmall) {
      const int64_t at = start + y * width + x;
      return at >= 0 && at < rows;
    }
    const __int128 at = start + static_cast<__int128>(y) * width + x;
    return at >= 0 && at < rows;
  }
};

// The four pixels around a point: 0 and 1 above, 2 and 3 below.
template <class Real>
struct Corners {
  unsigned counting = 0;  // a bit for each pixel that does not count as zero
  uint64_t first_row;     // of value, of pixel 0 whether it counts or not: modulo 2^64
  uint64_t width;         // rows from one pixel to that below
  Real right;             // the point's distance from the pixels on the left, in pixels
  Real below;

  __device__ Corners(const Level& level, Real location_x, Real location_y, int64_t rows)
      : first_row(0), width(static_cast<uint64_t>(level.width)), right(0), below(0) {
    if (level.height <= 0 || level.width <= 0) return;
    const auto columns = static_cast<Real>(level.width), lines = static_cast<Real>(level.height);
    const Real half{0.5};
    const Real x = location_x * columns - half, y = location_y * lines - half;
    if (!(x > -1 && y > -1 && x < columns && y < lines)) return;
    const Real x_floor = std::floor(x), y_floor = std::floor(y);
    const auto left = static_cast<int64_t>(x_floor), top = static_cast<int64_t>(y_floor);
    right = x - x_floor;
    below = y - y_floor;
    for (int k = 0; k < 4; ++k) {
      const int64_t column = left + k % 2, line = top + k / 2;
      const bool inside = column >= 0 && column < level.width && line >= 0 && line < level.height;
      if (inside && level.has_row(line, column, rows)) counting |= 1u << k;
    }
    first_row =
        static_cast<uint64_t>(level.start) + static_cast<uint64_t>(top) * width + static_cast<uint64_t>(left);
  }

  __device__ bool counts(int k) const { return (counting >> k & 1u) != 0; }

  // Of a pixel that counts.
  __device__ int64_t row(int k) const {
    return static_cast<int64_t>(first_row + static_cast<uint64_t>(k % 2) + (k / 2 ? width : 0));
  }

  __device__ Real weight(int k) const { return (k % 2 ? right : 1 - right) * (k / 2 ? below : 1 - below); }
};

struct Query {
  int64_t batch, query, head;

  __device__ Query(const MultiScaleDeformableSampling& problem, int64_t index)
      : batch(index / (problem.queries() * problem.heads())),
        query(index / problem.heads() % problem.queries()),
        head(index % problem.heads()) {}

  template <class Void>
  __device__ int64_t offset(const BasicTensor<Void>& tensor) const {
    return offset_of_row(tensor.strides, *this, query);
  }

  // Of a tensor with rows in place of queries.
  __device__ static int64_t offset_of_row(const Shape& strides, const Query& at, int64_t row) {
    return at.batch * strides[0] + row * strides[1] + at.head * strides[2];
  }
};

// ---- Forward

template <class T>
__global__ void __launch_bounds__(kThreads)
    sample(MultiScaleDeformableAttention problem, int lane_count, bool whole) {
  using Real = RealOf<T>;
  const Lanes lanes(lane_count);
  const auto* value = static_cast<const T*>(problem.value.data);
  const int64_t queries = problem.batches() * problem.queries() * problem.heads();
  for (int64_t index = lanes.group(); index < queries; index += lanes.groups()) {
    const Query at(problem, index);
    const T* location =
        static_cast<const T*>(problem.sampling_locations.data) + at.offset(problem.sampling_locations);
    const T* attention =
        static_cast<const T*>(problem.attention_weights.data) + at.offset(problem.attention_weights);
    T* output = static_cast<T*>(problem.output.data) + at.offset(problem.output);
    for (int64_t c = kQuad * lanes.index; c < problem.channels(); c += kQuad * lanes.count) {
      Quad<Real> sum{};
      for (int64_t l = 0; l < problem.levels(); ++l) {
        const Level level(problem, l);
        for (int64_t point = l * problem.samples(); point < (l + 1) * problem.samples(); ++point) {
          const Corners<Real> corners(level, widen(location[2 * point]), widen(location[2 * point + 1]),
                                      problem.rows());
          const Real weight = widen(attention[point]);
          for (int k = 0; k < 4; ++k) {
            if (!corners.counts(k)) continue;
            const T* row = value + Query::offset_of_row(problem.value.strides, at, corners.row(k)) + c;
            add_scaled(sum, weight * corners.weight(k), load_quad(row, problem.channels() - c, whole));
          }
        }
      }
      store_quad(output + c, sum, problem.channels() - c, whole);
    }
  }
}

// ---- Gradient

// What a kernel computes, as far as that is known when it is compiled: the loops then have no questions to ask.
enum class Wanted { all, value, points, as_the_problem_says };

// With kWhole the rows of value, grad_output and the sums consist of quads.
template <class T, class Sums, bool kWhole, Wanted kWanted>
__global__ void __launch_bounds__(kThreads, std::is_same_v<T, double> ? 1 : kBlocksForHalf)
    scatter_gradient(MultiScaleDeformableAttentionBackward problem, Sums sums, const Shape sums_strides,
                     int lane_count) {
  constexpr bool kAsks = kWanted == Wanted::as_the_problem_says;
  const bool wants_value = kAsks ? problem.grad_value.defined() : kWanted != Wanted::points;
  const bool asks_for_points = wants_samples(problem);
  const bool wants_points = kAsks ? asks_for_points : kWanted != Wanted::value;
  if (wants_value) sums.begin();
  using Real = RealOf<T>;
  const Lanes lanes(lane_count);
  const auto* value = static_cast<const T*>(problem.value.data);
  const int64_t queries = problem.batches() * problem.queries() * problem.heads();
  for (int64_t index = lanes.group(); index < queries; index += lanes.groups()) {
    const Query at(problem, index);
    const T* location =
        static_cast<const T*>(problem.sampling_locations.data) + at.offset(problem.sampling_locations);
    const T* attention =
        static_cast<const T*>(problem.attention_weights.data) + at.offset(problem.attention_weights);
    const T* grad_output = static_cast<const T*>(problem.grad_output.data) + at.offset(problem.grad_output);
    const T* first_row = value + Query::offset_of_row(problem.value.strides, at, 0);
    const int64_t first_sum = Query::offset_of_row(sums_strides, at, 0);
    for (int64_t l = 0; l < problem.levels(); ++l) {
      const Level level(problem, l);
      for (int64_t point = l * problem.samples(); point < (l + 1) * problem.samples(); ++point) {
        const Corners<Real> corners(level, widen(location[2 * point]), widen(location[2 * point + 1]),
                                    problem.rows());
        const Real weight = widen(attention[point]);
        Real products[4] = {};  // of grad_output with each corner
        for (int64_t c = kQuad * lanes.index; c < problem.channels(); c += kQuad * lanes.count) {
          const int64_t left = kWhole ? kQuad : problem.channels() - c;
          const Quad<Real> gradient = load_quad(grad_output + c, left, kWhole);
          if (wants_points) {
            // All on their way before anything is added; what does not count is read from row 0.
            Quad<Real> values[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) {
              const int64_t row = corners.counts(k) ? corners.row(k) : 0;
              values[k] = load_quad(first_row + row * problem.value.stride(1) + c, left, kWhole);
            }
#pragma unroll
            for (int k = 0; k < 4; ++k) {
              const Real product = dot(gradient, values[k], products[k]);
              products[k] = corners.counts(k) ? product : Real{0};
            }
          }
          if (wants_value) {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
              if (!corners.counts(k)) continue;
              Quad<Real> term;
              for (int i = 0; i < kQuad; ++i) term.lane[i] = corners.weight(k) * weight * gradient.lane[i];
              sums.add_quad(first_sum + corners.row(k) * sums_strides[1] + c, term, left, kWhole);
            }
          }
        }
        if (!wants_points) continue;
        Real of_attention = 0, of_x = 0, of_y = 0;
        if (corners.counting != 0) {
          const Real right = corners.right, below = corners.below;
          for (int k = 0; k < 4; ++k) of_attention += corners.weight(k) * products[k];
          of_x = static_cast<Real>(level.width) * weight *
                 ((1 - below) * (products[1] - products[0]) + below * (products[3] - products[2]));
          of_y = static_cast<Real>(level.height) * weight *
                 ((1 - right) * (products[2] - products[0]) + right * (products[3] - products[1]));
        }
        of_attention = lanes.sum(of_attention);
        of_x = lanes.sum(of_x);
        of_y = lanes.sum(of_y);
        if (lanes.index != 0) continue;
        if (problem.grad_attention_weights.defined()) {
          auto* grad_attention = static_cast<T*>(problem.grad_attention_weights.data);
          grad_attention[at.offset(problem.grad_attention_weights) + point] = narrow<T>(of_attention);
        }
        if (!problem.grad_sampling_locations.defined()) continue;
        T* grad_location = static_cast<T*>(problem.grad_sampling_locations.data) +
                           at.offset(problem.grad_sampling_locations) + 2 * point;
        grad_location[0] = narrow<T>(of_x);
        grad_location[1] = narrow<T>(of_y);
      }
    }
  }
}

// The largest attention weight and element of grad_output.
template <class T>
__global__ void __launch_bounds__(kThreads)
    find_magnitudes(MultiScaleDeformableAttentionBackward problem, Magnitudes* magnitudes) {
  LargestMagnitude of_weights, of_gradients;
  const int64_t points = problem.levels() * problem.samples(), block = points + problem.channels();
  const int64_t count = problem.batches() * problem.queries() * problem.heads() * block;
  for (int64_t i = thread_index(); i < count; i += thread_count_of_grid()) {
    const Query at(problem, i / block);
    const int64_t k = i % block;
    if (k < points) {
      const T* weights =
          static_cast<const T*>(problem.attention_weights.data) + at.offset(problem.attention_weights);
      of_weights.see(widen(weights[k]));
    } else {
      const T* gradients = static_cast<const T*>(problem.grad_output.data) + at.offset(problem.grad_output);
      of_gradients.see(widen(gradients[k - points]));
    }
  }
  of_weights.leave_in(&magnitudes->largest[0]);
  of_gradients.leave_in(&magnitudes->largest[1]);
}

template <class T, class Sums>
__global__ void __launch_bounds__(kThreads)
    store_gradient(MultiScaleDeformableAttentionBackward problem, Sums sums) {
  const int64_t count = problem.batches() * problem.rows() * problem.heads() * problem.channels();
  auto* grad_value = static_cast<T*>(problem.grad_value.data);
  for (int64_t i = thread_index(); i < count; i += thread_count_of_grid()) {
    const int64_t block = i / problem.channels();
    const int64_t row = block / problem.heads();
    const int64_t to = row / problem.rows() * problem.grad_value.stride(0) +
                       row % problem.rows() * problem.grad_value.stride(1) +
                       block % problem.heads() * problem.grad_value.stride(2) + i % problem.channels();
    grad_value[to] = narrow<T>(sums.value(i));
  }
}

bool is_contiguous(const Shape& strides, const Shape& contiguous) {
  return strides[0] == contiguous[0] && strides[1] == contiguous[1] && strides[2] == contiguous[2];
}

Shape sums_strides_of(const MultiScaleDeformableSampling& problem) {
  return problem.value.shape.contiguous_strides();
}

int64_t sums_size(const MultiScaleDeformableSampling& problem) {
  return problem.batches() * problem.rows() * problem.heads() * problem.channels();
}

// Floats that lie side by side need no buffer: they are added up where they belong.
bool sums_in_place(const MultiScaleDeformableAttentionBackward& problem) {
  return problem.value.type == DataType::float32 &&
         is_contiguous(problem.grad_value.strides, sums_strides_of(problem));
}

template <class T>
GradientSums<RealOf<T>> sums_of(const MultiScaleDeformableAttentionBackward& problem, const CudaLaunch& on,
                                WorkspaceAllocator& allocator) {
  return {sums_size(problem), problem.queries() * problem.levels() * problem.samples(),
          sums_in_place(problem) ? problem.grad_value.data : nullptr, on, allocator};
}

template <class T>
bool blocks_hold_quads(const void* data, const Shape& strides) {
  return holds_quads<T>(data, {strides[0], strides[1], strides[2]});
}
template <class T>
bool blocks_hold_quads(const ConstTensor& tensor) {
  return blocks_hold_quads<T>(tensor.data, tensor.strides);
}

template <class T, class Sums>
void scatter(const MultiScaleDeformableAttentionBackward& problem, const Sums& sums, const CudaLaunch& on) {
  const int lanes = lanes_for(problem.channels());
  const auto launch_kernel = [&](auto* kernel) {
    launch_for_each(on, problem.batches() * problem.queries() * problem.heads() * lanes, kernel, problem,
                    sums, sums_strides_of(problem), lanes);
  };
  if constexpr (!std::is_same_v<T, double>) {
    const bool whole = problem.channels() % kQuad == 0 && blocks_hold_quads<T>(problem.value) &&
                       blocks_hold_quads<T>(problem.grad_output) &&
                       blocks_hold_quads<typename Sums::Cell>(sums.cells, sums_strides_of(problem));
    if (whole && !wants_samples(problem))
      return launch_kernel(scatter_gradient<T, Sums, true, Wanted::value>);
    if (whole && problem.grad_value.defined())
      return launch_kernel(scatter_gradient<T, Sums, true, Wanted::all>);
    if constexpr (std::is_same_v<Sums, FloatSums<float>>) {
      if (whole) return launch_kernel(scatter_gradient<T, Sums, true, Wanted::points>);
    }
  }
  launch_kernel(scatter_gradient<T, Sums, false, Wanted::as_the_problem_says>);
}

template <class T>
void run(const MultiScaleDeformableAttentionBackward& problem, void* workspace, const CudaLaunch& on) {
  if (!problem.grad_value.defined()) {
    if (wants_samples(problem)) scatter<T>(problem, FloatSums<RealOf<T>>{nullptr}, on);
    return;
  }
  WorkspaceAllocator allocator(workspace);
  sums_of<T>(problem, on, allocator)
      .add_up(
          on,
          [&](Magnitudes* magnitudes) {
            launch_to_fill(on, problem.batches() * problem.queries() * problem.heads() * problem.channels(),
                           find_magnitudes<T>, problem, magnitudes);
          },
          [&](const auto& sums) { scatter<T>(problem, sums, on); },
          [&]<class Sums>(const Sums& sums) {
            launch_for_each(on, sums_size(problem), store_gradient<T, Sums>, problem, sums);
          });
}

size_t backward_workspace_size(const MultiScaleDeformableAttentionBackward& problem, const CudaLaunch& on) {
  if (!problem.grad_value.defined()) return 0;
  WorkspaceAllocator allocator;
  visit_element_type(problem.value.type, [&]<class T>(T) { sums_of<T>(problem, on, allocator); });
  return allocator.size();
}

const CudaKernel<MultiScaleDeformableAttention> kForward(
    [](const MultiScaleDeformableAttention&, const CudaLaunch&) { return size_t{0}; },
    [](const MultiScaleDeformableAttention& problem, void*, const CudaLaunch& on) {
      visit_element_type(problem.value.type, [&]<class T>(T) {
        const int lanes = lanes_for(problem.channels());
        const bool whole = blocks_hold_quads<T>(problem.value) && blocks_hold_quads<T>(problem.output);
        launch_for_each(on, problem.batches() * problem.queries() * problem.heads() * lanes, sample<T>,
                        problem, lanes, whole);
      });
    });

const CudaKernel<MultiScaleDeformableAttentionBackward> kBackward(
    backward_workspace_size,
    [](const MultiScaleDeformableAttentionBackward& problem, void* workspace, const CudaLaunch& on) {
      visit_element_type(problem.value.type, [&]<class T>(T) { run<T>(problem, workspace, on); });
    });

}  // namespace
}  // namespace aclgrad::ops::multi_scale_deformable_attention
