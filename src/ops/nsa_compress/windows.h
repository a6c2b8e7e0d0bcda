// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Which windows lie where, and the weights as kernels walk along them: shared by NSA compress and its gradient.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/data_type.h"
#include "base/workspace.h"
#include "ops/nsa_compress/kernel.h"

namespace aclgrad::ops::nsa_compress {

// What is wrong with the contents of a SlidingWindows.
struct WindowMismatch {
  bool is_of_ends;  // or else of the rows of windows
  std::string expected;
  std::string got;
};

inline constexpr const char* kEndsField = "sequence_ends";

// Checks the ends of the sequences.
std::optional<WindowMismatch> find_wrong_end(const SlidingWindows& windows);

// Of ends that are right.
int64_t total_windows(const SlidingWindows& windows);

// Checks the ends, and that there are `rows` windows.
std::optional<WindowMismatch> find_mismatch(const SlidingWindows& windows, int64_t rows);

// Consecutive tokens of one sequence that lie in the same windows.
struct Run {
  int64_t first_token;
  int64_t tokens;
  int64_t first_window;
  int64_t windows;   // 0: no window covers the tokens
  int64_t position;  // of the first token in the first window; in the m-th after it, m strides less
};

// A checked copy of the ends of the sequences, and the first window of each.
class WindowTable {
 public:
  WindowTable(const SlidingWindows& windows, WorkspaceAllocator& allocator);

  // To be called first. Throws std::invalid_argument where find_mismatch finds anything.
  void read(const SlidingWindows& windows, int64_t rows) const;

  // The longest run that starts at `token` and has at most `max_tokens`.
  Run run_at(int64_t token, int64_t max_tokens) const;

  int64_t first_token_of(int64_t window) const;

 private:
  int64_t begin_of(size_t sequence) const { return sequence == 0 ? 0 : ends_[sequence - 1]; }

  int64_t block_;
  int64_t stride_;
  std::span<int64_t> ends_;           // of each sequence
  std::span<int64_t> first_windows_;  // of each sequence
};

// Weights of [block, heads] as float [heads, block], where the kernels walk along the block.
inline void read_weights(DataType type, const void* from, int64_t block, int64_t heads, float* to) {
  visit_float_type(type, [&]<class T>(T) {
    const T* weight = static_cast<const T*>(from);
    for (int64_t j = 0; j < block; ++j) {
      for (int64_t n = 0; n < heads; ++n) to[n * block + j] = to_float(weight[j * heads + n]);
    }
  });
}

inline void write_weights(DataType type, const float* from, int64_t block, int64_t heads, void* to) {
  visit_float_type(type, [&]<class T>(T) {
    T* weight = static_cast<T*>(to);
    for (int64_t j = 0; j < block; ++j) {
      for (int64_t n = 0; n < heads; ++n) weight[j * heads + n] = from_float<T>(from[n * block + j]);
    }
  });
}

}  // namespace aclgrad::ops::nsa_compress
