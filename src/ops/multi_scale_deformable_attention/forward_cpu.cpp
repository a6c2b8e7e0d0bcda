// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Multi-scale deformable attention on the CPU.
//
// A first pass copies the rows of each head of value to a plane of the workspace, where they lie side by
// side; see grad_cpu.cpp for why. A second pass samples the planes; a task owns some queries of one head.
#include "ops/multi_scale_deformable_attention/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/multi_scale_deformable_attention/forward_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd-inl.h"
#include "ops/multi_scale_deformable_attention/sampling-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::multi_scale_deformable_attention::HWY_NAMESPACE {

// Sums of some chunks of one query's output. Loops over them are unrolled, or the sums would live in memory.
template <int kChunks>
struct Sums {
  Float16Lanes chunks[kChunks];

  HWY_INLINE void load(const float* from) {
#pragma GCC unroll 4
    for (int i = 0; i < kChunks; ++i) chunks[i] = load16(from + kChunkChannels * i);
  }
  HWY_INLINE void set_zero() {
#pragma GCC unroll 4
    for (auto& chunk : chunks) chunk = zero16();
  }
  template <class T>
  HWY_INLINE void add_pixel(float weight, const T* pixel) {
    const Float16Lanes weights = broadcast16(weight);
#pragma GCC unroll 4
    for (int i = 0; i < kChunks; ++i) {
      chunks[i] = multiply_add(weights, load16(pixel + kChunkChannels * i), chunks[i]);
    }
  }
  // `channels` are left in the output, of which the last chunk may be a part.
  template <class T>
  HWY_INLINE void store(T* to, int64_t channels, bool is_whole_lines) const {
#pragma GCC unroll 4
    for (int i = 0; i < kChunks; ++i) {
      const int64_t left = channels - kChunkChannels * i;
      if (is_whole_lines) {
        stream16(chunks[i], to + kChunkChannels * i);
      } else if (left >= kChunkChannels) {
        store16(chunks[i], to + kChunkChannels * i);
      } else {
        store16(chunks[i], to + kChunkChannels * i, static_cast<size_t>(left));
      }
    }
  }
};

// Where the sums of a query begin and end: its points may come in several blocks.
template <class T>
struct Target {
  T* output;
  float* unfinished;  // whole chunks
  bool is_first;
  bool is_last;
  bool is_whole_lines;  // of output
  int64_t channels;
};

// Samples the points [first, last) for the chunks from channel c on.
template <int kChunks, class T>
HWY_INLINE void sample_chunks(const Samples& samples, int64_t first, int64_t last, const T* value,
                              int64_t stride, int64_t c, const Target<T>& target) {
  Sums<kChunks> sums;
  if (target.is_first) {
    sums.set_zero();
  } else {
    sums.load(target.unfinished + c);
  }
  for (int64_t i = first; i < last; ++i) {
    if (HWY_LIKELY(samples.is_interior[i] != 0)) {
      const T* above = value + samples.row[0][i] * stride + c;
      const T* below = value + samples.row[2][i] * stride + c;
      sums.add_pixel(samples.weight[0][i], above);
      sums.add_pixel(samples.weight[1][i], above + stride);
      sums.add_pixel(samples.weight[2][i], below);
      sums.add_pixel(samples.weight[3][i], below + stride);
    } else {
      for (int corner = 0; corner < 4; ++corner) {
        const int64_t row = samples.row[corner][i];
        if (row >= 0) sums.add_pixel(samples.weight[corner][i], value + row * stride + c);
      }
    }
  }
  if (target.is_last) {
    sums.store(target.output + c, target.channels - c, target.is_whole_lines);
  } else {
    sums.store(target.unfinished + c, kChunkChannels * kChunks, false);
  }
}

template <class T>
void sample_typed(const MultiScaleDeformableAttention& problem, const HeadTask& task, float* unfinished) {
  const auto output = runs_of<T>(problem.output, task, 0, problem.channels());
  const bool is_whole_lines = are_whole_lines(output);
  for_each_block<T>(problem, task, [&](const Block& block, Samples& samples) HWY_ATTR {
    const T* value = static_cast<const T*>(task.value.first);
    const int64_t stride = task.value.stride;
    const bool is_first = block.first_point == 0;
    const bool is_last = block.first_point + block.points == problem.levels() * problem.samples();
    for (int64_t q = 0; q < block.queries; ++q) {
      const Target<T> target{output.of(block.first_query + q),
                             unfinished,
                             is_first,
                             is_last,
                             is_whole_lines,
                             problem.channels()};
      const int64_t first = q * block.points;
      const int64_t last = first + block.points;
      int64_t c = 0;
      for (; problem.channels() - c > 3 * kChunkChannels; c += 4 * kChunkChannels) {
        sample_chunks<4>(samples, first, last, value, stride, c, target);
      }
      for (; problem.channels() - c > kChunkChannels; c += 2 * kChunkChannels) {
        sample_chunks<2>(samples, first, last, value, stride, c, target);
      }
      if (c < problem.channels()) sample_chunks<1>(samples, first, last, value, stride, c, target);
    }
  });
}

void sample(const MultiScaleDeformableAttention& problem, const HeadTask& task, float* unfinished) {
  visit_float_type(problem.value.type, [&]<class T>(T) { sample_typed<T>(problem, task, unfinished); });
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "base/divide.h"
#include "base/parallel.h"
#include "base/workspace.h"
#include "ops/multi_scale_deformable_attention/double_cpu.h"

namespace aclgrad::ops::multi_scale_deformable_attention {
namespace {

HWY_EXPORT(sample);

constexpr int64_t kQueriesPerTask = 256;
constexpr int64_t kRowsPerTask = 1024;

// Bytes of the plane of each head, 0 where value stays in the tensor.
int64_t plane_bytes(const MultiScaleDeformableAttention& problem) {
  return packs_value(problem) ? problem.rows() * packed_row_bytes(problem) : 0;
}

double heads_of(const MultiScaleDeformableAttention& problem) {
  return static_cast<double>(problem.batches() * problem.heads());
}

struct Workspace {
  Workspace(const MultiScaleDeformableAttention& problem, WorkspaceAllocator& allocator)
      : padded_channels(chunks_of(problem.channels()) * kChunkChannels),
        query_blocks(divide_up(problem.queries(), kQueriesPerTask)),
        tasks(problem.batches() * problem.heads() * query_blocks),
        unfinished(allocator.take<float>(tasks * padded_channels)),
        planes(allocator.take<std::byte>(problem.batches() * problem.heads() * plane_bytes(problem))) {}

  int64_t padded_channels;
  int64_t query_blocks;
  int64_t tasks;
  float* unfinished;  // [tasks, padded_channels]
  std::byte* planes;  // [batches, heads, plane_bytes]
};

void pack_heads(const MultiScaleDeformableAttention& problem, std::byte* planes) {
  const int64_t row_bytes = packed_row_bytes(problem);
  const int64_t blocks = divide_up(problem.rows(), kRowsPerTask);
  const double bytes = heads_of(problem) * static_cast<double>(problem.rows() * row_bytes);
  parallel_for(problem.batches() * problem.heads() * blocks, 0.1 * bytes, [&](int64_t task) {
    const int64_t head = task / blocks;
    const int64_t begin = task % blocks * kRowsPerTask;
    pack_rows(problem.value, head / problem.heads(), head % problem.heads(),
              {begin, std::min(begin + kRowsPerTask, problem.rows())}, planes + head * plane_bytes(problem),
              row_bytes, row_bytes);
  });
}

}  // namespace

size_t kernel_workspace_size(const MultiScaleDeformableAttention& problem) {
  if (problem.value.type == DataType::float64) return 0;
  return size_of_workspace<Workspace>(problem);
}

double kernel_nanoseconds(const MultiScaleDeformableAttention& problem) {
  const auto channels = static_cast<double>(problem.channels());
  const double points =
      heads_of(problem) * static_cast<double>(problem.queries() * problem.levels() * problem.samples());
  return points * (4.0 + 0.2 * channels) +
         0.1 * heads_of(problem) * static_cast<double>(plane_bytes(problem));
}

void run_kernel(const MultiScaleDeformableAttention& problem, void* workspace) {
  if (problem.value.type == DataType::float64) return attend_in_double(problem);
  WorkspaceAllocator allocator(workspace);
  const Workspace parts(problem, allocator);
  const bool packs = packs_value(problem);
  if (packs) pack_heads(problem, parts.planes);
  parallel_for(parts.tasks, kernel_nanoseconds(problem), [&](int64_t index) {
    const int64_t head = index / parts.query_blocks;
    HeadTask task{};
    task.batch = head / problem.heads();
    task.head = head % problem.heads();
    task.first_query = index % parts.query_blocks * kQueriesPerTask;
    task.last_query = std::min(task.first_query + kQueriesPerTask, problem.queries());
    task.last_level = problem.levels();
    if (packs) {
      task.value = {parts.planes + head * plane_bytes(problem), parts.padded_channels};
    } else {
      task.value = {first_of_head(problem.value, task.batch, task.head), problem.value.stride(1)};
    }
    HWY_DYNAMIC_DISPATCH(sample)(problem, task, parts.unfinished + index * parts.padded_channels);
  });
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention

#endif  // HWY_ONCE
