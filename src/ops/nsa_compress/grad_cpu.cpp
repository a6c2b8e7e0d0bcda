// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of NSA compress on the CPU, in one pass over the tokens.
//
// Every token gathers the windows that cover it, so that it is read once and its gradient written once. While
// it is in registers it is also multiplied with those windows for grad_weight: a task has the tokens of one
// chunk and a few heads, and leaves its partial sums in the workspace. A second pass adds the partial sums of
// the chunks pairwise.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "ops/nsa_compress/kernel.h"
#include "ops/nsa_compress/windows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/nsa_compress/grad_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/caches.h"
#include "base/past_caches-inl.h"
#include "base/simd-inl.h"

#ifndef ACLGRAD_OPS_NSA_COMPRESS_GRAD_TASK_
#define ACLGRAD_OPS_NSA_COMPRESS_GRAD_TASK_
namespace aclgrad::ops::nsa_compress {

// The tokens and heads of one task.
struct NsaGradTask {
  int64_t first_token;
  int64_t end_token;
  int64_t first_head;
  int64_t end_head;
  const float* weights;  // [heads, block]
  float* products;       // [heads, block]: what the task adds to grad_weight
  bool past_caches;      // write grad_input past the caches
};

}  // namespace aclgrad::ops::nsa_compress
#endif

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::nsa_compress::HWY_NAMESPACE {

using namespace aclgrad::HWY_NAMESPACE;

namespace {

// A run is worked on in tiles whose windows stay in the first-level cache.
constexpr int64_t kTileTokens = 16;
constexpr int64_t kTileWindows = 4;
constexpr int64_t kTileWidth = 1024;    // channels of all heads
constexpr int64_t kPrefetchTokens = 8;  // far enough ahead to hide the memory behind the arithmetic

// A tensor of `heads` times `channels` elements in each row, a row for each token or window. The channels of
// a head are contiguous. Strides are in elements.
template <class T>
struct HeadRows {
  T* data = nullptr;
  int64_t row_stride = 0;
  int64_t head_stride = 0;
};

// Some heads and channels of a run.
template <class T>
struct Tile {
  int64_t tokens;
  int64_t windows;
  int64_t heads;
  int64_t channels;
  HeadRows<const T> grad_output;
  HeadRows<const T> input;  // without data where the products are not wanted
  HeadRows<T> grad_input;   // without data where it is not wanted

  // Of the first token in the first window. The next token has the next element, the next window the one
  // `stride` before, the next head the one `block` after.
  const float* weights;
  float* products;
  int64_t stride;
  int64_t block;

  bool wants_products() const { return input.data != nullptr; }

  // From one head to the next where heads are packed in vectors.
  int64_t packed_channels() const { return (channels + 15) / 16 * 16; }
};

// What one head of one token does with the windows that cover it.
template <int kWindows>
struct TokenSums {
  Float16Lanes weight[kWindows];
  Float16Lanes product[kWindows];  // of the token and each window

  HWY_INLINE TokenSums(const float* weights, int64_t window_stride) {
    for (int m = 0; m < kWindows; ++m) {
      weight[m] = broadcast16(weights[-m * window_stride]);
      product[m] = zero16();
    }
  }

  // Adds 16 channels. Returns the weighted sum of the windows, on top of `sums` unless that is null.
  HWY_INLINE Float16Lanes add16(const Float16Lanes& input, const float* windows, const float* sums) {
    const Float16Lanes window = load16(windows);
    Float16Lanes sum =
        sums == nullptr ? multiply(weight[0], window) : multiply_add(weight[0], window, load16(sums));
    product[0] = multiply_add(input, window, product[0]);
    for (int m = 1; m < kWindows; ++m) {
      const Float16Lanes next = load16(windows + m * kTileWidth);
      sum = multiply_add(weight[m], next, sum);
      product[m] = multiply_add(input, next, product[m]);
    }
    return sum;
  }
};

// Adds kWindows windows from `first_window` on to the sums over windows of each token. The first of such
// groups starts the sums, the last one rounds them to `Out`, with a `writer` past the caches; between groups they wait in
// `sums`. The tile is a copy, of which the compiler knows that no store changes it.
template <int kWindows, bool kIsFirst, class T, class Out>
void add_windows(const Tile<T> tile, int64_t first_window, const float* windows, HeadRows<const float> sums,
                 HeadRows<Out> out, LineWriter<Out>* writer = nullptr) {
  const int64_t whole = tile.channels / 16 * 16;
  const auto tail = static_cast<size_t>(tile.channels - whole);
  const size_t last = std::is_same_v<Out, T> ? tail : 16;  // lanes that are split wait all together
  const bool wants_products = tile.wants_products();
  for (int64_t t = 0; t < tile.tokens; ++t) {
    for (int64_t n = 0; n < tile.heads; ++n) {
      const T* from = tile.input.data + t * tile.input.row_stride + n * tile.input.head_stride;
      const float* window = windows + n * tile.packed_channels();
      Out* to = out.data + t * out.row_stride + n * out.head_stride;
      const auto sums_at = [&](int64_t c) {
        return kIsFirst ? nullptr : sums.data + t * sums.row_stride + n * sums.head_stride + c;
      };
      const T* ahead = from + kPrefetchTokens * tile.input.row_stride;
      const int64_t position = t + n * tile.block - first_window * tile.stride;
      TokenSums<kWindows> token(tile.weights + position, tile.stride);
      const auto read = [&](int64_t c) HWY_ATTR {
        if (!wants_products) return zero16();
        prefetch_for_later(ahead + c);
        return load16_split(from + c);
      };
      // A chunk is read before the one ahead of it is stored: where both tensors lie alike in their pages, a load that
      // crosses lines would wait for the store beside it.
      const auto add = [&](auto&& write) HWY_ATTR {
        Float16Lanes next = whole > 0 ? read(0) : zero16();
        for (int64_t c = 0; c < whole; c += 16) {
          const Float16Lanes now = next;
          if (c + 16 < whole) next = read(c + 16);
          write(token.add16(now, window + c, sums_at(c)), to + c);
        }
      };
      if (writer != nullptr) {
        LineWriter<Out> lines = *writer;  // a copy of its own, in registers
        add([&](const Float16Lanes& sum, Out* at) HWY_ATTR { lines.write16_split(sum, at); });
        *writer = lines;
      } else {
        add([](const Float16Lanes& sum, Out* at) HWY_ATTR { store16_split(sum, at); });
      }
      if (tail > 0) {
        const Float16Lanes input = wants_products ? load16_split(from + whole, tail) : zero16();
        store16_split(token.add16(input, window + whole, sums_at(whole)), to + whole, last);
      }
      if (!wants_products) continue;
      for (int m = 0; m < kWindows; ++m) {
        tile.products[position - m * tile.stride] += sum16_split<T>(token.product[m]);
      }
    }
  }
}

// Writes `count` windows from `first_window` on as float, kTileWidth from one to the next, with zeros after
// the channels of each head.
template <class T>
void widen_windows(const Tile<T>& tile, int64_t first_window, int64_t count, float* to) {
  const int64_t whole = tile.channels / 16 * 16;
  const auto tail = static_cast<size_t>(tile.channels - whole);
  for (int64_t m = 0; m < count; ++m) {
    for (int64_t n = 0; n < tile.heads; ++n) {
      const T* from = tile.grad_output.data + (first_window + m) * tile.grad_output.row_stride +
                      n * tile.grad_output.head_stride;
      float* head = to + m * kTileWidth + n * tile.packed_channels();
      for (int64_t c = 0; c < whole; c += 16) store16(load16_split(from + c), head + c);
      if (tail > 0) store16(load16_split(from + whole, tail), head + whole);
    }
  }
}

// Calls function(integral_constant) for `windows` in 1..kTileWindows.
template <class Function>
void with_window_count(int64_t windows, Function&& function) {
  if (windows == 1) function(std::integral_constant<int, 1>());
  if (windows == 2) function(std::integral_constant<int, 2>());
  if (windows == 3) function(std::integral_constant<int, 3>());
  if (windows == 4) function(std::integral_constant<int, 4>());
}

template <class T>
void add_tile(const Tile<T>& tile, LineWriter<T>* writer) {
  alignas(64) float windows[kTileWindows * kTileWidth];
  alignas(64) float sums[kTileTokens * kTileWidth];
  const HeadRows<const float> waiting{sums, kTileWidth, tile.packed_channels()};
  const HeadRows<float> to_wait{sums, kTileWidth, tile.packed_channels()};
  for (int64_t first = 0; first < tile.windows; first += kTileWindows) {
    const int64_t count = std::min(kTileWindows, tile.windows - first);
    // Sums that nobody wants stay where they wait.
    const bool is_last = first + count == tile.windows && tile.grad_input.data != nullptr;
    widen_windows(tile, first, count, windows);
    with_window_count(count, [&](auto constant) HWY_ATTR {
      constexpr int kWindows = constant;
      if (first == 0 && is_last) {
        add_windows<kWindows, true>(tile, first, windows, waiting, tile.grad_input, writer);
      } else if (is_last) {
        add_windows<kWindows, false>(tile, first, windows, waiting, tile.grad_input, writer);
      } else if (first == 0) {
        add_windows<kWindows, true>(tile, first, windows, waiting, to_wait);
      } else {
        add_windows<kWindows, false>(tile, first, windows, waiting, to_wait);
      }
    });
  }
}

// The part of a tensor from an element on.
template <class T, class Void>
auto from_element(const BasicTensor<Void>& rows, int64_t row, int64_t head, int64_t channel) {
  using Element = std::conditional_t<std::is_const_v<Void>, const T, T>;
  auto* first = static_cast<Element*>(rows.data) + row * rows.stride(0) + head * rows.stride(1) + channel;
  return HeadRows<Element>{first, rows.stride(0), rows.stride(1)};
}

template <class T>
void add_run(const NsaCompressBackward& problem, const NsaGradTask& task, const Run& run,
             LineWriter<T>* writer) {
  const int64_t tile_channels = std::clamp<int64_t>(problem.channels(), 1, kTileWidth);
  const int64_t tile_heads = kTileWidth / ((tile_channels + 15) / 16 * 16);
  for (int64_t n = task.first_head; n < task.end_head; n += tile_heads) {
    for (int64_t c = 0; c < problem.channels(); c += tile_channels) {
      const int64_t position = n * problem.block() + run.position;
      add_tile(Tile<T>{.tokens = run.tokens,
                       .windows = run.windows,
                       .heads = std::min(tile_heads, task.end_head - n),
                       .channels = std::min(tile_channels, problem.channels() - c),
                       .grad_output = from_element<T>(problem.grad_output, run.first_window, n, c),
                       .input = problem.grad_weight.defined()
                                    ? from_element<T>(problem.input, run.first_token, n, c)
                                    : HeadRows<const T>{},
                       .grad_input = problem.grad_input.defined()
                                         ? from_element<T>(problem.grad_input, run.first_token, n, c)
                                         : HeadRows<T>{},
                       .weights = task.weights + position,
                       .products = task.products + position,
                       .stride = problem.stride,
                       .block = problem.block()},
               writer);
    }
  }
}

template <class T>
void clear_run(const NsaCompressBackward& problem, const NsaGradTask& task, const Run& run) {
  for (int64_t t = run.first_token; t < run.first_token + run.tokens; ++t) {
    for (int64_t n = task.first_head; n < task.end_head; ++n) {
      std::memset(from_element<T>(problem.grad_input, t, n, 0).data, 0,
                  static_cast<size_t>(problem.channels()) * sizeof(T));
    }
  }
}

template <class T>
void run_task(const NsaCompressBackward& problem, const WindowTable& table, const NsaGradTask& task) {
  const int64_t block = problem.block();
  std::fill(task.products + task.first_head * block, task.products + task.end_head * block, 0.0f);
  LineWriter<T> writer;
  for (int64_t token = task.first_token; token < task.end_token;) {
    const Run run = table.run_at(token, std::min(kTileTokens, task.end_token - token));
    if (run.windows > 0) {
      add_run<T>(problem, task, run, task.past_caches ? &writer : nullptr);
    } else if (problem.grad_input.defined()) {
      clear_run<T>(problem, task, run);
    }
    token += run.tokens;
  }
  writer.finish();
}

// 16 columns of `rows` rows, added pairwise.
Float16Lanes sum_pairwise(const float* first, int64_t row_stride, int64_t rows) {
  if (rows > 8) {
    const int64_t half = rows / 2;
    return add(sum_pairwise(first, row_stride, half),
               sum_pairwise(first + half * row_stride, row_stride, rows - half));
  }
  Float16Lanes sum = zero16();
  for (int64_t r = 0; r < rows; ++r) sum = add(sum, load16(first + r * row_stride));
  return sum;
}

}  // namespace

void run_grad_task(const NsaCompressBackward& problem, const WindowTable& table, const NsaGradTask& task) {
  visit_float_type(problem.input.type, [&]<class T>(T) HWY_ATTR { run_task<T>(problem, table, task); });
}

void sum_16_columns(const float* first, int64_t row_stride, int64_t rows, float* sums) {
  store16(sum_pairwise(first, row_stride, rows), sums);
}

}  // namespace aclgrad::ops::nsa_compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "base/parallel.h"

namespace aclgrad::ops::nsa_compress {
namespace {

HWY_EXPORT(run_grad_task);
HWY_EXPORT(sum_16_columns);

// What a task has: enough to be worth a thread's while, little enough to share a small problem.
constexpr int64_t kChunkElements = 1 << 15;  // of one head
constexpr int64_t kTaskElements = 1 << 18;   // of all its heads, unless one has more

// Whether grad_input is large, and written in whole cache lines: those that two heads or tokens share are so where these
// lie side by side.
bool goes_past_caches(const NsaCompressBackward& problem) {
  const auto element = static_cast<int64_t>(size_of(problem.input.type));
  const Tensor& rows = problem.grad_input;
  const int64_t row = problem.heads() * problem.channels();
  const bool is_packed = rows.stride(1) == problem.channels() && rows.stride(0) == row;
  const size_t alignment = is_packed ? 16 : 64;
  const auto is_aligned = [&](int64_t bytes) { return static_cast<size_t>(bytes) % alignment == 0; };
  return outgrows_caches(problem.tokens() * row * element) && problem.channels() % 16 == 0 &&
         reinterpret_cast<uintptr_t>(rows.data) % alignment == 0 && is_aligned(rows.stride(0) * element) &&
         is_aligned(rows.stride(1) * element) && is_aligned(problem.channels() * element);
}

// How the work is cut, and the workspace. Both follow from the sizes alone.
struct GradPlan {
  GradPlan(const NsaCompressBackward& problem, WorkspaceAllocator& allocator)
      : channels(std::max<int64_t>(1, problem.channels())),
        // At least a block, so that the products of a chunk are not more than its tokens.
        chunk_tokens(std::max(divide_up(kChunkElements / channels, 64) * 64, problem.block())),
        chunks(divide_up(problem.tokens(), chunk_tokens)),
        task_heads(std::max<int64_t>(1, kTaskElements / chunk_tokens / channels)),
        head_groups(divide_up(problem.heads(), task_heads)),
        columns(divide_up(problem.heads() * problem.block(), 16) * 16),
        table(sliding_windows(problem), allocator),
        weights(allocator.take<float>(columns)),
        products(allocator.take<float>(chunks * columns)) {}

  int64_t channels;  // not 0
  int64_t chunk_tokens;
  int64_t chunks;
  int64_t task_heads;
  int64_t head_groups;
  int64_t columns;  // one for each head and position in the block, filled up to whole vectors
  WindowTable table;
  float* weights;   // [columns]
  float* products;  // [chunks, columns]
};

}  // namespace

size_t kernel_workspace_size(const NsaCompressBackward& problem) {
  return size_of_workspace<GradPlan>(problem);
}

double kernel_nanoseconds(const NsaCompressBackward& problem) {
  const double elements = static_cast<double>(problem.tokens()) * static_cast<double>(problem.heads()) *
                          static_cast<double>(problem.channels());
  const double overlap = static_cast<double>(problem.block()) / static_cast<double>(problem.stride);
  return elements * (0.1 + 0.05 * overlap);
}

void run_kernel(const NsaCompressBackward& problem, void* workspace) {
  WorkspaceAllocator allocator(workspace);
  const GradPlan plan(problem, allocator);
  plan.table.read(sliding_windows(problem), problem.windows());
  float* const weights = plan.weights;
  read_weights(problem.input.type, problem.weight.data, problem.block(), problem.heads(), weights);

  const bool past_caches = goes_past_caches(problem);
  const double nanoseconds = kernel_nanoseconds(problem);
  parallel_for(plan.chunks * plan.head_groups, nanoseconds, [&](int64_t index) {
    const int64_t chunk = index / plan.head_groups;
    const int64_t first_token = chunk * plan.chunk_tokens;
    const int64_t first_head = index % plan.head_groups * plan.task_heads;
    const NsaGradTask task{.first_token = first_token,
                           .end_token = std::min(first_token + plan.chunk_tokens, problem.tokens()),
                           .first_head = first_head,
                           .end_head = std::min(first_head + plan.task_heads, problem.heads()),
                           .weights = weights,
                           .products = plan.products + chunk * plan.columns,
                           .past_caches = past_caches};
    HWY_DYNAMIC_DISPATCH(run_grad_task)(problem, plan.table, task);
  });

  if (!problem.grad_weight.defined()) return;

  // The weights have been read for the last time: their place takes the sums.
  parallel_for(plan.columns / 16, 0.2 * static_cast<double>(plan.chunks * plan.columns), [&](int64_t i) {
    HWY_DYNAMIC_DISPATCH(sum_16_columns)(plan.products + i * 16, plan.columns, plan.chunks, weights + i * 16);
  });
  write_weights(problem.input.type, weights, problem.block(), problem.heads(), problem.grad_weight.data);
}

}  // namespace aclgrad::ops::nsa_compress

#endif  // HWY_ONCE
