#!/usr/bin/env bash
# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
# consume.sh CASE PREFIX WORK BUILD: builds programs against the installed PREFIX in the way of CASE, in the folder
# WORK, and runs them. BUILD is where the prefix was built. Of most cases the programs are those of the documents.
set -eu
case=$1 prefix=$2 work=$3 build=$4
sources=$(cd "$(dirname "$0")" && pwd)
root=$(realpath "$sources/../..")
rm -rf "$work"
mkdir -p "$work"
cd "$work"
unset CMAKE_PREFIX_PATH PKG_CONFIG_PATH LD_LIBRARY_PATH

build_and_run() {  # CMake project
  cmake -S "$sources/$1" -B "$1" -DPROGRAMS="$work" >configure.log || { cat configure.log; return 1; }
  cmake --build "$1"
  prints_what_it_says "$1/program" program.cpp
}

compile_and_run() {  # compiler with its standard, source, further options
  local compile=$1 source=$2 program
  program=$(basename "${2%.*}")
  shift 2
  echo "$compile $source"
  $compile -pedantic -Wall -Wextra -Werror "$source" -o "$program" -I "$prefix/include" -L "$prefix/lib64" "$@"
  "./$program"
}

# A CMake project of custom operators, which reads DDK_PATH and NPU_HOST_LIB.
custom_package() {
  export DDK_PATH=$prefix
  export LD_LIBRARY_PATH=$prefix/lib64
  build_and_run custom_package  # the default of NPU_HOST_LIB: .../acllib/lib64/stub
  rm -r custom_package
  NPU_HOST_LIB=$prefix/lib64/stub build_and_run custom_package
}

# One line of g++ with the include folders and libraries of the documents' examples.
one_line() {
  source "$prefix/set_env.sh"
  for libraries in "-lopapi_nn -lopapi_math -lascendcl -lnnopbase" \
    "-lopapi_cv -lascendcl -lnnopbase" \
    "-lopapi -lopapi_nn -lascendcl -lnnopbase" \
    "-lopapi -lopapi_transformer -lopapi_math -lascendcl -lacl_rt -lnnopbase -lpthread -lhccl" \
    "-lopapi -lopapi_nn -lascendcl -lnnopbase -lc_sec -lhccl_fwk -lhccl"; do
    echo "g++ $libraries"
    g++ program.cpp -o program \
      -I "$ASCEND_HOME_PATH/include" -I "$ASCEND_HOME_PATH/include/aclnnop" -I "$ASCEND_HOME_PATH/include/aclnn" \
      -L "$ASCEND_OPP_PATH/lib64" -L "$ASCEND_HOME_PATH/lib64" $libraries
    prints_what_it_says ./program program.cpp
  done
}

# A CMake project that links the libraries by absolute paths, with the environment from bin/setenv.bash.
absolute_libraries() {
  export ASCEND_INSTALL_PATH=$prefix
  source "$ASCEND_INSTALL_PATH/bin/setenv.bash"
  build_and_run absolute_libraries
}

# The sources as a folder of another project: the library is a target, and nothing else of aclgrad is built or installed.
# Compiling it once more shows no more than finding what would be compiled. The library is shared, whatever others are.
subdirectory() {
  local targets
  ln -s "$root" aclgrad
  {
    printf 'cmake_minimum_required(VERSION 3.25)\nproject(app C CXX)\nadd_executable(program sums.cpp)\n'
    block cmake "$root/docs/guides/install.md"
  } >CMakeLists.txt
  cmake -S . -B build -G Ninja -DACLGRAD_CUDA=OFF -DBUILD_SHARED_LIBS=OFF >configure.log || { cat configure.log; return 1; }
  targets=$(cmake --build build --target help)
  if grep -E '^(test_|bench_)' <<<"$targets" || grep -r libaclgrad --include cmake_install.cmake build; then
    echo "expected neither tests, benchmarks nor an installation" >&2
    return 1
  fi
  cmake --build build -- -t commands program | grep -q -- '-shared .*libaclgrad\.so'
}

find_package() {
  export CMAKE_PREFIX_PATH=$prefix
  build_and_run find_package
  prints_what_it_says find_package/sums sums.cpp
  find_package/host_data
}

pkg_config() {
  export PKG_CONFIG_PATH=$prefix/lib64/pkgconfig
  export LD_LIBRARY_PATH=$prefix/lib64
  g++ sums.cpp $(pkg-config --cflags --libs aclgrad) -o sums
  prints_what_it_says ./sums sums.cpp
}

# Headers, library, pkg-config and CMake name one version, and what may break a program is not found in its place.
version() {
  source "$prefix/set_env.sh"
  compile_and_run "gcc -std=c11" "$sources/version.c" -laclgrad
  local of_library
  of_library=$(./version)
  strings "$prefix/lib64/libaclgrad.so" | grep -q "aclgrad $of_library\$"  # other constants may stand before it
  of_library=${of_library%.dev*}
  [ "$of_library" = "$(PKG_CONFIG_PATH=$prefix/lib64/pkgconfig pkg-config --modversion aclgrad)" ]
  [ "$(basename "$(realpath "$prefix/lib64/libaclgrad.so")")" = "libaclgrad.so.$of_library" ]
  readelf --dynamic version | grep -qF "[libaclgrad.so.${of_library%.*}]"

  local wanted
  for wanted in "${of_library%.*}" "$of_library"; do found_by_cmake "$wanted"; done
  for wanted in 0.0 0.2 1.0; do
    if found_by_cmake "$wanted"; then echo "CMake found $wanted" && return 1; fi
  done
}

# The version of a tree with a tag or without, behind the tag, and without git inside another repository.
version_of_tree() {
  export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
  mkdir -p tree/cmake tree/include
  cp "$root/cmake/version.sh" tree/cmake
  cp -r "$root/include/aclgrad" tree/include
  local version
  git init --quiet .
  version=$(tree/cmake/version.sh)
  [[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]]
  cd tree
  git init --quiet .
  git add . && git commit --quiet --message first
  [ "$(cmake/version.sh)" = "$version.dev1+g$(git rev-parse HEAD | cut -c1-7)" ]
  git tag v0.0.9 && git commit --quiet --allow-empty --message second && git commit --quiet --allow-empty --message third
  [ "$(cmake/version.sh)" = "$version.dev2+g$(git rev-parse HEAD | cut -c1-7)" ]
  git tag "v$version"
  [ "$(cmake/version.sh)" = "$version" ]
  [ "$(ACLGRAD_VERSION=1.2.3 cmake/version.sh)" = 1.2.3 ]
  echo "Version: 3.2.1" >PKG-INFO
  [ "$(cmake/version.sh)" = 3.2.1 ]
}

found_by_cmake() {  # version
  rm -rf found
  mkdir found
  printf 'cmake_minimum_required(VERSION 3.16)\nproject(found NONE)\nfind_package(aclgrad %s REQUIRED)\n' "$1" \
    >found/CMakeLists.txt
  CMAKE_PREFIX_PATH=$prefix cmake -S found -B found/build >found/log 2>&1
}

# The programs of README and guides as they stand there; what each prints is in a comment of its own. Those of the C++
# interface are also built with the CMakeLists.txt beside them.
readme() {
  local program
  block cpp "$root/docs/guides/cpp.md" >sample.cpp
  for program in sums program sample; do
    compile_and_run "g++ -std=c++11" "$program.cpp" -Wl,-rpath,"$prefix/lib64" -laclgrad
    prints_what_it_says "./$program" "$program.cpp"
  done

  block cmake "$root/README.md" >CMakeLists.txt
  cmake -S . -B with_cmake -DCMAKE_PREFIX_PATH="$prefix" >configure.log || { cat configure.log; return 1; }
  cmake --build with_cmake
  prints_what_it_says with_cmake/sums sums.cpp
}

# The commands of the guides as they stand there, one after the other, beside the programs that they build.
guides() {
  local pages=$root/docs/guides archive=aclgrad-0-linux-x86_64
  mkdir -p laptop/build cpp ci archive install
  ln -s "$prefix" laptop/build/prefix
  tee laptop/sums.cpp archive/program.cpp >ci/program.cpp <program.cpp
  block cpp "$pages/cpp.md" >cpp/sample.cpp
  block cmake "$pages/cpp.md" >cpp/CMakeLists.txt
  (cd laptop && blocks sh "$pages/laptop.md" | sh -eu)
  (cd cpp && blocks sh "$pages/cpp.md" | PREFIX=$prefix sh -eu)
  ln -s "$root/examples" examples
  block sh examples/README.md | PREFIX=$prefix sh -eu
  # The workflow's steps, which follow the name of each, then what it says above them.
  (cd ci && { sed -n "s|^ \{10\}||; T; s|/usr/lib/aclgrad|$prefix|; p" "$pages/ci.md" && blocks sh "$pages/ci.md"; } | sh -eu)

  cp -a "$prefix" "archive/$archive"
  (cd archive && tar czf $archive.tar.gz $archive && rm -r $archive && { block_from "tar " "$pages/install.md" && echo ./program; } | sh -eu)
  # With CMake: what would be compiled is only shown, and what is built already gets installed.
  (cd install && block_from "cmake -S" "$pages/install.md" |
    sed "s|-S \.|-G Ninja -S '$root'|; s|--parallel.*|-- -t commands|; s|--install build/plain|--install '$build'|" |
    HOME=$PWD sh -eu >log 2>&1 && [ -e aclgrad/set_env.sh ] && ! grep "not used by the project" log) || { cat install/log; return 1; }
}

block_from() {  # the beginning of its first line, page
  sed -n "/^$1/,/^\`\`\`\$/ { /^\`\`\`/!p }" "$2"
}

prints_what_it_says() {  # program, source
  local output
  output=$(ACLGRAD_CHECK=error "$1")
  echo "$1: $output"
  grep -qE "// ${output% }\$" "$2"
}

# The only block of a language on a page.
block() {  # language, page
  [ "$(grep -c "^\`\`\`$1\$" "$2")" = 1 ]
  blocks "$@"
}

blocks() {  # language, page
  sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/ { /^\`\`\`/!p }" "$2"
}

# Every standard of C++ and every compiler that there is.
standards() {
  source "$prefix/set_env.sh"
  local compiler standard
  for compiler in $(compilers g++ clang++ clang++-14); do
    for standard in 11 14 17 20 23; do
      $compiler -std=c++$standard -E -x c++ /dev/null >/dev/null 2>&1 || standard=2b
      compile_and_run "$compiler -std=c++$standard" program.cpp -lopapi -lnnopbase -lascendcl
      prints_what_it_says ./program program.cpp
      compile_and_run "$compiler -std=c++$standard" "$sources/host_data.cpp" -I "$prefix/include/aclnnop" -lc_sec -lnnopbase -lhccl_fwk
    done
  done
}

compilers() {  # names; prints those that there are
  local compiler
  for compiler in "$@"; do
    command -v "$compiler" || true
  done
}

c11() {
  source "$prefix/set_env.sh"
  local compiler
  for compiler in $(compilers gcc clang clang-14); do
    compile_and_run "$compiler -std=c11" "$sources/operator.c" -lopapi -lnnopbase -lascendcl
    compile_and_run "$compiler -std=c11" "$sources/host_data.c" -lc_sec
  done
  # What is for C++ alone says so.
  for header in aclnn/opdev/{fp16_t,hifloat8,platform}.h opdev/bfloat16.h; do
    echo "#include \"$header\"" | gcc -std=c11 -I "$prefix/include" -fsyntax-only -x c - 2>message && return 1
    grep -q "is for C++" message
  done
}

# A program that is linked with nothing and looks everything up at run time.
loader() {
  g++ -std=c++17 -Wall -Wextra -Werror "$sources/loader.cpp" -I "$prefix/include" -ldl -o loader
  ASCEND_HOME_PATH=$prefix ASCEND_OPP_PATH=$prefix/opp ./loader
  ASCEND_CUSTOM_OPP_PATH=/nowhere:$prefix/opp/vendors/custom_nn ./loader
}

# Every shell that there is, started with `-eu`: sourced from anywhere and twice, it sets the same, and prints nothing.
set_env() {
  ln -s "$prefix" "with spaces"
  ln -s "$prefix/set_env.sh" link.sh
  mkdir elsewhere
  cp "$prefix/set_env.sh" elsewhere
  local shell
  for shell in sh dash bash zsh "busybox sh" mksh; do
    if command -v ${shell%% *} >/dev/null; then
      echo "set_env.sh in $shell"
      set_env_in "$shell"
    else
      echo "There is no ${shell%% *}: left out"
    fi
  done
}

set_env_in() {  # shell
  local at told
  for at in "$prefix" "with spaces"; do
    told=$(same_environment_in "$1" "$at/set_env.sh" "$at/bin/setenv.bash")
    case $told in
      "$prefix" | "$work/$at") ;;
      *) echo "expected $at, got '$told'" >&2 && return 1 ;;
    esac
  done
  [ "$(same_environment_in "$1" ./link.sh "$prefix/set_env.sh")" = "$prefix" ]
  # Where it cannot know the prefix, it says so and sets nothing.
  $1 -c '. elsewhere/set_env.sh && exit 1; [ -z "${ASCEND_HOME_PATH+set}${LD_LIBRARY_PATH+set}" ]' 2>message
  grep -q "elsewhere/set_env.sh" message
  if $1 -euc '. elsewhere/set_env.sh; echo "went on" >went_on' 2>/dev/null || [ -e went_on ]; then
    echo "expected that the shell ends" >&2
    return 1
  fi
}

# Prints the ASCEND_HOME_PATH that the two files set in the shell, having compared all else with it.
same_environment_in() {  # shell, file, another name of it
  env LD_LIBRARY_PATH=/first:/second CDPATH="$work:/" $1 -euc '
    libraries() { printf %s "$LD_LIBRARY_PATH"; }
    . "$1"
    home=$ASCEND_HOME_PATH
    [ "$ASCEND_TOOLKIT_HOME $ASCEND_OPP_PATH" = "$home $home/opp" ]
    [ "$(libraries)" = "$home/lib64:/first:/second" ]
    LD_LIBRARY_PATH=/front:$LD_LIBRARY_PATH:
    . "$2"
    . "$1"
    ( . "$2" && [ "$(libraries)" = "$ASCEND_HOME_PATH/lib64:/front:/first:/second:" ] )
    [ "$ASCEND_HOME_PATH" = "$home" ]
    [ "$(libraries)" = "$home/lib64:/front:/first:/second:" ]
    unset LD_LIBRARY_PATH
    . "$1"
    [ "$(libraries)" = "$home/lib64" ]
    [ -z "$(set | grep ^_aclgrad)" ]
    printf "%s\n" "$home"' in_shell "$2" "$3"
}

# The prefix may be moved: no file in it says where it was built or installed. The interpreter of the companion library says
# where PyTorch lies, here in the sources' folder.
relocated() {
  cp -a "$prefix" moved
  prefix=$work/moved
  find_package
  pkg_config
  one_line
  [ "$ASCEND_HOME_PATH" = "$prefix" ]
  find moved -name '*.so*' -type f -exec strip --strip-debug {} +  # debug information names the sources, and may
  if grep -rlF --exclude libaclgrad_aten_interpreter.so -e "$build" -e "$root" moved; then
    echo "These files of the prefix name the folders of the build or the sources." >&2
    return 1
  fi
}

block cpp "$root/docs/guides/laptop.md" >program.cpp  # of the C interface
block cpp "$root/README.md" >sums.cpp                 # of the C++ interface
"$case"
