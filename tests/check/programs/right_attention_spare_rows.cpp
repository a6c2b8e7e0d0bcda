// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include "aclnnop/aclnn_multi_scale_deformable_attn_function.h"
#include "program.h"

template <class T>
void* device_copy(const std::vector<T>& values, size_t room) {
  void* memory = device_memory(room * sizeof(T));
  const size_t bytes = values.size() * sizeof(T);
  must(aclrtMemcpy(memory, bytes, values.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
  return memory;
}

// Rows of `value` outside of all levels, and entries of `levelStartIndex` behind the last level, stay unset.
int main() {
  Session session;
  constexpr int64_t kPixels = 4;
  constexpr int64_t kChannels = 8;
  void* value = device_copy(std::vector<float>(kPixels * kChannels, 1.0f), 3 * kPixels * kChannels);
  void* shapes = device_copy<int64_t>({2, 2}, 2);
  void* starts = device_copy<int64_t>({0}, 5);
  void* location = device_copy<float>({0.5f, 0.5f}, 2);
  void* weight = device_copy<float>({1.0f}, 1);
  void* output = device_memory(kChannels * sizeof(float));

  const auto indices = [](void* data, const std::vector<int64_t>& shape) {
    return aclCreateTensor(shape.data(), shape.size(), ACL_INT64, nullptr, 0, ACL_FORMAT_ND, shape.data(),
                           shape.size(), data);
  };
  aclTensor* handles[] = {tensor(value, {1, 3 * kPixels, 1, kChannels}),
                          indices(shapes, {1, 2}),
                          indices(starts, {5}),
                          tensor(location, {1, 1, 1, 1, 1, 2}),
                          tensor(weight, {1, 1, 1, 1, 1}),
                          tensor(output, {1, 1, kChannels})};
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  must(aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(
      handles[0], handles[1], handles[2], handles[3], handles[4], handles[5], &workspace_size, &executor));
  void* workspace = workspace_size > 0 ? device_memory(workspace_size) : nullptr;
  must(aclnnMultiScaleDeformableAttnFunction(workspace, workspace_size, executor, session.stream));
  must(aclrtSynchronizeStream(session.stream));

  float result = 0;
  must(aclrtMemcpy(&result, sizeof result, output, sizeof result, ACL_MEMCPY_DEVICE_TO_HOST));
  for (aclTensor* handle : handles) must(aclDestroyTensor(handle));
  if (workspace != nullptr) must(aclrtFree(workspace));
  for (void* memory : {value, shapes, starts, location, weight, output}) must(aclrtFree(memory));
  return result == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
