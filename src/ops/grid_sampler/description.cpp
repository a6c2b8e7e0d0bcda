// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Grid samplers and their gradients as the tests see them.
#include <cmath>
#include <limits>

#include "aclnnop/aclnn_grid_sampler2d.h"
#include "aclnnop/aclnn_grid_sampler2d_backward.h"
#include "aclnnop/aclnn_grid_sampler3d.h"
#include "aclnnop/aclnn_grid_sampler3d_backward.h"
#include "ops/grid_sampler/cases_calls.h"
#include "support/function.h"

namespace aclgrad::test {
namespace {

using namespace grid_sampler_cases;

using Mask = std::vector<bool>;  // inputGrad, gridGrad
const Mask kBoth = {true, true};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <bool is_backward, class S>
std::vector<Value> tensors_of(const S& s, DataType type, const Inputs& inputs) {
  const TensorValue input{input_shape(s), type, inputs.input}, grid{grid_shape(s), type, inputs.grid};
  if (!is_backward) return {input, grid, TensorValue{output_shape(s), type}};
  return {TensorValue{output_shape(s), type, inputs.grad_output}, input, grid,
          TensorValue{input_shape(s), type}, TensorValue{grid_shape(s), type}};
}

// Of the C functions, where the modes come before the outputs.
template <bool is_backward, class S>
std::vector<Value> arguments_of(const S& s, DataType type, const Inputs& inputs, const Mask& mask) {
  std::vector<Value> arguments = tensors_of<is_backward>(s, type, inputs);
  std::vector<Value> attributes = {int64_t{s.mode}, int64_t{s.padding}, int64_t{s.align_corners}};
  if (is_backward) attributes.push_back(mask);
  arguments.insert(arguments.begin() + (is_backward ? 3 : 2), attributes.begin(), attributes.end());
  return arguments;
}

// The sampling that the arguments of a call describe. `input` is the number of its tensor, before the grid.
template <class S>
S sampling_of(const std::vector<Value>& arguments, size_t input, bool positions_in_double) {
  const std::vector<const TensorValue*> tensors = tensors_in(arguments);
  const Shape &images = tensors[input]->shape, &grid = tensors[input + 1]->shape;
  S s;
  if constexpr (kIs3D<S>) {
    s = sizes(images[0], images[1], images[2], images[3], images[4], grid[1], grid[2], grid[3]);
  } else {
    s = sizes(images[0], images[1], images[2], images[3], grid[1], grid[2]);
  }
  const std::vector<int64_t> modes = numbers_in(arguments);
  s.mode = static_cast<int>(modes[0]);
  s.padding = static_cast<int>(modes[1]);
  s.align_corners = modes[2] != 0;
  s.positions_in_double = positions_in_double || tensors[input]->type == DataType::float64;
  return s;
}

template <bool is_backward, class S>
Outputs outputs_of(const std::vector<Value>& arguments, bool positions_in_double) {
  const std::vector<const TensorValue*> tensors = tensors_in(arguments);
  const DataType type = tensors[0]->type;
  const S s = sampling_of<S>(arguments, is_backward ? 1 : 0, positions_in_double);
  Inputs inputs;
  if (is_backward) inputs.grad_output = tensors[0]->values;
  inputs.input = tensors[is_backward ? 1 : 0]->values;
  inputs.grid = tensors[is_backward ? 2 : 1]->values;
  Mask mask = kBoth;
  for (const Value& argument : arguments) {
    if (const auto* flags = std::get_if<Mask>(&argument)) mask = *flags;
  }
  const bool is_nearest = s.mode == 1;
  const auto expect = [&](std::vector<double> values) {
    const double allowed = allowed_error(type, values);
    return Expected{std::move(values), allowed, relative_error, is_nearest};
  };
  if (!is_backward) return {expect(sample(s, inputs))};
  auto gradients = gradients_of(s, inputs);
  Outputs outputs(2);
  if (mask[0]) outputs[0] = expect(std::move(gradients.input));
  if (mask[1]) {
    outputs[1] = expect(std::move(gradients.grid));
    outputs[1]->error = gradient_error;
    outputs[1]->jumps = s.mode == 0;
  }
  return outputs;
}

template <bool is_backward, class S>
Case case_of(const S& s, DataType type, const Inputs& inputs, const Mask& mask = kBoth) {
  return {
      describe(s, type) + (is_backward ? " mask " + std::to_string(mask[0]) + std::to_string(mask[1]) : ""),
      arguments_of<is_backward>(s, type, inputs, mask)};
}

template <bool is_backward, class S, class Body>
void for_each_mode(const S& s, DataType type, Body&& body) {
  const int last_mode = is_backward || type != DataType::float64 ? kLastMode<S> : 1;
  for_each_mode_to(last_mode, s, type, body);
}

template <class S>
using Sizes = std::vector<S>;

// Sizes of any kind; with a smooth grid; few samples of a large image or volume; those of hard cases; and those that keep
// threads busy. Of the second gradient: many bands or boxes and few, packed and in place, scattered and in lines.
template <class S>
struct CaseSizes;

template <>
struct CaseSizes<Sampling> {
  static inline const Sizes<Sampling> any{std::begin(kSizes), std::end(kSizes)};
  static inline const Sizes<Sampling> smooth{sizes(2, 3, 40, 70, 40, 70), sizes(1, 1, 33, 64, 33, 64)};
  static inline const Sizes<Sampling> few{sizes(2, 24, 20, 30, 17, 19), sizes(1, 16, 90, 90, 3, 3)};
  static inline const Sizes<Sampling> hard{sizes(1, 3, 8, 8, 20, 20), sizes(2, 16, 9, 4, 20, 20),
                                           sizes(1, 1, 300, 1, 1, 1), sizes(1, 20, 1, 5, 16, 16)};
  static inline const Sizes<Sampling> infinite{sizes(1, 1, 32, 64, 32, 64), sizes(1, 16, 17, 20, 17, 20)};
  static inline const Sizes<Sampling> empty{sizes(2, 3, 4, 5, 0, 6), sizes(2, 0, 4, 5, 3, 6),
                                            sizes(0, 3, 4, 5, 3, 6)};
  static inline const Sizes<Sampling> not_finite{sizes(1, 2, 6, 6, 5, 7), sizes(1, 16, 6, 6, 5, 7)};
  static inline const Sizes<Sampling> second{sizes(2, 3, 40, 70, 40, 70),  sizes(1, 32, 96, 64, 80, 90),
                                             sizes(18, 1, 33, 34, 33, 34), sizes(1, 16, 90, 90, 3, 3),
                                             sizes(2, 24, 20, 30, 17, 19), sizes(3, 64, 70, 20, 70, 20)};
  static inline const Sizes<Sampling> parallel{sizes(1, 3, 160, 150, 170, 140), sizes(1, 32, 96, 64, 80, 90),
                                               sizes(64, 2, 40, 40, 40, 40), sizes(3, 16, 200, 200, 30, 30),
                                               sizes(1, 3, 160, 150, 160, 150)};
};

template <>
struct CaseSizes<Sampling3D> {
  static inline const Sizes<Sampling3D> any{std::begin(kSizes3D), std::end(kSizes3D)};
  static inline const Sizes<Sampling3D> smooth{sizes(2, 6, 9, 10, 20, 9, 10, 20),
                                               sizes(1, 1, 8, 17, 32, 8, 17, 32)};
  static inline const Sizes<Sampling3D> few{sizes(2, 24, 9, 8, 10, 7, 6, 5),
                                            sizes(1, 16, 20, 21, 22, 2, 3, 3)};
  // Few channels and many, and as many samples as voxels or few.
  static inline const Sizes<Sampling3D> hard{sizes(1, 3, 5, 6, 7, 6, 7, 8), sizes(2, 16, 4, 9, 4, 5, 10, 6),
                                             sizes(1, 20, 1, 1, 5, 4, 4, 4),
                                             sizes(1, 6, 20, 19, 18, 2, 3, 7)};
  static inline const Sizes<Sampling3D> infinite{sizes(1, 1, 8, 17, 32, 8, 17, 32),
                                                 sizes(1, 16, 6, 7, 8, 6, 7, 8)};
  static inline const Sizes<Sampling3D> empty{sizes(2, 3, 4, 5, 6, 2, 0, 6), sizes(2, 0, 4, 5, 6, 2, 3, 6)};
  static inline const Sizes<Sampling3D> not_finite{sizes(1, 2, 3, 6, 6, 2, 5, 7),
                                                   sizes(1, 16, 3, 6, 6, 2, 5, 7)};
  static inline const Sizes<Sampling3D> second{
      sizes(2, 3, 12, 14, 40, 12, 14, 40), sizes(1, 32, 14, 16, 12, 13, 15, 14),
      sizes(1, 1, 33, 9, 20, 33, 9, 20),   sizes(1, 16, 20, 20, 20, 3, 3, 3),
      sizes(2, 24, 6, 9, 10, 5, 9, 8),     sizes(1, 2, 40, 30, 31, 20, 30, 40)};
  static inline const Sizes<Sampling3D> parallel{
      sizes(1, 3, 30, 28, 32, 27, 30, 29), sizes(1, 32, 20, 24, 16, 20, 18, 20),
      sizes(12, 2, 12, 13, 14, 12, 13, 14), sizes(2, 16, 40, 36, 40, 10, 12, 14),
      sizes(1, 4, 24, 25, 40, 24, 25, 40)};
};

template <class S>
bool has_as_many_samples(const S& s) {
  return s.height == s.output_height && s.width == s.output_width;
}

template <bool is_backward, class Sampling>
std::vector<Case> cases(DataType type) {
  std::vector<Case> result;
  for (const Sampling& size : CaseSizes<Sampling>::any) {
    const Inputs inputs(size, type, 1.3);
    for_each_mode<is_backward>(
        size, type, [&](const Sampling& s) { result.push_back(case_of<is_backward>(s, type, inputs)); });
  }
  for (const Sampling& size : CaseSizes<Sampling>::smooth) {
    Inputs inputs(size, type, 1);
    inputs.grid = smooth_grid(size, type);
    for_each_mode<is_backward>(size, type, [&](const Sampling& s) {
      for (const Mask& mask : {kBoth, Mask{true, false}, Mask{false, true}, Mask{false, false}}) {
        if (is_backward || mask == kBoth) result.push_back(case_of<is_backward>(s, type, inputs, mask));
      }
    });
  }
  // Either gradient by itself.
  for (const Sampling& size : CaseSizes<Sampling>::few) {
    const Inputs inputs(size, type, 1.3);
    for_each_mode<is_backward>(size, type, [&](const Sampling& s) {
      for (const Mask& mask : {Mask{true, false}, Mask{false, true}}) {
        if (is_backward || mask[0]) result.push_back(case_of<is_backward>(s, type, inputs, mask));
      }
    });
  }
  return result;
}

// Any grid; infinities and NaN in gradOutput and in input, which come out where taps read them, and nowhere else; and
// tensors without elements.
template <bool is_backward, class S>
std::vector<Case> hard_cases(DataType type) {
  std::vector<Case> result;
  const auto add = [&](const S& size, const Inputs& inputs, const Mask& mask, bool mixes_infinities = false) {
    for_each_mode<is_backward>(size, type, [&](const S& s) {
      result.push_back(case_of<is_backward>(s, type, inputs, mask));
      result.back().mixes_infinities = mixes_infinities;
    });
  };
  for (const S& size : CaseSizes<S>::hard) {
    Inputs inputs(size, type, 1);
    inputs.grid = hostile_grid(size, type);
    add(size, inputs, kBoth);
  }
  for (const S& size : CaseSizes<S>::infinite) {
    if (!is_backward || type == DataType::float16 || type == DataType::bfloat16) break;
    Inputs inputs(size, type, 1);
    inputs.grid = smooth_grid(size, type);
    for (size_t i = 37; i < inputs.grad_output.size(); i += 41) inputs.grad_output[i] = kInfinity;
    for (size_t i = 11; i < inputs.input.size(); i += 233) inputs.input[i] = -kInfinity;
    add(size, inputs, kBoth, true);
  }
  for (const S& size : CaseSizes<S>::not_finite) {
    if (!is_backward) break;
    Inputs inputs(size, type, 1.2);
    inputs.input[3] = inputs.grad_output[30] = std::nan("");
    inputs.input[20] = kInfinity;
    inputs.grad_output[4] = -kInfinity;
    add(size, inputs, Mask{true, false});
    add(size, inputs, kBoth, true);
  }
  // Infinite gradients of a sample that reads nothing.
  for (const S& size : CaseSizes<S>::not_finite) {
    if (!is_backward) break;
    Inputs inputs(size, type, 1.2);
    inputs.grid[1] = std::nan("");
    for (int64_t c = 0; c < size.channels; ++c)
      inputs.grad_output[static_cast<size_t>(c * size.samples())] = kInfinity;
    add(size, inputs, kBoth);
  }
  // At the edges, too, where vectors of neighbours are read beyond the ends of rows.
  if constexpr (!is_backward && !kIs3D<S>) {
    for (const S& size : {sizes(1, 1, 33, 60, 33, 60), sizes(2, 6, 17, 32, 17, 32)}) {
      Inputs inputs(size, type, 1);
      inputs.grid = smooth_grid(size, type);
      const auto width = static_cast<size_t>(size.width);
      for (size_t i = 0; i < inputs.input.size(); i += 7 * width) {
        inputs.input[i] = inputs.input[i + width / 2] = kInfinity;
        inputs.input[i + width - 1] = -kInfinity;
      }
      for_each_mode_to(1, size, type,
                       [&](const S& s) { result.push_back(case_of<is_backward>(s, type, inputs)); });
    }
  }
  // Samples that lie in two lines by turns, and read each pixel twice in a row: sums add up in their order all the same.
  if constexpr (is_backward && !kIs3D<S>) {
    const S size = sizes(1, 2, 3, 40, 12, 32);
    Inputs inputs(size, type, 1);
    for (int64_t i = 0; i < 12 * 32; ++i) {
      const auto pixel = static_cast<double>(i % 32 + i % 2);
      inputs.grid[static_cast<size_t>(2 * i)] = (2 * pixel + 1) / 40 - 1;
      inputs.grid[static_cast<size_t>(2 * i + 1)] = 0;
    }
    inputs.grid = rounded(inputs.grid, type);
    add(size, inputs, kBoth);
  }
  for (const S& size : CaseSizes<S>::empty) {
    for (const Mask& mask : {kBoth, Mask{true, false}})
      if (is_backward || mask == kBoth) add(size, Inputs(size, type, 1), mask);
  }
  return result;
}

template <bool is_backward, class Sampling>
std::vector<Case> parallel_cases(DataType type) {
  std::vector<Case> result;
  for (const Sampling& size : CaseSizes<Sampling>::parallel) {
    Inputs inputs(size, type, 1.1);
    if (has_as_many_samples(size)) inputs.grid = smooth_grid(size, type);
    for_each_mode<is_backward>(size, type, [&](const Sampling& s) {
      if (s.align_corners || s.padding != (s.mode == 0 ? 2 : 0)) return;
      result.push_back(case_of<is_backward>(s, type, inputs));
    });
  }
  return result;
}

const std::vector<Parameter> kForwardParameters = {
    {"input", Role::input, {2, 3, 4}},      {"grid", Role::input},
    {"interpolationMode", Role::attribute}, {"paddingMode", Role::attribute},
    {"alignCorners", Role::attribute},      {"out", Role::output}};
const std::vector<Parameter> kBackwardParameters = {{"gradOutput", Role::input},
                                                    {"input", Role::input},
                                                    {"grid", Role::input},
                                                    {"interpolationMode", Role::attribute},
                                                    {"paddingMode", Role::attribute},
                                                    {"alignCorners", Role::attribute},
                                                    {"outputMask", Role::attribute},
                                                    {"inputGrad", Role::output},
                                                    {"gridGrad", Role::output}};

template <class S>
const S kGood = sizes(2, 3, 4, 5, 6, 7);
template <>
const Sampling3D kGood<Sampling3D> = sizes(2, 3, 4, 5, 6, 7, 8, 9);

// Without pixels or voxels.
template <class S>
Sizes<S> without_pixels() {
  S flat = kGood<S>, thin = kGood<S>;
  flat.height = thin.width = 0;
  Sizes<S> all{flat, thin};
  if constexpr (kIs3D<S>) {
    all.push_back(kGood<S>);
    all.back().depth = 0;
  }
  return all;
}

template <bool is_backward, class Sampling>
std::vector<Mistake> mistakes() {
  constexpr DataType kFloat = DataType::float32;
  const std::vector<Parameter>& parameters = is_backward ? kBackwardParameters : kForwardParameters;
  constexpr size_t kMode = is_backward ? 3 : 2;
  const Sampling& good = kGood<Sampling>;
  const auto arguments = [&](const Sampling& s, DataType type) {
    return arguments_of<is_backward>(s, type, Inputs(s, type, 1), kBoth);
  };
  std::vector<Mistake> result;
  const auto add = [&](std::string title, std::string parameter, std::vector<Value> wrong) {
    result.push_back({std::move(title), std::move(wrong), 161002, std::move(parameter)});
  };
  const auto change = [&](const std::string& title, size_t index, Value value) {
    std::vector<Value> wrong = arguments(good, kFloat);
    wrong.at(index) = std::move(value);
    add(title, parameters[index].name, std::move(wrong));
  };
  for (const Sampling& empty : without_pixels<Sampling>())
    add("an image without pixels", "input", arguments(empty, kFloat));
  add("whole numbers", "input", arguments(good, DataType::int32));
  for (int64_t mode : {-1, kIs3D<Sampling> ? 2 : 3}) change("mode " + std::to_string(mode), kMode, mode);
  for (int64_t padding : {-1, 3}) change("padding " + std::to_string(padding), kMode + 1, padding);
  if (is_backward) {
    change("one entry", 6, Mask{true});
    change("three entries", 6, Mask{true, true, true});
    // The checks come first even where nothing is asked for.
    std::vector<Value> masked = arguments(good, kFloat);
    masked[6] = Mask{false, false};
    masked[kMode] = int64_t{3};
    add("a mode where nothing is asked for", "interpolationMode", std::move(masked));
  } else if (!kIs3D<Sampling>) {
    Sampling bicubic = good;
    bicubic.mode = 2;
    add("bicubic in double", "", arguments(bicubic, DataType::float64));
  }
  return result;
}

template <bool is_backward, class S>
Operator operator_of(const char* name, auto phase1, Phase2 phase2) {
  return {.name = name,
          .parameters = is_backward ? kBackwardParameters : kForwardParameters,
          .types = {std::begin(kTypes), std::end(kTypes)},
          .phase1 = phase1,
          .phase2 = phase2,
          .expected = outputs_of<is_backward, S>,
          .cases = cases<is_backward, S>,
          .parallel_cases = parallel_cases<is_backward, S>,
          .hard_cases = hard_cases<is_backward, S>,
          .mistakes = mistakes<is_backward, S>,
          .adds_in_any_order = is_backward};
}

template <auto kFunction>
constexpr auto kForwardPhase1 =
    phase1_of<kFunction, const aclTensor*, const aclTensor*, int64_t, int64_t, bool, aclTensor*>;
template <auto kFunction>
constexpr auto kBackwardPhase1 =
    phase1_of<kFunction, const aclTensor*, const aclTensor*, const aclTensor*, int64_t, int64_t, bool,
              const aclBoolArray*, aclTensor*, aclTensor*>;

const Registration kForward2D(operator_of<false, Sampling>("aclnnGridSampler2D",
                                                           kForwardPhase1<aclnnGridSampler2DGetWorkspaceSize>,
                                                           aclnnGridSampler2D));
const Registration kBackward2D(operator_of<true, Sampling>(
    "aclnnGridSampler2DBackward", kBackwardPhase1<aclnnGridSampler2DBackwardGetWorkspaceSize>,
    aclnnGridSampler2DBackward));
const Registration kForward3D(operator_of<false, Sampling3D>(
    "aclnnGridSampler3D", kForwardPhase1<aclnnGridSampler3DGetWorkspaceSize>, aclnnGridSampler3D));
const Registration kBackward3D(operator_of<true, Sampling3D>(
    "aclnnGridSampler3DBackward", kBackwardPhase1<aclnnGridSampler3DBackwardGetWorkspaceSize>,
    aclnnGridSampler3DBackward));

// ---- The C++ interface

template <bool is_backward, class S>
Case function_case(const S& s, DataType type, const Inputs& inputs) {
  std::vector<Value> values = tensors_of<is_backward>(s, type, inputs);
  values.insert(values.end(), {int64_t{s.mode}, int64_t{s.padding}, int64_t{s.align_corners}});
  return {describe(s, type), std::move(values)};
}

// The gradient of the gradient.
template <class S>
Case second_case(const S& s, DataType type, const MoreInputs& inputs) {
  Case result = function_case<true>(s, type, inputs);
  result.arguments.insert(
      result.arguments.begin() + 3,
      {TensorValue{input_shape(s), type, inputs.grad_grad_input},
       TensorValue{grid_shape(s), type, inputs.grad_grad_grid}, TensorValue{output_shape(s), type}});
  return result;
}

// Also those without samples, and for gradients without pixels.
template <bool is_backward, class S, class AnyInputs>
std::vector<Case> function_cases(DataType type, Case (*case_of)(const S&, DataType, const AnyInputs&)) {
  std::vector<Case> result;
  for (const S& size : CaseSizes<S>::any) {
    const AnyInputs inputs(size, type, 1.3);
    for_each_mode_to(kLastMode<S>, size, type,
                     [&](const S& s) { result.push_back(case_of(s, type, inputs)); });
  }
  Sizes<S> empty = is_backward ? without_pixels<S>() : Sizes<S>{};
  empty.push_back(S{});
  empty.push_back(kGood<S>);
  empty.back().batch = 0;
  for (const S& s : empty) result.push_back(case_of(s, type, AnyInputs(s, type, 1)));
  return result;
}

template <class S>
Outputs second_outputs(const std::vector<Value>& arguments, bool positions_in_double) {
  const std::vector<const TensorValue*> tensors = tensors_in(arguments);
  const DataType type = tensors[0]->type;
  const auto values_or_zeros = [&](size_t tangent, size_t of) {
    return tensors[tangent] != nullptr ? tensors[tangent]->values
                                       : std::vector<double>(tensors[of]->values.size());
  };
  MoreInputs inputs;
  inputs.grad_output = tensors[0]->values;
  inputs.input = tensors[1]->values;
  inputs.grid = tensors[2]->values;
  inputs.grad_grad_input = values_or_zeros(3, 1);
  inputs.grad_grad_grid = values_or_zeros(4, 2);
  const auto expected = expected_of(sampling_of<S>(arguments, 1, positions_in_double), inputs);
  return {Expected{expected.grad_output, allowed_error(type, expected.grad_output)},
          Expected{expected.input, allowed_error(type, expected.input), gradient_error},
          Expected{expected.grid, allowed_error(type, expected.grid), gradient_error}};
}

template <class S>
std::vector<Case> second_cases(DataType type) {
  std::vector<Case> result = function_cases<true>(type, second_case<S>);
  for (size_t absent : {3u, 4u}) {
    const S& s = CaseSizes<S>::any.back();
    result.push_back(second_case(s, type, MoreInputs(s, type, 1.3)));
    result.back().arguments[absent] = Null{};
  }
  return result;
}

template <class S>
std::vector<Case> hard_second_cases(DataType type) {
  std::vector<Case> result;
  const auto add = [&](const S& size, const MoreInputs& inputs, bool mixes_infinities = false) {
    for_each_mode_to(kLastMode<S>, size, type, [&](const S& s) {
      result.push_back(second_case(s, type, inputs));
      result.back().mixes_infinities = mixes_infinities;
    });
  };
  for (const S& size : CaseSizes<S>::hard) {
    MoreInputs inputs(size, type, 1);
    inputs.grid = hostile_grid(size, type);
    add(size, inputs);
  }
  for (const S& size : CaseSizes<S>::not_finite) {
    MoreInputs inputs(size, type, 1.2);
    inputs.input[3] = inputs.grad_grad_grid[17] = inputs.grad_grad_grid[24] = inputs.grid[40] = std::nan("");
    inputs.input[20] = inputs.grad_grad_input[31] = inputs.grad_grad_grid[8] = inputs.grid[24] = kInfinity;
    inputs.grad_output[4] = -kInfinity;
    // What moves samples that are nowhere, or beyond the border.
    for (size_t i = 40; i < (kIs3D<S> ? 51 : 46); ++i) {
      if (i >= 44) inputs.grid[i] = 2;
      inputs.grad_grad_grid[i] = kInfinity;
    }
    add(size, inputs, true);
  }
  for (const S& size : CaseSizes<S>::empty) add(size, MoreInputs(size, type, 1));
  for (const S& size : CaseSizes<S>::second) {
    MoreInputs inputs(size, type, 1.3);
    if (has_as_many_samples(size)) inputs.grid = smooth_grid(size, type);
    for_each_mode_to(kLastMode<S>, size, type, [&](const S& s) {
      if (s.padding == s.mode) result.push_back(second_case(s, type, inputs));
    });
  }
  return result;
}

// Sampling locations between the last `part` pixels of an axis of `size`, in quarters of a pixel. Both are powers of
// two, so that the coordinates are exact, and those in an axis of `part` pixels mean the same locations.
std::vector<double> last_locations(int64_t count, double size, double part) {
  std::vector<double> coordinates;
  for (int64_t i = 0; i < count; ++i) {
    const double offset = static_cast<double>(i * 7 % (4 * static_cast<int64_t>(part) - 4)) / 4;
    coordinates.push_back((2 * (size - part + offset) + 1) / size - 1);
  }
  return coordinates;
}

// Planes of 2^32 pixels, and channels of 2^33 voxels.
template <class S>
std::vector<LargeCase> large_forward_cases() {
  constexpr int64_t kSide = kIs3D<S> ? 1 << 11 : 1 << 16, kPart = 16, kSamples = 40;
  constexpr size_t kAxes = kIs3D<S> ? 3 : 2;
  const auto side = [&](int64_t extent) {
    Shape shape(kAxes, extent);
    shape.insert(shape.begin(), {1, 2});
    return shape;
  };
  Shape of_grid(kAxes, 1), of_output(kAxes, 1);
  of_grid.insert(of_grid.end(), {kSamples, int64_t{kAxes}});
  of_output.insert(of_output.begin(), {1, 2});
  of_output.back() = kSamples;
  Shape first(kAxes, kSide - kPart);
  first.insert(first.begin(), 2, 0);
  std::vector<LargeCase> result;
  for (DataType type : {DataType::float32, DataType::float64}) {
    const auto arguments = [&](int64_t extent, std::vector<double> values) {
      const std::vector<double> locations =
          last_locations(kAxes * kSamples, static_cast<double>(extent), static_cast<double>(kPart));
      return std::vector<Value>{TensorValue{side(extent), type, std::move(values)},
                                TensorValue{of_grid, type, locations},
                                TensorValue{of_output, type},
                                int64_t{0},
                                int64_t{0},
                                int64_t{0}};
    };
    const std::vector<double> part = uniform(element_count(side(kPart)), -5, 5, 1);
    result.push_back(
        {"pixels", arguments(kSide, {}), arguments(kPart, rounded(part, type)), {{first}, {}, {}}});
  }
  return result;
}

// Vectors of channels take a sample for each 8 pixels. All but the last samples lie in the middle of the image and
// bring zeros. bfloat16 has no location between the last pixels but the last one, whose coordinate rounds to 1.
std::vector<LargeCase> large_backward_cases() {
  constexpr DataType kType = DataType::bfloat16;
  constexpr int64_t kSide = 1 << 12, kChannels = 144, kPart = 16, kSamples = 64, kRows = kSide / 8;
  static_assert(kChannels * kSide * kSide > int64_t{1} << 31);
  const auto arguments = [](int64_t side, int64_t rows, int64_t columns, const Inputs& values) {
    const TensorValue input{{1, kChannels, side, side}, kType, values.input};
    const TensorValue grid{{1, rows, columns, 2}, kType, values.grid};
    const TensorValue grad_output{{1, kChannels, rows, columns}, kType, values.grad_output};
    return std::vector<Value>{
        grad_output, input,      grid,      TensorValue{input.shape, kType}, TensorValue{grid.shape, kType},
        int64_t{0},  int64_t{0}, int64_t{0}};
  };
  Inputs values(sizes(1, kChannels, kPart, kPart, 1, kSamples), kType, 1);
  for (double& coordinate : values.grid) coordinate = 1;
  const LargeCase::Part pixels{{0, 0, kSide - kPart, kSide - kPart}};
  const LargeCase::Part output{{0, 0, kRows - 1, kSide - kSamples}};
  const LargeCase::Part samples{{0, kRows - 1, kSide - kSamples, 0}};
  // Coordinates go from -1 to 1 in images of any size, and so gradients with respect to them grow with it.
  const LargeCase::Part slopes{samples.first, static_cast<double>(kSide) / kPart};
  return {{"elements",
           arguments(kSide, kRows, kSide, Inputs(Sampling{}, kType, 1)),
           arguments(kPart, 1, kSamples, values),
           {output, pixels, samples, pixels, slopes},
           int64_t{7} << 30}};
}

template <class P>
inline constexpr bool kIsSecond = requires(P p) {
  p.grad_grad_input;
};

template <class P, class S>
FunctionOf<P> function_of(const char* name, auto run, auto run_on_gpu) {
  constexpr bool is_backward = requires(P p) {
    p.grad_input;
  };
  const std::vector<size_t> sides = kIs3D<S> ? std::vector<size_t>{2, 3, 4} : std::vector<size_t>{2, 3};
  FunctionOf<P> of{.name = name,
                   .workspace_size = workspace_size,
                   .run = run,
                   .run_on_gpu = run_on_gpu,
                   .fields = {{"input", Role::input, &P::input, 0, sides}, {"grid", Role::input, &P::grid}},
                   .attributes = {{"mode", [](P& p, int64_t v) { p.interpolation = Interpolation(v); }},
                                  {"padding", [](P& p, int64_t v) { p.padding = Padding(v); }},
                                  {"align_corners", [](P& p, int64_t v) { p.align_corners = v != 0; }}},
                   .types = {std::begin(kTypes), std::end(kTypes)},
                   .expected = outputs_of<is_backward, S>,
                   .uses_positions = !kIsSecond<P>,
                   .cases = [](DataType type) {
                     return function_cases<is_backward>(type, function_case<is_backward, S>);
                   }};
  of.mistakes = {
      {"interpolation", [](P& p) { p.interpolation = Interpolation(kIs3D<S> ? 2 : 3); }},
      {"padding", [](P& p) { p.padding = Padding(-1); }},
      {"padding", [](P& p) { p.padding = Padding(3); }},
      {"input: expected data type", [](P& p) { p.input.type = static_cast<DataType>(-77); }},
      {"input: expected at most", [](P& p) { p.input.shape[0] = p.input.shape[1] = int64_t{1} << 40; }},
      {"input.shape[2]", [](P& p) { p.input.shape[2] = int64_t{1} << 30; }},
      {"input.shape[3]", [](P& p) { p.input.shape[3] = int64_t{1} << 30; }},
      {"grid: expected at most", [](P& p) { p.grid.shape[1] = p.grid.shape[2] = int64_t{1} << 40; }},
  };
  if constexpr (kIs3D<S>)
    of.mistakes.push_back({"input.shape[4]", [](P& p) { p.input.shape[4] = int64_t{1} << 30; }});
  if constexpr (is_backward) {
    of.fields.insert(of.fields.begin(), {"grad_output", Role::input, &P::grad_output});
    if constexpr (kIsSecond<P>) {
      of.expected = second_outputs<S>;
      of.cases = second_cases<S>;
      of.hard_cases = hard_second_cases<S>;
      of.fields.push_back({"grad_grad_input", Role::optional_input, &P::grad_grad_input});
      of.fields.push_back({"grad_grad_grid", Role::optional_input, &P::grad_grad_grid});
      of.fields.push_back({"grad_grad_output", Role::optional_output, &P::grad_grad_output});
    }
    of.fields.push_back({"grad_input", Role::optional_output, &P::grad_input});
    of.fields.push_back({"grad_grid", Role::optional_output, &P::grad_grid});
    if constexpr (!kIs3D<S> && !kIsSecond<P>) of.large_cases = large_backward_cases;
  } else {
    of.fields.push_back({"output", Role::output, &P::output});
    of.mistakes.push_back({"input.shape[2]", [](P& p) { p.input.shape[2] = 0; }});
    of.mistakes.push_back({"input.shape[3]", [](P& p) { p.input.shape[3] = 0; }});
    of.large_cases = large_forward_cases<S>;
  }
  if constexpr (!kIsSecond<P>) of.workspace_size_on_gpu = cuda::workspace_size;
  return of;
}

const FunctionRegistration kFunctions[] = {
    FunctionRegistration(
        function_of<GridSampler2D, Sampling>("grid_sampler_2d", grid_sampler_2d, cuda::grid_sampler_2d)),
    FunctionRegistration(function_of<GridSampler2DBackward, Sampling>(
        "grid_sampler_2d_backward", grid_sampler_2d_backward, cuda::grid_sampler_2d_backward)),
    FunctionRegistration(function_of<GridSampler2DDoubleBackward, Sampling>(
        "grid_sampler_2d_double_backward", grid_sampler_2d_double_backward, nullptr)),
    FunctionRegistration(
        function_of<GridSampler3D, Sampling3D>("grid_sampler_3d", grid_sampler_3d, cuda::grid_sampler_3d)),
    FunctionRegistration(function_of<GridSampler3DBackward, Sampling3D>(
        "grid_sampler_3d_backward", grid_sampler_3d_backward, cuda::grid_sampler_3d_backward)),
    FunctionRegistration(function_of<GridSampler3DDoubleBackward, Sampling3D>(
        "grid_sampler_3d_double_backward", grid_sampler_3d_double_backward, nullptr)),
};

// Of the results in each type; others where the cases or the mathematics are others: test_determinism says which.
const HashRegistration kHashes({
    {"aclnnGridSampler2D", {0x078D7F1747A0C705, 0x3BA9551EEE7DE8A6, 0x003640C1A2B01E6C, 0x0D91EFD389DEC4B8}},
    {"aclnnGridSampler2DBackward",
     {0x54404F6A1183B2C0, 0xD7C19873872860D, 0x8FBFAE0ECC19FAE1, 0x48E5621BABE16BD6}},
    {"aclnnGridSampler3D", {0xAD0869F4E7DE4CDC, 0x53ADBCD4D8CCB9BE, 0x8D1265647E35935F, 0x09F37AC1CF0296E7}},
    {"aclnnGridSampler3DBackward",
     {0x5B9EA293C9CE71BC, 0x3E7B4DE481819F0C, 0x6DF03D0936AF9DF9, 0xB73FCF3C49B2BC9B}},
    {"grid_sampler_2d", {0x0B88BEF7833D01F4, 0xD59B2BBB9D311B5F, 0x5569E13194500DD8, 0x4D71EFBE99652E19}},
    {"grid_sampler_2d_backward",
     {0x4F831FF436468C09, 0xAE7255A07DC6C465, 0xA680DCC665862758, 0x74E838245BE7678A}},
    {"grid_sampler_2d_double_backward",
     {0x02EDB7640913DAF1, 0x2F5786726019676C, 0xE206C5FA24E49137, 0x34C2606FB929211F}},
    {"grid_sampler_3d", {0x778442A68F374828, 0x69C8A3D2EC8E33F4, 0x691775244623955C, 0xF890D9FC9D17789B}},
    {"grid_sampler_3d_backward",
     {0x72D6257364EC4AF6, 0x5EFCE20530C28CE0, 0xA57901BD519DBBFA, 0xD07ACE166CCC0720}},
    {"grid_sampler_3d_double_backward",
     {0x4442794974FE774A, 0x346D09D97A4B3B93, 0xDAB4E5537B72670C, 0xBC2B3A6F2049B5A2}},
});

}  // namespace
}  // namespace aclgrad::test
