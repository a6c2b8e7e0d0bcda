// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Data buffers and tensor descriptions of the older single-operator interface, and its operators, which are
// refused.
#include <fmt/ranges.h>

#include <memory>
#include <vector>

#include "acl/acl.h"
#include "acl/acl_op_compiler.h"
#include "base/handle_registry.h"
#include "runtime/entry.h"

using namespace aclgrad;

struct aclDataBuffer {
  static constexpr auto kKind = HandleKind::data_buffer;
  void* data;
  size_t size;
};

struct aclTensorDesc {
  static constexpr auto kKind = HandleKind::tensor_desc;
  aclDataType type;
  aclFormat format;
  std::vector<int64_t> dims;
};

struct aclopAttr {};

namespace {

// The object, or null with a message where the handle is null or dead.
template <class T>
const T* live_or_null(const T* object, Parameter parameter) {
  const Status status = guarded(ACL_ERROR_BAD_ALLOC, [&] {
    require(is_live_handle(object, T::kKind), ACL_ERROR_INVALID_PARAM, parameter,
            fmt::format("a live {}", name_of(T::kKind)), static_cast<const void*>(object));
  });
  return status == ACL_SUCCESS ? object : nullptr;
}

template <class T, class... Values>
T* make_handle(Values&&... values) {
  auto object = std::unique_ptr<T>(new T{std::forward<Values>(values)...});
  register_handle(object.get(), T::kKind);
  return object.release();
}

// The product of the factor and all sizes; 0 with a message where it does not fit.
size_t times_sizes(size_t factor, const aclTensorDesc& desc, Parameter parameter) {
  const Status status = guarded(ACL_ERROR_BAD_ALLOC, [&] {
    for (int64_t dim : desc.dims)
      require(!__builtin_mul_overflow(factor, dim, &factor), ACL_ERROR_INVALID_PARAM, parameter,
              "sizes whose product fits in size_t", fmt::format("[{}]", fmt::join(desc.dims, ", ")));
  });
  return status == ACL_SUCCESS ? factor : 0;
}

aclError refuse(const char* function) {
  return entry(function, [&] {
    throw Error(ACL_ERROR_FEATURE_UNSUPPORTED,
                fmt::format("{}: single operators by name are not supported.", function),
                "The program was written for the older interface of compiled operators.",
                "Call the operator's two aclnn functions instead.");
  });
}

}  // namespace

aclDataBuffer* aclCreateDataBuffer(void* data, size_t size) {
  aclDataBuffer* buffer = nullptr;
  entry(__func__, [&] { buffer = make_handle<aclDataBuffer>(data, size); });
  return buffer;
}

aclError aclDestroyDataBuffer(const aclDataBuffer* dataBuffer) {
  return entry(__func__, [&] {
    require(unregister_handle(dataBuffer, HandleKind::data_buffer), ACL_ERROR_INVALID_PARAM,
            {"aclDestroyDataBuffer", "dataBuffer"}, "a live aclDataBuffer",
            static_cast<const void*>(dataBuffer));
    delete dataBuffer;
  });
}

void* aclGetDataBufferAddr(const aclDataBuffer* dataBuffer) {
  const aclDataBuffer* buffer = live_or_null(dataBuffer, {"aclGetDataBufferAddr", "dataBuffer"});
  return buffer != nullptr ? buffer->data : nullptr;
}

size_t aclGetDataBufferSizeV2(const aclDataBuffer* dataBuffer) {
  const aclDataBuffer* buffer = live_or_null(dataBuffer, {"aclGetDataBufferSizeV2", "dataBuffer"});
  return buffer != nullptr ? buffer->size : 0;
}

aclTensorDesc* aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t* dims, aclFormat format) {
  aclTensorDesc* desc = nullptr;
  entry(__func__, [&] {
    require(numDims >= 0, ACL_ERROR_INVALID_PARAM, {"aclCreateTensorDesc", "numDims"}, "0 or more", numDims);
    if (numDims > 0) require_pointer(dims, {"aclCreateTensorDesc", "dims"});
    desc = make_handle<aclTensorDesc>(dataType, format, std::vector<int64_t>(dims, dims + numDims));
  });
  return desc;
}

void aclDestroyTensorDesc(const aclTensorDesc* desc) {
  if (desc == nullptr || live_or_null(desc, {"aclDestroyTensorDesc", "desc"}) == nullptr) return;
  if (unregister_handle(desc, HandleKind::tensor_desc)) delete desc;
}

aclDataType aclGetTensorDescType(const aclTensorDesc* desc) {
  const aclTensorDesc* live = live_or_null(desc, {"aclGetTensorDescType", "desc"});
  return live != nullptr ? live->type : ACL_DT_UNDEFINED;
}

aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc) {
  const aclTensorDesc* live = live_or_null(desc, {"aclGetTensorDescFormat", "desc"});
  return live != nullptr ? live->format : ACL_FORMAT_UNDEFINED;
}

size_t aclGetTensorDescSize(const aclTensorDesc* desc) {
  const Parameter parameter{"aclGetTensorDescSize", "desc"};
  const aclTensorDesc* live = live_or_null(desc, parameter);
  return live != nullptr ? times_sizes(aclDataTypeSize(live->type), *live, parameter) : 0;
}

size_t aclGetTensorDescElementCount(const aclTensorDesc* desc) {
  const Parameter parameter{"aclGetTensorDescElementCount", "desc"};
  const aclTensorDesc* live = live_or_null(desc, parameter);
  return live != nullptr ? times_sizes(1, *live, parameter) : 0;
}

size_t aclGetTensorDescNumDims(const aclTensorDesc* desc) {
  const aclTensorDesc* live = live_or_null(desc, {"aclGetTensorDescNumDims", "desc"});
  return live != nullptr ? live->dims.size() : 0;
}

aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dimSize) {
  return entry(__func__, [&] {
    require(is_live_handle(desc, HandleKind::tensor_desc), ACL_ERROR_INVALID_PARAM,
            {"aclGetTensorDescDimV2", "desc"}, "a live aclTensorDesc", static_cast<const void*>(desc));
    require_pointer(dimSize, {"aclGetTensorDescDimV2", "dimSize"});
    require(index < desc->dims.size(), ACL_ERROR_INVALID_PARAM, {"aclGetTensorDescDimV2", "index"},
            fmt::format("less than {}", desc->dims.size()), index);
    *dimSize = desc->dims[index];
  });
}

// Nothing can be set in an attribute set here, so that one serves all.
aclopAttr* aclopCreateAttr() {
  static aclopAttr empty;
  return &empty;
}

void aclopDestroyAttr(const aclopAttr*) {}

aclError aclopSetModelDir(const char*) {
  return refuse("aclopSetModelDir");
}

aclError aclopExecuteV2(const char*, int, aclTensorDesc*[], aclDataBuffer*[], int, aclTensorDesc*[],
                        aclDataBuffer*[], aclopAttr*, aclrtStream) {
  return refuse("aclopExecuteV2");
}

aclError aclopCompileAndExecute(const char*, int, const aclTensorDesc* const[], const aclDataBuffer* const[],
                                int, const aclTensorDesc* const[], aclDataBuffer* const[], const aclopAttr*,
                                aclopEngineType, aclopCompileType, const char*, aclrtStream) {
  return refuse("aclopCompileAndExecute");
}

aclError aclopCompileAndExecuteV2(const char*, int, aclTensorDesc*[], aclDataBuffer*[], int, aclTensorDesc*[],
                                  aclDataBuffer*[], aclopAttr*, aclopEngineType, aclopCompileType,
                                  const char*, aclrtStream) {
  return refuse("aclopCompileAndExecuteV2");
}
