// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// The gradient of the expert biases of a mixture-of-experts layer: the rows of 65536 routed tokens, sorted
/// by expert, are summed for each of 32 experts. Popularity is skewed, and one expert got nothing.

#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "example.h"

using example::Comparison;
using example::Device;
using example::Operator;
using example::Random;
using example::ReferenceSum;
using example::Tensor;
using op::bfloat16;

namespace {

constexpr int64_t rows = 65536;
constexpr int64_t hidden = 2880;
constexpr int64_t experts = 32;
constexpr int64_t idle_expert = 5;

// What the integers of the group tensor mean, by the parameter groupIdxType.
constexpr int64_t group_type_counts = 1;

/// Rows of each expert, after Zipf's law: the expert of rank r gets in proportion to 1 / r.
std::vector<int64_t> zipf_counts() {
  std::vector<double> share(experts);
  for (int64_t expert = 0; expert < experts; ++expert) {
    const int64_t rank = (expert * 11) % experts + 1;  // 11 and 32 have no common factor: every rank once
    share[expert] = expert == idle_expert ? 0 : 1.0 / rank;
  }
  const double total = std::accumulate(share.begin(), share.end(), 0.0);
  std::vector<int64_t> counts(experts);
  for (int64_t expert = 0; expert < experts; ++expert)
    counts[expert] = static_cast<int64_t>(share[expert] / total * rows);
  counts[0] += rows - std::accumulate(counts.begin(), counts.end(), int64_t{0});
  return counts;
}

/// Sums some columns of every expert in double precision and compares.
Comparison<bfloat16> compare(const char* name, const Tensor<bfloat16>& bias_grad,
                             const std::vector<bfloat16>& grad_y, const std::vector<int64_t>& ends) {
  constexpr int64_t column_step = 61;
  const std::vector<bfloat16> result = bias_grad.download();
  Comparison<bfloat16> comparison(name, bias_grad.shape());
  for (int64_t expert = 0, begin = 0; expert < experts; begin = ends[expert++]) {
    std::vector<ReferenceSum> reference(hidden);
    for (int64_t row = begin; row < ends[expert]; ++row)
      for (int64_t column = 0; column < hidden; column += column_step)
        reference[column].add(static_cast<double>(grad_y[row * hidden + column]));
    for (int64_t column = 0; column < hidden; column += column_step)
      comparison.compare(result[expert * hidden + column], reference[column]);
  }
  return comparison;
}

}  // namespace

int main() {
  const std::vector<int64_t> counts = zipf_counts();
  std::vector<int64_t> ends(experts);
  std::partial_sum(counts.begin(), counts.end(), ends.begin());
  const std::vector<bfloat16> grad_y_host = Random(1).uniform_vector<bfloat16>(rows * hidden, -1, 1);

  const Device device;
  const Tensor<bfloat16> grad_y({rows, hidden}, grad_y_host);
  const Tensor<int64_t> group_counts({experts}, counts);
  const Tensor<int64_t> group_ends({experts}, ends);
  const Tensor<bfloat16> from_counts({experts, hidden});
  const Tensor<bfloat16> from_ends({experts, hidden});

  const Operator by_counts(device, "aclnnGroupedBiasAddGradV2", aclnnGroupedBiasAddGradV2,
                           aclnnGroupedBiasAddGradV2GetWorkspaceSize, grad_y, group_counts, group_type_counts,
                           from_counts);
  const Operator by_ends(device, "aclnnGroupedBiasAddGrad", aclnnGroupedBiasAddGrad,
                         aclnnGroupedBiasAddGradGetWorkspaceSize, grad_y, group_ends, from_ends);
  by_counts.enqueue();
  by_ends.enqueue();
  device.synchronize();

  const auto [fewest, most] = std::minmax_element(counts.begin(), counts.end());
  std::printf("Expert bias gradient: %lld rows x %lld, bfloat16, %lld experts with %lld to %lld rows\n",
              static_cast<long long>(rows), static_cast<long long>(hidden), static_cast<long long>(experts),
              static_cast<long long>(*fewest), static_cast<long long>(*most));
  example::print_times({&by_counts, &by_ends});

  return example::report<bfloat16>({compare("V2, by counts", from_counts, grad_y_host, ends),
                                    compare("V1, by ends", from_ends, grad_y_host, ends)});
}
