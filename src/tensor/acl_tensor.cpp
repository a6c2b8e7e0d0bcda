// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The tensor functions of acl_meta.h.
#include <algorithm>
#include <utility>

#include "acl/acl_base.h"
#include "tensor/handle.h"

namespace aclgrad {
namespace {

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    // Operators refuse sizes that overflow; here they must only do no harm.
    if (__builtin_mul_overflow(stride, shape[axis], &stride)) stride = INT64_MAX;
  }
  return strides;
}

// A tensor as the parameters of aclCreateTensor describe it; nothing but the arrays' pointers is checked.
aclTensor described(std::string_view function, const int64_t* viewDims, uint64_t viewDimsNum,
                    aclDataType dataType, const int64_t* stride, int64_t offset, aclFormat format,
                    const int64_t* storageDims, uint64_t storageDimsNum, void* tensorData) {
  aclTensor tensor;
  tensor.view_shape = copy_array(function, "viewDims", viewDims, viewDimsNum);
  tensor.strides = stride != nullptr ? copy_array(function, "stride", stride, viewDimsNum)
                                     : contiguous_strides(tensor.view_shape);
  tensor.offset = offset;
  tensor.type = dataType;
  tensor.format = format;
  tensor.storage_shape = copy_array(function, "storageDims", storageDims, storageDimsNum);
  tensor.data = tensorData;
  return tensor;
}

// Gives the caller a copy to delete[], also where it is empty.
aclnnStatus hand_out(std::string_view function, const aclTensor* tensor,
                     std::vector<int64_t> aclTensor::*member, std::string_view values_name, int64_t** values,
                     std::string_view count_name, uint64_t* count) {
  return guarded(ACLNN_ERR_INNER, [&] {
    check_handle(function, tensor);
    check_not_null(function, values_name, values);
    check_not_null(function, count_name, count);
    const std::vector<int64_t>& source = tensor->*member;
    *values = new int64_t[source.size()];
    std::copy(source.begin(), source.end(), *values);
    *count = source.size();
  });
}

template <class Value>
aclnnStatus get(std::string_view function, const aclTensor* tensor, Value aclTensor::*member,
                std::string_view name, Value* result) {
  return guarded(ACLNN_ERR_INNER, [&] {
    check_handle(function, tensor);
    check_not_null(function, name, result);
    *result = tensor->*member;
  });
}

}  // namespace
}  // namespace aclgrad

using namespace aclgrad;

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                           const int64_t* stride, int64_t offset, aclFormat format,
                           const int64_t* storageDims, uint64_t storageDimsNum, void* tensorData) {
  return create_handle<aclTensor>([&](aclTensor& tensor) {
    tensor = described("aclCreateTensor", viewDims, viewDimsNum, dataType, stride, offset, format,
                       storageDims, storageDimsNum, tensorData);
  });
}

aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum,
                          aclDataType dataType, const int64_t* stride, int64_t offset, aclFormat format,
                          const int64_t* storageDims, uint64_t storageDimsNum, void* tensorDataAddr) {
  return guarded(ACLNN_ERR_INNER, [&] {
    check_handle("aclInitTensor", tensor);
    void* data = tensorDataAddr != nullptr ? tensorDataAddr : tensor->data;
    aclTensor again = described("aclInitTensor", viewDims, viewDimsNum, dataType, stride, offset, format,
                                storageDims, storageDimsNum, data);
    again.owner = tensor->owner;
    *tensor = std::move(again);
  });
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
  return destroy_handle("aclDestroyTensor", tensor);
}

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
  return hand_out("aclGetViewShape", tensor, &aclTensor::view_shape, "viewDims", viewDims, "viewDimsNum",
                  viewDimsNum);
}

aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue, uint64_t* stridesNum) {
  return hand_out("aclGetViewStrides", tensor, &aclTensor::strides, "stridesValue", stridesValue,
                  "stridesNum", stridesNum);
}

aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims, uint64_t* storageDimsNum) {
  return hand_out("aclGetStorageShape", tensor, &aclTensor::storage_shape, "storageDims", storageDims,
                  "storageDimsNum", storageDimsNum);
}

aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
  return get("aclGetViewOffset", tensor, &aclTensor::offset, "offset", offset);
}

aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
  return get("aclGetFormat", tensor, &aclTensor::format, "format", format);
}

aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
  return get("aclGetDataType", tensor, &aclTensor::type, "dataType", dataType);
}

aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr) {
  return guarded(ACLNN_ERR_INNER, [&] {
    check_handle("aclSetRawTensorAddr", tensor);
    tensor->data = addr;
  });
}

aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr) {
  return get("aclGetRawTensorAddr", tensor, &aclTensor::data, "addr", addr);
}

aclnnStatus aclDumpOpTensors(const char*, const char*, aclTensor**, size_t, size_t, aclrtStream) {
  return guarded(ACLNN_ERR_INNER, [] {
    throw Error(ACL_ERROR_API_NOT_SUPPORT, "aclDumpOpTensors: dumping tensors is not supported.",
                "The program was written for a device that offers this.",
                "Copy the tensors to the host with aclrtMemcpy and print them there.");
  });
}
