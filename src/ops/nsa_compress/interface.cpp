// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The C++ interface of NSA compress: checks a problem, then runs its kernel.
#include "base/problem_check.h"
#include "ops/nsa_compress/kernel.h"
#include "ops/nsa_compress/windows.h"

namespace aclgrad {

using namespace ops::nsa_compress;

static constexpr const char* kForward = "nsa_compress";
static constexpr const char* kBackward = "nsa_compress_backward";
static constexpr const char* kDoubleBackward = "nsa_compress_double_backward";
static constexpr int64_t kAny = ProblemCheck::kAny;

static void check_ends(const ProblemCheck& check, const NsaCompression& p) {
  check.number("weight.shape[0]", p.block(), 1);
  check.number("stride", p.stride, 1);
  if (p.sequence_ends.defined()) check.input("sequence_ends", p.sequence_ends, DataType::int64, {kAny}, 0);
}

static void check_inputs(const ProblemCheck& check, const NsaCompression& p, bool reads_input) {
  const DataType type = p.input.type;
  check.type("input", p.input, {DataType::float32, DataType::float16, DataType::bfloat16});
  (reads_input ? check : check.without_addresses()).input("input", p.input, type, {kAny, kAny, kAny}, 2);
  check.input("weight", p.weight, type, {kAny, p.heads()}, 0);
  check_ends(check, p);
}

// That `rows` has a row for each window. Ends in device memory are checked by the kernel.
static void check_windows(const ProblemCheck& check, const NsaCompression& p, const char* rows,
                          int64_t count) {
  if (p.ends_on_gpu || !check.checks_addresses()) return;
  if (const auto mismatch = find_mismatch(sliding_windows(p), count, {kEndsField, rows}))
    check.refuse(mismatch->parameter, mismatch->expected, mismatch->got);
}

static void check(const NsaCompress& p, ProblemCheck::Addresses addresses) {
  const ProblemCheck check(kForward, addresses);
  check_inputs(check, p, true);
  check.output("output", p.output, p.input.type, {kAny, p.heads(), p.channels()}, 2);
  check_windows(check, p, "output.shape[0]", p.windows());
}

// The gradient's, and the double backward's.
template <class Problem>
static void check_gradients(const ProblemCheck& check, const Problem& p) {
  const DataType type = p.input.type;
  check.input("grad_output", p.grad_output, type, {kAny, p.heads(), p.channels()}, 2);
  check.wanted_output("grad_input", p.grad_input, type, {p.tokens(), p.heads(), p.channels()}, 2);
  check.wanted_output("grad_weight", p.grad_weight, type, {p.block(), p.heads()}, 0);
  check_windows(check, p, "grad_output.shape[0]", p.windows());
}

static void check(const NsaCompressBackward& p, ProblemCheck::Addresses addresses) {
  const ProblemCheck check(kBackward, addresses);
  check_inputs(check, p, p.grad_weight.defined());
  check_gradients(check, p);
}

static void check(const NsaCompressDoubleBackward& p, ProblemCheck::Addresses addresses) {
  const ProblemCheck check(kDoubleBackward, addresses);
  const DataType type = p.input.type;
  check_inputs(check, p, true);
  check_gradients(check, p);
  check.given_input("grad_grad_input", p.grad_grad_input, type, {p.tokens(), p.heads(), p.channels()}, 2);
  check.given_input("grad_grad_weight", p.grad_grad_weight, type, {p.block(), p.heads()}, 0);
  check.wanted_output("grad_grad_output", p.grad_grad_output, type, {p.windows(), p.heads(), p.channels()},
                      2);
}

int64_t count_windows(const NsaCompression& p) {
  const ProblemCheck check("count_windows", ProblemCheck::Addresses::checked);
  check.shape("input", p.input, {kAny, kAny, kAny});
  check.shape("weight", p.weight, {kAny, kAny});
  check_ends(check, p);
  const SlidingWindows windows = sliding_windows(p);
  if (const auto mismatch = find_wrong_end(windows, kEndsField))
    check.refuse(mismatch->parameter, mismatch->expected, mismatch->got);
  return total_windows(windows);
}

size_t workspace_size(const NsaCompress& problem) {
  return checked_workspace_size(problem);
}
size_t workspace_size(const NsaCompressBackward& problem) {
  return checked_workspace_size(problem);
}
size_t workspace_size(const NsaCompressDoubleBackward& problem) {
  return checked_workspace_size(problem);
}

void nsa_compress(const NsaCompress& problem, const WorkspaceView& workspace) {
  check_and_run(kForward, problem, workspace);
}
void nsa_compress_backward(const NsaCompressBackward& problem, const WorkspaceView& workspace) {
  check_and_run(kBackward, problem, workspace);
}
void nsa_compress_double_backward(const NsaCompressDoubleBackward& problem, const WorkspaceView& workspace) {
  check_and_run(kDoubleBackward, problem, workspace);
}

size_t cuda::workspace_size(const NsaCompress& problem, const CudaLaunch& on) {
  return checked_workspace_size(problem, on);
}
size_t cuda::workspace_size(const NsaCompressBackward& problem, const CudaLaunch& on) {
  return checked_workspace_size(problem, on);
}

void cuda::nsa_compress(const NsaCompress& problem, const WorkspaceView& workspace, const CudaLaunch& on) {
  check_and_run(kForward, problem, workspace, on);
}
void cuda::nsa_compress_backward(const NsaCompressBackward& problem, const WorkspaceView& workspace,
                                 const CudaLaunch& on) {
  check_and_run(kBackward, problem, workspace, on);
}

}  // namespace aclgrad
