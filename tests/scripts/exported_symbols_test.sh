#!/usr/bin/env bash
# The shared library shows the C ABI, what messages/export.hpp marks, and nothing else: no name of CAF, of a package or of
# the standard library. exported_symbols_test.sh LIBRARY SOURCE
set -euo pipefail
library=$1 source=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for tool in nm readelf c++filt cc; do
  command -v "$tool" > /dev/null || { echo "skipped: there is no $tool"; exit 77; }
done

# What may be seen: the functions of the C header, and the marked classes and functions of the installed headers.
sed -nE 's/^KVO_API .*\b(kvo_[a-z_]+)\(.*/\1/p' "$source/actors/c_api/kv_offload.h" | sort -u > "$work/c_abi"
while read -r pattern; do
  # The patterns of the list are meant to expand.
  # shellcheck disable=SC2086
  (cd "$source" && sed -nE 's/^(class|struct) KV_OFFLOAD_EXPORT ([A-Za-z]+).*/\2/p;
                            s/^KV_OFFLOAD_EXPORT .*[ &]([a-z_]+)\(.*/\1/p' $pattern)
done < <(grep -E '^[a-z].*\.hpp$' "$source/.cmake/installed_headers.txt") | sort -u > "$work/cpp"
[[ $(wc -l < "$work/c_abi") -ge 30 && $(wc -l < "$work/cpp") -ge 8 ]] ||
  { echo "the headers were not understood: $(wc -l < "$work/c_abi") functions, $(wc -l < "$work/cpp") C++ names"; exit 1; }

# foreign LIBRARY: what it shows beyond that, one name a line.
names=$(paste -sd'|' "$work/cpp")
foreign() {
  nm -D --defined-only "$1" | awk '$2 != "A" { print $3 }' | sed 's/@.*//' | grep -vxF -f "$work/c_abi" | c++filt |
    grep -vE "^((vtable|typeinfo|typeinfo name) for )?kv_offload::($names)(::|\(|\[|$)" || true
}

# A library with a foreign name is noticed.
printf '%s\n' 'int kvo_version(void) { return 0; }' 'int caf_planted(void) { return 0; }' |
  cc -shared -fPIC -x c - -o "$work/planted.so"
[[ $(foreign "$work/planted.so") == caf_planted ]] || { echo "a planted name was not noticed"; exit 1; }

failed=0
strangers=$(foreign "$library")
if [[ -n $strangers ]]; then
  echo "shown, and not public:"
  head -50 <<< "$strangers"
  failed=1
fi
nm -D --defined-only "$library" | awk '{ print $3 }' | sed 's/@.*//' > "$work/shown"
while read -r function; do
  grep -qxF "$function" "$work/shown" || { echo "in the header, and not shown: $function"; failed=1; }
done < "$work/c_abi"
c++filt < "$work/shown" > "$work/readable"
while read -r name; do
  grep -qE "^kv_offload::$name(::|\()" "$work/readable" || { echo "marked, and not shown: kv_offload::$name"; failed=1; }
done < "$work/cpp"
soname=$(readelf -d "$library" | sed -nE 's/.*SONAME.*\[(.*)\]/\1/p')
[[ $soname =~ ^libkv_offload\.so\.[0-9]+$ ]] || { echo "soname $soname"; failed=1; }
echo "$(wc -l < "$work/c_abi") functions, $(wc -l < "$work/cpp") C++ names, $(wc -l < "$work/shown") symbols, $soname"
exit $failed
