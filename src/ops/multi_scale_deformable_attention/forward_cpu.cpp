// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Multi-scale deformable attention on the CPU.
//
// The rows of each head of value are copied to a plane of the workspace, where they lie side by side; see grad_tasks.h for
// why. Then the planes are sampled; a task owns some queries of one head.
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
  HWY_INLINE void store(T* to, int64_t channels, bool past_caches) const {
    LineWriter<T> writer;
#pragma GCC unroll 4
    for (int i = 0; i < kChunks; ++i)
      store_chunk(chunks[i], to + kChunkChannels * i, channels - kChunkChannels * i, past_caches, writer);
    writer.finish();
  }
};

// Where the sums of a query begin and end: its points may come in several blocks, alone then.
template <class T>
struct Target {
  T* output = nullptr;
  float* unfinished;     // whole chunks
  int64_t query_stride;  // of output
  bool is_first = true;
  bool is_last = true;
  bool past_caches;  // the output goes
  int64_t channels;
};

// Adds sample i. A plane has a row for pixels outside, which leaves nothing to decide.
template <bool kIsPlane, class Sums, class T>
HWY_INLINE void add_sample(const Samples& samples, int64_t i, const T* value, int64_t stride, Sums& sums) {
#pragma GCC unroll 4
  for (int corner = 0; corner < 4; ++corner) {
    const int64_t row = samples.row[corner][i];
    if (kIsPlane || HWY_LIKELY(row >= 0)) sums.add_pixel(samples.weight[corner][i], value + row * stride);
  }
}

// Samples the points of kQueries queries, from the first one's first point on, for the chunks from channel c on. Each sum
// waits for its last addition, so that few of them leave the processor idle.
template <bool kIsPlane, int kQueries, int kChunks, class T>
HWY_INLINE void sample_chunks(const Samples& samples, int64_t first, int64_t points, const T* value,
                              int64_t stride, int64_t c, const Target<T>& target) {
  Sums<kChunks> sums[kQueries];
#pragma GCC unroll 4
  for (auto& of_query : sums) {
    if (target.is_first) {
      of_query.set_zero();
    } else {
      of_query.load(target.unfinished + c);
    }
  }
  for (int64_t p = 0; p < points; ++p) {
#pragma GCC unroll 4
    for (int q = 0; q < kQueries; ++q)
      add_sample<kIsPlane>(samples, first + q * points + p, value + c, stride, sums[q]);
  }
#pragma GCC unroll 4
  for (int q = 0; q < kQueries; ++q) {
    if (target.is_last) {
      sums[q].store(target.output + q * target.query_stride + c, target.channels - c, target.past_caches);
    } else {
      sums[q].store(target.unfinished + c, kChunkChannels * kChunks, false);
    }
  }
}

// All chunks of kQueries queries.
template <bool kIsPlane, int kQueries, class T>
HWY_INLINE void sample_queries(const Samples& samples, int64_t first, int64_t points, const T* value,
                               int64_t stride, const Target<T>& target) {
  int64_t c = 0;
  if constexpr (kQueries == 1) {
    for (; target.channels - c > 3 * kChunkChannels; c += 4 * kChunkChannels)
      sample_chunks<kIsPlane, 1, 4>(samples, first, points, value, stride, c, target);
  }
  for (; target.channels - c > kChunkChannels; c += 2 * kChunkChannels)
    sample_chunks<kIsPlane, kQueries, 2>(samples, first, points, value, stride, c, target);
  if (c < target.channels)
    sample_chunks<kIsPlane, kQueries, 1>(samples, first, points, value, stride, c, target);
}

template <bool kIsPlane, class T>
void sample_typed(const MultiScaleDeformableAttention& problem, const HeadTask& task, float* unfinished) {
  const auto output = runs_of<T>(problem.output, task, 0, problem.channels());
  Target<T> target{.unfinished = unfinished,
                   .query_stride = output.stride,
                   .past_caches = go_past_caches(output),
                   .channels = problem.channels()};
  const T* value = static_cast<const T*>(task.value.first);
  const int64_t stride = task.value.stride;
  // Rows in the tensor lie in no cache and are asked for a block ahead; with 16 bits this takes as long as it saves.
  constexpr bool kAsksAhead = !kIsPlane && std::is_same_v<T, float>;
  const auto expect = [&](const Block& block, const Samples& samples) HWY_ATTR {
    if constexpr (!kAsksAhead) return;
    for (const auto& rows : samples.row) {
      for (int64_t i = 0; i < block.queries * block.points; ++i)
        prefetch_lines(value + std::max<int64_t>(rows[i], 0) * stride,
                       problem.channels() * static_cast<int64_t>(sizeof(T)));
    }
  };
  for_each_block<T, kAsksAhead ? 2 : 1>(
      problem, task, expect, [&](const Block& block, Samples& samples) HWY_ATTR {
        const int64_t next_query = block.first_query + block.queries;
        if (!target.past_caches)
          prefetch_runs(output, next_query, std::min(next_query + block.queries, task.last_query));
        target.is_first = block.first_point == 0;
        target.is_last = block.first_point + block.points == problem.levels() * problem.samples();
        int64_t q = 0;
        const auto sample = [&]<int kQueries>(std::integral_constant<int, kQueries>) HWY_ATTR {
          for (; q + kQueries <= block.queries; q += kQueries) {
            target.output = output.of(block.first_query + q);
            sample_queries<kIsPlane, kQueries>(samples, q * block.points, block.points, value, stride,
                                               target);
          }
        };
        if (problem.channels() <= 2 * kChunkChannels) {
          if (kLanes == 16 || problem.channels() <= kChunkChannels) sample(std::integral_constant<int, 4>());
          sample(std::integral_constant<int, 2>());
        }
        sample(std::integral_constant<int, 1>());
      });
}

void sample(const MultiScaleDeformableAttention& problem, const HeadTask& task, float* unfinished) {
  visit_float_type(problem.value.type, [&]<class T>(T) {
    (task.outside < 0 ? sample_typed<false, T> : sample_typed<true, T>)(problem, task, unfinished);
  });
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "base/caches.h"
#include "base/divide.h"
#include "base/parallel.h"
#include "base/workspace.h"

namespace aclgrad::ops::multi_scale_deformable_attention {
namespace {

HWY_EXPORT(sample);

constexpr int64_t kQueriesPerTask = 256;
constexpr int64_t kRowsPerTask = 1024;

// Bytes of the plane of each head, with a row of zeros at its end; 0 where value stays in the tensor.
int64_t plane_bytes(const MultiScaleDeformableAttention& problem) {
  return packs_value(problem) ? (problem.rows() + 1) * packed_row_bytes(problem) : 0;
}

double heads_of(const MultiScaleDeformableAttention& problem) {
  return static_cast<double>(problem.batches() * problem.heads());
}

struct Workspace {
  Workspace(const MultiScaleDeformableAttention& problem, WorkspaceAllocator& allocator)
      : padded_channels(chunks_of(problem.channels()) * kChunkChannels),
        query_blocks(divide_up(problem.queries(), kQueriesPerTask)),
        unfinished(
            allocator.take<float>(problem.batches() * problem.heads() * query_blocks * padded_channels)),
        planes(allocator.take<std::byte>(problem.batches() * problem.heads() * plane_bytes(problem))) {}

  int64_t padded_channels;
  int64_t query_blocks;
  float* unfinished;  // [batches, heads, query_blocks, padded_channels]
  std::byte* planes;  // [batches, heads, plane_bytes]
};

// Some heads, numbered over all batches.
struct HeadRange {
  int64_t first;
  int64_t count;
};

void pack_heads(const MultiScaleDeformableAttention& problem, HeadRange heads, std::byte* planes) {
  const int64_t row_bytes = packed_row_bytes(problem);
  const int64_t blocks = divide_up(problem.rows(), kRowsPerTask);
  const double bytes = static_cast<double>(heads.count * plane_bytes(problem));
  parallel_for(heads.count * blocks, 0.1 * bytes, [&](int64_t task) {
    const int64_t head = heads.first + task / blocks;
    const int64_t begin = task % blocks * kRowsPerTask;
    std::byte* plane = planes + task / blocks * plane_bytes(problem);
    if (begin == 0) std::memset(plane + problem.rows() * row_bytes, 0, static_cast<size_t>(row_bytes));
    pack_rows(problem.value, head / problem.heads(), head % problem.heads(),
              {begin, std::min(begin + kRowsPerTask, problem.rows())}, plane, row_bytes, row_bytes);
  });
}

void sample_heads(const MultiScaleDeformableAttention& problem, HeadRange heads, const Workspace& parts) {
  const double nanoseconds =
      kernel_nanoseconds(problem) * static_cast<double>(heads.count) / heads_of(problem);
  parallel_for(heads.count * parts.query_blocks, nanoseconds, [&](int64_t index) {
    HeadTask task = task_of_head(problem, heads.first + index / parts.query_blocks);
    task.first_query = index % parts.query_blocks * kQueriesPerTask;
    task.last_query = std::min(task.first_query + kQueriesPerTask, problem.queries());
    task.last_level = problem.levels();
    if (packs_value(problem)) {
      task.value = {parts.planes + index / parts.query_blocks * plane_bytes(problem), parts.padded_channels};
      task.outside = problem.rows();
    } else {
      task.value = {first_of_head(problem.value, task.batch, task.head), problem.value.stride(1)};
    }
    HWY_DYNAMIC_DISPATCH(sample)(problem, task, parts.unfinished + index * parts.padded_channels);
  });
}

// How many heads are packed before they are sampled: so few that their planes stay in the caches until then, and serve the
// next ones, but one for each thread.
int64_t heads_at_once(const MultiScaleDeformableAttention& problem) {
  const int64_t heads = problem.batches() * problem.heads();
  return outgrows_caches(heads * plane_bytes(problem)) ? std::min<int64_t>(thread_count(), heads) : heads;
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
  if (problem.value.type == DataType::float64) return run_in_double(problem);
  WorkspaceAllocator allocator(workspace);
  const Workspace parts(problem, allocator);
  const int64_t heads = problem.batches() * problem.heads();
  const int64_t at_once = heads_at_once(problem);
  for (int64_t first = 0; first < heads; first += at_once) {
    const HeadRange some{first, std::min(at_once, heads - first)};
    if (packs_value(problem)) pack_heads(problem, some, parts.planes);
    sample_heads(problem, some, parts);
  }
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention

#endif  // HWY_ONCE
