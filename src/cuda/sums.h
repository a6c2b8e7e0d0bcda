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

template <class Real>
struct FloatSums {
  using Cell = Real;

  Real* cells;

  __device__ void begin() {}

  __device__ void add(int64_t at, Real value) const { atomicAdd(cells + at, value); }

  // To a row's channels from c on: `count`, or four where there are more. `whole`: their cells are on a 16-byte boundary.
  __device__ void add_quad(int64_t row, int64_t c, const Quad<Real>& quad, int64_t count, bool whole) const {
    const int64_t at = row + c;
    if constexpr (std::is_same_v<Real, float>) {
      if (whole && count >= kQuad) {
        add_four(cells + at, quad.lane[0], quad.lane[1], quad.lane[2], quad.lane[3]);
        return;
      }
    }
    for (int i = 0; i < kQuad; ++i) {
      if (i < count) add(at + i, quad.lane[i]);
    }
  }

  __device__ Real value(int64_t at) const { return cells[at]; }
  // Of a channel of a row.
  __device__ Real value(int64_t row, int64_t c) const { return cells[row + c]; }
};

// The bits of the largest finite magnitudes of the two factors of all terms, as doubles: these order as integers do.
struct Magnitudes {
  unsigned long long largest[2];

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
  int64_t quads =
      1;  // of a row: its first cells are the first channel of each quad, and so on, as lanes add them
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

  // Sets all to zero. Queued before anything else.
  void clear(const CudaLaunch& on) const {
    zero(on, cells, static_cast<size_t>(kLimbs * size) * sizeof(Cell));
    zero(on, specials, static_cast<size_t>(divide_up(size, kCellsOfWord)) * sizeof(unsigned));
    zero(on, largest(), sizeof(Magnitudes));
  }

  Magnitudes* largest() const { return const_cast<Magnitudes*>(magnitudes); }

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

  __device__ void add(int64_t at, Real value) const {
    if (!(std::fabs(value) <= std::numeric_limits<Real>::max())) {
      const unsigned bits = value > 0 ? 1u : value < 0 ? 2u : 3u;
      atomicOr(specials + at / kCellsOfWord, bits << (at % kCellsOfWord * 2));
      return;
    }
    if constexpr (kLimbs == 1) {
      // To the nearest whole number, ties to even. The factors are powers of two: only what is below one half is rounded.
      atomicAdd(cells + at, static_cast<Cell>(__float2ll_rn(value * factors[0] * factors[1])));
    } else {
      const double scaled = std::ldexp(value, places);
      const double whole = std::rint(scaled);
      add_to(cells + at, whole);
      add_to(cells + size + at, std::rint(std::ldexp(scaled - whole, low_shift())));
    }
  }

  __device__ void add_quad(int64_t row, int64_t c, const Quad<Real>& quad, int64_t count, bool) const {
    for (int i = 0; i < kQuad; ++i) {
      if (i < count) add(cell(row, c, i), quad.lane[i]);
    }
  }

  __device__ Real value(int64_t row, int64_t c) const {
    return value(cell(row, c / kQuad * kQuad, static_cast<int>(c % kQuad)));
  }

  __device__ Real value(int64_t at) const {
    const unsigned bits = specials[at / kCellsOfWord] >> (at % kCellsOfWord * 2) & 3u;
    if (bits == 3u) return std::numeric_limits<Real>::quiet_NaN();
    if (bits != 0) return (bits == 1u ? 1 : -1) * std::numeric_limits<Real>::infinity();
    const auto sum = static_cast<double>(static_cast<long long>(cells[at]));
    if constexpr (kLimbs == 1) {
      return static_cast<Real>(sum * unit);
    } else {
      const double low =
          std::ldexp(static_cast<double>(static_cast<long long>(cells[size + at])), -low_shift());
      return static_cast<Real>(std::ldexp(sum + low, -places));
    }
  }

 private:
  // Of channel c + i of a row, where a quad begins at c.
  __device__ int64_t cell(int64_t row, int64_t c, int i) const {
    return row + (quads == 1 ? c : c / kQuad) + i * quads;
  }

  __device__ static void add_to(Cell* cell, double whole) {
    atomicAdd(cell, static_cast<Cell>(static_cast<long long>(whole)));
  }
};

// `count` channels of a row from c on, or four where there are more; the others are zero.
template <class Sums>
__device__ auto load_sums(const Sums& sums, int64_t row, int64_t c, int64_t count) {
  Quad<decltype(sums.value(row))> quad{};
  for (int i = 0; i < kQuad; ++i) {
    if (i < count) quad.lane[i] = sums.value(row, c + i);
  }
  return quad;
}

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
  // where they belong.
  template <class FindMagnitudes, class Add, class Store>
  void add_up(const CudaLaunch& on, FindMagnitudes&& find_magnitudes, Add&& add, Store&& store) const {
    if (fixed_) {
      fixed_->clear(on);
      find_magnitudes(fixed_->largest());
      add(*fixed_);
      return store(*fixed_);
    }
    zero(on, floats_.cells, static_cast<size_t>(count_) * sizeof(Real));
    add(floats_);
    if (!is_in_place_) store(floats_);
  }

 private:
  const int64_t count_;
  const bool is_in_place_;
  std::optional<FixedSums<Real>> fixed_;
  FloatSums<Real> floats_{nullptr};
};

// Largest finite magnitude that a thread has seen.
class LargestMagnitude {
 public:
  __device__ void see(double value) {
    const double magnitude = std::fabs(value);
    if (magnitude <= std::numeric_limits<double>::max() && magnitude > largest_) largest_ = magnitude;
  }
  // All threads of the warp call it.
  __device__ void leave_in(unsigned long long* largest) const {
    auto bits = std::bit_cast<unsigned long long>(largest_);
    for (int offset = 16; offset > 0; offset /= 2) {
      const auto other = __shfl_xor_sync(~0u, bits, offset);
      bits = other > bits ? other : bits;
    }
    if (threadIdx.x % 32 == 0 && bits > 0) atomicMax(largest, bits);
  }

 private:
  double largest_ = 0;
};

}  // namespace aclgrad::cuda
