// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Derivatives as quotients of differences.
#pragma once

#include <vector>

namespace aclgrad::test {

// Of what `loss` makes of the input, by each of its elements, across two steps.
template <class Loss>
std::vector<double> differences(std::vector<double>& input, double step, Loss&& loss) {
  std::vector<double> quotients;
  for (double& element : input) {
    const double value = element;
    element = value + step;
    const double above = loss();
    element = value - step;
    quotients.push_back((above - loss()) / (2 * step));
    element = value;
  }
  return quotients;
}

}  // namespace aclgrad::test
