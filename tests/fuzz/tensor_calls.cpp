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
  explicit Sizes(Program& program)
      : values(program.integers(program.rarely() ? 40 : program.draw<size_t>(0, 9))),
        pointer(program.rarely() ? nullptr : values.data()),
        count(program.rarely() ? kAbsurdSize : values.size()) {
    program.refused_if(count == kAbsurdSize || (pointer == nullptr && count > 0));
  }

  Shape values;
  const int64_t* pointer;
  uint64_t count;
};

struct Description {
  explicit Description(Program& program)
      : view(program),
        type(program),
        stride_values(program.integers(view.values.size())),
        strides(program.coin() ? nullptr : stride_values.data()),
        offset(program.integer()),
        format(program),
        storage(program),
        data(Address(program)) {}

  View as_view() const {
    return {view.values, strides != nullptr ? stride_values : contiguous_strides(view.values), offset,
            static_cast<int64_t>(aclDataTypeSize(type)), data};
  }

  Sizes view;
  DataTypeValue type;
  Shape stride_values;
  const int64_t* strides;
  int64_t offset;
  FormatValue format;
  Sizes storage;
  void* data;
};

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

template <auto kCreate, Kind kKind, class Value>
void create_array(Program& program) {
  std::array<Value, 8> values{};
  for (Value& value : values) value = static_cast<Value>(program.integer());
  const Value* pointer = program.rarely() ? nullptr : values.data();
  const uint64_t count = program.rarely() ? kAbsurdSize : program.draw<uint64_t>(0, values.size());
  program.refused_if(count == kAbsurdSize || (pointer == nullptr && count > 0));
  program.made(kKind, kCreate(pointer, count));
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
       const Description of(program);
       aclTensor* tensor = program.made(
           Kind::tensor, aclCreateTensor(of.view.pointer, of.view.count, of.type, of.strides, of.offset,
                                         of.format, of.storage.pointer, of.storage.count, of.data));
       if (tensor != nullptr) program.views[tensor] = of.as_view();
     }},
    {"aclInitTensor",
     [](Program& program) {
       const Tensor tensor(program);
       Description of(program);
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
