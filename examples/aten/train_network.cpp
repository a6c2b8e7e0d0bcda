// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// Trains a small network by C calls alone: deformable attention looks at a map of features that is learned, at places that
/// are learned, and two matrix products turn what each pixel sees into its brightness. Forward, loss, gradients and Adam's
/// steps are operators in one stream: deformable attention and its gradient are aclgrad's own, all others those of its
/// companion library, which is there where aclgrad was built with PyTorch.
///
///     train_network [FOLDER]     writes network.pgm: the picture to learn, and what the network paints, side by side
#include <cstdio>
#include <deque>
#include <fstream>
#include <string>
#include <utility>

#include "../example.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_apply_adam_wv2.h"
#include "aclnnop/aclnn_mm.h"
#include "aclnnop/aclnn_mse_loss.h"
#include "aclnnop/aclnn_mse_loss_backward.h"
#include "aclnnop/aclnn_multi_scale_deformable_attention_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attn_function.h"
#include "aclnnop/aclnn_reduce_sum.h"
#include "aclnnop/aclnn_relu.h"
#include "aclnnop/aclnn_threshold_backward.h"

namespace {

using example::check;
using example::Device;
using example::Handle;
using example::Operator;
using example::Tensor;

constexpr int64_t side = 48, pixels = side * side;                            // of the picture
constexpr int64_t cells_of_side = 12, cells = cells_of_side * cells_of_side;  // of the map
constexpr int64_t heads = 4, points = 4, channels = 8, features = heads * channels, hidden = 32;
constexpr int steps = 600;

#define ADD(step, name, ...) (step).emplace_back(device, #name, name, name##GetWorkspaceSize, __VA_ARGS__)

/// What is learned, with its gradient and Adam's two averages.
struct Parameter {
  Parameter(const example::Shape& shape, const std::vector<float>& start)
      : value(shape, start),
        grad(shape, zeros(start)),
        mean(shape, zeros(start)),
        square(shape, zeros(start)) {}

  static std::vector<float> zeros(const std::vector<float>& like) {
    return std::vector<float>(like.size(), 0);
  }

  Tensor<float> value, grad, mean, square;
};

/// Rings around a point beside the middle.
std::vector<float> picture() {
  std::vector<float> brightness;
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    const double x = (pixel % side + 0.5) / side - 0.4, y = (pixel / side + 0.5) / side - 0.55;
    brightness.push_back(static_cast<float>(0.5 + 0.5 * std::cos(40 * std::sqrt(x * x + y * y))));
  }
  return brightness;
}

/// At first each pixel looks at random places around its own.
std::vector<float> first_locations(example::Random& random) {
  std::vector<float> locations;
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    for (int64_t place = 0; place < heads * points; ++place) {
      locations.push_back(static_cast<float>((pixel % side + 0.5) / side + random.uniform(-0.1, 0.1)));
      locations.push_back(static_cast<float>((pixel / side + 0.5) / side + random.uniform(-0.1, 0.1)));
    }
  }
  return locations;
}

void write_pictures(const std::string& path, const std::vector<float>& left,
                    const std::vector<float>& right) {
  std::ofstream file(path, std::ios::binary);
  file << "P5 " << 2 * side << " " << side << " 255\n";
  for (int64_t row = 0; row < side; ++row) {
    for (const auto* picture : {&left, &right}) {
      for (int64_t column = 0; column < side; ++column)
        file.put(static_cast<char>(std::min(std::max((*picture)[row * side + column], 0.0f), 1.0f) * 255));
    }
  }
}

Handle<aclTensor> transposed(const Tensor<float>& matrix) {
  return matrix.view({matrix.shape()[1], matrix.shape()[0]}, {1, matrix.shape()[1]});
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  const Device device;
  example::Random random(1);
  const std::vector<float> wanted = picture();

  Parameter map({1, cells, heads, channels}, random.uniform_vector<float>(cells * features, -1, 1));
  Parameter locations({1, pixels, heads, 1, points, 2}, first_locations(random));
  Parameter attention({1, pixels, heads, 1, points},
                      std::vector<float>(pixels * heads * points, 1.0f / points));
  Parameter weight1({features, hidden}, random.uniform_vector<float>(features * hidden, -0.3, 0.3));
  Parameter bias1({hidden}, std::vector<float>(hidden, 0.0f));
  Parameter weight2({hidden, 1}, random.uniform_vector<float>(hidden, -0.3, 0.3));
  Parameter bias2({1}, {0.5f});

  const Tensor<int64_t> spatial_shape({1, 2}, {cells_of_side, cells_of_side}), level_start({1}, {0});
  const Tensor<float> target({pixels, 1}, wanted), loss({1}), one({1}, {1.0f}), adam_step({1}, {0.0f});
  const Tensor<float> seen({1, pixels, features}), grad_seen({1, pixels, features});
  const Tensor<float> product1({pixels, hidden}), sum1({pixels, hidden}), active({pixels, hidden});
  const Tensor<float> grad_active({pixels, hidden}), grad_sum1({pixels, hidden});
  const Tensor<float> product2({pixels, 1}), painted({pixels, 1}), grad_painted({pixels, 1});
  const Handle<aclTensor> seen_rows = seen.view({pixels, features}, {features, 1});
  const Handle<aclTensor> seen_columns = seen.view({features, pixels}, {1, features});
  const Handle<aclTensor> grad_seen_rows = grad_seen.view({pixels, features}, {features, 1});
  const Handle<aclTensor> active_columns = transposed(active);
  const Handle<aclTensor> weight1_transposed = transposed(weight1.value),
                          weight2_transposed = transposed(weight2.value);
  float one_value = 1, zero_value = 0;
  const Handle<aclScalar> one_scalar(aclCreateScalar(&one_value, ACL_FLOAT), aclDestroyScalar);
  const Handle<aclScalar> zero_scalar(aclCreateScalar(&zero_value, ACL_FLOAT), aclDestroyScalar);
  const int64_t rows_axis = 0;
  const Handle<aclIntArray> rows(aclCreateIntArray(&rows_axis, 1), aclDestroyIntArray);
  const int64_t mean = 1;  // of the losses of all pixels

  std::deque<Operator> step;  // what is queued in each step, in this order
  // Forward.
  ADD(step, aclnnMultiScaleDeformableAttnFunction, map.value, spatial_shape, level_start, locations.value,
      attention.value, seen);
  ADD(step, aclnnMm, seen_rows, weight1.value, product1, 0);
  ADD(step, aclnnAdd, product1, bias1.value, one_scalar, sum1);
  ADD(step, aclnnRelu, sum1, active);
  ADD(step, aclnnMm, active, weight2.value, product2, 0);
  ADD(step, aclnnAdd, product2, bias2.value, one_scalar, painted);
  ADD(step, aclnnMseLoss, painted, target, mean, loss);
  // Backward.
  ADD(step, aclnnMseLossBackward, one, painted, target, mean, grad_painted);
  ADD(step, aclnnMm, active_columns, grad_painted, weight2.grad, 0);
  ADD(step, aclnnReduceSum, grad_painted, rows, false, ACL_FLOAT, bias2.grad);
  ADD(step, aclnnMm, grad_painted, weight2_transposed, grad_active, 0);
  ADD(step, aclnnThresholdBackward, grad_active, sum1, zero_scalar, grad_sum1);
  ADD(step, aclnnMm, seen_columns, grad_sum1, weight1.grad, 0);
  ADD(step, aclnnReduceSum, grad_sum1, rows, false, ACL_FLOAT, bias1.grad);
  ADD(step, aclnnMm, grad_sum1, weight1_transposed, grad_seen_rows, 0);
  ADD(step, aclnnMultiScaleDeformableAttentionGrad, map.value, spatial_shape, level_start, locations.value,
      attention.value, grad_seen, map.grad, locations.grad, attention.grad);
  // Adam.
  ADD(step, aclnnInplaceAdds, adam_step, one_scalar, one_scalar);
  const std::pair<Parameter*, float> rates[] = {{&map, 0.02f},     {&locations, 0.002f}, {&attention, 0.01f},
                                                {&weight1, 0.01f}, {&bias1, 0.01f},      {&weight2, 0.01f},
                                                {&bias2, 0.01f}};
  for (const auto& [parameter, rate] : rates) {
    ADD(step, aclnnApplyAdamWV2, parameter->value, parameter->mean, parameter->square, nullptr,
        parameter->grad, adam_step, rate, 0.9f, 0.99f, 0.0f, 1e-8f, false, false);
  }

  float first = 0, last = 0;
  for (int i = 0; i < steps; ++i) {
    for (const Operator& each : step) each.enqueue();
    if (i % 50 != 0 && i != steps - 1) continue;
    device.synchronize();
    last = loss.download()[0];
    if (i == 0) first = last;
    std::printf("\rstep %3d of %d: mean squared error %.1e", i + 1, steps, last);
    std::fflush(stdout);
  }
  write_pictures(folder + "/network.pgm", wanted, painted.download());
  std::printf("\nThe error fell from %.4f to %.1e. Look at %s/network.pgm\n", first, last, folder.c_str());
  return last < first / 20 ? 0 : 1;
}
