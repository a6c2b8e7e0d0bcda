// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Calls that make, read and destroy tensors, scalars, arrays and lists.
#include <algorithm>
#include <array>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "calls.h"

namespace aclgrad::fuzz {
namespace {

// ---- Tensors ----

}  // namespace

Shape contiguous_strides(const Shape& shape) {
  Shape strides(shape.size());
  __int128 stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = static_cast<int64_t>(stride);
    stride = std::clamp<__int128>(stride * shape[axis], -Reach::kFar, Reach::kFar);
  }
  return strides;
}

namespace {

// An array and the number of its entries, which the call must refuse if there is no such array.
struct Sizes {
  Shape values;
  const int64_t* pointer = nullptr;
  uint64_t count = 0;
};

Sizes sizes(Program& program) {
  Sizes sizes;
  sizes.values = program.integers(program.rarely() ? 40 : program.draw<size_t>(0, 9));
  sizes.pointer = program.rarely() ? nullptr : sizes.values.data();
  sizes.count = program.rarely() ? kAbsurdSize : sizes.values.size();
  program.refused_if(sizes.count == kAbsurdSize || (sizes.pointer == nullptr && sizes.count > 0));
  return sizes;
}

struct Description {
  Sizes view;
  aclDataType type;
  Shape stride_values;
  const int64_t* strides = nullptr;
  int64_t offset = 0;
  aclFormat format;
  Sizes storage;
  void* data = nullptr;

  View as_view() const {
    View view_of;
    view_of.shape = view.values;
    view_of.strides = strides != nullptr ? stride_values : contiguous_strides(view.values);
    view_of.offset = offset;
    view_of.item_bytes = static_cast<int64_t>(aclDataTypeSize(type));
    view_of.data = data;
    return view_of;
  }
};

Description describe(Program& program) {
  Description tensor;
  tensor.view = sizes(program);
  tensor.type = program.value_of(ACL_FLOAT4_E1M2);
  tensor.stride_values = program.integers(tensor.view.values.size());
  tensor.strides = program.coin() ? nullptr : tensor.stride_values.data();
  tensor.offset = program.integer();
  tensor.format = program.value_of(ACL_FORMAT_FRACTAL_NZ_C0_8);
  tensor.storage = sizes(program);
  tensor.data = program.address(program.draw<size_t>(0, 512));
  return tensor;
}

template <auto kGet>
void get_sizes(Program& program) {
  auto* tensor = program.handle<aclTensor>(Kind::tensor);
  int64_t* values = nullptr;
  uint64_t count = 0;
  int64_t** values_at = program.out(values);
  if (!program.succeeded(kGet(tensor, values_at, program.out(count)))) return;
  for (uint64_t i = 0; i < count; ++i) require(values[i] == values[i], "every entry can be read");
  delete[] values;
}

template <auto kGet, class Value>
void get_value(Program& program) {
  auto* tensor = program.handle<aclTensor>(Kind::tensor);
  Value value;
  program.succeeded(kGet(tensor, program.out(value)));
}

const Call kTensors[] = {
    {"aclCreateTensor",
     [](Program& program) {
       const Description of = describe(program);
       aclTensor* tensor = program.made(
           Kind::tensor, aclCreateTensor(of.view.pointer, of.view.count, of.type, of.strides, of.offset,
                                         of.format, of.storage.pointer, of.storage.count, of.data));
       if (tensor != nullptr) program.views[tensor] = of.as_view();
     }},
    {"aclInitTensor",
     [](Program& program) {
       auto* tensor = program.handle<aclTensor>(Kind::tensor);
       Description of = describe(program);
       const Status status =
           aclInitTensor(tensor, of.view.pointer, of.view.count, of.type, of.strides, of.offset, of.format,
                         of.storage.pointer, of.storage.count, of.data);
       if (!program.succeeded(status)) return;
       if (of.data == nullptr) of.data = program.views[tensor].data;
       program.views[tensor] = of.as_view();
     }},
    {"aclDestroyTensor",
     [](Program& program) {
       auto* tensor = program.handle<aclTensor>(Kind::tensor, Null::allowed);
       if (program.succeeded(aclDestroyTensor(tensor))) program.remove(Kind::tensor, tensor);
     }},
    {"aclGetViewShape", get_sizes<aclGetViewShape>},
    {"aclGetViewStrides", get_sizes<aclGetViewStrides>},
    {"aclGetStorageShape", get_sizes<aclGetStorageShape>},
    {"aclGetViewOffset", get_value<aclGetViewOffset, int64_t>},
    {"aclGetFormat", get_value<aclGetFormat, aclFormat>},
    {"aclGetDataType", get_value<aclGetDataType, aclDataType>},
    {"aclSetRawTensorAddr",
     [](Program& program) {
       auto* tensor = program.handle<aclTensor>(Kind::tensor);
       void* data = program.address(program.draw<size_t>(0, 512));
       if (program.succeeded(aclSetRawTensorAddr(tensor, data))) program.views[tensor].data = data;
     }},
    {"aclGetRawTensorAddr",
     [](Program& program) {
       auto* tensor = program.handle<aclTensor>(Kind::tensor);
       void* data = nullptr;
       if (!program.succeeded(aclGetRawTensorAddr(tensor, program.out(data)))) return;
       require(data == program.views[tensor].data, "the address is the one that was set");
     }},
    {"aclDumpOpTensors",
     [](Program& program) {
       program.refused_if(true);
       aclTensor* tensors[] = {program.handle<aclTensor>(Kind::tensor)};
       program.succeeded(aclDumpOpTensors("type", nullptr, tensors, 1, 0, stream_or_default(program)));
     }},
};

// ---- Scalars, arrays and lists ----

template <class Value>
struct Values {
  std::array<Value, 8> values{};
  const Value* pointer = nullptr;
  uint64_t count = 0;
};

template <class Value>
Values<Value> values(Program& program) {
  Values<Value> drawn;
  for (Value& value : drawn.values) value = static_cast<Value>(program.integer());
  drawn.pointer = program.rarely() ? nullptr : drawn.values.data();
  drawn.count = program.rarely() ? kAbsurdSize : program.draw<uint64_t>(0, drawn.values.size());
  program.refused_if(drawn.count == kAbsurdSize || (drawn.pointer == nullptr && drawn.count > 0));
  return drawn;
}

template <auto kCreate, class Value>
void create_array(Program& program, Kind kind) {
  const Values<Value> drawn = values<Value>(program);
  program.made(kind, kCreate(drawn.pointer, drawn.count));
}

template <auto kDestroy, class Handle>
void destroy(Program& program, Kind kind) {
  auto* handle = program.handle<Handle>(kind, Null::allowed);
  if (program.succeeded(kDestroy(handle))) program.remove(kind, handle);
}

template <auto kGetSize, class Handle>
void get_size(Program& program, Kind kind) {
  auto* handle = program.handle<Handle>(kind);
  uint64_t size = 0;
  program.succeeded(kGetSize(handle, program.out(size)));
}

template <auto kCreate, class Member>
void create_list(Program& program, Kind kind, Kind of) {
  std::vector<void*> members(program.draw<size_t>(0, 4));
  for (void*& member : members) member = program.handle(of, Null::allowed);
  const std::vector<const Member*> pointers = [&] {
    std::vector<const Member*> typed;
    for (void* member : members) typed.push_back(static_cast<Member*>(member));
    return typed;
  }();
  const bool none = program.rarely();
  program.refused_if(none && !members.empty());
  void* list = program.made(kind, kCreate(none ? nullptr : pointers.data(), members.size()));
  if (list == nullptr) return;
  for (void* member : members) {
    if (member != nullptr) program.owners[member] = list;
  }
  program.members[list] = members;
}

template <auto kDestroy, class List>
void destroy_list(Program& program, Kind kind, Kind of) {
  auto* list = program.handle<List>(kind, Null::allowed);
  if (program.succeeded(kDestroy(list)) && list != nullptr) program.list_gone(kind, of, list);
}

const Call kArrays[] = {
    {"aclCreateScalar",
     [](Program& program) {
       int64_t value[2] = {program.integer(), program.integer()};
       const aclDataType type = program.value_of(ACL_FLOAT4_E1M2);
       void* at = program.refused_if(program.rarely()) ? nullptr : value;
       program.made(Kind::scalar, aclCreateScalar(at, type));
     }},
    {"aclDestroyScalar",
     [](Program& program) { destroy<aclDestroyScalar, aclScalar>(program, Kind::scalar); }},
    {"aclCreateIntArray",
     [](Program& program) { create_array<aclCreateIntArray, int64_t>(program, Kind::int_array); }},
    {"aclDestroyIntArray",
     [](Program& program) { destroy<aclDestroyIntArray, aclIntArray>(program, Kind::int_array); }},
    {"aclGetIntArraySize",
     [](Program& program) { get_size<aclGetIntArraySize, aclIntArray>(program, Kind::int_array); }},
    {"aclCreateFloatArray",
     [](Program& program) { create_array<aclCreateFloatArray, float>(program, Kind::float_array); }},
    {"aclDestroyFloatArray",
     [](Program& program) { destroy<aclDestroyFloatArray, aclFloatArray>(program, Kind::float_array); }},
    {"aclGetFloatArraySize",
     [](Program& program) { get_size<aclGetFloatArraySize, aclFloatArray>(program, Kind::float_array); }},
    {"aclCreateBoolArray",
     [](Program& program) { create_array<aclCreateBoolArray, bool>(program, Kind::bool_array); }},
    {"aclDestroyBoolArray",
     [](Program& program) { destroy<aclDestroyBoolArray, aclBoolArray>(program, Kind::bool_array); }},
    {"aclGetBoolArraySize",
     [](Program& program) { get_size<aclGetBoolArraySize, aclBoolArray>(program, Kind::bool_array); }},
    {"aclCreateTensorList",
     [](Program& program) {
       create_list<aclCreateTensorList, aclTensor>(program, Kind::tensor_list, Kind::tensor);
     }},
    {"aclDestroyTensorList",
     [](Program& program) {
       destroy_list<aclDestroyTensorList, aclTensorList>(program, Kind::tensor_list, Kind::tensor);
     }},
    {"aclGetTensorListSize",
     [](Program& program) { get_size<aclGetTensorListSize, aclTensorList>(program, Kind::tensor_list); }},
    {"aclCreateScalarList",
     [](Program& program) {
       create_list<aclCreateScalarList, aclScalar>(program, Kind::scalar_list, Kind::scalar);
     }},
    {"aclDestroyScalarList",
     [](Program& program) {
       destroy_list<aclDestroyScalarList, aclScalarList>(program, Kind::scalar_list, Kind::scalar);
     }},
    {"aclGetScalarListSize",
     [](Program& program) { get_size<aclGetScalarListSize, aclScalarList>(program, Kind::scalar_list); }},
};

}  // namespace

Calls tensor_calls() {
  return kTensors;
}
Calls array_calls() {
  return kArrays;
}

}  // namespace aclgrad::fuzz
