# The CUDA language, and how all files in it are compiled.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
endif()
enable_language(CUDA)
# CMake 3.25 does not know that nvcc has C++20.
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
find_package(CUDAToolkit REQUIRED)

# As on the CPU, a sum must not depend on which product the compiler fuses into it; where kernels want that, they say so.
set(aclgrad_cuda_flags -fmad=false --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra)
