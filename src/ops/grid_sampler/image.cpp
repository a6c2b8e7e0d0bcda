// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "ops/grid_sampler/image.h"

#include <cstring>

namespace aclgrad::ops::grid_sampler {
namespace {

template <class T>
void zero_rows(const Image& image, int64_t slice, RowBand band) {
  const int64_t first_of_slice = slice * image.slice_stride;
  const bool contiguous = image.column_stride == 1;
  const bool interleaved = image.channel_stride == 1 && image.column_stride == image.channels;
  if (contiguous && image.row_stride == image.width) {
    const auto count = static_cast<size_t>((band.end - band.begin) * image.width);
    for (int64_t channel = 0; channel < image.channels; ++channel) {
      std::memset(image.channel<T>(channel) + first_of_slice + image.offset(band.begin, 0), 0,
                  count * sizeof(T));
    }
    return;
  }
  if (image.row_stride == 1 && !interleaved) {
    const auto bytes = static_cast<size_t>(band.end - band.begin) * sizeof(T);
    for (int64_t channel = 0; channel < image.channels; ++channel) {
      T* first = image.channel<T>(channel) + first_of_slice + band.begin;
      for (int64_t column = 0; column < image.width; ++column)
        std::memset(first + column * image.column_stride, 0, bytes);
    }
    return;
  }
  for (int64_t row = band.begin; row < band.end; ++row) {
    T* first = image.channel<T>(0) + first_of_slice + row * image.row_stride;
    if (interleaved) {
      std::memset(first, 0, static_cast<size_t>(image.width * image.channels) * sizeof(T));
      continue;
    }
    for (int64_t channel = 0; channel < image.channels; ++channel, first += image.channel_stride) {
      if (contiguous) {
        std::memset(first, 0, static_cast<size_t>(image.width) * sizeof(T));
      } else {
        for (int64_t column = 0; column < image.width; ++column) first[column * image.column_stride] = T{};
      }
    }
  }
}

}  // namespace

void zero_box(const Image& image, const Box& box) {
  // Where there are no pixels there need be no address, which memset takes for no bytes, too.
  if (box.rows.begin == box.rows.end || image.width == 0 || image.channels == 0) return;
  visit_element_type(image.type, [&]<class T>(T) {
    for (int64_t slice = box.slices.begin; slice < box.slices.end; ++slice)
      zero_rows<T>(image, slice, box.rows);
  });
}

}  // namespace aclgrad::ops::grid_sampler
