// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The implementations of grid sampling on the CPU: where images lie in memory changes how they are read, and no bit of the
// results; and each implementation by its name, whether or not it would be chosen.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ops/grid_sampler/cases_calls.h"
#include "ops/grid_sampler/implementations.h"

namespace aclgrad::test {
namespace {

using namespace grid_sampler_cases;
using ops::grid_sampler::Implementation;

// ---- Layouts, through the C++ interface, whose strides say them

using Strides = aclgrad::Shape (*)(const Shape& shape);  // of tensors [N, C, H, W]

aclgrad::Shape planar(const Shape& shape) {
  return extents(shape).contiguous_strides();
}

aclgrad::Shape channels_last(const Shape& shape) {
  return {shape[1] * shape[2] * shape[3], 1, shape[1] * shape[3], shape[1]};
}

aclgrad::Shape channels_last_of_volumes(const Shape& shape) {
  const int64_t row = shape[1] * shape[4];
  return {row * shape[2] * shape[3], 1, row * shape[3], row, shape[1]};
}

aclgrad::Shape channels_last_in_longer_rows(const Shape& shape) {
  const int64_t row = shape[1] * shape[3] + 5;
  return {row * shape[2], 1, row, shape[1]};
}

aclgrad::Shape planar_in_longer_rows(const Shape& shape) {
  const int64_t row = shape[3] + 3;
  return {shape[1] * shape[2] * row, shape[2] * row, row, 1};
}

// As red, green and blue of pixels that have transparency, too.
aclgrad::Shape channels_of_wider_pixels(const Shape& shape) {
  const int64_t pixel = shape[1] + 1;
  return {shape[2] * shape[3] * pixel, 1, shape[3] * pixel, pixel};
}

// As every few columns of longer rows.
aclgrad::Shape columns_apart(const Shape& shape) {
  const int64_t row = shape[1] * shape[3];
  return {shape[1] * shape[2] * row, shape[2] * row, row, shape[1]};
}

aclgrad::Shape column_by_column(const Shape& shape) {
  return {shape[1] * shape[2] * shape[3], shape[2] * shape[3], 1, shape[2]};
}

aclgrad::Shape longer_columns(const Shape& shape) {
  const int64_t column = shape[2] + 3;
  return {shape[1] * column * shape[3], column * shape[3], 1, column};
}

// Each channel lies one element after the one before: to be read only.
aclgrad::Shape overlapping(const Shape& shape) {
  return {shape[1] + shape[2] * shape[3], 1, shape[3], 1};
}

struct Layouts {
  Strides input;
  Strides output;  // or grad_output
  Strides grad_input = input;
  DataType type = DataType::float32;
  int64_t elements_after = 0;  // a line of 64 bytes, where results begin
};

using Results = std::vector<std::vector<std::byte>>;

// All tensors of a forward call and of a gradient.
template <class S>
struct Images {
  const S& sampling;
  TestTensor input, grid, output, grad_output, grad_input, grad_grid;

  Images(const S& s, const Inputs& inputs, const Layouts& layouts)
      : sampling(s),
        input(input_shape(s), layouts.type, layouts.input(input_shape(s)), 0, inputs.input),
        grid(grid_shape(s), layouts.type, planar(grid_shape(s)), 0, inputs.grid),
        output(result(output_shape(s), layouts.output == overlapping ? planar : layouts.output, layouts)),
        grad_output(output_shape(s), layouts.type, layouts.output(output_shape(s)), 0, inputs.grad_output),
        grad_input(result(input_shape(s), layouts.grad_input, layouts)),
        grad_grid(result(grid_shape(s), planar, layouts)) {}

  // The same values in rows of each channel.
  Images in_planes() const {
    Inputs same;
    same.grad_output = grad_output.values();
    same.input = input.values();
    same.grid = grid.values();
    return Images(sampling, same, {planar, planar, planar, input.type()});
  }

  void interpolate() {
    const auto forward = forward_problem(sampling, input, grid, output);
    const Workspace workspace(workspace_size(forward));
    if constexpr (kIs3D<S>) {
      grid_sampler_3d(forward, workspace);
    } else {
      grid_sampler_2d(forward, workspace);
    }
  }

  void differentiate(bool wants_grad_input = true, bool wants_grad_grid = true) {
    auto backward = backward_problem(sampling, grad_output, input, grid, grad_input, grad_grid);
    if (!wants_grad_input) backward.grad_input = {};
    if (!wants_grad_grid) backward.grad_grid = {};
    const Workspace workspace(workspace_size(backward));
    if constexpr (kIs3D<S>) {
      grid_sampler_3d_backward(backward, workspace);
    } else {
      grid_sampler_2d_backward(backward, workspace);
    }
  }

  Results results() const {
    Results bytes;
    for (const TestTensor* tensor : {&output, &grad_input, &grad_grid}) {
      EXPECT_TRUE(tensor->holes_untouched());
      bytes.push_back(tensor->bytes());
    }
    return bytes;
  }

 private:
  static TestTensor result(const Shape& shape, Strides strides, const Layouts& layouts) {
    return {shape, layouts.type, strides(shape), layouts.elements_after};
  }
};

// Both operators in these layouts, against contiguous tensors.
template <class S>
void expect_same_bits(const S& s, const Inputs& inputs, const Layouts& layouts) {
  Images images(s, inputs, layouts);
  Images expected = images.in_planes();
  expected.interpolate();
  expected.differentiate();
  images.interpolate();
  images.differentiate();
  EXPECT_TRUE(images.results() == expected.results());

  Images one_by_one(s, inputs, layouts);
  const std::vector<std::byte> untouched = one_by_one.grad_grid.bytes();
  one_by_one.differentiate(true, false);
  EXPECT_EQ(one_by_one.grad_grid.bytes(), untouched);
  one_by_one.differentiate(false, true);
  EXPECT_EQ(one_by_one.grad_input.values(), expected.grad_input.values());
  EXPECT_EQ(one_by_one.grad_grid.values(), expected.grad_grid.values());
}

// Both operators on contiguous tensors, against the reference.
void expect_close(const Sampling& s, const Inputs& inputs) {
  Images images(s, inputs, {planar, planar});
  images.interpolate();
  images.differentiate();
  const auto expected = gradients_of(s, inputs);
  EXPECT_LE(relative_error(images.output.values(), sample(s, inputs)), tolerance(DataType::float32, true));
  EXPECT_LE(relative_error(images.grad_input.values(), expected.input),
            allowed_error(DataType::float32, expected.input));
  EXPECT_LE(gradient_error(images.grad_grid.values(), expected.grid),
            allowed_error(DataType::float32, expected.grid));
}

TEST(GridSamplerLayouts, ChannelsLastGivesTheSameBits) {
  for (const Sampling& size :
       {sizes(2, 16, 20, 24, 22, 26), sizes(2, 20, 20, 24, 22, 26), sizes(1, 3, 40, 40, 30, 50),
        sizes(1, 32, 80, 80, 10, 10), sizes(2, 3, 40, 70, 40, 70), sizes(1, 5, 33, 64, 33, 64),
        sizes(1, 40, 50, 52, 50, 52), sizes(2, 8, 2, 19, 2, 19), sizes(1, 6, 1, 80, 1, 80)}) {
    Inputs inputs(size, DataType::float32, 1.2);
    if (size.width == size.output_width) inputs.grid = smooth_grid(size, DataType::float32);
    for_each_mode(size, DataType::float32, [&](const Sampling& s) {
      expect_same_bits(s, inputs, {channels_last, channels_last});
    });
  }
}

TEST(GridSamplerLayouts, InterleavedRowsGiveTheSameBits) {
  for (int64_t channels : {2, 3, 4}) {
    Sampling s = sizes(2, channels, 40, 70, 33, 70);
    Inputs inputs(s, DataType::float32, 1);
    inputs.grid = smooth_grid(s, DataType::float32);
    for (const auto input :
         {planar, channels_last, channels_last_in_longer_rows, channels_of_wider_pixels, columns_apart}) {
      for (const auto output : {planar, channels_last, channels_last_in_longer_rows, channels_of_wider_pixels,
                                columns_apart, overlapping})
        expect_same_bits(s, inputs, {input, output});
    }
  }
}

// Nearest samples copy two to four channels of a pixel at once, where they lie side by side: into planes, or as they are.
TEST(GridSamplerLayouts, WholePixelsOfAnyTypeGiveTheSameBits) {
  for (int64_t channels : {2, 3, 4, 7}) {
    Sampling s = sizes(2, channels, 20, 24, 22, 26);
    s.mode = 1;
    for (DataType type : {DataType::float32, DataType::float16, DataType::float64}) {
      Inputs inputs(s, type, 1.2);
      std::fill_n(inputs.grid.end() - 200, 2, 0.98);  // the last pixel, behind which memory ends
      const auto sampled = [&](Layout input_layout, Layout output_layout) {
        const TestTensor input(input_shape(s), type, input_layout, inputs.input);
        const TestTensor grid(grid_shape(s), type, Layout::contiguous, inputs.grid);
        const TestTensor output(output_shape(s), type, output_layout);
        const auto forward = forward_problem(s, input, grid, output);
        grid_sampler_2d(forward, Workspace(workspace_size(forward)));
        return output.values();
      };
      const auto expected = sampled(Layout::contiguous, Layout::contiguous);
      for (Layout layout : {Layout::contiguous, Layout::channels_last})
        EXPECT_EQ(sampled(Layout::channels_last, layout), expected) << channels << name_of(type);
    }
  }
}

TEST(GridSamplerLayouts, WholeVoxelsGiveTheSameBits) {
  for (int64_t channels : {2, 3, 4}) {
    const Sampling3D size = sizes(2, channels, 9, 10, 11, 8, 9, 10);
    const Inputs inputs(size, DataType::float32, 1.2);
    for_each_mode(size, DataType::float32, [&](const Sampling3D& s) {
      expect_same_bits(s, inputs, {channels_last_of_volumes, channels_last_of_volumes});
    });
  }
}

// The further a grid is rotated, the fewer neighbouring samples read neighbouring pixels.
std::vector<double> rotated_grid(const Sampling& s, double angle) {
  std::vector<double> grid;
  for (int64_t i = 0; i < s.output_height; ++i) {
    for (int64_t j = 0; j < s.output_width; ++j) {
      const double x = 2.0 * static_cast<double>(j) / static_cast<double>(s.width) - 0.7;
      const double y = 2.0 * static_cast<double>(i) / static_cast<double>(s.height) - 0.7;
      grid.push_back(std::cos(angle) * x - std::sin(angle) * y);
      grid.push_back(std::sin(angle) * x + std::cos(angle) * y);
    }
  }
  return rounded(grid, DataType::float32);
}

TEST(GridSamplerLayouts, RotatedGridsGiveTheSameBits) {
  for (int64_t channels : {1, 3, 20}) {
    const Sampling s = sizes(1, channels, 90, 130, 60, 91);
    Inputs inputs(s, DataType::float32, 1);
    for (int degrees = 0; degrees <= 48; degrees += 3) {
      SCOPED_TRACE(degrees);
      inputs.grid = rotated_grid(s, degrees * 3.14159265358979 / 180);
      for (const auto input : {planar, planar_in_longer_rows, channels_last, columns_apart})
        expect_same_bits(s, inputs, {input, planar});
      expect_close(s, inputs);
    }
  }
}

// Pixels of two to four channels are loaded and stored as they are, in a line, in two, or each on its own.
TEST(GridSamplerLayouts, RotatedWholePixelsGiveTheSameBits) {
  for (int64_t channels : {2, 3, 4}) {
    const Sampling size = sizes(1, channels, 90, 130, 60, 91);
    Inputs inputs(size, DataType::float32, 1);
    for (const double angle : {0.0, 0.05, 0.5}) {
      SCOPED_TRACE(angle);
      inputs.grid = rotated_grid(size, angle);
      for_each_mode(size, DataType::float32, [&](const Sampling& s) {
        expect_same_bits(s, inputs, {channels_last, channels_last});
      });
    }
  }
}

// So many samples that their gradient is added in an order of its own, by the direction in which they follow each other.
TEST(GridSamplerLayouts, TurnedGridsGiveTheSameBits) {
  for (int64_t channels : {1, 2}) {
    const Sampling s = sizes(1, channels, 190, 260, 160, 210);
    Inputs inputs(s, DataType::float32, 1);
    for (const double angle : {0.35, 2.8, 3.6, 5.9}) {
      SCOPED_TRACE(angle);
      inputs.grid = rotated_grid(s, angle);
      expect_same_bits(s, inputs, {channels_of_wider_pixels, planar});
    }
  }
}

// So large that the kernel asks for pixels that it reads later.
TEST(GridSamplerLayouts, FarPixelsGiveTheSameBits) {
  Sampling s = sizes(1, 4, 960, 970, 70, 90);
  Inputs inputs(s, DataType::float32, 1);
  for (s.mode = 0; s.mode < 2; ++s.mode) {
    for (const double angle : {0.4, 1.3}) {
      inputs.grid = rotated_grid(s, angle);
      expect_same_bits(s, inputs, {channels_last, channels_last});
    }
  }
}

// Turned so far that a wide grid is worked on in strips, and the gradient of a large image, whose planes lie whole pages
// apart, added up in a buffer, after that of the grid. The same samples in short rows are not, nor is one gradient after
// the other. Rows of results, which outgrow the caches, begin anywhere in a cache line. The image may lie otherwise than they.
TEST(GridSamplerLayouts, StripsGiveTheSameBits) {
  const Sampling size = sizes(1, 4, 1024, 960, 510, 561);
  Sampling in_short_rows = size;
  in_short_rows.output_height *= 3, in_short_rows.output_width /= 3;
  Inputs inputs(size, DataType::float32, 1);
  inputs.grid = rotated_grid(size, 1.2);
  for (DataType type : {DataType::float32, DataType::float16, DataType::float64}) {
    for (int mode : {0, 1, 2}) {
      const auto sampled = [&](Sampling s, Strides input, bool is_together, int64_t elements_after) {
        s.mode = mode;
        Images images(s, inputs, {input, planar, planar, type, elements_after});
        images.interpolate();
        images.differentiate(true, is_together);
        if (!is_together) images.differentiate(false, true);
        return images.results();
      };
      const auto expected = sampled(in_short_rows, planar, false, 0);
      for (const auto input : {planar, channels_last}) {
        for (int64_t elements_after : {0, 4})
          EXPECT_TRUE(sampled(size, input, true, elements_after) == expected) << mode << elements_after;
      }
    }
  }
}

// Large enough that samples' own gradients are found apart from those of the pixels.
TEST(GridSamplerLayouts, ScatteredSamplesGiveTheSameBitsOnAnyThreads) {
  const Sampling s = sizes(1, 3, 120, 130, 190, 190);
  const Inputs inputs(s, DataType::float32, 1.1);
  for (const auto input : {planar, channels_of_wider_pixels}) {
    Images images(s, inputs, {input, planar});
    set_thread_count(1);
    images.differentiate();
    const std::vector<double> grad_grid = images.grad_grid.values();
    const std::vector<double> grad_input = images.grad_input.values();
    for (int threads : {2, 5}) {
      set_thread_count(threads);
      images.differentiate();
      EXPECT_EQ(images.grad_grid.values(), grad_grid) << threads;
      EXPECT_EQ(images.grad_input.values(), grad_input) << threads;
    }
  }
  set_thread_count(0);
}

// Some are worked on together.
TEST(GridSamplerLayouts, ManySmallImagesGiveTheSameBitsOnAnyThreads) {
  for (const Sampling& size :
       {sizes(3001, 3, 4, 5, 2, 3), sizes(1501, 1, 6, 7, 5, 5), sizes(701, 9, 4, 5, 3, 7)}) {
    const Inputs inputs(size, DataType::float32, 1.2);
    for_each_mode(size, DataType::float32, [&](const Sampling& s) {
      const auto results_on = [&](int threads) {
        set_thread_count(threads);
        Images images(s, inputs, {planar, planar});
        images.interpolate();
        images.differentiate();
        return images.results();
      };
      EXPECT_TRUE(results_on(1) == results_on(5));
      expect_close(s, inputs);
    });
  }
  set_thread_count(0);
}

// The last of these are so large that one is copied after the other.
TEST(GridSamplerLayouts, TransposedImagesGiveTheSameBits) {
  for (const Sampling& size :
       {sizes(2, 3, 40, 70, 33, 70), sizes(2, 1, 33, 9, 40, 40), sizes(3, 3, 300, 310, 110, 112)}) {
    const Inputs inputs(size, DataType::float32, 1.1);
    for (const auto input : {column_by_column, longer_columns})
      for_each_mode(size, DataType::float32, [&](const Sampling& s) {
        expect_same_bits(s, inputs, {input, planar});
      });
  }
}

// Rows of one pixel, all of them the same: nothing lies beside it.
aclgrad::Shape repeated_rows(const Shape& shape) {
  return {shape[1], 1, 0, 1};
}

TEST(GridSamplerLayouts, RepeatedRowsGiveTheSameBits) {
  const Sampling s = sizes(1, 6, 40, 1, 40, 40);
  Inputs inputs(s, DataType::float32, 1);
  inputs.grid = rotated_grid(s, 0);
  Images images(s, inputs, {repeated_rows, planar});
  Images expected = images.in_planes();
  images.interpolate();
  expected.interpolate();
  EXPECT_EQ(images.output.values(), expected.output.values());
}

template <class S>
void expect_same_bits_past_the_caches(const S& s) {
  for (DataType type : {DataType::float32, DataType::float64}) {
    SCOPED_TRACE(describe(s, type));
    Inputs inputs(s, type, 1);
    inputs.grid = smooth_grid(s, type);
    const auto results_after = [&](int64_t elements) {
      Images images(s, inputs, {planar, planar, planar, type, elements});
      images.interpolate();
      images.differentiate();
      return images.results();
    };
    EXPECT_TRUE(results_after(0) == results_after(1));
  }
}

// Results that outgrow the caches are stored past them where they are made of whole cache lines. Here some are.
TEST(GridSamplerLayouts, GivesTheSameBitsPastTheCaches) {
  for (const Sampling& s :
       {sizes(1, 1, 700, 740, 720, 750), sizes(1, 36, 160, 200, 176, 210), sizes(2, 3, 400, 500, 400, 500)}) {
    expect_same_bits_past_the_caches(s);
  }
  for (const Sampling3D& s : {sizes(1, 1, 70, 72, 74, 70, 72, 75), sizes(1, 20, 20, 48, 64, 20, 48, 70)})
    expect_same_bits_past_the_caches(s);
}

// ---- Implementations by their names

std::vector<double> scaled(std::vector<double> values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

void run(const Implementation& implementation, const ops::grid_sampler::Sampling& sampling) {
  SCOPED_TRACE(implementation.name);
  const Workspace workspace(implementation.workspace_size(sampling));
  implementation.run(sampling, workspace.data());
}

void expect_close(const TestTensor& actual, const std::vector<double>& expected) {
  EXPECT_LE(gradient_error(actual.values(), expected), allowed_error(actual.type(), expected));
  EXPECT_TRUE(actual.holes_untouched());
}

template <class S, class Body>
void for_each_call_of(std::span<const S> all_sizes, Body&& body) {
  for (DataType type : kTypes) {
    for (const S& size : all_sizes) {
      for (bool is_smooth : {true, false}) {
        for (Layout layout : kLayouts) {
          Inputs inputs(size, type, 1.3);
          if (is_smooth) inputs.grid = smooth_grid(size, type);
          Call<S> call(size, type, inputs, layout);
          for_each_mode(size, type, [&](const S& s) {
            if (layout != Layout::contiguous && s.padding != s.mode) return;  // some are enough
            call.s = s;
            body(call, inputs);
          });
        }
      }
    }
  }
}

// Calls body(Call, Inputs) for cases of all types, modes, paddings, layouts and kinds of grids.
template <class Body>
void for_each_call(Body&& body) {
  for_each_call_of<Sampling>(kSizes, body);
  for_each_call_of<Sampling3D>(kSizes3D, body);
  const Sampling others[] = {sizes(1, 3, 120, 90, 9, 13), sizes(1, 6, 90, 40, 9, 9),
                             sizes(2, 7, 9, 16, 9, 19)};
  for_each_call_of<Sampling>(others, body);
  const Sampling3D with_lines[] = {sizes(2, 3, 4, 6, 40, 3, 7, 40)};
  for_each_call_of<Sampling3D>(with_lines, body);
}

using Cases = std::map<std::string, std::map<DataType, int>>;

// Of all types that an implementation is for, at least so many.
void expect_cases(const Cases& cases, std::span<const Implementation> implementations) {
  for (const Implementation& implementation : implementations) {
    const auto found = cases.find(implementation.name);
    ASSERT_NE(found, cases.end()) << implementation.name << " has no case";
    const size_t types = std::string(implementation.name) == "by_channels" ? 3 : std::size(kTypes);
    EXPECT_EQ(found->second.size(), types) << implementation.name;
    for (const auto& [type, count] : found->second) EXPECT_GE(count, 100) << implementation.name;
  }
}

TEST(GridSamplerImplementations, ForwardMatchTheReferenceWhereverTheyApply) {
  Cases cases;
  for_each_call([&](auto& call, const Inputs& inputs) {
    const std::vector<double> expected = sample(call.s, inputs);
    const auto sampling = ops::grid_sampler::sampling_of(call.forward_problem());
    for (const Implementation& implementation : ops::grid_sampler::forward_implementations()) {
      if (!implementation.applies(sampling)) continue;
      ++cases[implementation.name][call.input.type()];
      call.output.set(std::vector<double>(expected.size(), 7));
      run(implementation, sampling);
      expect_close(call.output, expected);
    }
  });
  expect_cases(cases, ops::grid_sampler::forward_implementations());
}

TEST(GridSamplerImplementations, GradientsMatchTheReferenceWhereverTheyApply) {
  Cases cases;
  for_each_call([&](auto& call, const Inputs& inputs) {
    const auto expected = gradients_of(call.s, inputs);
    const auto sampling = ops::grid_sampler::sampling_of(call.backward_problem());
    if (!sampling.wants_grid_grad) call.grid_grad.set(expected.grid);  // zeros, which need no implementation
    for (const Implementation& implementation : ops::grid_sampler::gradient_implementations()) {
      if (!implementation.applies(sampling)) continue;
      ++cases[implementation.name][call.input.type()];
      call.input_grad.set(std::vector<double>(expected.input.size(), 7));
      if (sampling.wants_grid_grad) call.grid_grad.set(std::vector<double>(expected.grid.size(), 7));
      run(implementation, sampling);
      expect_close(call.input_grad, expected.input);
      expect_close(call.grid_grad, expected.grid);
    }
  });
  expect_cases(cases, ops::grid_sampler::gradient_implementations());
}

// Forward, of nearest interpolation and where lanes are summed, any may be chosen. Of the gradient by samples, strides
// decide whether rows are read as vectors.
TEST(GridSamplerImplementations, GiveTheSameBits) {
  int of_lanes = 0;
  for_each_call([&](auto& call, const Inputs&) {
    const auto forward = ops::grid_sampler::sampling_of(call.forward_problem()),
               gradient = ops::grid_sampler::sampling_of(call.backward_problem());
    const auto expect_agreement = [](auto implementations, const auto& sampling, const TestTensor& result) {
      std::vector<std::byte> first;
      for (const Implementation& implementation : implementations) {
        if (!implementation.applies(sampling)) continue;
        run(implementation, sampling);
        if (first.empty()) first = result.bytes();
        EXPECT_EQ(result.bytes(), first) << implementation.name;
      }
    };
    const std::vector<double> input = call.input.values();
    for (double factor : {1e-44, 1.0}) {  // products that vanish leave no sign
      call.input.set(scaled(input, factor));
      expect_agreement(ops::grid_sampler::forward_implementations(), forward, call.output);
    }
    if (gradient.interpolation == Interpolation::nearest)
      return expect_agreement(ops::grid_sampler::gradient_implementations(), gradient, call.input_grad);
    if (!gradient.has_plain_rows) return;
    auto of_grid = gradient;
    of_grid.wants_input_grad = false;
    if (sums_lanes(of_grid)) {
      ++of_lanes;
      expect_agreement(ops::grid_sampler::gradient_implementations(), of_grid, call.grid_grad);
    }
    const Implementation by_samples = ops::grid_sampler::gradient_implementations()[1];
    ASSERT_STREQ(by_samples.name, "by_samples");
    auto anywhere = gradient;
    anywhere.has_plain_rows = false;
    const std::vector<double> grad_output = call.grad_output.values();
    for (double factor : {1e-44, 1.0}) {
      call.grad_output.set(scaled(grad_output, factor));
      run(by_samples, gradient);
      const auto grad_input = call.input_grad.bytes(), grad_grid = call.grid_grad.bytes();
      run(by_samples, anywhere);
      EXPECT_EQ(call.input_grad.bytes(), grad_input);
      EXPECT_EQ(call.grid_grad.bytes(), grad_grid);
    }
  });
  EXPECT_GT(of_lanes, 0);
}

}  // namespace
}  // namespace aclgrad::test
