// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The handles of acl_meta.h as values: tensors, scalars, arrays and lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "acl/acl_base.h"
#include "base/handle_registry.h"

// All of these are structs of the C interface, and so outside of the namespace.

struct aclTensorList;
struct aclScalarList;

struct aclTensor {
  static constexpr auto kKind = aclgrad::HandleKind::tensor;
  std::vector<int64_t> view_shape;
  std::vector<int64_t> strides;  // in elements, one for each entry of view_shape
  int64_t offset = 0;            // in elements, from `data`
  aclDataType type = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_UNDEFINED;
  std::vector<int64_t> storage_shape;
  void* data = nullptr;  // start of the storage

  mutable const aclTensorList* owner = nullptr;  // the list that destroys it, if any
};

struct aclScalar {
  static constexpr auto kKind = aclgrad::HandleKind::scalar;
  aclDataType type = ACL_DT_UNDEFINED;
  alignas(16) std::byte value[16] = {};

  mutable const aclScalarList* owner = nullptr;  // the list that destroys it, if any
};

struct aclIntArray {
  static constexpr auto kKind = aclgrad::HandleKind::int_array;
  std::vector<int64_t> values;
};

struct aclFloatArray {
  static constexpr auto kKind = aclgrad::HandleKind::float_array;
  std::vector<float> values;
};

struct aclBoolArray {
  static constexpr auto kKind = aclgrad::HandleKind::bool_array;
  std::unique_ptr<bool[]> values;
  size_t size = 0;
};

struct aclTensorList {
  static constexpr auto kKind = aclgrad::HandleKind::tensor_list;
  std::vector<const aclTensor*> members;
};

struct aclScalarList {
  static constexpr auto kKind = aclgrad::HandleKind::scalar_list;
  std::vector<const aclScalar*> members;
};
