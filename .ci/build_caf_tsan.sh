#!/usr/bin/env bash
# Builds CAF's core with ThreadSanitizer from Debian's source package and keeps it in the cache folder, where the
# preset `tsan` finds it. About 4 minutes on 2 cores, once; a second call returns at once.
#
# Why: against the packaged, uninstrumented library TSan reports some hundred races on a correct program, and
# suppressions that silence those also hide real races between two handlers.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

version=0.17.6
prefix=$(kv_offload_cache)/caf-tsan
stamp="CAF $version, $(c++ --version | head -n 1)"
if [[ -f $prefix/stamp && $(cat "$prefix/stamp") == "$stamp" ]]; then
  echo "CAF with ThreadSanitizer: $prefix"
  exit 0
fi

mkdir -p "$(dirname "$prefix")"
work=$(mktemp -d "$prefix.XXXXXX")
trap 'rm -rf "$work"' EXIT

# A private apt folder: the sources of the same Debian mirror that this machine already uses, nothing installed.
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[[ -f $keyring ]] || keyring=
mkdir -p "$work"/apt/{lists/partial,cache/archives/partial,empty}
mirrors() { apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian'; }
if [[ -z $(mirrors) ]]; then  # No package lists yet, as on a fresh machine.
  if [[ $(id -u) == 0 ]]; then apt-get update -qq; else sudo apt-get update -qq; fi
fi
mirrors | while read -r uri release component; do
  [[ $component == main ]] || continue
  echo "deb-src ${keyring:+[signed-by=$keyring] }$uri $release $component"
done > "$work/apt/sources.list"
private_apt() {
  apt-get -qq -o Dir::Etc::SourceList="$work/apt/sources.list" -o Dir::Etc::SourceParts="$work/apt/empty" \
    -o Dir::State::Lists="$work/apt/lists" -o Dir::Cache="$work/apt/cache" -o APT::Sandbox::User="$(id -un)" \
    -o Acquire::Retries=3 "$@"
}
tarball=$work/actor-framework_$version.orig.tar.gz
for attempt in 1 2 3; do
  private_apt update || true
  # Only the upstream tarball is used; a mirror may lack the small Debian part of the package.
  (cd "$work" && private_apt source --download-only "actor-framework" || true)
  [[ -f $tarball ]] && break
  sleep $((attempt * 5))
done
if [[ ! -f $tarball ]]; then
  echo "build_caf_tsan.sh: no Debian mirror gave the source of actor-framework $version" >&2
  exit 1
fi

tar -xf "$tarball" -C "$work"
source_dir=$work/actor-framework-$version
cmake -S "$source_dir" -B "$work/build" -G Ninja -Wno-dev --log-level=WARNING \
  -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS="-fsanitize=thread -std=c++20 -w" \
  -DCAF_BUILD_STATIC_ONLY=yes -DCAF_NO_EXAMPLES=yes -DCAF_NO_UNIT_TESTS=yes -DCAF_NO_IO=yes \
  -DCAF_NO_OPENCL=yes -DCAF_NO_OPENSSL=yes -DCAF_NO_TOOLS=yes -DCAF_NO_PYTHON=yes > "$work/configure.log"
cmake --build "$work/build" --parallel "$(kv_offload_jobs)" > "$work/build.log" || {
  tail -n 30 "$work/build.log" >&2
  exit 1
}

# Headers come from two places: the source, and the one that CMake generated (caf/detail/build_config.hpp).
mkdir -p "$work/install/lib" "$work/install/include"
cp -r "$source_dir/libcaf_core/caf" "$work/install/include/"
cp "$(find "$work/build" -path '*caf/detail/build_config.hpp' -print -quit)" "$work/install/include/caf/detail/"
cp "$(find "$work/build" -name libcaf_core_static.a -print -quit)" "$work/install/lib/"
echo "$stamp" > "$work/install/stamp"
rm -rf "$prefix"
mv "$work/install" "$prefix"
echo "CAF with ThreadSanitizer: $prefix"
