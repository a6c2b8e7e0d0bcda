// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Versions, errors, data types and float16 at the C interface.
#include "acl/acl_base.h"
#include "acl/acl_rt.h"
#include "base/data_type.h"
#include "base/environment.h"
#include "base/observer.h"
#include "runtime/entry.h"

using namespace aclgrad;

namespace {

Status refuse_level(const char* function, aclrtLastErrLevel level) {
  return guarded(ACL_ERROR_BAD_ALLOC, [&] {
    throw bad_parameter(ACL_ERROR_INVALID_PARAM, {function, "level"}, "ACL_RT_THREAD_LEVEL",
                        static_cast<int>(level));
  });
}

}  // namespace

aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion) {
  return entry(__func__, [&] {
    require_pointer(majorVersion, {"aclrtGetVersion", "majorVersion"});
    require_pointer(minorVersion, {"aclrtGetVersion", "minorVersion"});
    require_pointer(patchVersion, {"aclrtGetVersion", "patchVersion"});
    *majorVersion = ACL_MAJOR_VERSION;
    *minorVersion = ACL_MINOR_VERSION;
    *patchVersion = ACL_PATCH_VERSION;
  });
}

const char* aclGetRecentErrMsg() {
  if (observer != nullptr) observer->errors_read();
  return take_recent_error_message();
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
  if (level != ACL_RT_THREAD_LEVEL) return refuse_level(__func__, level);
  if (observer != nullptr) observer->errors_read();
  return last_error;
}

aclError aclrtGetLastError(aclrtLastErrLevel level) {
  if (level != ACL_RT_THREAD_LEVEL) return refuse_level(__func__, level);
  if (observer != nullptr) observer->errors_read();
  return std::exchange(last_error, ACL_SUCCESS);
}

const char* aclrtGetSocName() {
  return Environment::get().soc_name.c_str();
}

size_t aclDataTypeSize(aclDataType dataType) {
  switch (dataType) {
    case ACL_DT_UNDEFINED:
    case ACL_STRING:
      return 0;
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
    case ACL_INT4:
    case ACL_UINT1:
    case ACL_HIFLOAT8:
    case ACL_FLOAT8_E5M2:
    case ACL_FLOAT8_E4M3FN:
    case ACL_FLOAT8_E8M0:
      return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16:
      return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_COMPLEX32:
      return 4;
    case ACL_COMPLEX128:
      return 16;
    default:  // the 64-bit types; the types below a byte and unknown ones count the same here
      return 8;
  }
}

float aclFloat16ToFloat(aclFloat16 value) {
  return to_float(Half{value});
}

aclFloat16 aclFloatToFloat16(float value) {
  return from_float<Half>(value).bits;
}
