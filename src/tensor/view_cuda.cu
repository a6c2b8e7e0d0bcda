// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "tensor/view_cuda.h"

#include "cuda/kernel.h"

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

template <class Function>
void visit_word(DataType type, Function&& function) {
  switch (size_of(type)) {
    case 2:
      return function(uint16_t{});
    case 4:
      return function(uint32_t{});
    default:
      return function(uint64_t{});
  }
}

}  // namespace
}  // namespace cuda

void pack(const TensorView& from, void* to, const CudaLaunch& on) {
  cuda::visit_word(from.type, [&]<class Word>(Word) {
    const cuda::Axes axes(from);
    const auto* source = reinterpret_cast<const Word*>(axes.count == 0 ? nullptr : from.first());
    cuda::launch_for_each(on, axes.count, cuda::gather<Word>, axes, source, static_cast<Word*>(to));
  });
}

void unpack(const void* from, const TensorView& to, const CudaLaunch& on) {
  cuda::visit_word(to.type, [&]<class Word>(Word) {
    const cuda::Axes axes(to);
    auto* target = reinterpret_cast<Word*>(axes.count == 0 ? nullptr : to.first());
    cuda::launch_for_each(on, axes.count, cuda::scatter<Word>, axes, static_cast<const Word*>(from), target);
  });
}

void fill_zero(const TensorView& view, const CudaLaunch& on) {
  unpack(nullptr, view, on);
}

}  // namespace aclgrad
