# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
# Finds PyTorch for the companion library (src/aten/), through the Python that has it: the one that the build is told, that
# of .venv, or python3. Sets has_aten, and aclgrad_torch_python, which also runs the generator.
set(has_aten FALSE)
set(candidates ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/.venv/bin/python python3)
foreach(python ${candidates})
  execute_process(COMMAND ${python} -c "import torch; print(torch.utils.cmake_prefix_path)"
    OUTPUT_VARIABLE torch_prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(aclgrad_torch_python ${python})
    find_package(Torch 2 QUIET PATHS ${torch_prefix} NO_DEFAULT_PATH)
    set(has_aten ${Torch_FOUND})
    break()
  endif()
endforeach()
if(has_aten)
  message(STATUS "PyTorch ${Torch_VERSION}: the companion library is built against it")
elseif(ACLGRAD_ATEN STREQUAL "AUTO")
  message(STATUS "No PyTorch: the companion library is left out")
else()
  message(FATAL_ERROR "ACLGRAD_ATEN is ${ACLGRAD_ATEN}, but no Python here has PyTorch")
endif()
