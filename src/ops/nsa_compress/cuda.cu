// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// NSA compress and its gradient on a GPU, without atomics.
//
// The gradient gathers: whoever owns a token goes through the windows over it, so that grad_input is written once. A
// token at position p of its sequence is position p mod S, p mod S + S, ... of these windows, so a group of lanes that
// owns all tokens of a chunk with one remainder p mod S also owns these rows of grad_weight; it keeps their sums in
// registers and leaves one partial sum for each chunk. A second kernel adds the chunks in a fixed order.
//
// What bounds both is memory, which is only busy if enough loads are under way: each thread loads 16 bytes at a time, of
// several tokens before it uses the first.
#include "cuda/kernel.h"
#include "ops/nsa_compress/kernel.h"

namespace aclgrad::ops::nsa_compress {

using namespace cuda;

namespace {

// Sequences and their windows, checked. What is known of the last sequence is not read.
struct WindowTable {
  int64_t* ends;           // of each sequence
  int64_t* windows_up_to;  // and with each sequence
  int64_t sequences;
  int64_t tokens;
  int64_t windows;
  // 0 where the ends are not what they must be: nothing is computed then. Null where they must be right.
  int64_t* right;

  template <class Problem>
  WindowTable(const Problem& problem, WorkspaceAllocator& allocator)
      : sequences(std::max<int64_t>(1, problem.sequence_ends.size(0))),
        tokens(problem.tokens()),
        windows(problem.windows()) {
    ends = allocator.take<int64_t>(sequences);
    windows_up_to = allocator.take<int64_t>(sequences);
    right = allocator.take<int64_t>(1);
    if (sequences == 1 && !problem.ends_on_gpu) right = nullptr;
  }

  __device__ bool is_right() const { return right == nullptr || *right != 0; }
  __device__ int64_t begin_of(int64_t sequence) const { return sequence == 0 ? 0 : ends[sequence - 1]; }
  __device__ int64_t end_of(int64_t sequence) const {
    return sequence == sequences - 1 ? tokens : ends[sequence];
  }
  __device__ int64_t first_window_of(int64_t sequence) const {
    return sequence == 0 ? 0 : windows_up_to[sequence - 1];
  }
  __device__ int64_t end_window_of(int64_t sequence) const {
    return sequence == sequences - 1 ? windows : windows_up_to[sequence];
  }
  __device__ int64_t sequence_of_token(int64_t token) const {
    return upper_bound(ends, sequences - 1, token);
  }
  __device__ int64_t sequence_of_window(int64_t window) const {
    return upper_bound(windows_up_to, sequences - 1, window);
  }
};

// The ends of an array of the host travel as arguments of kernels: nothing of the host is read later.
struct SomeEnds {
  static constexpr int64_t kCapacity = 400;

  int64_t first;
  int64_t count;
  int64_t end[kCapacity];

  __device__ void write(int64_t* ends) const {
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) ends[first + i] = end[i];
  }
};

__global__ void write_ends(SomeEnds some, int64_t* ends) {
  some.write(ends);
}

// One block.
__global__ void count_windows_of_sequences(SlidingWindows windows, SomeEnds last_ends, WindowTable table,
                                           uint32_t* failure) {
  __shared__ int64_t of_warps[kWarps];
  int64_t wrong = 0;
  last_ends.write(table.ends);
  for (int64_t i = threadIdx.x; i < table.sequences; i += kThreads) {
    // The copy is what is checked and used: nobody else can change it afterwards.
    if (windows.ends_on_gpu) table.ends[i] = windows.sequence_ends[i];
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < table.sequences; i += kThreads) {
    const bool last = i == table.sequences - 1;
    wrong +=
        table.ends[i] < 0 || table.ends[i] < table.begin_of(i) || (last && table.ends[i] != windows.tokens);
  }
  const bool is_right = scan(wrong, of_warps).total == 0;
  int64_t before = 0;
  for (int64_t first = 0; is_right && first < table.sequences; first += kThreads) {
    const int64_t i = first + threadIdx.x;
    int64_t own = 0;
    if (i < table.sequences) {
      const int64_t tokens = table.ends[i] - table.begin_of(i);
      own = tokens >= windows.block ? (tokens - windows.block) / windows.stride + 1 : 0;
    }
    const Scan sums = scan(own, of_warps);
    if (i < table.sequences) table.windows_up_to[i] = before + sums.up_to;
    before += sums.total;
  }
  if (threadIdx.x != 0) return;
  const bool matches = is_right && before == table.windows;
  *table.right = matches;
  if (!matches && failure != nullptr) {
    *failure = is_right ? kWrongWindowCount : kWrongSequenceEnds;
    __threadfence_system();
  }
}

void fill_table(const SlidingWindows& windows, const WindowTable& table, const CudaLaunch& on) {
  if (table.right == nullptr) return;
  SomeEnds some{};
  while (!windows.ends_on_gpu && some.first + some.count < table.sequences) {
    if (some.count > 0) launch(on, 1, kThreads, write_ends, some, table.ends);
    some.first += some.count;
    some.count = std::min(SomeEnds::kCapacity, table.sequences - some.first);
    std::copy_n(windows.sequence_ends + some.first, some.count, some.end);
  }
  launch(on, 1, kThreads, count_windows_of_sequences, windows, some, table, on.failure);
}

template <class T>
bool rows_hold_vectors(const ConstTensor& rows) {
  return holds_vectors<T>(rows.data, {rows.stride(0), rows.stride(1), rows.size(2)});
}

template <class T, class Void>
__device__ auto* row_of(const BasicTensor<Void>& rows, int64_t row, int64_t head) {
  using Element = std::conditional_t<std::is_const_v<Void>, const T, T>;
  return static_cast<Element*>(rows.data) + row * rows.stride(0) + head * rows.stride(1);
}

// ---- Forward

// A group of lanes for each window and head. A thread loads some rows before it uses any.
template <class T, bool kWhole>
__global__ void __launch_bounds__(kThreads, 3)
    compress(NsaCompress problem, SlidingWindows windows, WindowTable table, int lane_count) {
  constexpr int kElements = Vector<T>::kElements, kRowsAtOnce = 4;
  if (!table.is_right()) return;
  const Lanes lanes(lane_count);
  for (int64_t item = lanes.group(); item < table.windows * problem.heads(); item += lanes.groups()) {
    const int64_t window = item / problem.heads(), head = item % problem.heads();
    const int64_t sequence = table.sequence_of_window(window);
    const int64_t start =
        table.begin_of(sequence) + (window - table.first_window_of(sequence)) * windows.stride;
    for (int64_t c = kElements * lanes.index; c < problem.channels(); c += kElements * lanes.count) {
      float sum[kElements] = {};
      const T* row = row_of<T>(problem.input, start, head) + c;
      const T* weight = static_cast<const T*>(problem.weight.data) + head;
      for (int64_t first = 0; first < windows.block; first += 32) {
        float part[kElements] = {};
        const int count = static_cast<int>(min(int64_t{32}, windows.block - first));
        for (int j = 0; j < count; j += kRowsAtOnce) {
          Vector<T> rows[kRowsAtOnce];
          float factors[kRowsAtOnce];
#pragma unroll
          for (int u = 0; u < kRowsAtOnce; ++u) {
            const bool is_there = j + u < count;
            rows[u] = is_there ? load_vector(row, problem.channels() - c, kWhole) : Vector<T>{};
            factors[u] = is_there ? widen(*weight) : 0;
            row += problem.input.stride(0);
            weight += problem.heads();
          }
#pragma unroll
          for (int u = 0; u < kRowsAtOnce; ++u) {
            for (int i = 0; i < kElements; ++i) part[i] = std::fma(factors[u], rows[u][i], part[i]);
          }
        }
        for (int i = 0; i < kElements; ++i) sum[i] += part[i];
      }
      store_vector(row_of<T>(problem.output, window, head) + c, sum, problem.channels() - c, kWhole);
    }
  }
}

// ---- Gradient

// No sequence has more than one window where the stride is that of all tokens, so that a longer one changes nothing.
NsaCompressBackward with_stride_in_range(NsaCompressBackward problem) {
  const int64_t longest = std::max(problem.tokens(), problem.block());
  problem.stride = std::min(problem.stride, longest);
  return problem;
}

// Tokens of a chunk: for each remainder about 16.
int64_t chunk_of(const NsaCompressBackward& problem) {
  return std::clamp<int64_t>(16 * problem.stride, 64, 512);
}

// What a group of lanes owns: the tokens of a chunk and head with one remainder.
struct Share {
  int64_t chunk;
  int64_t head;
  int64_t remainder;
  // That may lie over a token: the token is at position remainder, remainder + stride, ... of these.
  int64_t windows;

  __device__ Share(int64_t item, const NsaCompressBackward& problem)
      : chunk(item / problem.stride / problem.heads()),
        head(item / problem.stride % problem.heads()),
        remainder(item % problem.stride),
        windows(remainder < problem.block() ? (problem.block() - 1 - remainder) / problem.stride + 1 : 0) {}

  static int64_t count(const NsaCompressBackward& problem) {
    return divide_up(problem.tokens(), chunk_of(problem)) * problem.heads() * problem.stride;
  }
};

// Tokens of a share in one sequence, a stride apart. Token i comes first in window i, then in window i - 1 and so on,
// counted from that of token 0.
struct Steps {
  int64_t token;   // the first
  int64_t window;  // in which it comes first
  int count;
  int first_window;  // of the sequence, or an earlier one than is asked for
  int end_window;

  __device__ bool has_window(int i) const { return i >= first_window && i < end_window; }
};

template <class Body>
__device__ void for_each_sequence(const Share& share, const SlidingWindows& windows, const WindowTable& table,
                                  int64_t chunk_size, Body&& body) {
  const int64_t chunk_begin = share.chunk * chunk_size;
  const int64_t chunk_end = min(chunk_begin + chunk_size, windows.tokens);
  for (int64_t i = table.sequence_of_token(chunk_begin); i < table.sequences; ++i) {
    const int64_t begin = table.begin_of(i);
    if (begin >= chunk_end) break;
    const int64_t position = max(begin, chunk_begin) - begin;
    const int64_t step = position / windows.stride + (position % windows.stride > share.remainder ? 1 : 0);
    const int64_t token = begin + step * windows.stride + share.remainder;
    const int64_t end = min(table.end_of(i), chunk_end);
    if (token >= end) continue;
    const int64_t count = (end - token - 1) / windows.stride + 1;
    const int64_t first = table.first_window_of(i);
    body(Steps{token, first + step, static_cast<int>(count), static_cast<int>(max(-step, -share.windows)),
               static_cast<int>(min(table.end_window_of(i) - first - step, count))});
  }
}

constexpr int kWindowsInRegisters = 4;
constexpr int kTokensAtOnce = 2;

// No token lies in more than kWindows windows. From a token to the next, the rows of grad_output that it needs move on by
// one, so that each is loaded once. A thread loads what some tokens need before it uses any of it.
template <class T, int kWindows, bool kWhole>
__global__ void __launch_bounds__(kThreads, kBlocksForHalf)
    grad_of_shares(NsaCompressBackward problem, SlidingWindows windows, WindowTable table, float* partials,
                   int64_t chunk_size, int64_t shares, int lane_count) {
  constexpr int kElements = Vector<T>::kElements, kAtOnce = kTokensAtOnce;
  if (!table.is_right()) return;
  const Lanes lanes(lane_count);
  const T* weight = static_cast<const T*>(problem.weight.data);
  const bool wants_sums = problem.grad_weight.defined();
  for (int64_t item = lanes.group(); item < shares; item += lanes.groups()) {
    const Share share(item, problem);
    float factors[kWindows], sums[kWindows] = {};
#pragma unroll
    for (int m = 0; m < kWindows; ++m) {
      const int64_t j = share.remainder + m * windows.stride;
      factors[m] = m < share.windows ? widen(weight[j * problem.heads() + share.head]) : 0;
    }
    for_each_sequence(share, windows, table, chunk_size, [&](const Steps& steps) {
      for (int64_t c = kElements * lanes.index; c < problem.channels(); c += kElements * lanes.count) {
        const int64_t left = problem.channels() - c;
        const auto load = [&](const T* from, bool is_there) {
          return is_there ? load_vector(from, left, kWhole) : Vector<T>{};
        };
        const int64_t row_step = problem.grad_output.stride(0);
        const int64_t input_step = windows.stride * problem.input.stride(0);
        const int64_t gradient_step = windows.stride * problem.grad_input.stride(0);
        const T* row = row_of<T>(problem.grad_output, steps.window, share.head) + c;
        const T* input = row_of<T>(problem.input, steps.token, share.head) + c;
        T* gradient = row_of<T>(problem.grad_input, steps.token, share.head) + c;
        Vector<T> rows[kWindows - 1 + kAtOnce];  // of grad_output, the last one for the last token
#pragma unroll
        for (int m = 1; m < kWindows; ++m)
          rows[kWindows - 1 - m] = load(row - m * row_step, m < share.windows && steps.has_window(-m));
        for (int first = 0; first < steps.count; first += kAtOnce) {
          Vector<T> inputs[kAtOnce];
#pragma unroll
          for (int u = 0; u < kAtOnce; ++u, input += input_step, row += row_step) {
            inputs[u] = load(input, wants_sums && first + u < steps.count);
            rows[kWindows - 1 + u] = load(row, steps.has_window(first + u));
          }
#pragma unroll
          for (int u = 0; u < kAtOnce; ++u, gradient += gradient_step) {
            if (first + u >= steps.count) break;
            float sum[kElements] = {};
#pragma unroll
            for (int m = 0; m < kWindows; ++m) {
              if (m >= share.windows || !steps.has_window(first + u - m)) continue;
              float product = 0;
              for (int i = 0; i < kElements; ++i) {
                const float factor = rows[kWindows - 1 + u - m][i];
                sum[i] = std::fma(factors[m], factor, sum[i]);
                product = std::fma(inputs[u][i], factor, product);
              }
              sums[m] += product;
            }
            if (problem.grad_input.defined()) store_vector(gradient, sum, left, kWhole);
          }
#pragma unroll
          for (int m = 0; m < kWindows - 1; ++m) rows[m] = rows[kAtOnce + m];
        }
      }
    });
    if (!wants_sums) continue;
#pragma unroll
    for (int m = 0; m < kWindows; ++m) {
      const int64_t j = share.remainder + m * windows.stride;
      if (m >= share.windows) continue;
      const float sum = lanes.sum(sums[m]);
      if (lanes.index == 0) partials[(share.chunk * windows.block + j) * problem.heads() + share.head] = sum;
    }
  }
}

// Any number of windows may lie over a token.
template <class T>
__global__ void __launch_bounds__(kThreads)
    grad_of_shares_of_many_windows(NsaCompressBackward problem, SlidingWindows windows, WindowTable table,
                                   float* partials, int64_t chunk_size, int64_t shares, int lane_count,
                                   bool whole) {
  constexpr int kElements = Vector<T>::kElements;
  if (!table.is_right()) return;
  const Lanes lanes(lane_count);
  const T* weight = static_cast<const T*>(problem.weight.data);
  for (int64_t item = lanes.group(); item < shares; item += lanes.groups()) {
    const Share share(item, problem);
    const auto weight_index = [&](int64_t m) {
      return (share.remainder + m * windows.stride) * problem.heads() + share.head;
    };
    float* partial = partials + share.chunk * windows.block * problem.heads();
    if (problem.grad_weight.defined() && lanes.index == 0) {
      for (int64_t m = 0; m < share.windows; ++m) partial[weight_index(m)] = 0;
    }
    for_each_sequence(share, windows, table, chunk_size, [&](const Steps& steps) {
      for (int64_t i = 0; i < steps.count; ++i) {
        const int64_t token = steps.token + i * windows.stride, window = steps.window + i;
        const int64_t begin = max(int64_t{0}, i - steps.end_window + 1);
        const int64_t end = min(share.windows, i - steps.first_window + 1);
        const auto load = [&](const ConstTensor& rows, int64_t row, int64_t c) {
          return load_vector(row_of<T>(rows, row, share.head) + c, problem.channels() - c, whole);
        };
        for (int64_t c = kElements * lanes.index; problem.grad_input.defined() && c < problem.channels();
             c += kElements * lanes.count) {
          float gradient[kElements] = {};
          for (int64_t m = begin; m < end; ++m) {
            const auto row = load(problem.grad_output, window - m, c);
            const float factor = widen(weight[weight_index(m)]);
            for (int i = 0; i < kElements; ++i) gradient[i] = std::fma(factor, row[i], gradient[i]);
          }
          store_vector(row_of<T>(problem.grad_input, token, share.head) + c, gradient, problem.channels() - c,
                       whole);
        }
        for (int64_t m = begin; problem.grad_weight.defined() && m < end; ++m) {
          float product = 0;
          for (int64_t c = kElements * lanes.index; c < problem.channels(); c += kElements * lanes.count) {
            const auto row = load(problem.grad_output, window - m, c);
            const auto input = load(problem.input, token, c);
            for (int i = 0; i < kElements; ++i) product = std::fma(input[i], row[i], product);
          }
          product = lanes.sum(product);
          if (lanes.index == 0) partial[weight_index(m)] += product;
        }
      }
    });
  }
}

constexpr int kChunksAtOnce = 8;  // that a thread loads before it uses any

// A block for 32 elements of grad_weight. Warp w adds every 32nd chunk from w on, each lane for an element of its own; then
// each warp adds up one element.
template <class T>
__global__ void __launch_bounds__(kWarp* kWarp)
    add_chunks(NsaCompressBackward problem, WindowTable table, const float* partials, int64_t chunks) {
  if (!table.is_right()) return;
  __shared__ float sums[kWarp][kWarp + 1];  // a column lies in as many banks as a row
  const Lanes lanes(kWarp);
  const auto warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t elements = problem.block() * problem.heads();
  for (int64_t first = kWarp * int64_t{blockIdx.x}; first < elements; first += kWarp * int64_t{gridDim.x}) {
    const int64_t i = first + lanes.index;
    BlockedSum sum;
    for (int64_t chunk = warp; i < elements && chunk < chunks; chunk += kWarp * kChunksAtOnce) {
      float parts[kChunksAtOnce];
#pragma unroll
      for (int u = 0; u < kChunksAtOnce; ++u) {
        const int64_t at = chunk + u * kWarp;
        parts[u] = at < chunks ? partials[at * elements + i] : 0;
      }
      for (const float part : parts) sum.add(part);
    }
    sums[warp][lanes.index] = sum.value();
    __syncthreads();
    const float total = lanes.sum(sums[lanes.index][warp]);
    if (lanes.index == 0 && first + warp < elements) {
      static_cast<T*>(problem.grad_weight.data)[first + warp] = narrow<T>(total);
    }
    __syncthreads();
  }
}

struct GradWorkspace {
  WindowTable table;
  float* partials;  // [chunks, block, heads], where grad_weight is wanted

  GradWorkspace(const NsaCompressBackward& problem, WorkspaceAllocator& allocator)
      : table(problem, allocator),
        partials(allocator.take<float>(problem.grad_weight.defined()
                                           ? divide_up(problem.tokens(), chunk_of(problem)) *
                                                 problem.block() * problem.heads()
                                           : 0)) {}
};

template <class T>
auto kernel_for(int64_t windows_of_token, bool whole) {
  if (windows_of_token <= 2) return whole ? grad_of_shares<T, 2, true> : grad_of_shares<T, 2, false>;
  return whole ? grad_of_shares<T, kWindowsInRegisters, true> : grad_of_shares<T, kWindowsInRegisters, false>;
}

template <class T>
void run(const NsaCompressBackward& problem, const GradWorkspace& workspace, const CudaLaunch& on) {
  const bool whole = rows_hold_vectors<T>(problem.grad_output) && rows_hold_vectors<T>(problem.input) &&
                     rows_hold_vectors<T>(problem.grad_input);
  const int lanes = lanes_for(problem.channels(), Vector<T>::kElements);
  const int64_t chunk = chunk_of(problem), shares = Share::count(problem);
  const int64_t windows_of_token = divide_up(problem.block(), problem.stride);
  if (windows_of_token <= kWindowsInRegisters) {
    launch_for_each(on, shares * lanes, kernel_for<T>(windows_of_token, whole), problem,
                    sliding_windows(problem), workspace.table, workspace.partials, chunk, shares, lanes);
  } else {
    launch_for_each(on, shares * lanes, grad_of_shares_of_many_windows<T>, problem, sliding_windows(problem),
                    workspace.table, workspace.partials, chunk, shares, lanes, whole);
  }
  if (!problem.grad_weight.defined()) return;
  launch(on, divide_up(problem.block() * problem.heads(), kWarp), kWarp * kWarp, add_chunks<T>, problem,
         workspace.table, workspace.partials, divide_up(problem.tokens(), chunk));
}

const CudaKernel<NsaCompress> kForward(
    [](const NsaCompress& problem, const CudaLaunch&) { return size_of_workspace<WindowTable>(problem); },
    [](const NsaCompress& problem, void* workspace, const CudaLaunch& on) {
      const SlidingWindows windows = sliding_windows(problem);
      WorkspaceAllocator allocator(workspace);
      const WindowTable table(problem, allocator);
      fill_table(windows, table, on);
      visit_float_type(problem.input.type, [&]<class T>(T) {
        const bool whole = rows_hold_vectors<T>(problem.input) && rows_hold_vectors<T>(problem.output);
        const int lanes = lanes_for(problem.channels(), Vector<T>::kElements);
        launch_for_each(on, problem.windows() * problem.heads() * lanes,
                        whole ? compress<T, true> : compress<T, false>, problem, windows, table, lanes);
      });
    });

const CudaKernel<NsaCompressBackward> kBackward(
    [](const NsaCompressBackward& problem, const CudaLaunch&) {
      return size_of_workspace<GradWorkspace>(with_stride_in_range(problem));
    },
    [](const NsaCompressBackward& given, void* workspace, const CudaLaunch& on) {
      const NsaCompressBackward problem = with_stride_in_range(given);
      WorkspaceAllocator allocator(workspace);
      const GradWorkspace parts(problem, allocator);
      fill_table(sliding_windows(problem), parts.table, on);
      visit_float_type(problem.input.type, [&]<class T>(T) { run<T>(problem, parts, on); });
    });

}  // namespace
}  // namespace aclgrad::ops::nsa_compress
