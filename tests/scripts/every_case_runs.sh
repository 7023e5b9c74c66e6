#!/usr/bin/env bash
# Is every test case of every test program a ctest? A name that CMake takes for a list (with ';') is cut short where it
# is registered, and Catch then runs nothing and calls that a success. every_case_runs.sh BUILD
set -euo pipefail
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Listed from a folder of its own: ctest writes a log even where it only lists, and BUILD may be running.
echo "subdirs(\"$build\")" > "$work/CTestTestfile.cmake"
(cd "$work" && ctest -N) | sed -nE 's/^ *Test +#[0-9]+: //p' > "$work/tests"
cases=0 failed=0
for program in "$build"/tests/test_*; do
  [[ -f $program && -x $program ]] || continue
  folder=$(basename "$program")
  # The status of this option is the number of test cases.
  "$program" --list-test-names-only > "$work/names" || true
  while IFS= read -r name; do
    cases=$((cases + 1))
    grep -qxF -- "${folder#test_}/$name" "$work/tests" || { echo "no ctest runs ${folder#test_}/$name"; failed=1; }
  done < <(sed 's/^"\(.*\)"$/\1/' "$work/names")
done
echo "$cases test cases"
((cases > 0)) || { echo "there is no test program in $build/tests"; failed=1; }
exit $failed
