#!/usr/bin/env bash
# Does mutations/run.sh tell faults apart? Runs it over a table of its own: a fault that is noticed, one that is not, one
# that does not compile, one whose text is not there, one whose test is not there. mutation_runner_test.sh BUILD
set -euo pipefail
build=$1
run=$(cd "$(dirname "${BASH_SOURCE[0]}")/../mutations" && pwd)/run.sh
[[ -f $build/build.ninja ]] || { echo 'skipped: not a build of ninja'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work"/{runner,stranger,twice}

fault() { # ID OLD NEW TEST
  printf 'id: %s\ngroup: of the runner\nfile: admission/promotion_concurrency.cpp\nold: %s\nnew: %s\nfails: %s\n\n' "$@"
}
cap='admission/the cap-th promotion is admitted, the next refused'
reset='void PromotionConcurrency::reset() { in_flight_.clear(); }'
{
  echo '# Comments and empty lines are passed over.'
  fault noticed "$reset" 'void PromotionConcurrency::reset() {}' 'admission/reset frees every place'
  fault unnoticed "$reset" 'void PromotionConcurrency::reset() { (in_flight_.clear()); }' "$cap"
  fault broken "$reset" 'void PromotionConcurrency::reset() {' "$cap"
  fault absent 'void PromotionConcurrency::rest()' 'x' "$cap"
  fault often 'job.is_promotion' 'x' "$cap"
} > "$work/runner/table.txt"
fault stranger "$reset" 'void PromotionConcurrency::reset() {}' 'admission/no such test' > "$work/stranger/table.txt"
fault twice "$reset" x "$cap" > "$work/twice/table.txt"
fault twice "$reset" x "$cap" >> "$work/twice/table.txt"

failed=0
# expect STATUS WORDS... -- ARGUMENTS...: each of WORDS is in what run.sh says.
expect() {
  local status=0 wanted=$1 words=()
  shift
  while [[ $1 != -- ]]; do words+=("$1"); shift; done
  shift
  "$run" --build "$build" --no-build --scratch "$work/scratch" "$@" > "$work/out" 2>&1 || status=$?
  local word
  [[ $status == "$wanted" ]] || { echo "status $status instead of $wanted: $*"; failed=1; }
  for word in "${words[@]}"; do
    grep -qE -- "$word" "$work/out" || { echo "not said by $*: $word"; sed 's/^/  /' "$work/out"; failed=1; }
  done
}
expect 1 '^noticed .* noticed$' '^unnoticed .* NOT NOTICED by admission/the cap-th' '^broken .* DOES NOT COMPILE$' \
  '^absent .* PATTERN DOES NOT FIT$' '^often .* PATTERN DOES NOT FIT$' '^1 of 5 faults noticed' -- --tables "$work/runner"
expect 0 '^1 of 1 faults noticed' -- --tables "$work/runner" noticed
expect 1 'absent: the old text is not exactly once' 'often: the old text is not exactly once' -- \
  --tables "$work/runner" --check
expect 1 'fails or is not there: admission/no such test' '^stranger .* TEST FAILS WITHOUT THE FAULT$' -- --tables "$work/stranger"
expect 1 'fault "twice" is there twice' -- --tables "$work/twice" --check
expect 2 'no fault is called nobody' -- --tables "$work/runner" nobody
exit $failed
