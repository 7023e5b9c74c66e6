#!/usr/bin/env bash
# Plants one violation of each rule of .ci/check_rooms.sh in a copy of the sources and expects that each is named.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "$root"/{.ci,.cmake,actors,admission,bench,messages,tests,tiers} "$copy"

# What is wrong in the sources themselves is another test's business.
before=$("$root/.ci/check_rooms.sh" "$copy" || true)

expected=()
# plant RULE FILE LINE...: the last line breaks the rule.
plant() {
  local rule=$1 file=$copy/$2
  mkdir -p "$(dirname "$file")"
  printf '%s\n' "${@:3}" >> "$file"
  expected+=("$2:$(wc -l < "$file"): $rule")
}
# harmless FILE LINE...: looks like a violation to a careless reader, and is none.
harmless() {
  printf '%s\n' "${@:2}" >> "$copy/$1"
}

plant 'CAF outside messages/protocol/ and actors/' tiers/planted_caf.cpp '#include <caf/actor.hpp>'
plant 'CAF outside messages/protocol/ and actors/' messages/planted_caf.cpp 'namespace caf { class actor; }'
plant 'CAF outside messages/protocol/ and actors/' admission/planted_caf.hpp 'caf::actor self_;'
plant 'admission/ includes a project header of another room than messages/' \
  admission/planted_tier.cpp '#include "kv_offload/tiers/secondary_tier.hpp"'
plant 'admission/ includes a project header of another room than messages/' \
  admission/planted_actors.cpp '#include "kv_offload/actors/offload_engine.hpp"'
plant 'tiers/ includes a project header of another room than messages/' \
  tiers/planted_admission.cpp '#include "kv_offload/admission/admission_policy.hpp"'
plant 'tiers/ includes a project header of another room than messages/' \
  tiers/planted_bench.cpp '#include "kv_offload/bench/device.hpp"'
plant 'messages/ includes a project header of another room' \
  messages/protocol/planted_tiers.hpp '#include "kv_offload/tiers/secondary_tier.hpp"'
plant 'a plain message includes the CAF vocabulary' \
  messages/planted_protocol.cpp '#include "kv_offload/messages/protocol/messages.hpp"'
plant 'the library includes bench/ or tests/' actors/planted_tests.cpp '#include "kv_offload/tests/support/oracle.hpp"'
plant 'bench/ includes tests/' bench/planted_tests.cpp '#include "kv_offload/tests/support/oracle.hpp"'
plant 'reads a clock; time comes as an argument' \
  admission/planted_clock.cpp '#include <chrono>' 'auto now = std::chrono::steady_clock::now();'
plant 'sleeps; waiting is for others' admission/planted_sleep.cpp 'std::this_thread::sleep_for(pause);'
plant 'rolls dice; decisions repeat exactly' admission/planted_dice.cpp 'std::mt19937_64 dice{7};'
plant 'threads or locks in a room of values and decisions' messages/planted_lock.hpp 'std::mutex lock_;'
plant 'messages/ and admission/ use the standard library alone' \
  admission/planted_absl.cpp '#include <absl/container/flat_hash_map.h>'
plant 'prometheus outside actors/engine_metrics' actors/planted_metrics.cpp '#include <prometheus/counter.h>'
plant 'caf/all.hpp outside the precompiled header' actors/planted_all.cpp '#include <caf/all.hpp>'
plant 'the precompiled header is named by CMake alone' \
  actors/planted_precompiled.cpp '#include "kv_offload/actors/caf_precompiled.hpp"'
plant 'an include that is not spelled "kv_offload/<room>/<file>"' tiers/planted_short.cpp '#include "secondary_tier.hpp"'
plant 'an include that is not spelled "kv_offload/<room>/<file>"' \
  tests/planted_angle.cpp '#include <kv_offload/tiers/secondary_tier.hpp>'
plant 'an installed header includes one that is not installed' \
  tiers/primary_view.hpp '#include "kv_offload/tiers/planted_internal.hpp"'
plant 'an installed header includes one that is not installed' tiers/tier_faults.hpp '#include <liburing.h>'
plant 'an installed header names CAF' actors/offload_engine.hpp 'caf::actor_system& system();'
plant 'message PlantedMessage is not in messages/protocol/README.md' \
  messages/protocol/planted_types.hpp '  CAF_ADD_TYPE_ID(kv_offload, (kv_offload::PlantedMessage))'
plant "a path of somebody's machine" tests/planted_path.cpp "const char* kTrace = \"/wo""rk/traces\";"
mkdir "$copy/docs"
expected+=('docs/:0: a visible top-level folder that is not a room')

harmless admission/planted_time.hpp '// steady_clock::now() is never read here' 'std::chrono::steady_clock::time_point now;'
harmless messages/planted_words.hpp '/* no mutex */ int operand(int);  // rand() neither'
harmless tests/planted_all.cpp '#include <caf/all.hpp>' 'std::this_thread::sleep_for(pause);'
harmless actors/planted_caf.hpp '#include <caf/typed_actor.hpp>'

if "$root/.ci/check_rooms.sh" "$copy" > "$copy/out"; then
  echo "check_rooms.sh found nothing"
  exit 1
fi
failed=0
for line in "${expected[@]}"; do
  grep -qxF -- "$line" "$copy/out" || { echo "not found: $line"; failed=1; }
done
allowed=$(printf '%s\n' "${expected[@]}" "$before")
while read -r line; do
  [[ $line == 'check_rooms: '* ]] && continue
  grep -qxF -- "$line" <<< "$allowed" || { echo "not planted: $line"; failed=1; }
done < "$copy/out"
echo "${#expected[@]} planted violations"
exit $failed
