// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Sums in global memory to which any thread may add: as floats, fast but in no fixed order, or in fixed point, whose
// integer additions give the same sum in every order. Additions of single-precision floats take subnormal numbers, and
// sums that would be, for zero: the hardware has no other.
//
// Fixed point: a call first finds the largest finite magnitude of each factor of its terms. With the number of terms
// that may meet in one sum that gives the power of two by which terms are scaled, so that no sum can overflow and as
// much precision as possible is left: 62 bits less one for each doubling of the number of terms, counted from the
// largest possible term. Terms that are infinite or NaN cannot be added as integers; they set a bit for their sum.
#pragma once

#include <limits>
#include <optional>

#include "cuda/kernel.h"

namespace aclgrad::cuda {

// `words` of four bytes.
static __global__ void __launch_bounds__(kThreads)
    zero_words(Condition condition, uint32_t* memory, int64_t words) {
  if (!condition.holds()) return;
  auto* quads = reinterpret_cast<uint4*>(memory);
  const int64_t whole = reinterpret_cast<uintptr_t>(memory) % sizeof(uint4) == 0 ? words / kQuad : 0;
  for (int64_t i = thread_index(); i < whole; i += thread_count_of_grid()) quads[i] = {0, 0, 0, 0};
  for (int64_t i = whole * kQuad + thread_index(); i < words; i += thread_count_of_grid()) memory[i] = 0;
}

// Whole words.
inline void zero_if(const CudaLaunch& on, const Condition& condition, void* memory, size_t bytes) {
  if (bytes == 0 || condition.count == nullptr) return zero(on, memory, bytes);
  const auto words = static_cast<int64_t>(bytes / sizeof(uint32_t));
  launch_if(on, condition, divide_up(words, kQuad * kThreads), zero_words, static_cast<uint32_t*>(memory),
            words);
}

template <class Real>
struct FloatSums {
  using Cell = Real;

  Real* cells;

  bool keeps_rows() const { return false; }

  __device__ void begin() {}

  __device__ void add_to(Cell* to, Real value) const { atomicAdd(to, value); }

  // Of channel c of a row, where a quad begins.
  __device__ Cell* cell(int64_t row, int64_t c) const { return cells + row + c; }

  // Adds to `count` cells from `to` on, to at most four. `whole`: `to` is on a 16-byte boundary.
  __device__ void add_quad(Cell* to, const Quad<Real>& quad, int64_t count, bool whole) const {
    if constexpr (std::is_same_v<Real, float>) {
      if (whole && count >= kQuad) {
        add_four(to, quad.lane[0], quad.lane[1], quad.lane[2], quad.lane[3]);
        return;
      }
    }
    for (int i = 0; i < kQuad; ++i) {
      if (i < count) atomicAdd(to + i, quad.lane[i]);
    }
  }

  // Of a row's channels, as they were added.
  __device__ Quad<Real> quad(int64_t row, int64_t c, int64_t count, bool whole) const {
    return load_quad(cells + row + c, count, whole);
  }
  __device__ Real value(int64_t row, int64_t c) const { return cells[row + c]; }
};

// The bits of the largest finite magnitudes of the two factors of all terms, as doubles: these order as integers do.
struct Magnitudes {
  unsigned long long largest[2];
  unsigned any_special;  // whether a term was infinite or NaN

  __device__ int exponent(int factor) const {
    const auto biased = static_cast<int>(largest[factor] >> 52);
    if (biased > 0) return biased - 1022;
    int exponent = 0;
    std::frexp(std::bit_cast<double>(largest[factor]), &exponent);
    return exponent;
  }
};

template <class Real>
struct FixedSums {
  using Cell = unsigned long long;

  // A double needs a second integer for what the first rounds off.
  static constexpr int kLimbs = std::is_same_v<Real, double> ? 2 : 1;

  Cell* cells;         // [limbs, size]
  unsigned* specials;  // two bits for each cell: a positive infinity, a negative one, or both for NaN
  const Magnitudes* magnitudes;  // of the terms
  int64_t size;
  int terms_exponent;  // at most 2 to this power terms meet in one cell
  // Of a row: its first cells are the first channel of each quad, and so on, as lanes add them.
  int64_t quads = 1;
  int places = 0;    // terms are multiplied by 2 to this power
  float factors[2];  // whose product is that power, as one float cannot hold all of them
  double unit = 0;   // of a cell: 2 to the power of -places

  static constexpr int kCellsOfWord = 16;

  // `channels`: of a row whose quads are added to; 0 where there are none.
  FixedSums(int64_t cell_count, int64_t max_terms, int64_t channels, WorkspaceAllocator& allocator)
      : cells(allocator.take<Cell>(kLimbs * cell_count)),
        specials(allocator.take<unsigned>(divide_up(cell_count, kCellsOfWord))),
        magnitudes(allocator.take<Magnitudes>(1)),
        size(cell_count),
        terms_exponent(0),
        quads(channels > 0 && channels % kQuad == 0 ? channels / kQuad : 1) {
    while (int64_t{1} << terms_exponent < max_terms) ++terms_exponent;
  }

  // Whether quads of channels do not lie side by side.
  bool keeps_rows() const { return quads > 1; }

  // Sets all to zero. Queued before anything else.
  void clear(const CudaLaunch& on) const {
    zero(on, cells, static_cast<size_t>(kLimbs * size) * sizeof(Cell));
    zero(on, specials, static_cast<size_t>(divide_up(size, kCellsOfWord)) * sizeof(unsigned));
    zero(on, largest(), sizeof(Magnitudes));
  }

  __host__ __device__ Magnitudes* largest() const { return const_cast<Magnitudes*>(magnitudes); }

  __device__ int shift() const {
    const int exponent = 62 - terms_exponent - magnitudes->exponent(0) - magnitudes->exponent(1);
    return exponent < 1000 ? exponent : 1000;  // so that the factor stays finite
  }
  __device__ int low_shift() const { return 62 - terms_exponent; }

  // What a kernel calls before it adds or reads anything. Where floats cannot hold the factors, all terms are zero.
  __device__ void begin() {
    places = shift();
    if constexpr (kLimbs == 1) {
      const int first = min(max(places, -126), 127);
      factors[0] = std::ldexp(1.0f, first);
      factors[1] = std::ldexp(1.0f, min(places - first, 127));
      unit = std::bit_cast<double>(static_cast<uint64_t>(1023 - places) << 52);
    }
  }

  __device__ void add_to(Cell* to, Real value) const {
    if (!(std::fabs(value) <= std::numeric_limits<Real>::max())) {
      const int64_t at = to - cells;
      const unsigned bits = value > 0 ? 1u : value < 0 ? 2u : 3u;
      atomicOr(specials + at / kCellsOfWord, bits << (at % kCellsOfWord * 2));
      atomicOr(&largest()->any_special, 1u);
      return;
    }
    if constexpr (kLimbs == 1) {
      // To the nearest whole number, ties to even. The factors are powers of two: only what is below one half is rounded.
      atomicAdd(to, static_cast<Cell>(__float2ll_rn(value * factors[0] * factors[1])));
    } else {
      const double scaled = std::ldexp(value, places);
      const double whole = std::rint(scaled);
      add_whole(to, whole);
      add_whole(to + size, std::rint(std::ldexp(scaled - whole, low_shift())));
    }
  }

  __device__ Cell* cell(int64_t row, int64_t c) const { return cells + row + (quads == 1 ? c : c / kQuad); }

  __device__ void add_quad(Cell* to, const Quad<Real>& quad, int64_t count, bool) const {
    for (int i = 0; i < kQuad; ++i) {
      if (i < count) add_to(to + i * quads, quad.lane[i]);
    }
  }

  __device__ Quad<Real> quad(int64_t row, int64_t c, int64_t count, bool whole) const {
    Quad<Real> quad{};
    if (kLimbs == 1 && whole && count >= kQuad && magnitudes->any_special == 0) {
      Cell sums[kQuad];
      if (quads == 1) {
        *reinterpret_cast<PackedQuad<Cell>*>(sums) =
            *reinterpret_cast<const PackedQuad<Cell>*>(cells + row + c);
      } else {
        const Cell* from = cell(row, c);
        for (int i = 0; i < kQuad; ++i, from += quads) sums[i] = *from;
      }
      for (int i = 0; i < kQuad; ++i) quad.lane[i] = real(sums[i]);
    } else {
      for (int i = 0; i < kQuad; ++i) {
        if (i < count) quad.lane[i] = value(row, c + i);
      }
    }
    return quad;
  }

  __device__ Real value(int64_t row, int64_t c) const {
    const int64_t at = cell(row, c / kQuad * kQuad) + c % kQuad * quads - cells;
    if (magnitudes->any_special != 0) {
      const unsigned bits = specials[at / kCellsOfWord] >> (at % kCellsOfWord * 2) & 3u;
      if (bits == 3u) return std::numeric_limits<Real>::quiet_NaN();
      if (bits != 0) return (bits == 1u ? 1 : -1) * std::numeric_limits<Real>::infinity();
    }
    if constexpr (kLimbs == 1) return real(cells[at]);
    const double low =
        std::ldexp(static_cast<double>(static_cast<long long>(cells[size + at])), -low_shift());
    return static_cast<Real>(
        std::ldexp(static_cast<double>(static_cast<long long>(cells[at])) + low, -places));
  }

 private:
  __device__ Real real(Cell sum) const {
    return static_cast<Real>(static_cast<double>(static_cast<long long>(sum)) * unit);
  }

  __device__ static void add_whole(Cell* cell, double whole) {
    atomicAdd(cell, static_cast<Cell>(static_cast<long long>(whole)));
  }
};

// ---- All elements of a tensor, of which a thread takes four neighbours at a time

// Merges axes where the strides allow it, so that most tensors need no division of an index.
template <class T>
struct Elements {
  static constexpr int kMaxAxes = 5;

  T* data;
  int axes = 1;
  int64_t sizes[kMaxAxes];    // of the innermost axis first, a row
  int64_t strides[kMaxAxes];  // in elements
  int64_t quads_of_row;
  int64_t quads = 0;  // of all rows
  int row_shift = 0;  // quads_of_row is 2 to this power, or -1
  bool whole;         // rows consist of quads, which lie as vectors want them

  // keeps_rows: the innermost axis stays a row.
  Elements(T* first, const Shape& shape, const Shape& steps, bool keeps_rows = false) : data(first) {
    sizes[0] = shape[shape.rank() - 1];
    strides[0] = steps[shape.rank() - 1];
    for (int axis = shape.rank() - 1; axis-- > 0;) {
      const int last = axes - 1;
      if (shape[axis] == 1) continue;
      if ((last > 0 || !keeps_rows) && steps[axis] == strides[last] * sizes[last]) {
        sizes[last] *= shape[axis];
      } else {
        sizes[axes] = shape[axis];
        strides[axes++] = steps[axis];
      }
    }
    quads = quads_of_row = divide_up(sizes[0], kQuad);
    whole = strides[0] == 1 && (axes == 1 || sizes[0] % kQuad == 0) && holds_quads<T>(data, {});
    for (int axis = 1; axis < axes; ++axis) {
      quads *= sizes[axis];
      whole = whole && strides[axis] % kQuad == 0;
    }
    while (int64_t{1} << row_shift < quads_of_row) ++row_shift;
    if (int64_t{1} << row_shift != quads_of_row) row_shift = -1;
  }

  // Calls body(index of the row's first element, place in the row, elements left there, address) for the thread's quads.
  template <class Body>
  __device__ void for_each_quad(Body&& body) const {
    for (int64_t quad = thread_index(); quad < quads; quad += thread_count_of_grid()) {
      int64_t row = 0, at = 0;
      if (axes > 1) row = row_shift < 0 ? quad / quads_of_row : quad >> row_shift;
      const int64_t in_row = kQuad * (quad - row * quads_of_row);
      int64_t rest = row;
#pragma unroll
      for (int axis = 1; axis < kMaxAxes; ++axis) {
        if (axis >= axes) break;
        const int64_t next = axis + 1 < axes ? rest / sizes[axis] : 0;
        at += (rest - next * sizes[axis]) * strides[axis];
        rest = next;
      }
      body(row * sizes[0], in_row, sizes[0] - in_row, data + at + in_row * strides[0]);
    }
  }

  __device__ auto load(const T* from, int64_t count) const {
    if (strides[0] == 1) return load_quad(from, count, whole);
    Quad<RealOf<std::remove_const_t<T>>> quad{};
    for (int i = 0; i < kQuad; ++i) {
      if (i < count) quad.lane[i] = widen(from[i * strides[0]]);
    }
    return quad;
  }

  __device__ void store(T* to, const Quad<RealOf<T>>& quad, int64_t count) const {
    if (strides[0] == 1) return store_quad(to, quad, count, whole);
    for (int i = 0; i < kQuad; ++i) {
      if (i < count) to[i * strides[0]] = narrow<T>(quad.lane[i]);
    }
  }
};

// ---- What comes before the terms are added, and after

// Finds the largest finite magnitude of one factor. `other_is_one`: sets that of the other factor to 1.
template <class T>
__global__ void __launch_bounds__(kThreads)
    find_magnitude(Elements<const T> of, Magnitudes* magnitudes, int factor, bool other_is_one) {
  using Real = RealOf<T>;
  Real largest = 0;  // that the thread has found, then its warp
  of.for_each_quad([&](int64_t, int64_t, int64_t left, const T* from) {
    const auto quad = of.load(from, left);
    for (int i = 0; i < kQuad; ++i) {
      const Real magnitude = std::fabs(quad.lane[i]);
      if (magnitude <= std::numeric_limits<Real>::max() && magnitude > largest) largest = magnitude;
    }
  });
  for (int offset = 16; offset > 0; offset /= 2) {
    const Real other = __shfl_xor_sync(~0u, largest, offset);
    largest = other > largest ? other : largest;
  }
  if (threadIdx.x % 32 == 0 && largest > 0)
    atomicMax(&magnitudes->largest[factor], std::bit_cast<unsigned long long>(static_cast<double>(largest)));
  if (other_is_one && thread_index() == 0)
    magnitudes->largest[1 - factor] = std::bit_cast<unsigned long long>(1.0);
}

template <class T>
void find_magnitude_of(const T* data, const Shape& shape, const Shape& strides, const CudaLaunch& on,
                       Magnitudes* magnitudes, int factor, bool other_is_one = false) {
  constexpr int64_t kQuadsOfThread = 4;
  const Elements<const T> of(data, shape, strides);
  launch_to_fill(on, divide_up(of.quads, kQuadsOfThread), find_magnitude<T>, of, magnitudes, factor,
                 other_is_one);
}

// Sums that lie in the order of the tensor's elements.
template <class T, class Sums>
__global__ void __launch_bounds__(kThreads)
    store_gradient(Condition condition, Sums sums, Elements<T> gradient) {
  if (!condition.holds()) return;
  sums.begin();
  gradient.for_each_quad([&](int64_t row, int64_t c, int64_t left, T* to) {
    gradient.store(to, sums.quad(row, c, left, gradient.whole), left);
  });
}

// Rows of the shape's last axis are as they were added to.
template <class T, class Sums>
void store_sums(const Sums& sums, T* to, const Shape& shape, const Shape& strides, const CudaLaunch& on,
                const Condition& condition = {}) {
  const Elements<T> gradient(to, shape, strides, sums.keeps_rows());
  launch_to_fill(on, gradient.quads, store_gradient<T, Sums>, condition, sums, gradient);
}

// ---- The sums of a gradient

// What a gradient is added up in: fixed point where it must be deterministic, else floats.
template <class Real>
class GradientSums {
 public:
  // At most `max_terms` meet in one of `count` sums, rows of `channels` where quads are added. `in_place`: where sums of
  // floats belong, or null for a buffer.
  GradientSums(int64_t count, int64_t max_terms, int64_t channels, void* in_place, const CudaLaunch& on,
               WorkspaceAllocator& allocator)
      : count_(count), is_in_place_(in_place != nullptr && !on.deterministic) {
    if (on.deterministic) {
      fixed_.emplace(count, max_terms, channels, allocator);
    } else {
      floats_ = {is_in_place_ ? static_cast<Real*>(in_place) : allocator.take<Real>(count)};
    }
  }

  // From zeros on: find_magnitudes(Magnitudes*) where they are in fixed point, add(sums), and store(sums) unless they are
  // where they belong. Only sums of floats may depend on a condition.
  template <class FindMagnitudes, class Add, class Store>
  void add_up(const CudaLaunch& on, FindMagnitudes&& find_magnitudes, Add&& add, Store&& store,
              const Condition& condition = {}) const {
    if (fixed_) {
      fixed_->clear(on);
      find_magnitudes(fixed_->largest());
      add(*fixed_);
      return store(*fixed_);
    }
    zero_if(on, condition, floats_.cells, static_cast<size_t>(count_) * sizeof(Real));
    add(floats_);
    if (!is_in_place_) store(floats_);
  }

 private:
  const int64_t count_;
  const bool is_in_place_;
  std::optional<FixedSums<Real>> fixed_;
  FloatSums<Real> floats_{nullptr};
};

}  // namespace aclgrad::cuda
