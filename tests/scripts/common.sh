# Shared by the script tests: common.sh KV_OFFLOAD_BENCH. Sourced, never run.
set -euo pipefail
bench=$1
readonly kSkip=77 # ctest's SKIP_RETURN_CODE
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $*"
  exit 1
}
skip() {
  echo "skipped: $*"
  exit "$kSkip"
}
# number FILE FILTER: what jq's FILTER finds in the JSON document FILE; a key that is not there is a failure.
number() {
  jq -er "$2" "$1" || fail "$(basename "$1") has no $2"
}
# equal WHAT GOT EXPECTED
equal() {
  [[ $2 == "$3" ]] || fail "$1: $2 instead of $3"
}
# A small replay with an fs tier behind a primary tier that cannot hold everything. Extra arguments follow.
small_replay() {
  "$bench" replay --synthetic multi-turn --requests 40 --chunk-bytes 64KiB --primary-chunks 64 --tier fs \
    --dir "$work/dir" --verify all --quiet "$@"
}
