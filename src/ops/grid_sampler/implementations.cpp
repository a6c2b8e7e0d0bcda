// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "ops/grid_sampler/implementations.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"

namespace aclgrad::ops::grid_sampler {
namespace {

bool always(const Sampling&) {
  return true;
}

bool has_floats(const Sampling& sampling) {
  return sampling.type != DataType::float64;
}

bool may_suit_samples(const Sampling& sampling) {
  return !sampling.vectorises_over_channels || sampling.may_have_lines;
}

// The gradient has other bits by channels, which therefore must not depend on strides.
bool has_no_channels_to_vectorise(const Sampling& sampling) {
  return !sampling.vectorises_over_channels;
}

// Forward all give the same bits.
constexpr Implementation kForward[] = {
    {"few_channels", has_few_channels, always, always, no_workspace, sample_few_channels},
    {"by_samples", always, may_suit_samples, vectorises_over_samples, no_workspace, sample_by_samples},
    {"by_channels", has_floats, always, always, sample_by_channels_workspace_size, sample_by_channels},
};

// By samples each term of grad_input is rounded before it is added, and grad_grid comes from differences of pixels.
// "by_channels" fuses product and sum.
constexpr Implementation kGradient[] = {
    {"by_samples", always, has_no_channels_to_vectorise, has_no_channels_to_vectorise,
     grad_by_samples_workspace_size, grad_by_samples},
    {"by_channels", has_floats, always, always, grad_by_channels_workspace_size, grad_by_channels},
};

}  // namespace

std::span<const Implementation> forward_implementations() {
  return kForward;
}

std::span<const Implementation> gradient_implementations() {
  return kGradient;
}

size_t no_workspace(const Sampling&) {
  return 0;
}

size_t workspace_size(std::span<const Implementation> implementations, const Sampling& sampling) {
  size_t size = 0;
  for (const Implementation& candidate : implementations) {
    if (!candidate.applies(sampling) || !candidate.may_suit(sampling)) continue;
    size = std::max(size, candidate.workspace_size(sampling));
    if (candidate.suits == candidate.may_suit) break;  // it is chosen, whatever the grid
  }
  return size;
}

void run(const char* operator_name, std::span<const Implementation> implementations, const Sampling& sampling,
         void* workspace) {
  for (const Implementation& candidate : implementations) {
    if (!candidate.applies(sampling) || !candidate.may_suit(sampling) || !candidate.suits(sampling)) continue;
    if (log_enabled(LogLevel::debug))
      log(LogLevel::debug, fmt::format("{}: {}", operator_name, candidate.name));
    return candidate.run(sampling, workspace);
  }
}

}  // namespace aclgrad::ops::grid_sampler
