// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Calls that make, read and destroy tensors, scalars, arrays and lists.
#include <algorithm>
#include <array>

#include "arguments.h"

namespace aclgrad::fuzz {

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

struct Address : Drawn<void*> {
  explicit Address(Program& program) : Drawn{program.address(program.draw<size_t>(0, 512))} {}
};

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
  tensor.type = DataTypeValue(program);
  tensor.stride_values = program.integers(tensor.view.values.size());
  tensor.strides = program.coin() ? nullptr : tensor.stride_values.data();
  tensor.offset = program.integer();
  tensor.format = FormatValue(program);
  tensor.storage = sizes(program);
  tensor.data = Address(program);
  return tensor;
}

template <auto kGet>
void get_sizes(Program& program) {
  const Tensor tensor(program);
  int64_t* values = nullptr;
  uint64_t count = 0;
  int64_t** values_at = program.out(values);
  if (!program.succeeded(kGet(tensor, values_at, program.out(count)))) return;
  require(Shape(values, values + count).size() == count, "every entry can be read");
  delete[] values;
}

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

template <auto kCreate, Kind kKind, class Value>
void create_array(Program& program) {
  const Values<Value> drawn = values<Value>(program);
  program.made(kKind, kCreate(drawn.pointer, drawn.count));
}

template <auto kCreate, Kind kKind, Kind kMember>
void create_list(Program& program) {
  using Member = typename HandleOf<kMember>::Type;
  std::vector<void*> members(program.draw<size_t>(0, 4));
  std::vector<const Member*> pointers;
  for (void*& member : members) {
    member = program.handle(kMember, Null::allowed);
    pointers.push_back(static_cast<Member*>(member));
  }
  const bool none = program.rarely();
  program.refused_if(none && !members.empty());
  void* list = program.made(kKind, kCreate(none ? nullptr : pointers.data(), members.size()));
  if (list == nullptr) return;
  for (void* member : members) {
    if (member != nullptr) program.owners[member] = list;
  }
  program.members[list] = members;
}

// ---- The calls ----

const Call kCalls[] = {
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
       const Tensor tensor(program);
       Description of = describe(program);
       const Status status =
           aclInitTensor(tensor, of.view.pointer, of.view.count, of.type, of.strides, of.offset, of.format,
                         of.storage.pointer, of.storage.count, of.data);
       if (!program.succeeded(status)) return;
       if (of.data == nullptr) of.data = program.views[tensor].data;
       program.views[tensor] = of.as_view();
     }},
    CALL(aclDestroyTensor, Ended<Kind::tensor, Null::allowed>),
    {"aclGetViewShape", get_sizes<aclGetViewShape>},
    {"aclGetViewStrides", get_sizes<aclGetViewStrides>},
    {"aclGetStorageShape", get_sizes<aclGetStorageShape>},
    CALL(aclGetViewOffset, Tensor, Out<int64_t>),
    CALL(aclGetFormat, Tensor, Out<aclFormat>),
    CALL(aclGetDataType, Tensor, Out<aclDataType>),
    {"aclSetRawTensorAddr",
     [](Program& program) {
       const Tensor tensor(program);
       const Address data(program);
       if (program.succeeded(aclSetRawTensorAddr(tensor, data))) program.views[tensor].data = data;
     }},
    {"aclGetRawTensorAddr",
     [](Program& program) {
       const Tensor tensor(program);
       void* data = nullptr;
       if (!program.succeeded(aclGetRawTensorAddr(tensor, program.out(data)))) return;
       require(data == program.views[tensor].data, "the address is the one that was set");
     }},
    REFUSED(aclDumpOpTensors),

    {"aclCreateScalar",
     [](Program& program) {
       int64_t value[2] = {program.integer(), program.integer()};
       const DataTypeValue type(program);
       void* at = program.refused_if(program.rarely()) ? nullptr : value;
       program.made(Kind::scalar, aclCreateScalar(at, type));
     }},
    CALL(aclDestroyScalar, Ended<Kind::scalar, Null::allowed>),
    {"aclCreateIntArray", create_array<aclCreateIntArray, Kind::int_array, int64_t>},
    CALL(aclDestroyIntArray, Ended<Kind::int_array, Null::allowed>),
    CALL(aclGetIntArraySize, Handle<Kind::int_array>, Out<uint64_t>),
    {"aclCreateFloatArray", create_array<aclCreateFloatArray, Kind::float_array, float>},
    CALL(aclDestroyFloatArray, Ended<Kind::float_array, Null::allowed>),
    CALL(aclGetFloatArraySize, Handle<Kind::float_array>, Out<uint64_t>),
    {"aclCreateBoolArray", create_array<aclCreateBoolArray, Kind::bool_array, bool>},
    CALL(aclDestroyBoolArray, Ended<Kind::bool_array, Null::allowed>),
    CALL(aclGetBoolArraySize, Handle<Kind::bool_array>, Out<uint64_t>),
    {"aclCreateTensorList", create_list<aclCreateTensorList, Kind::tensor_list, Kind::tensor>},
    CALL(aclDestroyTensorList, Ended<Kind::tensor_list, Null::allowed>),
    CALL(aclGetTensorListSize, Handle<Kind::tensor_list>, Out<uint64_t>),
    {"aclCreateScalarList", create_list<aclCreateScalarList, Kind::scalar_list, Kind::scalar>},
    CALL(aclDestroyScalarList, Ended<Kind::scalar_list, Null::allowed>),
    CALL(aclGetScalarListSize, Handle<Kind::scalar_list>, Out<uint64_t>),
};

}  // namespace

Calls tensor_calls() {
  return kCalls;
}

}  // namespace aclgrad::fuzz
