// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// One step of multi-scale deformable attention at the size of Deformable-DETR's encoder: an image of 800 x
/// 1333 pixels gives four levels of features, and every one of their 22223 cells is also a query.

#include "aclnnop/aclnn_multi_scale_deformable_attention_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attn_function.h"
#include "example.h"

using example::Comparison;
using example::Device;
using example::Operator;
using example::Random;
using example::ReferenceSum;
using example::Tensor;

namespace {

struct Level {
  int64_t height, width, start;
};
constexpr int64_t level_count = 4;
constexpr Level levels[level_count] = {{100, 167, 0}, {50, 84, 16700}, {25, 42, 20900}, {13, 21, 21950}};
constexpr int64_t cells = 22223;
constexpr int64_t queries = cells;
constexpr int64_t heads = 8;
constexpr int64_t channels = 32;
constexpr int64_t points = 4;

/// One step of the network on the host.
struct Step {
  std::vector<float> value;             // [cells, heads, channels]
  std::vector<float> location;          // [queries, heads, level_count, points, (x, y)]
  std::vector<float> attention_weight;  // [queries, heads, level_count, points]
  std::vector<float> grad_output;       // [queries, heads, channels]
};

/// Rounds to a multiple of 2^-12. Pixel positions are then exact in float: the references below read
/// exactly the cells that the operator reads.
float exact_location(double location) {
  return static_cast<float>(std::round(location * 4096) / 4096);
}

/// Each head of a query looks around the query's own place: point p lies p + 1 cells away, in the head's
/// direction and with some scatter, the same number of cells on each level.
void place_points(int64_t query, double x, double y, Random& random, std::vector<float>& location) {
  for (int64_t head = 0; head < heads; ++head) {
    const double angle = 2 * example::pi * head / heads;
    for (int64_t level = 0; level < level_count; ++level) {
      for (int64_t point = 0; point < points; ++point) {
        const double right = (point + 1) * std::cos(angle) + random.uniform(-0.5, 0.5);
        const double down = (point + 1) * std::sin(angle) + random.uniform(-0.5, 0.5);
        const int64_t index = ((query * heads + head) * level_count + level) * points + point;
        location[2 * index] = exact_location(x + right / levels[level].width);
        location[2 * index + 1] = exact_location(y + down / levels[level].height);
      }
    }
  }
}

/// The weights of all points of a head are positive and sum to 1, as after a softmax.
void normalize_weights(std::vector<float>& attention_weight) {
  constexpr int64_t points_of_head = level_count * points;
  for (auto first = attention_weight.begin(); first != attention_weight.end(); first += points_of_head) {
    const float sum = std::accumulate(first, first + points_of_head, 0.0f);
    std::for_each(first, first + points_of_head, [sum](float& weight) { weight /= sum; });
  }
}

Step make_step() {
  Random random(1);
  Step step;
  step.value = random.uniform_vector<float>(cells * heads * channels, -1, 1);
  step.grad_output = random.uniform_vector<float>(queries * heads * channels, -1, 1);
  step.attention_weight = random.uniform_vector<float>(queries * heads * level_count * points, 0, 1);
  normalize_weights(step.attention_weight);
  step.location.resize(queries * heads * level_count * points * 2);
  for (const Level& level : levels)
    for (int64_t row = 0; row < level.height; ++row)
      for (int64_t column = 0; column < level.width; ++column)
        place_points(level.start + row * level.width + column, (column + 0.5) / level.width,
                     (row + 0.5) / level.height, random, step.location);
  return step;
}

// ---- References ----

/// One of the four cells around a sampling point: its weight, and how that changes with the point's place.
struct Corner {
  int64_t cell;
  double weight, weight_by_x, weight_by_y;
};

/// The corners that lie inside the level; no more than four.
std::vector<Corner> corners_of_point(const Level& level, double x, double y) {
  const double pixel_x = x * level.width - 0.5;
  const double pixel_y = y * level.height - 0.5;
  const double left = std::floor(pixel_x), top = std::floor(pixel_y);
  std::vector<Corner> corners;
  for (int down = 0; down <= 1; ++down) {
    for (int right = 0; right <= 1; ++right) {
      const double column = left + right, row = top + down;
      if (column < 0 || column >= level.width || row < 0 || row >= level.height) continue;
      const double along_x = 1 - std::fabs(pixel_x - column), along_y = 1 - std::fabs(pixel_y - row);
      corners.push_back({level.start + static_cast<int64_t>(row) * level.width + static_cast<int64_t>(column),
                         along_x * along_y, (right ? along_y : -along_y) * level.width,
                         (down ? along_x : -along_x) * level.height});
    }
  }
  return corners;
}

/// The results of one step, back on the host.
struct Results {
  std::vector<float> output, grad_value, grad_location, grad_attention_weight;
};

struct Comparisons {
  Comparison<float> output{"output", {1, queries, heads* channels}};
  Comparison<float> grad_value{"gradValue", {1, cells, heads, channels}};
  Comparison<float> grad_location{"gradLocation", {1, queries, heads, level_count, points, 2}};
  Comparison<float> grad_attention_weight{"gradAttnWeight", {1, queries, heads, level_count, points}};
};

/// All that belongs to one head of one query: its output, and the gradients of its points.
void compare_head(const Step& step, const Results& results, int64_t query, int64_t head,
                  Comparisons& comparisons) {
  const int64_t first_channel = (query * heads + head) * channels;
  std::vector<ReferenceSum> output(channels);
  for (int64_t level = 0; level < level_count; ++level) {
    for (int64_t point = 0; point < points; ++point) {
      const int64_t index = ((query * heads + head) * level_count + level) * points + point;
      const double attention = step.attention_weight[index];
      ReferenceSum grad_x, grad_y, grad_attention;
      for (const Corner& corner :
           corners_of_point(levels[level], step.location[2 * index], step.location[2 * index + 1])) {
        for (int64_t channel = 0; channel < channels; ++channel) {
          const double value = step.value[(corner.cell * heads + head) * channels + channel];
          const double grad = step.grad_output[first_channel + channel];
          output[channel].add(attention * corner.weight * value);
          grad_attention.add(grad * corner.weight * value);
          grad_x.add(attention * grad * corner.weight_by_x * value);
          grad_y.add(attention * grad * corner.weight_by_y * value);
        }
      }
      comparisons.grad_location.compare(results.grad_location[2 * index], grad_x);
      comparisons.grad_location.compare(results.grad_location[2 * index + 1], grad_y);
      comparisons.grad_attention_weight.compare(results.grad_attention_weight[index], grad_attention);
    }
  }
  for (int64_t channel = 0; channel < channels; ++channel)
    comparisons.output.compare(results.output[first_channel + channel], output[channel]);
}

/// The gradient of some cells: every point of every query may have read them, so all are looked at once.
void compare_cells(const Step& step, const Results& results, const std::vector<int64_t>& sampled_cells,
                   Comparison<float>& comparison) {
  constexpr int64_t not_sampled = -1;
  std::vector<int64_t> sample_of_cell(cells, not_sampled);
  for (size_t sample = 0; sample < sampled_cells.size(); ++sample)
    sample_of_cell[sampled_cells[sample]] = static_cast<int64_t>(sample);

  std::vector<ReferenceSum> reference(sampled_cells.size() * heads * channels);
  const int64_t point_count = queries * heads * level_count * points;
  for (int64_t index = 0; index < point_count; ++index) {
    const Level& level = levels[index / points % level_count];
    const int64_t query_head = index / (points * level_count);
    for (const Corner& corner :
         corners_of_point(level, step.location[2 * index], step.location[2 * index + 1])) {
      const int64_t sample = sample_of_cell[corner.cell];
      if (sample == not_sampled) continue;
      ReferenceSum* sums = &reference[(sample * heads + query_head % heads) * channels];
      for (int64_t channel = 0; channel < channels; ++channel)
        sums[channel].add(corner.weight * static_cast<double>(step.attention_weight[index]) *
                          step.grad_output[query_head * channels + channel]);
    }
  }

  constexpr int64_t values_of_cell = heads * channels;
  for (size_t sample = 0; sample < sampled_cells.size(); ++sample)
    for (int64_t i = 0; i < values_of_cell; ++i)
      comparison.compare(results.grad_value[sampled_cells[sample] * values_of_cell + i],
                         reference[sample * values_of_cell + i]);
}

}  // namespace

int main() {
  const Step step = make_step();
  std::vector<int64_t> sizes, starts;
  for (const Level& level : levels) {
    sizes.insert(sizes.end(), {level.height, level.width});
    starts.push_back(level.start);
  }

  const Device device;
  const Tensor<float> value({1, cells, heads, channels}, step.value);
  const Tensor<int64_t> spatial_shape({level_count, 2}, sizes);
  const Tensor<int64_t> level_start_index({level_count}, starts);
  const Tensor<float> location({1, queries, heads, level_count, points, 2}, step.location);
  const Tensor<float> attention_weight({1, queries, heads, level_count, points}, step.attention_weight);
  const Tensor<float> grad_output({1, queries, heads * channels}, step.grad_output);
  const Tensor<float> output({1, queries, heads * channels});
  const Tensor<float> grad_value(value.shape());
  const Tensor<float> grad_location(location.shape());
  const Tensor<float> grad_attention_weight(attention_weight.shape());

  const Operator forward(device, "aclnnMultiScaleDeformableAttnFunction",
                         aclnnMultiScaleDeformableAttnFunction,
                         aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize, value, spatial_shape,
                         level_start_index, location, attention_weight, output);
  const Operator backward(
      device, "aclnnMultiScaleDeformableAttentionGrad", aclnnMultiScaleDeformableAttentionGrad,
      aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize, value, spatial_shape, level_start_index,
      location, attention_weight, grad_output, grad_value, grad_location, grad_attention_weight);
  forward.enqueue();
  backward.enqueue();
  device.synchronize();

  std::printf(
      "Deformable-DETR encoder, float: %lld queries, %lld heads, %lld channels, %lld levels, %lld points\n",
      static_cast<long long>(queries), static_cast<long long>(heads), static_cast<long long>(channels),
      static_cast<long long>(level_count), static_cast<long long>(points));
  example::print_times({&forward, &backward});

  const Results results = {output.download(), grad_value.download(), grad_location.download(),
                           grad_attention_weight.download()};
  Comparisons comparisons;
  for (int64_t query = 0; query < queries; query += 401)
    for (int64_t head = 0; head < heads; ++head) compare_head(step, results, query, head, comparisons);
  std::vector<int64_t> sampled_cells;
  for (int64_t cell = 0; cell < cells; cell += 401) sampled_cells.push_back(cell);
  compare_cells(step, results, sampled_cells, comparisons.grad_value);

  return example::report<float>({comparisons.output, comparisons.grad_value, comparisons.grad_location,
                                 comparisons.grad_attention_weight});
}
