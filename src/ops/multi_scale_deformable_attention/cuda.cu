// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Multi-scale deformable attention and its gradient on a GPU.
//
// A group of lanes owns one query of one head, and each lane four channels of it: rows of value and sums of grad_value
// are read and added to 16 bytes at a time, grad_location and grad_attention_weight are sums over the group. The points of
// a query are taken in turns of as many as the group has lanes: each lane finds the corners of one of them, for all.
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

  // Whether the tensor has rows for all pixels of the level.
  __device__ bool has_all_rows(int64_t rows) const {
    constexpr int64_t kSmall = int64_t{1} << 30;
    return start >= 0 && start <= rows && width < kSmall && height < kSmall && height * width <= rows - start;
  }
  // For a pixel of it.
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

  __device__ Corners() : first_row(0), width(0), right(0), below(0) {}

  __device__ Corners(const Level& level, Real location_x, Real location_y, int64_t rows) : Corners() {
    width = static_cast<uint64_t>(level.width);
    if (level.height <= 0 || level.width <= 0) return;
    const auto columns = static_cast<Real>(level.width), lines = static_cast<Real>(level.height);
    const Real half{0.5};
    const Real x = location_x * columns - half, y = location_y * lines - half;
    if (!(x > -1 && y > -1 && x < columns && y < lines)) return;
    const Real x_floor = std::floor(x), y_floor = std::floor(y);
    const auto left = static_cast<int64_t>(x_floor), top = static_cast<int64_t>(y_floor);
    right = x - x_floor;
    below = y - y_floor;
    const unsigned columns_inside =
        (left >= 0 && left < level.width ? 1u : 0u) + (left + 1 < level.width ? 2u : 0u);
    if (top >= 0 && top < level.height) counting = columns_inside;
    if (top + 1 < level.height) counting |= columns_inside << 2;
    if (!level.has_all_rows(rows)) {
#pragma unroll 1
      for (int k = 0; k < 4; ++k) {
        if (counts(k) && !level.has_row(top + k / 2, left + k % 2, rows)) counting &= ~(1u << k);
      }
    }
    first_row =
        static_cast<uint64_t>(level.start) + static_cast<uint64_t>(top) * width + static_cast<uint64_t>(left);
  }

  __device__ bool counts(int k) const {
    return (counting >> k & 1u) != 0;
  }

  // Of a pixel that counts.
  __device__ int64_t row(int k) const {
    return static_cast<int64_t>(first_row + static_cast<uint64_t>(k % 2) + (k / 2 ? width : 0));
  }

  __device__ Real weight(int k) const {
    return (k % 2 ? right : 1 - right) * (k / 2 ? below : 1 - below);
  }
};

// How a group goes through a row of value. kWholeRow: in one round, in whole quads, and what is counted fits 32 bits: fewer
// instructions, and less to hand over.
template <bool kWholeRow>
using Index = std::conditional_t<kWholeRow, int32_t, int64_t>;

template <class Index>
struct Query {
  Index batch, query, head;

  __device__ Query(const MultiScaleDeformableSampling& problem, Index index) {
    const auto heads = static_cast<Index>(problem.heads()), queries = static_cast<Index>(problem.queries());
    const Index of_all = index / heads;
    head = index - of_all * heads;
    batch = of_all / queries;
    query = of_all - batch * queries;
  }

  template <class Void>
  __device__ int64_t offset(const BasicTensor<Void>& tensor) const {
    return batch * tensor.stride(0) + query * tensor.stride(1) + head * tensor.stride(2);
  }
  // Of row 0, in a tensor with rows in place of queries.
  __device__ int64_t offset_of_rows(const Shape& strides) const {
    return batch * strides[0] + head * strides[2];
  }
};

// What the lanes of a group read from the one that has found a point's corners.
template <class Real, class Row>
struct SharedCorners {
  Row row[4];      // of value; -1 for a corner that counts as zero
  Real weight[4];  // with the point's own

  __device__ SharedCorners(const Corners<Real>& corners, Real of_point) {
    for (int k = 0; k < 4; ++k) {
      row[k] = corners.counts(k) ? static_cast<Row>(corners.row(k)) : Row{-1};
      weight[k] = of_point * corners.weight(k);
      // Computed here, not again for each lane that reads them.
      if constexpr (sizeof(Row) + sizeof(Real) == 8) asm volatile("" : "+r"(row[k]), "+f"(weight[k]));
    }
  }
};

// The points of one query and head, of which a lane finds the corners of every so many'th.
template <class T, class Index>
class Points {
 public:
  using Real = RealOf<T>;

  const Index count;
  Index own;        // the lane's point of this turn; there is none from count on
  Real weight = 0;  // of the point

  // `exist`: or the lane has none, and goes with the other groups of its warp.
  __device__ Points(const MultiScaleDeformableSampling& problem, const Query<Index>& at, const Lanes& lanes,
                    bool exist)
      : count(static_cast<Index>(problem.levels() * problem.samples())),
        own(exist ? lanes.index : count),
        problem_(problem),
        at_(at) {}

  __device__ Corners<Real> find_corners() {
    if (own >= count) return {};
    while (own >= (level_ + 1) * static_cast<Index>(problem_.samples())) ++level_;
    const auto* weights = static_cast<const T*>(problem_.attention_weights.data);
    weight = widen(weights[at_.offset(problem_.attention_weights) + own]);
    const T* location = static_cast<const T*>(problem_.sampling_locations.data) +
                        at_.offset(problem_.sampling_locations) + int64_t{2} * own;
    return {level(), widen(location[0]), widen(location[1]), problem_.rows()};
  }

  __device__ Level level() const { return {problem_, level_}; }

 private:
  const MultiScaleDeformableSampling& problem_;
  const Query<Index>& at_;
  Index level_ = 0;
};

// ---- Forward

// `whole`: the rows of value and output consist of quads.
template <class T, bool kWholeRow>
__global__ void __launch_bounds__(kThreads, kWholeRow && sizeof(T) < 8 ? 3 : 1)
    sample(MultiScaleDeformableAttention problem, int lane_count, bool whole) {
  using Real = RealOf<T>;
  const Lanes lanes(lane_count, kWholeRow);
  const auto row_bytes = static_cast<Index<kWholeRow>>(problem.value.stride(1) * sizeof(T));
  const auto queries = static_cast<Index<kWholeRow>>(problem.batches() * problem.queries() * problem.heads());
  const auto groups = static_cast<Index<kWholeRow>>(lanes.groups());
  const auto end = queries + (kWholeRow ? lanes.group_in_warp() : 0);
  for (auto index = static_cast<Index<kWholeRow>>(lanes.group()); index < end; index += groups) {
    const Query<Index<kWholeRow>> at(problem, min(index, queries - 1));
    const T* value = static_cast<const T*>(problem.value.data) + at.offset_of_rows(problem.value.strides);
    T* output = static_cast<T*>(problem.output.data) + at.offset(problem.output);
    // All lanes go through all rounds, as those without channels find corners, too.
    for (int64_t round = 0; round < problem.channels(); round += kQuad * lanes.count) {
      const int64_t c = round + kQuad * lanes.index, left = problem.channels() - c;
      Quad<Real> sum{};
      Points<T, Index<kWholeRow>> points(problem, at, lanes, index < queries);
      for (Index<kWholeRow> turn = 0; turn < points.count; turn += lanes.count, points.own += lanes.count) {
        const Corners<Real> corners = points.find_corners();
        const SharedCorners<Real, Index<kWholeRow>> own(corners, points.weight);
        const int in_turn = static_cast<int>(min(Index<kWholeRow>{lanes.count}, points.count - turn));
        for (int lane = 0; lane < in_turn; ++lane) {
          for (int k = 0; k < 4; ++k) {
            const auto number = lanes.from(lane, own.row[k]);
            const Real weight = lanes.from(lane, own.weight[k]);
            if (number < 0 || left <= 0) continue;
            const T* row = row_at(value + c, number, row_bytes);
            add_scaled(sum, weight, kWholeRow ? load_whole_quad(row) : load_quad(row, left, whole));
          }
        }
      }
      if (left > 0 && index < queries) store_quad(output + c, sum, left, whole);
    }
  }
}

// ---- Gradient

// What a kernel computes, as far as that is known when it is compiled: the loops then have no questions to ask.
enum class Wanted { all, value, points, as_the_problem_says };

template <class T, class Index>
__device__ void store_gradients_of_point(const MultiScaleDeformableAttentionBackward& problem,
                                         const Query<Index>& at, const Points<T, Index>& points,
                                         const Corners<RealOf<T>>& corners,
                                         const SharedCorners<RealOf<T>, Index>& shared,
                                         const RealOf<T> (&products)[4]) {
  using Real = RealOf<T>;
  Real of_attention = 0, of_x = 0, of_y = 0;
  if (max(max(shared.row[0], shared.row[1]), max(shared.row[2], shared.row[3])) >= 0) {
    Real of[4];
    for (int k = 0; k < 4; ++k) of[k] = shared.row[k] >= 0 ? products[k] : Real{0};
    const Real right = corners.right, below = corners.below;
    for (int k = 0; k < 4; ++k) of_attention += corners.weight(k) * of[k];
    const Level level = points.level();
    of_x = static_cast<Real>(level.width) * points.weight *
           ((1 - below) * (of[1] - of[0]) + below * (of[3] - of[2]));
    of_y = static_cast<Real>(level.height) * points.weight *
           ((1 - right) * (of[2] - of[0]) + right * (of[3] - of[1]));
  }
  if (problem.grad_attention_weights.defined()) {
    auto* grad_attention = static_cast<T*>(problem.grad_attention_weights.data);
    grad_attention[at.offset(problem.grad_attention_weights) + points.own] = narrow<T>(of_attention);
  }
  if (!problem.grad_sampling_locations.defined()) return;
  T* grad_location = static_cast<T*>(problem.grad_sampling_locations.data) +
                     at.offset(problem.grad_sampling_locations) + int64_t{2} * points.own;
  grad_location[0] = narrow<T>(of_x);
  grad_location[1] = narrow<T>(of_y);
}

// What a lane does with the corners of a point for four channels. `whole`: rows of value and the sums consist of quads.
template <class T, class Sums, bool kWholeRow>
struct ChannelsOfLane {
  using Real = RealOf<T>;

  const Sums& sums;
  Index<kWholeRow> value_bytes, sums_bytes;  // of a row
  bool wants_points, wants_value, whole;

  // `value` and `sum`: of row 0. All lanes of a group call it with the corners of one of them.
  __device__ void visit(const SharedCorners<Real, Index<kWholeRow>>& own, const Lanes& lanes, int lane,
                        const T* value, typename Sums::Cell* sum, Index<kWholeRow> left,
                        const Quad<Real>& gradient, Real (&products)[4]) const {
    Index<kWholeRow> number[4];
    Real weight[4];
    const int64_t count = kWholeRow ? kQuad : left;
    for (int k = 0; k < 4; ++k) number[k] = lanes.from(lane, own.row[k]);
    if (wants_points && left > 0) {
      // Two at a time on their way, as registers are few; what does not count is read from row 0.
#pragma unroll
      for (int pair = 0; pair < 4; pair += 2) {
        Quad<Real> values[2];
        for (int k = 0; k < 2; ++k) {
          const T* row = row_at(value, max(number[pair + k], Index<kWholeRow>{0}), value_bytes);
          values[k] = kWholeRow ? load_whole_quad(row) : load_quad(row, count, whole);
        }
        for (int k = 0; k < 2; ++k) products[pair + k] = dot(gradient, values[k], products[pair + k]);
      }
    }
    if (!wants_value) return;
    for (int k = 0; k < 4; ++k) weight[k] = lanes.from(lane, own.weight[k]);
    if (left <= 0) return;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (number[k] < 0) continue;
      Quad<Real> term;
      for (int i = 0; i < kQuad; ++i) term.lane[i] = weight[k] * gradient.lane[i];
      sums.add_quad(row_at(sum, number[k], sums_bytes), term, count, kWholeRow || whole);
    }
  }
};

// kLanes: of a group, or 0 where the launch says how many.
template <class T, class Sums, bool kWholeRow, Wanted kWanted, int kLanes>
__global__ void __launch_bounds__(kThreads, kWholeRow ? kBlocksForHalf : 1)
    scatter_gradient(MultiScaleDeformableAttentionBackward problem, Sums sums, const Shape sums_strides,
                     int lane_count, bool whole) {
  constexpr bool kAsks = kWanted == Wanted::as_the_problem_says;
  const bool wants_value = kAsks ? problem.grad_value.defined() : kWanted != Wanted::points;
  const bool asks_for_points = wants_samples(problem);
  const bool wants_points = kAsks ? asks_for_points : kWanted != Wanted::value;
  if (wants_value) sums.begin();
  using Real = RealOf<T>;
  const Lanes lanes(kLanes > 0 ? kLanes : lane_count, kWholeRow);
  const auto value_bytes = static_cast<Index<kWholeRow>>(problem.value.stride(1) * sizeof(T));
  const auto sums_bytes = static_cast<Index<kWholeRow>>(sums_strides[1] * sizeof(typename Sums::Cell));
  const ChannelsOfLane<T, Sums, kWholeRow> channels{sums,         value_bytes, sums_bytes,
                                                    wants_points, wants_value, whole};
  const auto queries = static_cast<Index<kWholeRow>>(problem.batches() * problem.queries() * problem.heads());
  const auto groups = static_cast<Index<kWholeRow>>(lanes.groups());
  const auto end = queries + (kWholeRow ? lanes.group_in_warp() : 0);
  for (auto index = static_cast<Index<kWholeRow>>(lanes.group()); index < end; index += groups) {
    const Query<Index<kWholeRow>> at(problem, min(index, queries - 1));
    const T* value = static_cast<const T*>(problem.value.data) + at.offset_of_rows(problem.value.strides);
    const int64_t sum = at.offset_of_rows(sums_strides);
    const T* grad_output = static_cast<const T*>(problem.grad_output.data) + at.offset(problem.grad_output);
    const int64_t first = kQuad * lanes.index;
    int own_channels = first < problem.channels() ? kQuad : 0;  // of a whole row
    asm volatile("" : "+r"(own_channels));                      // computed here, not again in the loop
    Quad<Real> gradient{};
    if (kWholeRow && own_channels > 0) gradient = load_whole_quad(grad_output + first);
    const T* first_value = value + first;
    auto* first_sum = sums.cell(sum, first);
    Points<T, Index<kWholeRow>> points(problem, at, lanes, index < queries);
    for (Index<kWholeRow> turn = 0; turn < points.count; turn += lanes.count, points.own += lanes.count) {
      const Corners<Real> corners = points.find_corners();
      const SharedCorners<Real, Index<kWholeRow>> own(corners, points.weight);
      Real own_products[4] = {};  // of grad_output with each corner
      if constexpr (kWholeRow) {
        // A quarter of the lanes adds up the products with one corner of all points. Lanes keep what belongs to the lane in
        // their place of each quarter.
        const int last_place = lanes.quarter() - 1, own_place = lanes.index & last_place;
        const int in_turn = points.count - turn;
#pragma unroll 1  // registers are few
        for (int lane = 0; lane < lanes.count; ++lane) {
          const int place = lane & last_place;
          if (place == 0) {
            for (int k = 0; k < 3; ++k) own_products[k] = own_products[k + 1];
          }
          if (lane < in_turn) {
            Real products[4] = {};
            channels.visit(own, lanes, lane, first_value, first_sum, own_channels, gradient, products);
            if (!wants_points) continue;
            const Real product = lanes.sum_of_quarter(products);
            if (place == own_place) own_products[3] = product;
          }
        }
        if (wants_points) lanes.exchange_between_quarters(own_products);
      } else {
#pragma unroll 1
        for (int lane = 0; lane < lanes.count && turn + lane < points.count; ++lane) {
          Real products[4] = {};
          for (int64_t round = 0; round < problem.channels(); round += kQuad * lanes.count) {
            const int64_t c = round + first, left = problem.channels() - c;
            channels.visit(own, lanes, lane, value + c, sums.cell(sum, c), left,
                           load_quad(grad_output + c, left, whole), products);
          }
          if (!wants_points) continue;
          lanes.sum(products);
          for (int k = 0; k < 4; ++k) own_products[k] = lane == lanes.index ? products[k] : own_products[k];
        }
      }
      if (wants_points && points.own < points.count)
        store_gradients_of_point(problem, at, points, corners, own, own_products);
    }
  }
}

Shape sums_strides_of(const MultiScaleDeformableSampling& problem) {
  return problem.value.shape.contiguous_strides();
}

// Floats that lie side by side need no buffer: they are added up where they belong.
bool sums_in_place(const MultiScaleDeformableAttentionBackward& problem) {
  const Shape contiguous = sums_strides_of(problem);
  const int64_t* strides = problem.grad_value.strides.begin();
  return problem.value.type == DataType::float32 && std::equal(strides, strides + 3, contiguous.begin());
}

template <class T>
GradientSums<RealOf<T>> sums_of(const MultiScaleDeformableAttentionBackward& problem, const CudaLaunch& on,
                                WorkspaceAllocator& allocator) {
  return {problem.batches() * problem.rows() * problem.heads() * problem.channels(),
          problem.queries() * problem.levels() * problem.samples(),
          problem.channels(),
          sums_in_place(problem) ? problem.grad_value.data : nullptr,
          on,
          allocator};
}

template <class T>
bool blocks_hold_quads(const void* data, const Shape& strides) {
  return holds_quads<T>(data, {strides[0], strides[1], strides[2]});
}
template <class T>
bool blocks_hold_quads(const ConstTensor& tensor) {
  return blocks_hold_quads<T>(tensor.data, tensor.strides);
}

// Whether the lanes of a group go through a row in one round, and 32 bits count queries, points of one, rows of a batch
// and bytes of a row.
bool takes_whole_rows(const MultiScaleDeformableSampling& problem, int lanes) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  const int64_t largest_stride = std::max(problem.value.strides[1], sums_strides_of(problem)[1]);
  return problem.channels() <= kQuad * lanes && problem.rows() <= kMax &&
         problem.batches() * problem.queries() * problem.heads() <= kMax / 2 &&
         problem.levels() * problem.samples() <= kMax / 2 &&
         largest_stride <= kMax / static_cast<int64_t>(sizeof(double));
}

template <class T, class Sums>
void scatter(const MultiScaleDeformableAttentionBackward& problem, const Sums& sums, const CudaLaunch& on) {
  const int lanes = lanes_for(problem.channels());
  const bool whole = problem.channels() % kQuad == 0 && blocks_hold_quads<T>(problem.value) &&
                     blocks_hold_quads<T>(problem.grad_output) &&
                     blocks_hold_quads<typename Sums::Cell>(sums.cells, sums_strides_of(problem));
  const auto launch_kernel = [&](auto* kernel) {
    launch_for_each(on, problem.batches() * problem.queries() * problem.heads() * lanes, kernel, problem,
                    sums, sums_strides_of(problem), lanes, whole);
  };
  if constexpr (!std::is_same_v<T, double>) {
    const bool whole_rows = whole && lanes >= 4 && takes_whole_rows(problem, lanes);
    if (whole_rows && !wants_samples(problem))
      return launch_kernel(scatter_gradient<T, Sums, true, Wanted::value, 0>);
    // 32 channels of a head, as nearly all models have.
    if (whole_rows && problem.grad_value.defined())
      return launch_kernel(lanes == 8 ? scatter_gradient<T, Sums, true, Wanted::all, 8>
                                      : scatter_gradient<T, Sums, true, Wanted::all, 0>);
    if constexpr (std::is_same_v<Sums, FloatSums<float>>) {
      if (whole_rows) return launch_kernel(scatter_gradient<T, Sums, true, Wanted::points, 0>);
    }
  }
  launch_kernel(scatter_gradient<T, Sums, false, Wanted::as_the_problem_says, 0>);
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
            const auto find = [&](const ConstTensor& of, int factor) {
              find_magnitude_of(static_cast<const T*>(of.data), of.shape, of.strides, on, magnitudes, factor);
            };
            find(problem.attention_weights, 0);
            find(problem.grad_output, 1);
          },
          [&](const auto& sums) { scatter<T>(problem, sums, on); },
          [&](const auto& sums) {
            const Tensor& to = problem.grad_value;
            store_sums(sums, static_cast<T*>(to.data), to.shape, to.strides, on);
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
        const bool whole = problem.channels() % kQuad == 0 && blocks_hold_quads<T>(problem.value) &&
                           blocks_hold_quads<T>(problem.output);
        launch_for_each(on, problem.batches() * problem.queries() * problem.heads() * lanes,
                        whole && takes_whole_rows(problem, lanes) ? sample<T, true> : sample<T, false>,
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
