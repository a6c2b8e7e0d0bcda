// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// NSA compress and its gradient on a GPU, without atomics.
//
// The gradient gathers: whoever owns a token goes through the windows over it, so that grad_input is written once. A
// token at position p of its sequence is position p mod S, p mod S + S, ... of these windows, so a group of lanes that
// owns all tokens of a chunk with one remainder p mod S also owns these rows of grad_weight; it keeps their sums in
// registers and leaves one partial sum for each chunk. A second kernel adds the chunks in a fixed order.
#include "cuda/kernel.h"
#include "ops/nsa_compress/kernel.h"
#include "ops/nsa_compress/layout.h"

namespace aclgrad::ops::nsa_compress {

using namespace cuda;

namespace {

constexpr int64_t kWindowsInRegisters = 4;

// Sequences and their windows, checked.
struct WindowTable {
  int64_t* ends;           // of each sequence
  int64_t* windows_up_to;  // and with each sequence
  int64_t sequences;
  int64_t* is_right;  // 0 where the ends are not what they must be: nothing is computed then

  WindowTable(const SlidingWindows& windows, WorkspaceAllocator& allocator)
      : ends(allocator.take<int64_t>(std::max<int64_t>(1, windows.sequences))),
        windows_up_to(allocator.take<int64_t>(std::max<int64_t>(1, windows.sequences))),
        sequences(std::max<int64_t>(1, windows.sequences)),
        is_right(allocator.take<int64_t>(1)) {}

  __device__ int64_t begin_of(int64_t sequence) const { return sequence == 0 ? 0 : ends[sequence - 1]; }
  __device__ int64_t first_window_of(int64_t sequence) const {
    return sequence == 0 ? 0 : windows_up_to[sequence - 1];
  }
};

// The ends of an array of the host travel as arguments of kernels: nothing of the host is read later.
struct SomeEnds {
  static constexpr int64_t kCapacity = 400;

  int64_t first;
  int64_t count;
  int64_t end[kCapacity];
};

__global__ void write_ends(SomeEnds some, int64_t* ends) {
  for (int64_t i = threadIdx.x; i < some.count; i += blockDim.x) ends[some.first + i] = some.end[i];
}

// One block.
__global__ void count_windows_of_sequences(SlidingWindows windows, int64_t window_count, WindowTable table,
                                           uint32_t* failure) {
  __shared__ int64_t sums[kThreads];
  const bool given_on_gpu = windows.ends_on_gpu && windows.sequences > 0;
  int64_t wrong = 0;
  for (int64_t i = threadIdx.x; i < table.sequences; i += kThreads) {
    // The copy is what is checked and used: nobody else can change it afterwards.
    if (given_on_gpu) table.ends[i] = windows.sequence_ends[i];
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < table.sequences; i += kThreads) {
    const bool last = i == table.sequences - 1;
    wrong +=
        table.ends[i] < 0 || table.ends[i] < table.begin_of(i) || (last && table.ends[i] != windows.tokens);
  }
  inclusive_scan(wrong, sums);
  const bool is_right = sums[kThreads - 1] == 0;
  __syncthreads();
  int64_t before = 0;
  for (int64_t first = 0; is_right && first < table.sequences; first += kThreads) {
    const int64_t i = first + threadIdx.x;
    int64_t own = 0;
    if (i < table.sequences) {
      const int64_t tokens = table.ends[i] - table.begin_of(i);
      own = tokens >= windows.block ? (tokens - windows.block) / windows.stride + 1 : 0;
    }
    const int64_t up_to = before + inclusive_scan(own, sums);
    if (i < table.sequences) table.windows_up_to[i] = up_to;
    before += sums[kThreads - 1];
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  const bool matches = is_right && before == window_count;
  *table.is_right = matches;
  if (!matches && failure != nullptr) {
    *failure = is_right ? kWrongWindowCount : kWrongSequenceEnds;
    __threadfence_system();
  }
}

void fill_table(const SlidingWindows& windows, int64_t window_count, const WindowTable& table,
                const CudaLaunch& on) {
  if (!windows.ends_on_gpu || windows.sequences == 0) {
    const int64_t* ends = windows.sequences == 0 ? &windows.tokens : windows.sequence_ends;
    for (int64_t first = 0; first < table.sequences; first += SomeEnds::kCapacity) {
      SomeEnds some{first, std::min(SomeEnds::kCapacity, table.sequences - first), {}};
      std::copy_n(ends + first, some.count, some.end);
      launch(on, 1, kThreads, 0, write_ends, some, table.ends);
    }
  }
  launch(on, 1, kThreads, 0, count_windows_of_sequences, windows, window_count, table, on.failure);
}

template <class T>
bool rows_hold_quads(const ConstTensor& rows) {
  return holds_quads<T>(rows.data, {rows.stride(0), rows.stride(1)});
}

template <class T>
__device__ T* row_of(const Tensor& rows, int64_t row, int64_t head) {
  return static_cast<T*>(rows.data) + row * rows.stride(0) + head * rows.stride(1);
}
template <class T>
__device__ const T* row_of(const ConstTensor& rows, int64_t row, int64_t head) {
  return static_cast<const T*>(rows.data) + row * rows.stride(0) + head * rows.stride(1);
}

// ---- Forward

// A group of lanes for each window and head.
template <class T>
__global__ void __launch_bounds__(kThreads, kBlocksForHalf)
    compress(NsaCompress problem, SlidingWindows windows, WindowTable table, int lane_count, bool whole) {
  if (*table.is_right == 0) return;
  const Lanes lanes(lane_count);
  const T* weight = static_cast<const T*>(problem.weight.data);
  for (int64_t item = lanes.group(); item < problem.windows() * problem.heads(); item += lanes.groups()) {
    const int64_t window = item / problem.heads(), head = item % problem.heads();
    const int64_t sequence = upper_bound(table.windows_up_to, table.sequences, window);
    const int64_t start =
        table.begin_of(sequence) + (window - table.first_window_of(sequence)) * windows.stride;
    for (int64_t c = kQuad * lanes.index; c < problem.channels(); c += kQuad * lanes.count) {
      Quad<float> sum{};
      const T* row = row_of<T>(problem.input, start, head) + c;
      const T* factor = weight + head;
      for (int64_t first = 0; first < windows.block; first += 32) {
        Quad<float> part{};
        const int count = static_cast<int>(min(int64_t{32}, windows.block - first));
#pragma unroll 4
        for (int j = 0; j < count; ++j, row += problem.input.stride(0), factor += problem.heads())
          add_scaled(part, widen(*factor), load_quad(row, problem.channels() - c, whole));
        for (int i = 0; i < kQuad; ++i) sum.lane[i] += part.lane[i];
      }
      store_quad(row_of<T>(problem.output, window, head) + c, sum, problem.channels() - c, whole);
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

// Tokens that a block works on: for each remainder about 16.
int64_t chunk_of(const NsaCompressBackward& problem) {
  return std::clamp<int64_t>(16 * problem.stride, 64, 512);
}

// The windows over a token of a sequence.
struct Cover {
  int64_t first_row;  // of grad_output: that of the window in which the token comes first
  int64_t skipped;    // windows at the start of that list that do not exist
  int64_t count;      // one past the last of the list that exists
  int64_t remainder;  // position of the token in the first window, of the list; S more in each further one

  __device__ Cover(const SlidingWindows& windows, int64_t position, int64_t first_window,
                   int64_t window_count)
      : remainder(position % windows.stride) {
    const int64_t latest = position / windows.stride;
    first_row = first_window + latest;
    skipped = latest < window_count ? 0 : latest - window_count + 1;
    const int64_t within =
        remainder < windows.block ? (windows.block - 1 - remainder) / windows.stride + 1 : 0;
    count = within < latest + 1 ? within : latest + 1;
  }
};

// A block for each chunk and head. Each group of lanes takes the remainders in turn. With kInRegisters no token lies in
// more than kWindowsInRegisters windows.
template <class T, bool kInRegisters>
__global__ void __launch_bounds__(kThreads, kInRegisters ? kBlocksForHalf : 1)
    grad_of_chunks(NsaCompressBackward problem, SlidingWindows windows, WindowTable table, float* partials,
                   int64_t chunk, int lane_count, bool whole) {
  if (*table.is_right == 0) return;
  const Lanes lanes(lane_count);
  const int64_t groups = blockDim.x / lanes.count, own_group = threadIdx.x / lanes.count;
  const int64_t chunks = divide_up(windows.tokens, chunk);
  const T* weight = static_cast<const T*>(problem.weight.data);
  const bool sums_at_once = !kInRegisters && problem.grad_weight.defined();
  const bool sums_at_end = kInRegisters && problem.grad_weight.defined();
  for (int64_t item = blockIdx.x; item < chunks * problem.heads(); item += gridDim.x) {
    const int64_t head = item % problem.heads();
    const int64_t chunk_begin = item / problem.heads() * chunk;
    const int64_t chunk_end = chunk_begin + chunk < windows.tokens ? chunk_begin + chunk : windows.tokens;
    float* partial = partials + (item / problem.heads() * windows.block) * problem.heads() + head;
    const int64_t first_sequence = upper_bound(table.ends, table.sequences, chunk_begin);
    for (int64_t remainder = own_group; remainder < windows.stride; remainder += groups) {
      float sums[kWindowsInRegisters] = {};
      if (sums_at_once && lanes.index == 0) {
        for (int64_t j = remainder; j < windows.block; j += windows.stride) partial[j * problem.heads()] = 0;
      }
      for (int64_t sequence = first_sequence; sequence < table.sequences; ++sequence) {
        const int64_t begin = table.begin_of(sequence);
        if (begin >= chunk_end) break;
        const int64_t end = table.ends[sequence] < chunk_end ? table.ends[sequence] : chunk_end;
        const int64_t first_window = table.first_window_of(sequence);
        const int64_t window_count = table.windows_up_to[sequence] - first_window;
        // The first token of the chunk in the sequence, then the next with the remainder.
        int64_t token = begin > chunk_begin ? begin : chunk_begin;
        token += (remainder - (token - begin) % windows.stride + windows.stride) % windows.stride;
        for (; token < end; token += windows.stride) {
          const Cover cover(windows, token - begin, first_window, window_count);
          for (int64_t c = kQuad * lanes.index; c < problem.channels(); c += kQuad * lanes.count) {
            const int64_t left = problem.channels() - c;
            Quad<float> gradient{};
            if constexpr (kInRegisters) {
              const bool read = problem.grad_weight.defined() && cover.skipped < cover.count;
              const auto input =
                  read ? load_quad(row_of<T>(problem.input, token, head) + c, left, whole) : Quad<float>{};
#pragma unroll
              for (int m = 0; m < kWindowsInRegisters; ++m) {
                if (m < cover.skipped || m >= cover.count) continue;
                const auto grad_output =
                    load_quad(row_of<T>(problem.grad_output, cover.first_row - m, head) + c, left, whole);
                const int64_t j = remainder + m * windows.stride;
                add_scaled(gradient, widen(weight[j * problem.heads() + head]), grad_output);
                sums[m] = dot(input, grad_output, sums[m]);
              }
            } else {
              for (int64_t m = cover.skipped; m < cover.count; ++m) {
                const int64_t j = remainder + m * windows.stride;
                add_scaled(
                    gradient, widen(weight[j * problem.heads() + head]),
                    load_quad(row_of<T>(problem.grad_output, cover.first_row - m, head) + c, left, whole));
              }
            }
            if (problem.grad_input.defined()) {
              store_quad(row_of<T>(problem.grad_input, token, head) + c, gradient, left, whole);
            }
          }
          for (int64_t m = cover.skipped; sums_at_once && m < cover.count; ++m) {
            float product = 0;
            for (int64_t c = kQuad * lanes.index; c < problem.channels(); c += kQuad * lanes.count) {
              const int64_t left = problem.channels() - c;
              product =
                  dot(load_quad(row_of<T>(problem.input, token, head) + c, left, whole),
                      load_quad(row_of<T>(problem.grad_output, cover.first_row - m, head) + c, left, whole),
                      product);
            }
            product = lanes.sum(product);
            if (lanes.index == 0) partial[(remainder + m * windows.stride) * problem.heads()] += product;
          }
        }
      }
      if constexpr (kInRegisters) {
#pragma unroll
        for (int m = 0; m < kWindowsInRegisters; ++m) {
          const int64_t j = remainder + m * windows.stride;
          if (!sums_at_end || j >= windows.block) continue;
          const float sum = lanes.sum(sums[m]);
          if (lanes.index == 0) partial[j * problem.heads()] = sum;
        }
      }
    }
  }
}

constexpr int kWarp = 32;

// A block for 32 elements of grad_weight. Warp w adds every 32nd chunk from w on, each lane for an element of its own; then
// each warp adds up one element.
template <class T>
__global__ void __launch_bounds__(kWarp* kWarp)
    add_chunks(NsaCompressBackward problem, WindowTable table, const float* partials, int64_t chunks) {
  if (*table.is_right == 0) return;
  __shared__ float sums[kWarp][kWarp + 1];  // a column lies in as many banks as a row
  const Lanes lanes(kWarp);
  const auto warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t elements = problem.block() * problem.heads();
  for (int64_t first = kWarp * int64_t{blockIdx.x}; first < elements; first += kWarp * int64_t{gridDim.x}) {
    const int64_t i = first + lanes.index;
    BlockedSum sum;
    for (int64_t chunk = warp; i < elements && chunk < chunks; chunk += kWarp)
      sum.add(partials[chunk * elements + i]);
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
      : table(sliding_windows(problem), allocator),
        partials(allocator.take<float>(problem.grad_weight.defined()
                                           ? divide_up(problem.tokens(), chunk_of(problem)) *
                                                 problem.block() * problem.heads()
                                           : 0)) {}
};

template <class T>
void run(const NsaCompressBackward& problem, const GradWorkspace& workspace, const CudaLaunch& on) {
  const bool whole = rows_hold_quads<T>(problem.grad_output) && rows_hold_quads<T>(problem.input) &&
                     rows_hold_quads<T>(problem.grad_input);
  const int lanes = lanes_for(problem.channels());
  const int64_t chunk = chunk_of(problem);
  const int64_t chunks = divide_up(problem.tokens(), chunk);
  const bool in_registers = divide_up(problem.block(), problem.stride) <= kWindowsInRegisters;
  launch(on, chunks * problem.heads(), kThreads, 0,
         in_registers ? grad_of_chunks<T, true> : grad_of_chunks<T, false>, problem, sliding_windows(problem),
         workspace.table, workspace.partials, chunk, lanes, whole);
  if (!problem.grad_weight.defined()) return;
  launch(on, divide_up(problem.block() * problem.heads(), kWarp), kWarp * kWarp, 0, add_chunks<T>, problem,
         workspace.table, workspace.partials, chunks);
}

const CudaKernel<NsaCompress> kForward(
    [](const NsaCompress& problem, const CudaLaunch&) {
      return size_of_workspace<WindowTable>(sliding_windows(problem));
    },
    [](const NsaCompress& problem, void* workspace, const CudaLaunch& on) {
      const SlidingWindows windows = sliding_windows(problem);
      WorkspaceAllocator allocator(workspace);
      const WindowTable table(windows, allocator);
      fill_table(windows, problem.windows(), table, on);
      const int lanes = lanes_for(problem.channels());
      visit_float_type(problem.input.type, [&]<class T>(T) {
        const bool whole = rows_hold_quads<T>(problem.input) && rows_hold_quads<T>(problem.output);
        launch_for_each(on, problem.windows() * problem.heads() * lanes, compress<T>, problem, windows, table,
                        lanes, whole);
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
      fill_table(sliding_windows(problem), problem.windows(), parts.table, on);
      visit_float_type(problem.input.type, [&]<class T>(T) { run<T>(problem, parts, on); });
    });

}  // namespace
}  // namespace aclgrad::ops::nsa_compress
