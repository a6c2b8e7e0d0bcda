// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// op::GetCurrentPlatformInfo: the name of the SoC as an enumerator, and its cores. Programs choose types, modes and sizes
/// by them. C++ only.
#ifndef ACLGRAD_ACLNN_OPDEV_PLATFORM_H
#define ACLGRAD_ACLNN_OPDEV_PLATFORM_H

#ifndef __cplusplus
#error "aclnn/opdev/platform.h is for C++; C programs have aclrtGetSocName and aclrtGetDeviceInfo."
#endif

#include <cstdint>
#include <cstring>
#include <string>

#include "acl/acl_rt.h"

namespace op {

enum class SocVersion {
  ASCEND910 = 0,
  ASCEND910B,
  ASCEND910_93,
  ASCEND910_95,
  ASCEND310,
  ASCEND310P,
  ASCEND310B,
  RESERVED_VERSION = 99999,  ///< none of these
};

/// That of a name such as aclrtGetSocName gives: Ascend910B1 is an ASCEND910B.
inline SocVersion SocVersionOf(const char* name) {
  struct Known {
    const char* begin;
    SocVersion version;
  };
  const Known known[] = {
      {"Ascend910B", SocVersion::ASCEND910B},     {"Ascend910_93", SocVersion::ASCEND910_93},
      {"Ascend910_95", SocVersion::ASCEND910_95}, {"Ascend910", SocVersion::ASCEND910},
      {"Ascend310P", SocVersion::ASCEND310P},     {"Ascend310B", SocVersion::ASCEND310B},
      {"Ascend310", SocVersion::ASCEND310},
  };
  for (const Known& one : known) {
    if (std::strncmp(name, one.begin, std::strlen(one.begin)) == 0) return one.version;
  }
  return SocVersion::RESERVED_VERSION;
}

/// The devices are alike, so that this needs no current one.
class PlatformInfo {
 public:
  const std::string& GetSocLongVersion() const { return name_; }
  SocVersion GetSocVersion() const { return SocVersionOf(name_.c_str()); }

  /// 0 where there is no device.
  uint32_t GetCubeCoreNum() const { return count(ACL_DEV_ATTR_CUBE_CORE_NUM); }
  uint32_t GetVectorCoreNum() const { return count(ACL_DEV_ATTR_VECTOR_CORE_NUM); }

 private:
  static uint32_t count(aclrtDevAttr attribute) {
    int64_t value = 0;
    return aclrtGetDeviceInfo(0, attribute, &value) == ACL_SUCCESS ? static_cast<uint32_t>(value) : 0;
  }

  std::string name_ = aclrtGetSocName();
};

inline const PlatformInfo& GetCurrentPlatformInfo() {
  static const PlatformInfo platform;
  return platform;
}

}  // namespace op

#endif
