// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ops/grid_sampler/cases.h"

namespace aclgrad::test::grid_sampler_cases {

// A problem in the messages of failed tests.
template <class AnySampling>
std::string describe(const AnySampling& s, DataType type) {
  return testing::PrintToString(input_shape(s)) + " to " + testing::PrintToString(grid_shape(s)) + " mode " +
         std::to_string(s.mode) + " padding " + std::to_string(s.padding) +
         (s.align_corners ? " aligned" : "") + " type " + std::to_string(static_cast<int>(type));
}

// Calls body with all modes, paddings and alignments of the sizes.
template <class AnySampling, class Body>
void for_each_mode(const AnySampling& sizes, DataType type, Body&& body) {
  for_each_mode_to(kLastMode<AnySampling>, sizes, type, [&](const AnySampling& s) {
    SCOPED_TRACE(describe(s, type));
    body(s);
  });
}

}  // namespace aclgrad::test::grid_sampler_cases
