// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "cuda/kernel.h"
#include "tensor/view.h"

namespace aclgrad {
namespace cuda {
namespace {

// Only what a kernel needs of a view, axes of size 1 left out.
struct Axes {
  int rank = 0;
  int64_t size[TensorView::kMaxRank] = {};
  int64_t stride[TensorView::kMaxRank] = {};
  int64_t count = 1;

  explicit Axes(const TensorView& view) {
    for (size_t axis = 0; axis < static_cast<size_t>(view.rank); ++axis) {
      count *= view.shape[axis];
      if (view.shape[axis] == 1) continue;
      size[rank] = view.shape[axis];
      stride[rank] = view.strides[axis];
      ++rank;
    }
  }

  // Of the element with that number in row-major order.
  __device__ int64_t offset(int64_t index) const {
    int64_t offset = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      offset += index % size[axis] * stride[axis];
      index /= size[axis];
    }
    return offset;
  }
};

template <class Word>
__global__ void __launch_bounds__(kThreads) gather(Axes axes, const Word* from, Word* to) {
  for (int64_t i = thread_index(); i < axes.count; i += thread_count_of_grid()) to[i] = from[axes.offset(i)];
}

// `from` null means zeros.
template <class Word>
__global__ void __launch_bounds__(kThreads) scatter(Axes axes, const Word* from, Word* to) {
  for (int64_t i = thread_index(); i < axes.count; i += thread_count_of_grid()) {
    to[axes.offset(i)] = from == nullptr ? Word{0} : from[i];
  }
}

void pack(const Packing& packing, void*, const CudaLaunch& on) {
  visit_word(packing.from.type, [&]<class Word>(Word) {
    const Axes axes(packing.from);
    const auto* source = reinterpret_cast<const Word*>(axes.count == 0 ? nullptr : packing.from.first());
    launch_for_each(on, axes.count, gather<Word>, axes, source, static_cast<Word*>(packing.to));
  });
}

void unpack(const Unpacking& unpacking, void*, const CudaLaunch& on) {
  visit_word(unpacking.to.type, [&]<class Word>(Word) {
    const Axes axes(unpacking.to);
    auto* target = reinterpret_cast<Word*>(axes.count == 0 ? nullptr : unpacking.to.first());
    launch_for_each(on, axes.count, scatter<Word>, axes, static_cast<const Word*>(unpacking.from), target);
  });
}

const CudaKernel<Packing> kPacking([](const Packing&, const CudaLaunch&) { return size_t{0}; }, pack);
const CudaKernel<Unpacking> kUnpacking([](const Unpacking&, const CudaLaunch&) { return size_t{0}; }, unpack);

}  // namespace
}  // namespace cuda
}  // namespace aclgrad
