// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include "aclnnop/aclnn_nsa_compress_grad.h"
#include "program.h"

// A stream that stops on failure refuses work, which another stream does then.
int main() {
  must(aclInit(nullptr));
  must(aclrtSetDevice(0));
  aclrtContext others = nullptr;
  must(aclrtGetCurrentContext(&others));
  aclrtStream other = new_stream();
  aclrtContext context = nullptr;
  must(aclrtCreateContext(&context, 0));
  aclrtStream stream = new_stream();
  must(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE));

  constexpr int64_t kTokens = 16;
  constexpr size_t kBytes = kTokens * 16 * sizeof(uint16_t);
  const int64_t wrong_end = kTokens + 1;
  void* memory[5];
  for (void*& each : memory) {
    each = device_memory(kBytes);
    must(aclrtMemset(each, kBytes, 0, kBytes));
  }
  void* end = device_memory(sizeof wrong_end);
  must(aclrtMemcpy(end, sizeof wrong_end, &wrong_end, sizeof wrong_end, ACL_MEMCPY_HOST_TO_DEVICE));
  const auto tensor_of = [](void* data, const std::vector<int64_t>& shape, aclDataType type) {
    return aclCreateTensor(shape.data(), shape.size(), type, nullptr, 0, ACL_FORMAT_ND, shape.data(),
                           shape.size(), data);
  };
  aclTensor* output_grad = tensor_of(memory[0], {1, 1, 16}, ACL_FLOAT16);
  aclTensor* input = tensor_of(memory[1], {kTokens, 1, 16}, ACL_FLOAT16);
  aclTensor* weight = tensor_of(memory[2], {16, 1}, ACL_FLOAT16);
  aclTensor* input_grad = tensor_of(memory[3], {kTokens, 1, 16}, ACL_FLOAT16);
  aclTensor* weight_grad = tensor_of(memory[4], {16, 1}, ACL_FLOAT16);
  aclTensor* ends = tensor_of(end, {1}, ACL_INT64);
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  must(aclnnNsaCompressGradTensorGetWorkspaceSize(output_grad, input, weight, ends, 16, 16, 0, nullptr,
                                                  input_grad, weight_grad, &workspace_size, &executor));
  void* workspace = workspace_size > 0 ? device_memory(workspace_size) : nullptr;
  must(aclnnNsaCompressGrad(workspace, workspace_size, executor, stream));
  if (aclrtSynchronizeStream(stream) == ACL_SUCCESS) return EXIT_FAILURE;
  if (aclrtMemsetAsync(memory[3], kBytes, 0, kBytes, stream) == ACL_SUCCESS) return EXIT_FAILURE;
  std::printf("%s\n", aclGetRecentErrMsg());

  must(aclrtSetCurrentContext(others));
  must(aclrtMemsetAsync(memory[3], kBytes, 0, kBytes, other));
  must(aclrtSynchronizeStream(other));
  for (aclTensor* each : {output_grad, input, weight, input_grad, weight_grad, ends})
    must(aclDestroyTensor(each));
  for (void* each : memory) must(aclrtFree(each));
  must(aclrtFree(end));
  if (workspace != nullptr) must(aclrtFree(workspace));
  must(aclrtDestroyStream(other));
  must(aclrtSetCurrentContext(context));
  must(aclrtDestroyStream(stream));
  must(aclrtDestroyContext(context));
  must(aclrtSetCurrentContext(others));
  must(aclrtResetDevice(0));
  must(aclFinalize());
}
