#!/usr/bin/env bash
# The architecture as a grep: who may include whom, and which words a room does without.
# Prints every violation as "file:line: rule" and then fails. check_rooms.sh [SOURCE_ROOT]
set -euo pipefail
root=$(cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}" && pwd)
rooms=(actors admission bench messages tests tiers)

# Code is searched without its comments, in a copy; line numbers stay.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cd "$root"
find "${rooms[@]}" -type f \( -name '*.hpp' -o -name '*.cpp' -o -name '*.h' -o -name '*.c' \) -print0 2> /dev/null |
  xargs -0 -r cp --parents -t "$copy"
cd "$copy"
find . -type f -print0 | xargs -0 -r sed -i -E 's:/\*.*\*/::g; s:(^|[^"]*)//.*:\1:'

violations=0
report() { # FILE:LINE RULE
  echo "$1: $2"
  violations=$((violations + 1))
}

# rule TEXT FILES EXCEPT PATTERN: no file whose path matches FILES, but not EXCEPT, has a line that matches PATTERN.
rule() {
  local text=$1 files=$2 except=$3 pattern=$4 file line
  while IFS=: read -r file line; do
    report "$file:$line" "$text"
  done < <(find . -type f -printf '%P\n' | sort | grep -E "$files" | grep -vE "${except:-^$}" |
           xargs -r grep -nHP "$pattern" | cut -d: -f1,2)
}
include='^ *# *include *'

rule 'CAF outside messages/protocol/ and actors/' \
  '^(admission|tiers|messages)/' '^messages/protocol/' "$include[<\"]caf/|\bcaf::|namespace caf\b"
rule 'admission/ includes a project header of another room than messages/' \
  '^admission/' '' "$include[<\"]kv_offload/(messages/protocol|actors|tiers|bench|tests)/"
rule 'tiers/ includes a project header of another room than messages/' \
  '^tiers/' '' "$include[<\"]kv_offload/(messages/protocol|actors|admission|bench|tests)/"
rule 'messages/ includes a project header of another room' \
  '^messages/' '' "$include[<\"]kv_offload/(actors|admission|tiers|bench|tests)/"
rule 'a plain message includes the CAF vocabulary' \
  '^messages/[^/]*$' '' "$include[<\"]kv_offload/messages/protocol/"
rule 'the library includes bench/ or tests/' \
  '^actors/' '' "$include[<\"]kv_offload/(bench|tests)/"
rule 'bench/ includes tests/' \
  '^bench/' '' "$include[<\"]kv_offload/tests/"
rule 'reads a clock; time comes as an argument' \
  '^(messages|admission)/' '' '::now *\('
rule 'sleeps; waiting is for others' \
  '^(messages|admission)/' '' '\b(sleep|usleep|nanosleep|sleep_for|sleep_until) *\('
rule 'rolls dice; decisions repeat exactly' \
  '^(messages|admission)/' '' '\bs?rand *\(|\brandom_device\b|\bmt19937|<random>'
rule 'threads or locks in a room of values and decisions' \
  '^(messages|admission)/' '' 'mutex|condition_variable|<(thread|semaphore|latch|barrier)>'
rule 'messages/ and admission/ use the standard library alone' \
  '^(messages|admission)/' '^messages/protocol/' "$include<[^>]*[/.]"
rule 'civetweb or zlib outside actors/http_*' \
  '^(actors|admission|bench|messages|tiers)/' '^actors/http_' "$include[<\"](civetweb|CivetServer|zlib)\\.h"
rule 'prometheus outside actors/engine_metrics' \
  '^(actors|admission|bench|messages|tiers)/' '^actors/engine_metrics' "$include[<\"]prometheus/"
rule 'caf/all.hpp outside the precompiled header' \
  '^(actors|messages)/' '^actors/caf_precompiled\.hpp$' "$include[<\"]caf/all\.hpp"
rule 'the precompiled header is named by CMake alone' \
  '' '' "$include.*caf_precompiled"
rule 'an include that is not spelled "kv_offload/<room>/<file>"' \
  '' '' "$include(\"(?!kv_offload/(actors|admission|bench|messages|tests|tiers)/)|<kv_offload/)"

# An installed header includes installed headers and the standard library, nothing else.
installed=()
while read -r pattern; do
  for header in $pattern; do
    [[ -f $header ]] && installed+=("$header")
  done
done < <(grep -E '^[a-z]' "$root/.cmake/installed_headers.txt")
for header in "${installed[@]}"; do
  while IFS=: read -r line text; do
    [[ $text =~ [\<\"]([^\>\"]*)[\>\"] ]] && included=${BASH_REMATCH[1]}
    [[ $text == *'<'* && $included != *[/.]* ]] && continue
    [[ $header == *.h && $text =~ \<(stddef|stdint)\.h\> ]] && continue  # the C ABI, in C's words
    [[ " ${installed[*]} " == *" ${included#kv_offload/} "* ]] && continue
    report "$header:$line" 'an installed header includes one that is not installed'
  done < <(grep -nE "$include" "$header" || true)
  while IFS=: read -r line _; do
    report "$header:$line" 'an installed header names CAF'
  done < <(grep -nE '\bcaf::|namespace caf\b' "$header" || true)
done

cd "$root"
# Every message of the type-ID block stands in the table of its README (facade calls stand there by the call's name).
protocol=messages/protocol
while IFS=: read -r file line text; do
  [[ $text =~ \(kv_offload::([A-Za-z]+)\) ]] && message=${BASH_REMATCH[1]}
  [[ $message == *Call ]] && continue
  grep -qw -- "$message" "$protocol/README.md" 2> /dev/null ||
    report "$file:$line" "message $message is not in $protocol/README.md"
done < <(grep -nHE '^ *CAF_ADD_TYPE_ID\(.*\(kv_offload::[A-Z][A-Za-z]*\)\)' "$protocol"/*.hpp 2> /dev/null || true)

# The visible folders are exactly the rooms; build folders are nobody's.
for folder in */; do
  [[ " ${rooms[*]} build " == *" ${folder%/} "* || $folder == build* ]] ||
    report "$folder:0" 'a visible top-level folder that is not a room'
done
for room in "${rooms[@]}"; do
  [[ -d $room ]] || report "$room:0" 'a room is missing'
done

# Nothing speaks of the machine that it was written on. (.ci/run may look for traces beside the checkout.)
while IFS=: read -r file line _; do
  report "${file#./}:$line" 'a path of somebody'\''s machine'
done < <(grep -rnIE --exclude-dir=.git --exclude-dir='build*' --exclude-dir=.cache '(^|[^a-z.])/wor[k]/|\.\./share[d]|/home/[a-z]' . |
         grep -v '^\./\.ci/run:')

if ((violations > 0)); then
  echo "check_rooms: $violations violations"
  exit 1
fi
echo "check_rooms: every include and word in its room"
