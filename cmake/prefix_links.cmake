# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
# Makes the links of the prefix. Runs at install time, with `arch`, `vendor_libraries` and `has_aten` set. All links are relative:
# the prefix may be moved.
set(prefix "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")

# `target` is as seen from the folder of `name`.
function(make_link name target)
  set(path "${prefix}/${name}")
  if(IS_DIRECTORY "${path}" AND NOT IS_SYMLINK "${path}")
    message(FATAL_ERROR "${path} must become a link, but is a directory of other software. "
      "aclgrad needs a prefix of its own, such as /opt/aclgrad.")
  endif()
  cmake_path(GET path PARENT_PATH folder)
  file(MAKE_DIRECTORY "${folder}")
  file(CREATE_LINK "${target}" "${path}" SYMBOLIC)
endfunction()

make_link(include ${arch}-linux/include)
make_link(lib64 ${arch}-linux/lib64)
make_link(lib lib64)  # where CMake and pkg-config look on Debian
make_link(${arch}-linux/devlib lib64)
if(arch STREQUAL "aarch64")
  make_link(arm64-linux aarch64-linux)
endif()

make_link(bin/setenv.bash ../set_env.sh)
make_link(${arch}-linux/include/opdev aclnn/opdev)  # a second path of the same headers

foreach(component runtime atc)
  make_link(${component}/include ../include)
  make_link(${component}/lib64 ../lib64)
endforeach()
make_link(acllib runtime)
make_link(ops opp)

make_link(opp/lib64 ../lib64)
make_link(opp/include/aclnnop ../../include/aclnnop)
foreach(vendor customize custom_nn custom_cv custom_transformer custom_math)
  make_link(opp/vendors/${vendor}/op_api/include ../../../../include/aclnnop)
  make_link(opp/vendors/${vendor}/op_api/lib ../../../../lib64)
endforeach()

make_link(${arch}-linux/lib64/stub .)
foreach(library ${vendor_libraries})
  # The names of operators' libraries lead to the companion library, where it is built: it brings the other one along.
  if(has_aten AND library MATCHES "opapi")
    make_link(${arch}-linux/lib64/lib${library}.so libaclgrad_aten.so)
  else()
    make_link(${arch}-linux/lib64/lib${library}.so libaclgrad.so)
  endif()
endforeach()
