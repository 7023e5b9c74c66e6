#!/usr/bin/env bash
# Plants mistakes in a catalogue and expects that check_mapping.sh names each. check_mapping_test.sh BUILD
set -euo pipefail
check=$(dirname "${BASH_SOURCE[0]}")/check_mapping.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
real='catalogue/every_named_test_exists'

good() {
  cat << END
# A catalogue

| reference test | what must hold | covered by |
|---|---|---|
| one | it is there | \`$real\` |
| two | twice, and a reason | \`$real\`<br>\`$real\`<br>plain words |
| three \\| pipe | a reason | plain words \\| more |
| four | honest | **missing**: no test yet |

| another | table |
|---|---|
| whose | last column names \`nothing\` |
END
}
failed=0
# expect STATUS LINE: what check_mapping.sh says of $work/catalogue.
expect() {
  local status=0
  "$check" "$build" "$work/catalogue" > "$work/out" || status=$?
  [[ $status == "$1" ]] && grep -qF -- "$2" "$work/out" && return
  echo "instead of status $1 and \"$2\": status $status and"
  sed 's/^/  /' "$work/out"
  failed=1
}
# planted SED LINE: the good catalogue with a mistake.
planted() {
  good | sed "$1" > "$work/catalogue"
  cmp -s <(good) "$work/catalogue" && { echo "nothing planted: $1"; failed=1; }
  expect 1 "$2"
}

build=$1
good > "$work/catalogue"
expect 0 '4 rows: 2 name 3 tests, 1 give a reason, 1 are missing'
planted "5s|$real|catalogue/every_named_test_exist|" 'catalogue:5: no such test: catalogue/every_named_test_exist'
planted "5s|$real|Catalogue/every_named_test_exists|" 'catalogue:5: no such test: Catalogue/every_named_test_exists'
planted "6s|<br>\`$real\`|<br>\`planted/name\`|" 'catalogue:6: no such test: planted/name'
planted '7s/plain words.*more//' 'catalogue:7: neither a test nor a reason'
planted '5s/`$/` |/; 5s/` |$/ |/' 'catalogue:5: a backtick is missing'
planted '7s/^| three/| an | extra cell | three/' 'catalogue:7: 5 cells instead of 3'
planted 's/covered by/where/' 'no table with a column "covered by"'
build=$work
good > "$work/catalogue"
expect 1 'there is no ctest'
exit $failed
