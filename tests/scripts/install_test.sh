#!/usr/bin/env bash
# What is installed can be used: projects from outside build against it and run, by find_package and by pkg-config, with
# the archive and with the shared library, also after the prefix was moved. Installs from BUILD, builds nothing in it.
# install_test.sh BUILD SOURCE
set -euo pipefail
build=$(cd "$1" && pwd) source=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
examples=$source/tests/examples
export CMAKE_GENERATOR=Ninja  # which built the library; there may be no make

fail() {
  echo "FAILED: $*"
  exit 1
}
for tool in cmake pkg-config cc c++; do
  command -v "$tool" > /dev/null || { echo "skipped: there is no $tool"; exit 77; }
done
# quietly WHAT COMMAND...: its output is shown if it fails.
quietly() {
  local what=$1
  shift
  "$@" > "$work/log" 2>&1 || { cat "$work/log"; fail "$what"; }
}
# consume NAME PREFIX OPTION...: configures and builds tests/install, and runs what it made.
consume() {
  local name=$1 prefix=$2
  shift 2
  quietly "$name: configure" cmake -S "$source/tests/install" -B "$work/$name" -DCMAKE_PREFIX_PATH="$prefix" \
    -DEXAMPLES="$examples" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF "$@"
  quietly "$name: build" cmake --build "$work/$name"
  local program
  for program in "$work/$name"/{c,cpp}_{kv_offload,shared}; do
    [[ -x $program ]] || continue
    quietly "$name: $(basename "$program")" timeout 60 "$program"
    programs=$((programs + 1))
    echo "$name: $(basename "$program") runs"
  done
}
programs=0

quietly install cmake --install "$build" --prefix "$work/first"
prefix=$work/first
archive=$(find "$prefix" -name libkv_offload.a)
[[ -n $archive ]] || fail "no archive was installed"
lib=$(dirname "$archive")
shared=0
[[ -e $lib/libkv_offload.so ]] && shared=1
grep -rlF -e "$build" -e "$prefix" "$lib/cmake" "$lib/pkgconfig" && fail "these files know where they were built or installed"

consume cmake "$prefix"
((programs == (shared ? 4 : 2))) || fail "$programs programs were built"

mv "$prefix" "$work/second"
prefix=$work/second lib=${lib/first/second}
if ((shared)); then
  consume moved "$prefix" -DC_ONLY=ON
  ((programs == 5)) || fail "$programs programs were built"
fi

# A wrong version and a library that is not there are said, not found.
printf '%s\n' 'cmake_minimum_required(VERSION 3.22)' 'project(none LANGUAGES C)' \
  'find_package(kv_offload ${WANTED} QUIET)' 'if(kv_offload_FOUND)' 'message(FATAL_ERROR found)' 'endif()' > "$work/CMakeLists.txt"
for wanted in '7.0' 'COMPONENTS;nothing'; do
  quietly "find_package(kv_offload $wanted)" cmake -S "$work" -B "$work/none" -DCMAKE_PREFIX_PATH="$prefix" "-DWANTED=$wanted"
  rm -r "$work/none"
done

export PKG_CONFIG_PATH=$lib/pkgconfig
read -ra cflags <<< "$(pkg-config --cflags kv_offload)"
quietly 'pkg-config: compile C' cc -std=c99 "${cflags[@]}" -c "$examples/c_minimal.c" -o "$work/c.o"
quietly 'pkg-config: compile C++' c++ -std=c++20 "${cflags[@]}" -c "$examples/minimal.cpp" -o "$work/cpp.o"
# linked NAME MODULE OPTION...: links and runs both.
linked() {
  local name=$1 libs
  shift
  read -ra libs <<< "$(pkg-config --libs "$@")"
  quietly "$name: link C" cc "$work/c.o" "${libs[@]}" -o "$work/c_$name"
  quietly "$name: link C++" c++ "$work/cpp.o" "${libs[@]}" -o "$work/cpp_$name"
  quietly "$name: run C" env LD_LIBRARY_PATH="$lib" timeout 60 "$work/c_$name"
  quietly "$name: run C++" env LD_LIBRARY_PATH="$lib" timeout 60 "$work/cpp_$name"
  echo "pkg-config: $name runs"
}
if ((shared)); then
  linked shared kv_offload
  needed=$(readelf -d "$work/c_shared" | grep -c 'NEEDED.*\(caf\|prometheus\|spdlog\)' || true)
  [[ $needed == 0 ]] || fail "a user of the shared library is linked with what is behind it"
fi
linked static kv_offload-static
# --static is enough where the archive stands alone.
rm -f "$lib"/libkv_offload.so*
linked only_archive --static kv_offload
for program in "$work"/*_static "$work"/*_only_archive; do
  readelf -d "$program" | grep -q 'NEEDED.*libkv_offload' && fail "$program wants the shared library"
done
echo "installed, used, moved, used"
