// The 2-D grid sampler and its gradient as the tests see them.
#include "aclnnop/aclnn_grid_sampler2d.h"
#include "aclnnop/aclnn_grid_sampler2d_backward.h"
#include "ops/grid_sampler/cases.h"
#include "support/operator.h"

namespace aclgrad::test {
namespace {

using namespace grid_sampler_cases;

using Mask = std::vector<bool>;  // inputGrad, gridGrad
const Mask kBoth = {true, true};

std::string title_of(const Sampling& s) {
  return text(input_shape(s)) + " to " + std::to_string(s.output_height) + "x" +
         std::to_string(s.output_width) + " mode " + std::to_string(s.mode) + " padding " +
         std::to_string(s.padding) + (s.align_corners ? " aligned" : "");
}

std::vector<Value> forward_arguments(const Sampling& s, DataType type, const Inputs& inputs) {
  return {TensorValue{input_shape(s), type, inputs.input},
          TensorValue{grid_shape(s), type, inputs.grid},
          int64_t{s.mode},
          int64_t{s.padding},
          int64_t{s.align_corners},
          TensorValue{output_shape(s), type}};
}

std::vector<Value> backward_arguments(const Sampling& s, DataType type, const Inputs& inputs,
                                      const Mask& mask) {
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

Case forward_case(const Sampling& s, DataType type, const Inputs& inputs) {
  return {title_of(s), forward_arguments(s, type, inputs), [=] {
            std::vector<double> expected = reference::grid_sampler_2d(s, inputs.input, inputs.grid);
            const double allowed = allowed_error(type, expected);
            return std::vector<std::optional<Expected>>{Expected{std::move(expected), allowed}};
          }};
}

Case backward_case(const Sampling& s, DataType type, const Inputs& inputs, const Mask& mask) {
  return {title_of(s) + " mask " + std::to_string(mask[0]) + std::to_string(mask[1]),
          backward_arguments(s, type, inputs, mask), [=] {
            const auto expected =
                reference::grid_sampler_2d_backward(s, inputs.grad_output, inputs.input, inputs.grid);
            std::vector<std::optional<Expected>> outputs(2);
            if (mask[0]) outputs[0] = Expected{expected.input, allowed_error(type, expected.input)};
            if (mask[1])
              outputs[1] = Expected{expected.grid, allowed_error(type, expected.grid), gradient_error};
            return outputs;
          }};
}

// Calls body with all modes, paddings and alignments that the operator has for the type.
template <bool is_backward, class Body>
void for_each_mode(Sampling s, DataType type, Body&& body) {
  s.positions_in_double = type == DataType::float64;
  for (s.mode = 0; s.mode < 3; ++s.mode) {
    if (!is_backward && s.mode == 2 && type == DataType::float64) continue;
    for (s.padding = 0; s.padding < 3; ++s.padding) {
      for (bool align_corners : {false, true}) {
        s.align_corners = align_corners;
        body(s);
      }
    }
  }
}

template <bool is_backward>
Case case_of(const Sampling& s, DataType type, const Inputs& inputs, const Mask& mask = kBoth) {
  return is_backward ? backward_case(s, type, inputs, mask) : forward_case(s, type, inputs);
}

template <bool is_backward>
std::vector<Case> cases(DataType type) {
  std::vector<Case> result;
  for (const Sampling& size : kSizes) {
    const Inputs inputs(size, type, 1.3);
    for_each_mode<is_backward>(
        size, type, [&](const Sampling& s) { result.push_back(case_of<is_backward>(s, type, inputs)); });
  }
  for (const Sampling& size : {sizes(2, 3, 40, 70, 40, 70), sizes(1, 1, 33, 64, 33, 64)}) {
    Inputs inputs(size, type, 1);
    inputs.grid = smooth_grid(size, type);
    for_each_mode<is_backward>(size, type, [&](const Sampling& s) {
      for (const Mask& mask : {kBoth, Mask{true, false}, Mask{false, true}, Mask{false, false}}) {
        if (is_backward || mask == kBoth) result.push_back(case_of<is_backward>(s, type, inputs, mask));
      }
    });
  }
  // Few samples of a large image, and either gradient by itself.
  for (const Sampling& size : {sizes(2, 24, 20, 30, 17, 19), sizes(1, 16, 90, 90, 3, 3)}) {
    const Inputs inputs(size, type, 1.3);
    for_each_mode<is_backward>(size, type, [&](const Sampling& s) {
      for (const Mask& mask : {Mask{true, false}, Mask{false, true}}) {
        if (is_backward || mask[0]) result.push_back(case_of<is_backward>(s, type, inputs, mask));
      }
    });
  }
  return result;
}

template <bool is_backward>
std::vector<Case> parallel_cases(DataType type) {
  std::vector<Case> result;
  for (const Sampling& size :
       {sizes(1, 3, 160, 150, 170, 140), sizes(1, 32, 96, 64, 80, 90), sizes(64, 2, 40, 40, 40, 40),
        sizes(3, 16, 200, 200, 30, 30), sizes(1, 3, 160, 150, 160, 150)}) {
    Inputs inputs(size, type, 1.1);
    if (size.height == size.output_height) inputs.grid = smooth_grid(size, type);
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

template <bool is_backward>
std::vector<Mistake> mistakes() {
  constexpr DataType kFloat = DataType::float32;
  const std::vector<Parameter>& parameters = is_backward ? kBackwardParameters : kForwardParameters;
  constexpr size_t kMode = is_backward ? 3 : 2;
  const Sampling good = sizes(2, 3, 4, 5, 6, 7);
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
      // Forward, the height and width of input stand by themselves.
      if (!is_backward && i == 0 && axis >= 2) continue;
      Shape shape = tensor->shape;
      ++shape[axis];
      change("axis " + std::to_string(axis), i, TensorValue{shape, kFloat});
    }
  }
  for (const Sampling& empty : {sizes(2, 3, 0, 5, 6, 7), sizes(2, 3, 4, 0, 6, 7)})
    add("an image without pixels", "input", arguments(empty, kFloat));
  add("whole numbers", "input", arguments(good, DataType::int32));
  for (int64_t mode : {-1, 3}) {
    change("mode " + std::to_string(mode), kMode, mode);
    change("padding " + std::to_string(mode), kMode + 1, mode);
  }
  if (is_backward) {
    change("one entry", 6, Mask{true});
    change("three entries", 6, Mask{true, true, true});
    // The checks come first even where nothing is asked for.
    std::vector<Value> masked = arguments(good, kFloat);
    masked[6] = Mask{false, false};
    masked[kMode] = int64_t{3};
    add("a mode where nothing is asked for", "interpolationMode", std::move(masked));
  } else {
    Sampling bicubic = good;
    bicubic.mode = 2;
    add("bicubic in double", "", arguments(bicubic, DataType::float64));
  }
  return result;
}

const Registration kForward({
    .name = "aclnnGridSampler2D",
    .said_name = "aclnnGridSampler2D",
    .parameters = kForwardParameters,
    .types = {std::begin(kTypes), std::end(kTypes)},
    .phase1 = phase1_of<aclnnGridSampler2DGetWorkspaceSize, const aclTensor*, const aclTensor*, int64_t,
                        int64_t, bool, aclTensor*>,
    .phase2 = aclnnGridSampler2D,
    .cases = cases<false>,
    .parallel_cases = parallel_cases<false>,
    .mistakes = mistakes<false>,
});

const Registration kBackward({
    .name = "aclnnGridSampler2DBackward",
    .said_name = "aclnnGridSampler2DBackward",
    .parameters = kBackwardParameters,
    .types = {std::begin(kTypes), std::end(kTypes)},
    .phase1 =
        phase1_of<aclnnGridSampler2DBackwardGetWorkspaceSize, const aclTensor*, const aclTensor*,
                  const aclTensor*, int64_t, int64_t, bool, const aclBoolArray*, aclTensor*, aclTensor*>,
    .phase2 = aclnnGridSampler2DBackward,
    .cases = cases<true>,
    .parallel_cases = parallel_cases<true>,
    .mistakes = mistakes<true>,
    .adds_in_any_order = true,
});

}  // namespace
}  // namespace aclgrad::test
