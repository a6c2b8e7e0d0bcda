// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The functions of acl_meta.h for scalars, arrays and lists.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "acl/acl_base.h"
#include "tensor/handle.h"

namespace aclgrad {
namespace {

// Bytes that a caller's value of the type surely has.
size_t scalar_bytes(aclDataType type) {
  // aclDataTypeSize answers 8 for these, but they fit in a byte.
  const bool is_small_float = type >= ACL_FLOAT6_E3M2 && type <= ACL_FLOAT4_E1M2;
  return is_small_float ? 1 : std::min(aclDataTypeSize(type), sizeof(aclScalar::value));
}

// An array's or a list's number of entries, which `count` tells.
template <class Handle, class Count>
aclnnStatus get_size(std::string_view function, const Handle* handle, uint64_t* size, Count&& count) {
  return guarded(ACLNN_ERR_INNER, [&] {
    check_handle(function, handle);
    check_not_null(function, "size", size);
    *size = count(*handle);
  });
}

// A list destroys its members unless a later list took them over.
template <class List, class Member>
List* create_list(std::string_view function, const Member* const* value, uint64_t size) {
  return create_handle<List>([&](List& list) {
    list.members = copy_array(function, "value", value, size);
    for (const Member* member : list.members) {
      if (member != nullptr) check_handle(function, member);
    }
    for (const Member* member : list.members) {
      if (member != nullptr) member->owner = &list;
    }
  });
}

template <class List>
aclnnStatus destroy_list(std::string_view function, const List* list) {
  if (list == nullptr) return OK;
  return guarded(ACLNN_ERR_INNER, [&] {
    const auto taken = take_handle(function, list);
    for (const auto* member : taken->members) {
      // The program may have destroyed a member itself, and made another handle at the same address since.
      const bool owned =
          is_live_handle(member, std::remove_pointer_t<decltype(member)>::kKind) && member->owner == list;
      if (owned) destroy_handle(function, member);
    }
  });
}

}  // namespace
}  // namespace aclgrad

using namespace aclgrad;

aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
  return create_handle<aclScalar>([&](aclScalar& scalar) {
    check_not_null("aclCreateScalar", "value", value);
    scalar.type = dataType;
    std::memcpy(scalar.value, value, scalar_bytes(dataType));
  });
}

aclnnStatus aclDestroyScalar(const aclScalar* scalar) {
  return destroy_handle("aclDestroyScalar", scalar);
}

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  return create_handle<aclIntArray>(
      [&](aclIntArray& array) { array.values = copy_array("aclCreateIntArray", "value", value, size); });
}

aclnnStatus aclDestroyIntArray(const aclIntArray* array) {
  return destroy_handle("aclDestroyIntArray", array);
}

aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
  return get_size("aclGetIntArraySize", array, size, [](const aclIntArray& of) { return of.values.size(); });
}

aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
  return create_handle<aclFloatArray>(
      [&](aclFloatArray& array) { array.values = copy_array("aclCreateFloatArray", "value", value, size); });
}

aclnnStatus aclDestroyFloatArray(const aclFloatArray* array) {
  return destroy_handle("aclDestroyFloatArray", array);
}

aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size) {
  return get_size("aclGetFloatArraySize", array, size,
                  [](const aclFloatArray& of) { return of.values.size(); });
}

aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  return create_handle<aclBoolArray>([&](aclBoolArray& array) {
    const std::vector<bool> values = copy_array("aclCreateBoolArray", "value", value, size);
    array.values = std::make_unique<bool[]>(values.size());
    array.size = values.size();
    std::copy(values.begin(), values.end(), array.values.get());
  });
}

aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) {
  return destroy_handle("aclDestroyBoolArray", array);
}

aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
  return get_size("aclGetBoolArraySize", array, size, [](const aclBoolArray& of) { return of.size; });
}

aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
  return create_list<aclTensorList>("aclCreateTensorList", value, size);
}

aclnnStatus aclDestroyTensorList(const aclTensorList* array) {
  return destroy_list("aclDestroyTensorList", array);
}

aclnnStatus aclGetTensorListSize(const aclTensorList* tensorList, uint64_t* size) {
  return get_size("aclGetTensorListSize", tensorList, size,
                  [](const aclTensorList& of) { return of.members.size(); });
}

aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size) {
  return create_list<aclScalarList>("aclCreateScalarList", value, size);
}

aclnnStatus aclDestroyScalarList(const aclScalarList* array) {
  return destroy_list("aclDestroyScalarList", array);
}

aclnnStatus aclGetScalarListSize(const aclScalarList* scalarList, uint64_t* size) {
  return get_size("aclGetScalarListSize", scalarList, size,
                  [](const aclScalarList& of) { return of.members.size(); });
}
