// Grid samplers and their gradients as the tests see them.
#include "aclnnop/aclnn_grid_sampler2d.h"
#include "aclnnop/aclnn_grid_sampler2d_backward.h"
#include "aclnnop/aclnn_grid_sampler3d.h"
#include "aclnnop/aclnn_grid_sampler3d_backward.h"
#include "ops/grid_sampler/cases.h"
#include "support/operator.h"

namespace aclgrad::test {
namespace {

using namespace grid_sampler_cases;

using Mask = std::vector<bool>;  // inputGrad, gridGrad
const Mask kBoth = {true, true};

// What the two operators differ in. `S` is Sampling or Sampling3D.
template <class S>
inline constexpr bool kIs3D = std::is_same_v<S, Sampling3D>;

std::vector<double> sample(const Sampling& s, const Inputs& inputs) {
  return reference::grid_sampler_2d(s, inputs.input, inputs.grid);
}
std::vector<double> sample(const Sampling3D& s, const Inputs& inputs) {
  return reference::grid_sampler_3d(s, inputs.input, inputs.grid);
}

reference::GridSamplerGradients gradients_of(const Sampling& s, const Inputs& inputs) {
  return reference::grid_sampler_2d_backward(s, inputs.grad_output, inputs.input, inputs.grid);
}
reference::GridSamplerGradients gradients_of(const Sampling3D& s, const Inputs& inputs) {
  return reference::grid_sampler_3d_backward(s, inputs.grad_output, inputs.input, inputs.grid);
}

template <class S>
int last_mode(bool is_backward, DataType type) {
  return kIs3D<S> || (!is_backward && type == DataType::float64) ? 1 : 2;
}

template <class S>
std::string title_of(const S& s) {
  return text(input_shape(s)) + " to " + text(grid_shape(s)) + " mode " + std::to_string(s.mode) +
         " padding " + std::to_string(s.padding) + (s.align_corners ? " aligned" : "");
}

template <class S>
std::vector<Value> forward_arguments(const S& s, DataType type, const Inputs& inputs) {
  return {TensorValue{input_shape(s), type, inputs.input},
          TensorValue{grid_shape(s), type, inputs.grid},
          int64_t{s.mode},
          int64_t{s.padding},
          int64_t{s.align_corners},
          TensorValue{output_shape(s), type}};
}

template <class S>
std::vector<Value> backward_arguments(const S& s, DataType type, const Inputs& inputs, const Mask& mask) {
  return {TensorValue{output_shape(s), type, inputs.grad_output},
          TensorValue{input_shape(s), type, inputs.input},
          TensorValue{grid_shape(s), type, inputs.grid},
          int64_t{s.mode},
          int64_t{s.padding},
          int64_t{s.align_corners},
          mask,
          TensorValue{input_shape(s), type},
          TensorValue{grid_shape(s), type}};
}

template <class S>
Case forward_case(const S& s, DataType type, const Inputs& inputs) {
  return {title_of(s), forward_arguments(s, type, inputs), [=] {
            std::vector<double> expected = sample(s, inputs);
            const double allowed = allowed_error(type, expected);
            return std::vector<std::optional<Expected>>{Expected{std::move(expected), allowed}};
          }};
}

template <class S>
Case backward_case(const S& s, DataType type, const Inputs& inputs, const Mask& mask) {
  return {title_of(s) + " mask " + std::to_string(mask[0]) + std::to_string(mask[1]),
          backward_arguments(s, type, inputs, mask), [=] {
            const auto expected = gradients_of(s, inputs);
            std::vector<std::optional<Expected>> outputs(2);
            if (mask[0]) outputs[0] = Expected{expected.input, allowed_error(type, expected.input)};
            if (mask[1])
              outputs[1] = Expected{expected.grid, allowed_error(type, expected.grid), gradient_error};
            return outputs;
          }};
}

// Calls body with all modes, paddings and alignments that the operator has for the type.
template <bool is_backward, class S, class Body>
void for_each_mode(S s, DataType type, Body&& body) {
  s.positions_in_double = type == DataType::float64;
  for (s.mode = 0; s.mode <= last_mode<S>(is_backward, type); ++s.mode) {
    for (s.padding = 0; s.padding < 3; ++s.padding) {
      for (bool align_corners : {false, true}) {
        s.align_corners = align_corners;
        body(s);
      }
    }
  }
}

template <bool is_backward, class S>
Case case_of(const S& s, DataType type, const Inputs& inputs, const Mask& mask = kBoth) {
  return is_backward ? backward_case(s, type, inputs, mask) : forward_case(s, type, inputs);
}

template <class S>
using Sizes = std::vector<S>;

// Sizes of any kind; with a smooth grid; few samples of a large image or volume; and those that keep threads busy.
template <class S>
struct CaseSizes;

template <>
struct CaseSizes<Sampling> {
  static inline const Sizes<Sampling> any{std::begin(kSizes), std::end(kSizes)};
  static inline const Sizes<Sampling> smooth{sizes(2, 3, 40, 70, 40, 70), sizes(1, 1, 33, 64, 33, 64)};
  static inline const Sizes<Sampling> few{sizes(2, 24, 20, 30, 17, 19), sizes(1, 16, 90, 90, 3, 3)};
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

const std::vector<Parameter> kForwardParameters = {{"input", Role::input},
                                                   {"grid", Role::input},
                                                   {"interpolationMode", Role::attribute},
                                                   {"paddingMode", Role::attribute},
                                                   {"alignCorners", Role::attribute},
                                                   {"out", Role::output}};
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
    const Inputs inputs(s, type, 1);
    return is_backward ? backward_arguments(s, type, inputs, kBoth) : forward_arguments(s, type, inputs);
  };
  std::vector<Mistake> result;
  const auto add = [&](std::string title, std::string parameter, std::vector<Value> wrong) {
    result.push_back({std::move(title), std::move(wrong), 161002, std::move(parameter)});
  };
  const auto change = [&](const std::string& title, size_t index, Value value) {
    std::vector<Value> wrong = arguments(good, kFloat);
    wrong.at(index) = std::move(value);
    const bool is_attribute = parameters[index].role == Role::attribute;
    add(title + " of " + parameters[index].name, is_attribute ? parameters[index].name : "",
        std::move(wrong));
  };
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::vector<Value> right = arguments(good, kFloat);
    const auto* tensor = std::get_if<TensorValue>(&right[i]);
    if (tensor == nullptr) continue;
    for (size_t axis = 0; axis < tensor->shape.size(); ++axis) {
      // Forward, the sides of input stand by themselves.
      if (!is_backward && i == 0 && axis >= 2) continue;
      Shape shape = tensor->shape;
      ++shape[axis];
      change("axis " + std::to_string(axis), i, TensorValue{shape, kFloat});
    }
  }
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

Operator forward(const char* name, auto phase1, Phase2 phase2, auto sampling) {
  using S = decltype(sampling);
  return {.name = name,
          .said_name = name,
          .parameters = kForwardParameters,
          .types = {std::begin(kTypes), std::end(kTypes)},
          .phase1 = phase1,
          .phase2 = phase2,
          .cases = cases<false, S>,
          .parallel_cases = parallel_cases<false, S>,
          .mistakes = mistakes<false, S>};
}

Operator backward(const char* name, auto phase1, Phase2 phase2, auto sampling) {
  using S = decltype(sampling);
  return {.name = name,
          .said_name = name,
          .parameters = kBackwardParameters,
          .types = {std::begin(kTypes), std::end(kTypes)},
          .phase1 = phase1,
          .phase2 = phase2,
          .cases = cases<true, S>,
          .parallel_cases = parallel_cases<true, S>,
          .mistakes = mistakes<true, S>,
          .adds_in_any_order = true};
}

template <auto kFunction>
constexpr auto kForwardPhase1 =
    phase1_of<kFunction, const aclTensor*, const aclTensor*, int64_t, int64_t, bool, aclTensor*>;
template <auto kFunction>
constexpr auto kBackwardPhase1 =
    phase1_of<kFunction, const aclTensor*, const aclTensor*, const aclTensor*, int64_t, int64_t, bool,
              const aclBoolArray*, aclTensor*, aclTensor*>;

const Registration kForward2D(forward("aclnnGridSampler2D",
                                      kForwardPhase1<aclnnGridSampler2DGetWorkspaceSize>, aclnnGridSampler2D,
                                      Sampling{}));
const Registration kBackward2D(backward("aclnnGridSampler2DBackward",
                                        kBackwardPhase1<aclnnGridSampler2DBackwardGetWorkspaceSize>,
                                        aclnnGridSampler2DBackward, Sampling{}));
const Registration kForward3D(forward("aclnnGridSampler3D",
                                      kForwardPhase1<aclnnGridSampler3DGetWorkspaceSize>, aclnnGridSampler3D,
                                      Sampling3D{}));
const Registration kBackward3D(backward("aclnnGridSampler3DBackward",
                                        kBackwardPhase1<aclnnGridSampler3DBackwardGetWorkspaceSize>,
                                        aclnnGridSampler3DBackward, Sampling3D{}));

}  // namespace
}  // namespace aclgrad::test
