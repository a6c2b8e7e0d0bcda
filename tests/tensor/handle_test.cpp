// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The functions of acl_meta.h: what they keep, hand out and refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "aclnn/acl_meta.h"
#include "runtime/fixture.h"
#include "tensor/tensor.h"

namespace aclgrad::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kAbsurdCount = uint64_t{1} << 60;

aclTensor* make_tensor(const std::vector<int64_t>& shape, const int64_t* strides = nullptr) {
  return aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT, strides, 0, ACL_FORMAT_ND, shape.data(),
                         shape.size(), nullptr);
}

using ArrayGetter = aclnnStatus (*)(const aclTensor*, int64_t**, uint64_t*);

std::vector<int64_t> values_of(ArrayGetter getter, const aclTensor* tensor) {
  int64_t* values = nullptr;
  uint64_t count = 99;
  EXPECT_EQ(getter(tensor, &values, &count), OK);
  EXPECT_NE(values, nullptr);
  const std::unique_ptr<int64_t[]> owned(values);
  return std::vector<int64_t>(values, values + count);
}

TEST(TensorHandle, KeepsWhatItWasMadeWith) {
  const int64_t shape[] = {2, 3};
  const int64_t strides[] = {0, 4};
  const int64_t storage_shape[] = {5, 6, 7};
  float data = 0;
  aclTensor* tensor =
      aclCreateTensor(shape, 2, ACL_BF16, strides, 11, ACL_FORMAT_NCHW, storage_shape, 3, &data);
  ASSERT_NE(tensor, nullptr);
  EXPECT_THAT(values_of(aclGetViewShape, tensor), ElementsAre(2, 3));
  EXPECT_THAT(values_of(aclGetViewStrides, tensor), ElementsAre(0, 4));
  EXPECT_THAT(values_of(aclGetStorageShape, tensor), ElementsAre(5, 6, 7));
  int64_t offset = 0;
  EXPECT_EQ(aclGetViewOffset(tensor, &offset), OK);
  EXPECT_EQ(offset, 11);
  aclFormat format = ACL_FORMAT_UNDEFINED;
  EXPECT_EQ(aclGetFormat(tensor, &format), OK);
  EXPECT_EQ(format, ACL_FORMAT_NCHW);
  aclDataType type = ACL_DT_UNDEFINED;
  EXPECT_EQ(aclGetDataType(tensor, &type), OK);
  EXPECT_EQ(type, ACL_BF16);
  void* address = nullptr;
  EXPECT_EQ(aclGetRawTensorAddr(tensor, &address), OK);
  EXPECT_EQ(address, &data);
  EXPECT_EQ(aclSetRawTensorAddr(tensor, nullptr), OK);
  EXPECT_EQ(aclGetRawTensorAddr(tensor, &address), OK);
  EXPECT_EQ(address, nullptr);
  EXPECT_EQ(aclDestroyTensor(tensor), OK);
}

TEST(TensorHandle, ScalarHasNoAxes) {
  aclTensor* tensor = aclCreateTensor(nullptr, 0, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr);
  ASSERT_NE(tensor, nullptr);
  EXPECT_THAT(values_of(aclGetViewShape, tensor), IsEmpty());
  EXPECT_THAT(values_of(aclGetViewStrides, tensor), IsEmpty());
  EXPECT_THAT(values_of(aclGetStorageShape, tensor), IsEmpty());
  EXPECT_EQ(aclDestroyTensor(tensor), OK);
}

TEST(TensorHandle, ContentsAreNotCheckedAtCreation) {
  const std::vector<int64_t> shapes[] = {{-1, 2},
                                         {INT64_MAX, INT64_MAX, INT64_MAX},
                                         {INT64_MIN, INT64_MIN, 3},
                                         {INT64_MIN, -1},
                                         std::vector<int64_t>(25, 2)};
  for (const auto& shape : shapes) {
    aclTensor* tensor = aclCreateTensor(shape.data(), shape.size(), ACL_STRING, nullptr, INT64_MIN,
                                        ACL_FORMAT_FRACTAL_NZ, nullptr, 0, nullptr);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(values_of(aclGetViewShape, tensor), shape);
    EXPECT_EQ(aclDestroyTensor(tensor), OK);
  }
}

TEST(TensorHandle, CreationFailsWithoutSizes) {
  const int64_t one = 1;
  EXPECT_EQ(aclCreateTensor(nullptr, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &one, 1, nullptr), nullptr);
  EXPECT_THAT(recent_message(), HasSubstr("aclCreateTensor.viewDims: expected a pointer, got null"));
  EXPECT_EQ(aclCreateTensor(&one, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 1, nullptr), nullptr);
  EXPECT_THAT(recent_message(), HasSubstr("aclCreateTensor.storageDims: expected a pointer, got null"));
}

TEST(TensorHandle, AbsurdCountsAreRefusedUnread) {
  const int64_t one = 1;
  EXPECT_EQ(aclCreateTensor(&one, kAbsurdCount, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &one, 1, nullptr),
            nullptr);
  EXPECT_EQ(aclCreateTensor(&one, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &one, UINT64_MAX, nullptr),
            nullptr);
  aclTensor* tensor = make_tensor({1});
  EXPECT_EQ(aclCreateTensorList(&tensor, kAbsurdCount), nullptr);
  EXPECT_EQ(aclDestroyTensor(tensor), OK);
}

TEST(TensorHandle, InitDescribesAnewAndKeepsTheAddressWithoutAnother) {
  float data[2] = {};
  const int64_t shape[] = {4, 5};
  aclTensor* tensor = make_tensor({2});
  aclSetRawTensorAddr(tensor, &data[0]);
  EXPECT_EQ(aclInitTensor(tensor, shape, 2, ACL_INT32, nullptr, 3, ACL_FORMAT_NC, shape, 1, nullptr), OK);
  EXPECT_THAT(values_of(aclGetViewShape, tensor), ElementsAre(4, 5));
  EXPECT_THAT(values_of(aclGetViewStrides, tensor), ElementsAre(5, 1)) << "contiguous";
  EXPECT_THAT(values_of(aclGetStorageShape, tensor), ElementsAre(4));
  void* address = nullptr;
  aclGetRawTensorAddr(tensor, &address);
  EXPECT_EQ(address, &data[0]);
  EXPECT_EQ(aclInitTensor(tensor, shape, 2, ACL_INT32, nullptr, 3, ACL_FORMAT_NC, shape, 1, &data[1]), OK);
  aclGetRawTensorAddr(tensor, &address);
  EXPECT_EQ(address, &data[1]);
  // A refused description leaves the old one.
  EXPECT_EQ(aclInitTensor(tensor, nullptr, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, 1, nullptr),
            ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_THAT(values_of(aclGetViewShape, tensor), ElementsAre(4, 5));
  EXPECT_EQ(aclInitTensor(nullptr, shape, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, 1, nullptr),
            ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(aclDestroyTensor(tensor), OK);
}

template <class Value>
void check_nulls(aclnnStatus (*get)(const aclTensor*, Value*), const aclTensor* tensor) {
  Value value{};
  EXPECT_EQ(get(nullptr, &value), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(get(tensor, nullptr), ACLNN_ERR_PARAM_NULLPTR);
}

TEST(TensorHandle, NullsOfGettersAreRefused) {
  aclTensor* tensor = make_tensor({2});
  int64_t* values = nullptr;
  uint64_t count = 0;
  for (ArrayGetter getter : {aclGetViewShape, aclGetViewStrides, aclGetStorageShape}) {
    EXPECT_EQ(getter(nullptr, &values, &count), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_EQ(getter(tensor, nullptr, &count), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_EQ(getter(tensor, &values, nullptr), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_EQ(values, nullptr);
  }
  check_nulls(aclGetViewOffset, tensor);
  check_nulls(aclGetFormat, tensor);
  check_nulls(aclGetDataType, tensor);
  check_nulls(aclGetRawTensorAddr, tensor);
  EXPECT_EQ(aclSetRawTensorAddr(nullptr, &count), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(aclDestroyTensor(tensor), OK);
}

TEST(TensorHandle, DumpIsRefusedWithAMessage) {
  recent_message();
  EXPECT_EQ(aclDumpOpTensors("type", "name", nullptr, 0, 0, nullptr), ACL_ERROR_API_NOT_SUPPORT);
  EXPECT_THAT(recent_message(), HasSubstr("aclDumpOpTensors"));
}

TEST(Destroy, NullSucceeds) {
  EXPECT_EQ(aclDestroyTensor(nullptr), OK);
  EXPECT_EQ(aclDestroyScalar(nullptr), OK);
  EXPECT_EQ(aclDestroyIntArray(nullptr), OK);
  EXPECT_EQ(aclDestroyFloatArray(nullptr), OK);
  EXPECT_EQ(aclDestroyBoolArray(nullptr), OK);
  EXPECT_EQ(aclDestroyTensorList(nullptr), OK);
  EXPECT_EQ(aclDestroyScalarList(nullptr), OK);
}

TEST(Destroy, TwiceIsRefusedWithAMessage) {
  recent_message();
  aclTensor* tensor = make_tensor({2});
  EXPECT_EQ(aclDestroyTensor(tensor), OK);
  EXPECT_EQ(aclDestroyTensor(tensor), ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(recent_message(),
              HasSubstr("aclDestroyTensor: expected a live aclTensor, got a handle that was destroyed"));

  int64_t value = 1;
  aclIntArray* array = aclCreateIntArray(&value, 1);
  EXPECT_EQ(aclDestroyIntArray(array), OK);
  EXPECT_EQ(aclDestroyIntArray(array), ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(recent_message(), HasSubstr("aclDestroyIntArray: expected a live aclIntArray"));

  aclTensorList* list = aclCreateTensorList(nullptr, 0);
  EXPECT_EQ(aclDestroyTensorList(list), OK);
  EXPECT_EQ(aclDestroyTensorList(list), ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(recent_message(), HasSubstr("aclDestroyTensorList: expected a live aclTensorList"));
}

TEST(Destroy, ForeignPointersAreRefused) {
  int64_t not_a_handle = 0;
  const auto* foreign = reinterpret_cast<const aclTensor*>(&not_a_handle);
  EXPECT_EQ(aclDestroyTensor(foreign), ACLNN_ERR_PARAM_INVALID);
  int64_t offset = 0;
  EXPECT_EQ(aclGetViewOffset(foreign, &offset), ACLNN_ERR_PARAM_INVALID);

  // A handle of another kind is foreign too, and stays what it is.
  aclIntArray* array = aclCreateIntArray(&not_a_handle, 1);
  EXPECT_EQ(aclDestroyTensor(reinterpret_cast<const aclTensor*>(array)), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(aclDestroyTensorList(reinterpret_cast<const aclTensorList*>(array)), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(aclDestroyIntArray(array), OK);
}

TEST(Scalar, KeepsTheBytesOfItsType) {
  double value = 2.5;
  aclScalar* scalar = aclCreateScalar(&value, ACL_DOUBLE);
  ASSERT_NE(scalar, nullptr);
  EXPECT_EQ(scalar->type, ACL_DOUBLE);
  double kept = 0;
  std::memcpy(&kept, scalar->value, sizeof kept);
  EXPECT_EQ(kept, 2.5);
  EXPECT_EQ(aclDestroyScalar(scalar), OK);
  EXPECT_EQ(aclDestroyScalar(scalar), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(aclCreateScalar(nullptr, ACL_DOUBLE), nullptr);

  // No more is read than the value has: one byte, on the heap so that a sanitizer sees more.
  for (aclDataType type : {ACL_BOOL, ACL_INT8, ACL_FLOAT8_E5M2, ACL_FLOAT6_E3M2, ACL_FLOAT4_E1M2}) {
    const auto byte = std::make_unique<uint8_t>(uint8_t{1});
    aclScalar* small = aclCreateScalar(byte.get(), type);
    ASSERT_NE(small, nullptr);
    EXPECT_EQ(static_cast<int>(small->value[0]), 1);
    EXPECT_EQ(aclDestroyScalar(small), OK);
  }
  double complex[2] = {1, 2};
  aclScalar* wide = aclCreateScalar(complex, ACL_COMPLEX128);
  std::memcpy(&kept, wide->value + sizeof kept, sizeof kept);
  EXPECT_EQ(kept, 2);
  EXPECT_EQ(aclDestroyScalar(wide), OK);
}

// Of `values`, which are 1, 0, 1.
template <class Value, class Array>
void check_array(Array* (*create)(const Value*, uint64_t), aclnnStatus (*destroy)(const Array*),
                 aclnnStatus (*get_size)(const Array*, uint64_t*)) {
  const auto values = std::make_unique<Value[]>(3);
  values[0] = values[2] = 1;
  Array* array = create(values.get(), 3);
  values[0] = 0;
  EXPECT_EQ(array->values[0], Value{1}) << "a copy";
  EXPECT_EQ(array->values[1], Value{0});
  EXPECT_EQ(array->values[2], Value{1});
  uint64_t size = 99;
  EXPECT_EQ(get_size(array, &size), OK);
  EXPECT_EQ(size, 3u);
  EXPECT_EQ(get_size(nullptr, &size), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(get_size(array, nullptr), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(destroy(array), OK);
  EXPECT_EQ(get_size(array, &size), ACLNN_ERR_PARAM_INVALID);

  Array* empty = create(nullptr, 0);
  EXPECT_EQ(get_size(empty, &size), OK);
  EXPECT_EQ(size, 0u);
  EXPECT_EQ(destroy(empty), OK);
  EXPECT_EQ(create(nullptr, 1), nullptr);
  EXPECT_EQ(create(values.get(), kAbsurdCount), nullptr);
  EXPECT_THAT(recent_message(), HasSubstr("Array.value: expected at most 4294967296 entries, got"));
}

TEST(Array, CopiesItsValues) {
  check_array(aclCreateIntArray, aclDestroyIntArray, aclGetIntArraySize);
  check_array(aclCreateFloatArray, aclDestroyFloatArray, aclGetFloatArraySize);
  check_array(aclCreateBoolArray, aclDestroyBoolArray, aclGetBoolArraySize);
}

TEST(List, OwnsItsMembers) {
  const aclTensor* tensors[] = {make_tensor({1}), nullptr, make_tensor({2})};
  aclTensorList* list = aclCreateTensorList(tensors, 3);
  uint64_t size = 0;
  EXPECT_EQ(aclGetTensorListSize(list, &size), OK);
  EXPECT_EQ(size, 3u);
  EXPECT_EQ(aclCreateTensorList(nullptr, 1), nullptr);
  EXPECT_EQ(aclDestroyTensorList(list), OK);
  EXPECT_EQ(aclDestroyTensor(tensors[0]), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(aclDestroyTensor(tensors[2]), ACLNN_ERR_PARAM_INVALID);

  float value = 1;
  const aclScalar* scalars[] = {aclCreateScalar(&value, ACL_FLOAT)};
  aclScalarList* scalar_list = aclCreateScalarList(scalars, 1);
  EXPECT_EQ(aclGetScalarListSize(scalar_list, &size), OK);
  EXPECT_EQ(size, 1u);
  EXPECT_EQ(aclCreateScalarList(nullptr, 1), nullptr);
  EXPECT_EQ(aclDestroyScalarList(scalar_list), OK);
  EXPECT_EQ(aclDestroyScalar(scalars[0]), ACLNN_ERR_PARAM_INVALID);
}

TEST(List, MembersMayGoFirst) {
  const aclTensor* tensors[] = {make_tensor({1}), make_tensor({2})};
  aclTensorList* list = aclCreateTensorList(tensors, 2);
  EXPECT_EQ(aclDestroyTensor(tensors[0]), OK);
  // Many new tensors: one of them probably lies where the destroyed member lay. None belongs to the list.
  std::vector<aclTensor*> others;
  for (int i = 0; i < 100; ++i) others.push_back(make_tensor({1}));
  EXPECT_EQ(aclDestroyTensorList(list), OK);
  for (aclTensor* other : others) EXPECT_EQ(aclDestroyTensor(other), OK);
}

TEST(List, AMemberMustBeAliveOrNull) {
  const aclTensor* tensors[] = {make_tensor({1}), nullptr};
  aclTensorList* list = aclCreateTensorList(tensors, 2);
  EXPECT_EQ(aclDestroyTensorList(list), OK);
  EXPECT_EQ(aclCreateTensorList(tensors, 2), nullptr);
  EXPECT_THAT(recent_message(), HasSubstr("aclCreateTensorList: expected a live aclTensor"));
}

TEST(List, AMemberOfTwoListsIsDestroyedOnce) {
  const aclTensor* tensors[] = {make_tensor({1})};
  const aclTensor* twice[] = {tensors[0], tensors[0]};
  aclTensorList* first = aclCreateTensorList(tensors, 1);
  aclTensorList* second = aclCreateTensorList(twice, 2);
  EXPECT_EQ(aclDestroyTensorList(second), OK);
  EXPECT_EQ(aclDestroyTensorList(first), OK);
}

TEST(List, StaysTheOwnerWhenAMemberIsDescribedAnew) {
  aclTensor* tensor = make_tensor({1});
  aclTensorList* list = aclCreateTensorList(&tensor, 1);
  const int64_t shape[] = {3};
  EXPECT_EQ(aclInitTensor(tensor, shape, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, 1, nullptr), OK);
  EXPECT_EQ(aclDestroyTensorList(list), OK);
  EXPECT_EQ(aclDestroyTensor(tensor), ACLNN_ERR_PARAM_INVALID);
}

TEST(Handles, ManyThreadsMakeAndDestroyTheirOwn) {
  constexpr int kThreads = 8;
  std::vector<int> failures(kThreads);
  in_threads(kThreads, [&](int t) {
    for (int64_t i = 0; i < 500; ++i) {
      const aclTensor* members[] = {make_tensor({i}), make_tensor({i + 1})};
      aclTensorList* list = aclCreateTensorList(members, 2);
      if (aclDestroyTensorList(list) != OK || aclDestroyTensor(members[0]) == OK)
        ++failures[static_cast<size_t>(t)];
    }
  });
  EXPECT_THAT(failures, testing::Each(0));
}

}  // namespace
}  // namespace aclgrad::test
