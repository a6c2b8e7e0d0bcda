// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Stores past the caches for results that need not begin at a cache line, in bodies of parallel_for().
//
// Included by hwy/foreach_target.h, once for each instruction set.
#if defined(ACLGRAD_BASE_PAST_CACHES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_BASE_PAST_CACHES_INL_H_
#undef ACLGRAD_BASE_PAST_CACHES_INL_H_
#else
#define ACLGRAD_BASE_PAST_CACHES_INL_H_
#endif

#include <algorithm>

#include "base/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::HWY_NAMESPACE {

// Sets memory to zero.
inline void clear_past_caches(uint8_t* begin, uint8_t* end) {
  const hn::ScalableTag<uint8_t> bytes;
  constexpr size_t kVector = hn::MaxLanes(bytes);
  for (; begin < end && reinterpret_cast<uintptr_t>(begin) % kVector != 0; ++begin) *begin = 0;
  for (; begin + kVector <= end; begin += kVector) hn::Stream(hn::Zero(bytes), bytes, begin);
  std::fill(begin, end, uint8_t{0});
}

// Stores consecutive chunks of 16 elements that begin at a multiple of 16 bytes, as all memory of allocators does. A vector
// must be stored at a multiple of its own size. Where the chunks are not, the upper half of a vector waits for the lower
// half of the next one, and both are stored as one: storing halves takes longer.
template <class T>
class LineWriter {
 public:
  // Whether chunks at `first`, `first + stride` and so on begin at multiples of 16 bytes.
  static bool writes(const T* first, int64_t stride) {
    constexpr auto kBoundary = static_cast<int64_t>(16 / sizeof(T));
    return reinterpret_cast<uintptr_t>(first) % 16 == 0 && stride % kBoundary == 0;
  }

  HWY_INLINE void write16(const Float16Lanes& value, T* to) {
    for (size_t i = 0; i < Float16Lanes::kVectors; ++i) {
      if constexpr (std::is_same_v<T, float>) {
        write(value.part[i], FloatTag(), to + i * kLanes);
      } else {
        write(round_to(T{}, value.part[i]), NarrowBitsTag(), &to[i * kLanes].bits);
      }
    }
  }

  // The same with lanes that are split as for T.
  HWY_INLINE void write16_split(const Float16Lanes& value, T* to) {
    if constexpr (kSplits<T>) {
      for (size_t i = 0; i < Float16Lanes::kVectors; i += 2)
        write(round_pairs(value.part[i], value.part[i + 1]), PairsTag(), &to[i * kLanes].bits);
    } else {
      write16(value, to);
    }
  }

  // To be called last.
  HWY_INLINE void finish() {
    if (end_ == nullptr) return;
    const hn::Half<Tag> half;
    hn::Stream(hn::UpperHalf(half, last_), half, end_ - hn::MaxLanes(half));
    end_ = nullptr;
  }

 private:
  using Element = std::conditional_t<std::is_same_v<T, float>, float, uint16_t>;
  using Tag = hn::CappedTag<Element, 32 / sizeof(Element)>;

  template <class D>
  HWY_INLINE void write(hn::Vec<D> value, D d, Element* to) {
    constexpr size_t kBytes = hn::MaxLanes(d) * sizeof(Element);
    if constexpr (kBytes < 16) {
      hn::StoreU(value, d, to);  // half a vector, which has no such store everywhere
    } else if (kBytes == 16 || reinterpret_cast<uintptr_t>(to) % kBytes == 0) {
      hn::Stream(value, d, to);
    } else if constexpr (kBytes > 16) {
      const hn::Half<D> half;
      if constexpr (kBytes == 64) {
        write(hn::LowerHalf(half, value), half, to);
        write(hn::UpperHalf(half, value), half, to + hn::MaxLanes(half));
      } else {
        if (to == end_) {
          hn::Stream(hn::ConcatLowerUpper(d, value, last_), d, to - hn::MaxLanes(half));
        } else {
          finish();
          hn::Stream(hn::LowerHalf(half, value), half, to);
        }
        last_ = value;
        end_ = to + hn::MaxLanes(d);
      }
    }
  }

  hn::Vec<Tag> last_;       // what was written, of which the upper half waits
  Element* end_ = nullptr;  // of that, if anything waits
};

}  // namespace aclgrad::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
