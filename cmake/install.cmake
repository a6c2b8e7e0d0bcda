# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
# What `cmake --install` lays out: the library and its headers in <arch>-linux/, and around them the files and links
# that build files written for CANN look for.
include(CMakePackageConfigHelpers)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(arch aarch64)
else()
  set(arch x86_64)
endif()
set(include_dir ${arch}-linux/include)
set(library_dir ${arch}-linux/lib64)

# Names that programs link the library by, beside its own. All lead to the same file, so that there is one copy of the
# state, whichever of them a program uses together. libc_sec and the companion library, which have none, are of their own.
set(vendor_libraries ascendcl acl_rt nnopbase opapi opapi_nn opapi_math opapi_cv opapi_transformer cust_opapi
  acl_op_compiler hccl hccl_fwk)

# The links come first, because a prefix that other software uses is found out there.
install(CODE "set(arch ${arch})\nset(vendor_libraries ${vendor_libraries})\nset(has_aten ${has_aten})")
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/prefix_links.cmake)

install(TARGETS aclgrad c_sec LIBRARY DESTINATION ${library_dir})
install(DIRECTORY include/ ${PROJECT_BINARY_DIR}/include/ DESTINATION ${include_dir})
if(has_aten)
  install(TARGETS aclgrad_aten aclgrad_aten_interpreter LIBRARY DESTINATION ${library_dir})
  install(DIRECTORY ${aclgrad_aten_headers}/aclnnop DESTINATION ${include_dir})
endif()

# What `cmake --install` needs, for builds of nothing else.
add_custom_target(aclgrad_installed DEPENDS aclgrad c_sec)
if(has_aten)
  add_dependencies(aclgrad_installed aclgrad_aten aclgrad_aten_interpreter)
endif()

install(FILES LICENSE THIRD_PARTY.md DESTINATION licenses)
aclgrad_install_licences(licenses)
if(ACLGRAD_BUNDLE)
  set_target_properties(aclgrad PROPERTIES INSTALL_RPATH $ORIGIN)
  aclgrad_install_libraries(${library_dir})
endif()

install(FILES cmake/set_env.sh DESTINATION .)
install(FILES cmake/config.ini DESTINATION opp/vendors)

configure_file(cmake/aclgradConfig.cmake.in aclgradConfig.cmake @ONLY)
set(compatibility SameMajorVersion)
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(compatibility SameMinorVersion)
endif()
write_basic_package_version_file(aclgradConfigVersion.cmake COMPATIBILITY ${compatibility})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/aclgradConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/aclgradConfigVersion.cmake
  DESTINATION ${library_dir}/cmake/aclgrad)
configure_file(cmake/aclgrad.pc.in aclgrad.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/aclgrad.pc DESTINATION ${library_dir}/pkgconfig)
