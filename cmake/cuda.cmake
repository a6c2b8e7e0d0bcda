# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
# The CUDA language, and how all files in it are compiled. check_language(CUDA) has found the compiler before.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  # What the kernels are written for, as far as this nvcc knows it (the last since 12.8), and later GPUs from the newest.
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-code OUTPUT_VARIABLE known COMMAND_ERROR_IS_FATAL ANY)
  foreach(architecture 80 90 100)
    if(known MATCHES "sm_${architecture}[^0-9]")
      list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture}-real)
      set(newest ${architecture}-virtual)
    endif()
  endforeach()
  list(APPEND CMAKE_CUDA_ARCHITECTURES ${newest})
endif()
enable_language(CUDA)
# CMake 3.25 does not know that nvcc has C++20.
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
find_package(CUDAToolkit REQUIRED)
include(${CMAKE_CURRENT_LIST_DIR}/cuda_flags.cmake)
