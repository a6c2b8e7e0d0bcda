// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "support/operator.h"

namespace aclgrad::fuzz {

// Another extent in place of one, wherever it occurs, so that many calls stay right. `draw` gives a number of a range.
template <class Draw>
void resize(std::vector<test::Value>& arguments, Draw&& draw) {
  std::vector<test::Shape*> shapes;
  for (test::Value& value : arguments) {
    auto* tensor = std::get_if<test::TensorValue>(&value);
    if (tensor != nullptr && !tensor->shape.empty()) shapes.push_back(&tensor->shape);
  }
  if (shapes.empty()) return;
  const test::Shape& shape = *shapes[draw(size_t{0}, shapes.size() - 1)];
  const int64_t from = shape[draw(size_t{0}, shape.size() - 1)], to = draw(int64_t{0}, int64_t{20});
  for (test::Shape* each : shapes) std::replace(each->begin(), each->end(), from, to);
}

}  // namespace aclgrad::fuzz
