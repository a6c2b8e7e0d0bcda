// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "aten/arguments.h"

#include <ATen/ops/from_blob.h>

#include <cstring>
#include <utility>

#include "aclgrad/types.h"
#include "aten/built_in.h"

namespace aclgrad::aten {
namespace {

// The types that PyTorch computes with, and int4: two in a byte, which phase 2 takes apart.
constexpr std::pair<aclDataType, at::ScalarType> kTypes[] = {{ACL_FLOAT, at::kFloat},
                                                             {ACL_FLOAT16, at::kHalf},
                                                             {ACL_BF16, at::kBFloat16},
                                                             {ACL_DOUBLE, at::kDouble},
                                                             {ACL_INT4, at::kChar},
                                                             {ACL_INT8, at::kChar},
                                                             {ACL_INT16, at::kShort},
                                                             {ACL_INT32, at::kInt},
                                                             {ACL_INT64, at::kLong},
                                                             {ACL_UINT8, at::kByte},
                                                             {ACL_UINT16, at::kUInt16},
                                                             {ACL_UINT32, at::kUInt32},
                                                             {ACL_UINT64, at::kUInt64},
                                                             {ACL_BOOL, at::kBool},
                                                             {ACL_COMPLEX32, at::kComplexHalf},
                                                             {ACL_COMPLEX64, at::kComplexFloat},
                                                             {ACL_COMPLEX128, at::kComplexDouble}};

at::Scalar number(const aclScalar& scalar, const char* parameter) {
  void* bytes = const_cast<std::byte*>(scalar.value);
  return at::from_blob(bytes, {}, known_type(scalar.type, parameter)).item();
}

class Key {
 public:
  Key(const Function& function, const companion::Value* arguments) {
    add(&function);
    for (size_t i = 0; i < function.count; ++i) add(function.parameters[i], arguments[i]);
  }

  std::string bytes;

 private:
  template <class T>
  void add(const T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }

  template <class T>
  void add(const T* values, size_t count) {
    add(count);
    bytes.append(reinterpret_cast<const char*>(values), count * sizeof(T));
  }

  void add(const aclTensor& tensor) {
    add(tensor.type);
    add(tensor.view_shape.data(), tensor.view_shape.size());
    add(tensor.strides.data(), tensor.strides.size());
  }

  void add(const aclScalar& scalar) {
    add(scalar.type);
    add(scalar.value);
  }

  void add(const Parameter& parameter, const companion::Value& value) {
    if (parameter.kind >= Kind::integer) return add(value.integer);  // a real number lies in the same bytes
    add(value.handle != nullptr);
    if (value.handle == nullptr) return;
    switch (parameter.kind) {
      case Kind::tensor:
        return add(object<aclTensor>(value));
      case Kind::scalar:
        return add(object<aclScalar>(value));
      case Kind::tensor_list:
        add(object<aclTensorList>(value).members.size());
        for (const aclTensor* member : object<aclTensorList>(value).members) add(*member);
        return;
      case Kind::scalar_list:
        add(object<aclScalarList>(value).members.size());
        for (const aclScalar* member : object<aclScalarList>(value).members) add(*member);
        return;
      case Kind::int_array:
        return add(object<aclIntArray>(value).values.data(), object<aclIntArray>(value).values.size());
      case Kind::float_array:
        return add(object<aclFloatArray>(value).values.data(), object<aclFloatArray>(value).values.size());
      case Kind::bool_array:
        return add(object<aclBoolArray>(value).values.get(), object<aclBoolArray>(value).size);
      default:
        return add(static_cast<const char*>(value.handle),
                   std::strlen(static_cast<const char*>(value.handle)));
    }
  }
};

}  // namespace

at::ScalarType known_type(int64_t type, const char* parameter, bool with_int4) {
  for (const auto& [known, scalar_type] : kTypes) {
    if (type == known && (type != ACL_INT4 || with_int4)) return scalar_type;
  }
  refuse(parameter, "a data type that PyTorch computes with", "aclDataType " + std::to_string(type));
}

IValue attribute(const Parameter& parameter, const companion::Value& value) {
  if (parameter.kind < Kind::integer && value.handle == nullptr) return {};
  switch (parameter.kind) {
    case Kind::integer:
      return value.integer;
    case Kind::real:
      return value.real;
    case Kind::data_type:
      return static_cast<int64_t>(known_type(value.integer, parameter.name));
    case Kind::scalar:
      return number(object<aclScalar>(value), parameter.name);
    case Kind::int_array:
      return object<aclIntArray>(value).values;
    case Kind::float_array: {
      const auto& values = object<aclFloatArray>(value).values;
      return std::vector<double>(values.begin(), values.end());
    }
    case Kind::bool_array: {
      const auto& array = object<aclBoolArray>(value);
      c10::List<bool> list;
      for (size_t i = 0; i < array.size; ++i) list.push_back(array.values[i]);
      return list;
    }
    case Kind::scalar_list: {
      c10::List<at::Scalar> list;
      for (const aclScalar* member : object<aclScalarList>(value).members)
        list.push_back(number(*member, parameter.name));
      return list;
    }
    case Kind::text:
      return std::string(static_cast<const char*>(value.handle));
    default:
      return {};
  }
}

bool TensorSpec::is_contiguous() const {
  if (bytes == 0) return true;
  int64_t stride = 1;
  for (size_t axis = sizes.size(); axis-- > 0; stride *= sizes[axis]) {
    if (sizes[axis] != 1 && strides[axis] != stride) return false;
  }
  return true;
}

TensorSpec spec_of(const Parameter& parameter, const aclTensor& tensor) {
  TensorSpec spec{parameter.name, parameter.role, known_type(tensor.type, parameter.name, true),
                  tensor.view_shape, tensor.strides};
  spec.is_int4 = tensor.type == ACL_INT4;
  for (int64_t& stride : spec.strides) stride = std::max<int64_t>(stride, 0);  // those below it lead nowhere
  int64_t last = 0;
  for (size_t i = 0; i < spec.sizes.size(); ++i) {
    if (spec.sizes[i] == 0) return spec;
    last += (spec.sizes[i] - 1) * spec.strides[i];
  }
  spec.bytes = static_cast<size_t>(last + 1) * c10::elementSize(spec.type);
  if (spec.is_int4 && parameter.role != Role::input && !spec.is_contiguous())
    refuse(parameter.name, "a contiguous tensor of int4", "one of other strides");
  return spec;
}

std::string key_of(const Function& function, const companion::Value* arguments) {
  return Key(function, arguments).bytes;
}

}  // namespace aclgrad::aten
