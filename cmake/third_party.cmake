# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
# What others wrote and ours holds. THIRD_PARTY.md lists it.

# The licences, from where Debian keeps them. Further arguments are those of install().
function(aclgrad_install_licences destination)
  foreach(package libtbb12 libhwy1 libfmt9 nlohmann-json3-dev)
    install(FILES /usr/share/doc/${package}/copyright DESTINATION ${destination} RENAME ${package}.txt OPTIONAL ${ARGN})
  endforeach()
endfunction()

# The libraries that ours is linked with. Beside it, they are found by its RPATH, which must be $ORIGIN.
function(aclgrad_install_libraries destination)
  foreach(library TBB::tbb hwy::hwy fmt::fmt)
    install(FILES $<TARGET_FILE:${library}> DESTINATION ${destination} RENAME $<TARGET_SONAME_FILE_NAME:${library}> ${ARGN})
  endforeach()
endfunction()
