#!/bin/sh
# Runs every scenario and writes their tables, in Markdown, to standard output.
#
#   bench/scenarios/run.sh BUILD_DIR [CONVERSATION_TRACE.jsonl] [simulate options, such as --seeds 3 --grid 20]
#
# Without a trace the scenario that needs one is left out. Status 1 if an expectation of any scenario was not met:
# it is named on standard error.
set -eu

build=${1:?usage: run.sh BUILD_DIR [TRACE] [simulate options]}
shift
trace=
case ${1:-} in
  '' | --*) ;;
  *)
    trace=$1
    shift
    ;;
esac
cd "$(dirname "$0")/../.."
bench=$build/bench/kv-offload-bench
tables=$(mktemp)
trap 'rm -f "$tables"' EXIT
status=0
for file in bench/scenarios/*.json; do
  case $file in
    */real_trace.json)
      [ -n "$trace" ] || continue
      "$bench" simulate --quiet --scenario "$file" --trace "$trace" --markdown "$tables" "$@" || status=1
      ;;
    *) "$bench" simulate --quiet --scenario "$file" --markdown "$tables" "$@" || status=1 ;;
  esac
done
cat "$tables"
exit $status
