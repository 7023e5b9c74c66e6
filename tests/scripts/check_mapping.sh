#!/usr/bin/env bash
# Does every test that tests/catalogue.md names exist? check_mapping.sh BUILD [CATALOGUE]
# In every table whose last column is "covered by", a word in `backticks` in that column is a ctest of BUILD; a cell
# without one gives a reason. Fails with one line per name that is no ctest and per cell that says nothing.
set -euo pipefail
build=$(cd "$1" && pwd)
catalogue=${2:-$(dirname "${BASH_SOURCE[0]}")/../catalogue.md}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Listed from a folder of its own: ctest writes a log even where it only lists, and BUILD may be running.
echo "subdirs(\"$build\")" > "$work/CTestTestfile.cmake"
(cd "$work" && ctest -N) | sed -nE 's/^ *Test +#[0-9]+: //p' > "$work/tests"
[[ -s $work/tests ]] || { echo "there is no ctest in $build"; exit 1; }

awk -v tests="$work/tests" '
  function trim(s) { gsub(/^ +| +$/, "", s); return s }
  BEGIN { while ((getline name < tests) > 0) known[name] = 1 }
  !/^\|/ { in_table = 0; next }
  {
    line = $0
    gsub(/\\\|/, "\001", line)
    columns = split(line, cell, "|") - 2
    last = trim(cell[columns + 1])
    if (!in_table) { in_table = 1; is_mapping = last == "covered by"; width = columns; next }
    if (!is_mapping || line ~ /^\|[-|]+\|$/) next
    ++rows
    if (columns != width) { print FILENAME ":" FNR ": " columns " cells instead of " width; failed = 1; next }
    if (last == "") { print FILENAME ":" FNR ": neither a test nor a reason"; failed = 1; next }
    if (last ~ /^\*\*missing\*\*/) ++missing
    parts = split(last, part, "`")
    if (parts % 2 == 0) { print FILENAME ":" FNR ": a backtick is missing"; failed = 1; next }
    if (parts > 1) ++mapped
    for (i = 2; i <= parts; i += 2) {
      name = part[i]
      gsub("\001", "|", name)
      ++names
      if (!(name in known)) { print FILENAME ":" FNR ": no such test: " name; failed = 1 }
    }
  }
  END {
    if (!rows) { print FILENAME ": no table with a column \"covered by\""; failed = 1 }
    printf "%d rows: %d name %d tests, %d give a reason, %d are missing\n", rows, mapped, names,
           rows - mapped - missing, missing
    exit failed
  }' "$catalogue"
