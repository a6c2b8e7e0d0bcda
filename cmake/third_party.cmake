# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
# What is built from other projects. THIRD_PARTY.md lists it.

# The licences, from where Debian keeps them: there each must be. Other systems keep them elsewhere, or nowhere. Further
# arguments are those of install().
function(aclgrad_install_licences destination)
  set(projects oneTBB Highway fmt nlohmann-json)
  set(packages libtbb-dev libhwy-dev libfmt-dev nlohmann-json3-dev)
  set(missing OPTIONAL)
  if(EXISTS /etc/debian_version)
    set(missing)
  endif()
  foreach(project package IN ZIP_LISTS projects packages)
    install(FILES /usr/share/doc/${package}/copyright DESTINATION ${destination} RENAME ${project}.txt ${missing} ${ARGN})
  endforeach()
endfunction()

# The libraries that ours is linked with. Beside it, they are found by its RPATH, which must be $ORIGIN.
function(aclgrad_install_libraries destination)
  foreach(library TBB::tbb hwy::hwy fmt::fmt)
    install(FILES $<TARGET_FILE:${library}> DESTINATION ${destination} RENAME $<TARGET_SONAME_FILE_NAME:${library}> ${ARGN})
  endforeach()
endfunction()
