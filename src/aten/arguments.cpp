// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "aten/arguments.h"

#include <cstring>
#include <optional>

#include "aclgrad/types.h"
#include "aten/built_in.h"

namespace aclgrad::aten {
namespace {

std::optional<at::ScalarType> scalar_type(int64_t type) {
  switch (type) {
    case ACL_FLOAT:
      return at::kFloat;
    case ACL_FLOAT16:
      return at::kHalf;
    case ACL_BF16:
      return at::kBFloat16;
    case ACL_DOUBLE:
      return at::kDouble;
    case ACL_INT4:  // two in a byte, which phase 2 takes apart
    case ACL_INT8:
      return at::kChar;
    case ACL_INT16:
      return at::kShort;
    case ACL_INT32:
      return at::kInt;
    case ACL_INT64:
      return at::kLong;
    case ACL_UINT8:
      return at::kByte;
    case ACL_UINT16:
      return at::kUInt16;
    case ACL_UINT32:
      return at::kUInt32;
    case ACL_UINT64:
      return at::kUInt64;
    case ACL_BOOL:
      return at::kBool;
    case ACL_COMPLEX32:
      return at::kComplexHalf;
    case ACL_COMPLEX64:
      return at::kComplexFloat;
    case ACL_COMPLEX128:
      return at::kComplexDouble;
    default:
      return std::nullopt;
  }
}

template <class T>
T read(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

IValue number(const aclScalar& scalar, const char* parameter) {
  const std::byte* bytes = scalar.value;
  switch (scalar.type) {
    case ACL_FLOAT:
      return static_cast<double>(read<float>(bytes));
    case ACL_FLOAT16:
      return static_cast<double>(read<at::Half>(bytes));
    case ACL_BF16:
      return static_cast<double>(read<at::BFloat16>(bytes));
    case ACL_DOUBLE:
      return read<double>(bytes);
    case ACL_INT8:
      return int64_t{read<int8_t>(bytes)};
    case ACL_INT16:
      return int64_t{read<int16_t>(bytes)};
    case ACL_INT32:
      return int64_t{read<int32_t>(bytes)};
    case ACL_INT64:
      return read<int64_t>(bytes);
    case ACL_UINT8:
      return int64_t{read<uint8_t>(bytes)};
    case ACL_UINT16:
      return int64_t{read<uint16_t>(bytes)};
    case ACL_UINT32:
      return int64_t{read<uint32_t>(bytes)};
    case ACL_BOOL:
      return read<uint8_t>(bytes) != 0;
    case ACL_COMPLEX64:
      return c10::complex<double>(read<c10::complex<float>>(bytes));
    case ACL_COMPLEX128:
      return read<c10::complex<double>>(bytes);
    default:
      refuse(parameter, "a scalar of a type that PyTorch computes with",
             "aclDataType " + std::to_string(scalar.type));
  }
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
  const auto known = scalar_type(type);
  if (!known || (type == ACL_INT4 && !with_int4))
    refuse(parameter, "a data type that PyTorch computes with", "aclDataType " + std::to_string(type));
  return *known;
}

IValue attribute(const Parameter& parameter, const companion::Value& value) {
  switch (parameter.kind) {
    case Kind::integer:
      return value.integer;
    case Kind::real:
      return value.real;
    case Kind::data_type:
      return static_cast<int64_t>(known_type(value.integer, parameter.name));
    default:
      break;
  }
  if (value.handle == nullptr) return {};
  switch (parameter.kind) {
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
        list.push_back(number(*member, parameter.name).toScalar());
      return list;
    }
    case Kind::text:
      return std::string(static_cast<const char*>(value.handle));
    default:
      return {};
  }
}

TensorSpec spec_of(const Parameter& parameter, const aclTensor& tensor) {
  const bool is_input = parameter.role == Role::input;
  TensorSpec spec{parameter.name, parameter.role, known_type(tensor.type, parameter.name, is_input),
                  tensor.view_shape, tensor.strides};
  spec.is_int4 = tensor.type == ACL_INT4;
  if (spec.is_int4 && tensor.offset % 2 != 0)
    refuse(parameter.name, "an even offset of int4 elements", std::to_string(tensor.offset));
  int64_t last = 0;
  for (size_t i = 0; i < spec.sizes.size(); ++i) {
    if (spec.sizes[i] == 0) return spec;
    last += (spec.sizes[i] - 1) * spec.strides[i];
  }
  spec.bytes = static_cast<size_t>(last + 1) * c10::elementSize(spec.type);
  return spec;
}

std::string key_of(const Function& function, const companion::Value* arguments) {
  return Key(function, arguments).bytes;
}

std::vector<size_t> list_lengths(const Function& function, const companion::Value* arguments) {
  std::vector<size_t> lengths;
  for (size_t i = 0; i < function.count; ++i) {
    if (function.parameters[i].kind == Kind::tensor_list && arguments[i].handle != nullptr)
      lengths.push_back(object<aclTensorList>(arguments[i]).members.size());
  }
  return lengths;
}

}  // namespace aclgrad::aten
