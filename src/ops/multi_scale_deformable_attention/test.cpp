// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What is true of multi-scale deformable attention and its gradient alone; what holds for every operator is tested in
// tests/operators/.
#include <gtest/gtest.h>

#include "aclnnop/aclnn_multi_scale_deformable_attention_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attn_function.h"
#include "support/strict.h"
#include "support/values.h"

namespace aclgrad::test {
namespace {

struct Extents {
  int64_t batches, rows, heads, channels, queries, levels, points;
};

enum class Which { forward, grad };

// Phase 1 on tensors without memory, one of which has another format.
aclnnStatus phase_1(Which which, const Extents& e, size_t formatted = 0, aclFormat format = ACL_FORMAT_ND) {
  const Shape value{e.batches, e.rows, e.heads, e.channels};
  const Shape location{e.batches, e.queries, e.heads, e.levels, e.points, 2};
  const Shape weight(location.begin(), location.end() - 1);
  std::vector<Shape> shapes = {value, {e.levels, 2}, {e.levels}, location, weight};
  if (which == Which::grad) {
    shapes.insert(shapes.end(), {{e.batches, e.queries, e.heads, e.channels}, value, location, weight});
  } else {
    shapes.push_back({e.batches, e.queries, e.heads * e.channels});
  }
  std::vector<aclTensor*> t;
  for (const Shape& shape : shapes) {
    const aclDataType type = t.size() == 1 ? ACL_INT64 : t.size() == 2 ? ACL_INT32 : ACL_FLOAT;
    t.push_back(aclCreateTensor(shape.data(), shape.size(), type, nullptr, 0,
                                t.size() == formatted ? format : ACL_FORMAT_ND, shape.data(), shape.size(),
                                nullptr));
  }
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  const aclnnStatus status = which == Which::grad
                                 ? aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize(
                                       t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], &size, &executor)
                                 : aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(
                                       t[0], t[1], t[2], t[3], t[4], t[5], &size, &executor);
  if (status == OK) aclDestroyAclOpExecutor(executor);
  for (const aclTensor* tensor : t) aclDestroyTensor(tensor);
  return status;
}

TEST(MultiScaleDeformableAttention, RefusesOneFormat) {
  const Extents extents{2, 6, 4, 16, 40, 1, 3};
  for (const auto& [which, count] : {std::pair{Which::forward, 6u}, {Which::grad, 9u}}) {
    for (size_t tensor = 0; tensor < count; ++tensor) {
      EXPECT_EQ(phase_1(which, extents, tensor, ACL_FORMAT_FRACTAL_NZ), 161002) << tensor;
      EXPECT_EQ(phase_1(which, extents, tensor, ACL_FORMAT_NHWC), OK) << tensor;
    }
  }
}

TEST(MultiScaleDeformableAttention, TakesAllSizesOfTheDocuments) {
  // bs S M C Q L P
  for (const Extents& extents : {Extents{1, 4, 1, 8, 1, 1, 1},
                                 {1, 4, 16, 256, 1, 16, 16},
                                 {33, 4, 1, 8, 1, 1, 1},
                                 {1, 4, 1, 8, 499999, 1, 1}}) {
    for (Which which : {Which::forward, Which::grad}) EXPECT_EQ(phase_1(which, extents), OK);
  }
  EXPECT_EQ(phase_1(Which::forward, {1, 4, 1, 8, 500000, 1, 1}), OK);
}

TEST(MultiScaleDeformableAttentionStrictDeathTest, RefusesWhatEitherDocumentRefuses) {
  expect_in_strict_mode([] {
    return phase_1(Which::grad, {32, 4, 1, 8, 32, 9, 16}) == OK &&
           phase_1(Which::grad, {33, 4, 1, 8, 32, 9, 16}) == 161002 &&
           phase_1(Which::grad, {1, 4, 1, 8, 32, 10, 1}) == 161002 &&
           phase_1(Which::forward, {33, 4, 1, 8, 32, 10, 1}) == OK &&
           phase_1(Which::forward, {1, 4, 1, 8, 31, 1, 1}) == 161002;
  });
}

}  // namespace
}  // namespace aclgrad::test
