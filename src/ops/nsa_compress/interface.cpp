// The C++ interface of NSA compress: checks a problem, then runs its kernel.
#include <array>

#include "base/problem_check.h"
#include "ops/nsa_compress/kernel.h"
#include "ops/nsa_compress/windows.h"

namespace aclgrad {

using namespace ops::nsa_compress;

namespace {

void check_window_sizes(const ProblemCheck& check, const SlidingWindows& windows) {
  check.size("windows.tokens", windows.tokens, 0);
  check.size("windows.block", windows.block, 1);
  check.size("windows.stride", windows.stride, 1);
  check.size("windows.sequences", windows.sequences, 0);
}

void check_ends_address(const ProblemCheck& check, const SlidingWindows& windows) {
  check.indices("windows.sequence_ends", {windows.sequence_ends, DataType::int64}, windows.sequences);
}

// Of [rows, heads, channels].
template <class Problem, class Void>
std::array<ProblemCheck::Axis, 3> axes(const Problem& problem, int64_t rows, const HeadRows<Void>& tensor) {
  return {{{rows, tensor.row_stride, ".row_stride"},
           {problem.heads, tensor.head_stride, ".head_stride"},
           {problem.channels, 1, ""}}};
}

// Of weight and its gradient.
template <class Problem>
std::array<ProblemCheck::Axis, 2> weight_axes(const Problem& problem) {
  return {{{problem.windows.block, problem.heads, ""}, {problem.heads, 1, ""}}};
}

}  // namespace

static ProblemCheck check_of(const NsaCompress&) {
  return ProblemCheck("nsa_compress");
}
static ProblemCheck check_of(const NsaCompressGrad&) {
  return ProblemCheck("nsa_compress_grad");
}

template <class Problem>
static void check_sizes(const Problem& problem) {
  const ProblemCheck check = check_of(problem);
  check.type("type", problem.type, {DataType::float32, DataType::float16, DataType::bfloat16});
  check_window_sizes(check, problem.windows);
  check.size("window_count", problem.window_count, 0);
  check.size("heads", problem.heads, 0);
  check.size("channels", problem.channels, 0);
  check.element_count("input", std::array{problem.windows.tokens, problem.heads, problem.channels});
  check.element_count("output", std::array{problem.window_count, problem.heads, problem.channels});
  check.element_count("weight", std::array{problem.windows.block, problem.heads});
}

// Windows whose ends lie in device memory are checked by the kernel.
template <class Problem>
static void check_windows(const Problem& problem) {
  const ProblemCheck check = check_of(problem);
  check_ends_address(check, problem.windows);
  if (problem.windows.ends_on_gpu) return;
  if (const auto mismatch = find_mismatch(problem.windows, problem.window_count, kFieldNames)) {
    check.refuse(mismatch->parameter, mismatch->expected, mismatch->got);
  }
}

static void check_tensors(const NsaCompress& problem) {
  const ProblemCheck check = check_of(problem);
  check_windows(problem);
  check.input("input", problem.input.data, problem.type,
              axes(problem, problem.windows.tokens, problem.input));
  check.input("weight", problem.weight, problem.type, weight_axes(problem));
  check.output("output", problem.output.data, problem.type,
               axes(problem, problem.window_count, problem.output));
}

static void check_tensors(const NsaCompressGrad& problem) {
  const ProblemCheck check = check_of(problem);
  check_windows(problem);
  check.input("output_grad", problem.output_grad.data, problem.type,
              axes(problem, problem.window_count, problem.output_grad));
  if (problem.wants_weight_grad) {
    check.input("input", problem.input.data, problem.type,
                axes(problem, problem.windows.tokens, problem.input));
  }
  check.input("weight", problem.weight, problem.type, weight_axes(problem));
  if (problem.wants_input_grad) {
    check.output("input_grad", problem.input_grad.data, problem.type,
                 axes(problem, problem.windows.tokens, problem.input_grad));
  }
  if (problem.wants_weight_grad) {
    check.output("weight_grad", problem.weight_grad, problem.type, weight_axes(problem));
  }
}

int64_t count_windows(const SlidingWindows& windows) {
  const ProblemCheck check("count_windows");
  check_window_sizes(check, windows);
  check_ends_address(check, windows);
  if (const auto mismatch = find_wrong_end(windows, kFieldNames.ends)) {
    check.refuse(mismatch->parameter, mismatch->expected, mismatch->got);
  }
  return total_windows(windows);
}

size_t workspace_size(const NsaCompress& problem) {
  return checked_workspace_size(problem);
}
size_t workspace_size(const NsaCompressGrad& problem) {
  return checked_workspace_size(problem);
}

double serial_nanoseconds(const NsaCompress& problem) {
  return checked_nanoseconds(problem);
}
double serial_nanoseconds(const NsaCompressGrad& problem) {
  return checked_nanoseconds(problem);
}

void nsa_compress(const NsaCompress& problem, void* workspace) {
  check_and_run(problem, workspace);
}
void nsa_compress_grad(const NsaCompressGrad& problem, void* workspace) {
  check_and_run(problem, workspace);
}

size_t cuda::workspace_size(const NsaCompress& problem, const CudaLaunch& on) {
  return checked_workspace_size(problem, on);
}
size_t cuda::workspace_size(const NsaCompressGrad& problem, const CudaLaunch& on) {
  return checked_workspace_size(problem, on);
}

void cuda::nsa_compress(const NsaCompress& problem, void* workspace, const CudaLaunch& on) {
  check_and_run(problem, workspace, on);
}
void cuda::nsa_compress_grad(const NsaCompressGrad& problem, void* workspace, const CudaLaunch& on) {
  check_and_run(problem, workspace, on);
}

}  // namespace aclgrad
