#!/usr/bin/env bash
# consume.sh CASE PREFIX WORK BUILD: builds programs against the installed PREFIX in the way of CASE, in the folder
# WORK, and runs them. Each program checks the numbers that it computes. BUILD is where the prefix was built.
set -eu
case=$1 prefix=$2 work=$3 build=$4
sources=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
cd "$work"
unset CMAKE_PREFIX_PATH PKG_CONFIG_PATH LD_LIBRARY_PATH

build_and_run() {  # CMake project, program
  cmake -S "$sources/$1" -B "$1" >configure.log || { cat configure.log; return 1; }
  cmake --build "$1"
  "$1/$2"
}

# A CMake project of custom operators, which reads DDK_PATH and NPU_HOST_LIB.
custom_package() {
  export DDK_PATH=$prefix
  export LD_LIBRARY_PATH=$prefix/lib64
  build_and_run custom_package program  # the default of NPU_HOST_LIB: .../acllib/lib64/stub
  rm -r custom_package
  NPU_HOST_LIB=$prefix/lib64/stub build_and_run custom_package program
}

# One line of g++ with the include folders and libraries of the documents' examples.
one_line() {
  source "$prefix/set_env.sh"
  for libraries in "-lopapi_nn -lopapi_math -lascendcl -lnnopbase" \
    "-lopapi_cv -lascendcl -lnnopbase" \
    "-lopapi -lopapi_nn -lascendcl -lnnopbase" \
    "-lopapi -lopapi_transformer -lopapi_math -lascendcl -lacl_rt -lnnopbase -lpthread -lhccl"; do
    echo "g++ $libraries"
    g++ "$sources/program.cpp" -o program \
      -I "$ASCEND_HOME_PATH/include" -I "$ASCEND_HOME_PATH/include/aclnnop" -I "$ASCEND_HOME_PATH/include/aclnn" \
      -L "$ASCEND_OPP_PATH/lib64" -L "$ASCEND_HOME_PATH/lib64" $libraries
    ./program
  done
}

# A CMake project that links the libraries by absolute paths, with the environment from bin/setenv.bash.
absolute_libraries() {
  export ASCEND_INSTALL_PATH=$prefix
  source "$ASCEND_INSTALL_PATH/bin/setenv.bash"
  build_and_run absolute_libraries program
}

find_package() {
  export CMAKE_PREFIX_PATH=$prefix
  build_and_run find_package native
  find_package/program
}

pkg_config() {
  export PKG_CONFIG_PATH=$prefix/lib64/pkgconfig
  export LD_LIBRARY_PATH=$prefix/lib64
  g++ -std=c++17 "$sources/native.cpp" $(pkg-config --cflags --libs aclgrad) -o native
  ./native
}

cxx11() {
  source "$prefix/set_env.sh"
  g++ -std=c++11 -pedantic -Wall -Wextra -Werror "$sources/program.cpp" -o program \
    -I "$prefix/include" -L "$prefix/lib64" -lopapi -lnnopbase -lascendcl
  ./program
}

c11() {
  source "$prefix/set_env.sh"
  gcc -std=c11 -pedantic -Wall -Wextra -Werror "$sources/runtime.c" -I "$prefix/include" -L "$prefix/lib64" \
    -lascendcl -o runtime
  ./runtime
  gcc -std=c11 -pedantic -Wall -Wextra -Werror "$sources/operator.c" -I "$prefix/include" -L "$prefix/lib64" \
    -lopapi -lnnopbase -lascendcl -o operator
  ./operator
}

# A program that is linked with nothing and looks everything up at run time.
loader() {
  g++ -std=c++17 -Wall -Wextra -Werror "$sources/loader.cpp" -I "$prefix/include" -ldl -o loader
  ASCEND_HOME_PATH=$prefix ASCEND_OPP_PATH=$prefix/opp ./loader
  ASCEND_CUSTOM_OPP_PATH=/nowhere:$prefix/opp/vendors/custom_nn ./loader
}

# The prefix may be moved: no file in it says where it was built or installed.
relocated() {
  cp -a "$prefix" moved
  prefix=$work/moved
  find_package
  pkg_config
  one_line
  [ "$ASCEND_HOME_PATH" = "$prefix" ]
  find moved -name '*.so*' -type f -exec strip --strip-debug {} +  # debug information names the sources, and may
  if grep -rlF -e "$build" -e "$(dirname "$(dirname "$sources")")" moved; then
    echo "These files of the prefix name the folders of the build or the sources." >&2
    return 1
  fi
}

"$case"
