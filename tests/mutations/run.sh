#!/usr/bin/env bash
# Plants one-line faults in copies of the sources and expects that the named tests notice each of them.
#
#   run.sh [--build DIR] [--no-build] [--jobs N] [--sample N] [--tables DIR] [--scratch DIR] [--check]
#          [ID...]
#
# Every *.txt beside this script, or in the DIR of --tables, is a table of faults, one block each (`old` stands exactly once in `file`):
#
#   id: lru-newest-first
#   group: LRU
#   file: tiers/eviction/lru_policy.cpp
#   old: evictable_.push_back(chunk);
#   new: evictable_.push_front(chunk);
#   fails: tiers/LRU victims come oldest first and skip kept slots
#
# The tree stays as it is and its build gets no fault: a fault is a changed copy of one source, compiled with the
# command of the build DIR (default build/ci, brought up to date first) and linked in front of the program's own objects. A fault in a
# header of messages/ recompiles the tests of messages/. --check looks at the tables alone. --sample N takes N faults,
# spread evenly over all of them, the same ones every time.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build/ci jobs=$(nproc) sample=0 check=0 do_build=1 scratch=
ids=()
while (($#)); do
  case $1 in
    --build) build=$(realpath "$2"); shift ;;
    --jobs) jobs=$2; shift ;;
    --sample) sample=$2; shift ;;
    --tables) here=$(realpath "$2"); shift ;;
    --scratch) mkdir -p "$2"; scratch=$(realpath "$2"); shift ;;
    --no-build) do_build=0 ;;
    --check) check=1 ;;
    -*) echo "run.sh: $1 is not known" >&2; exit 2 ;;
    *) ids+=("$1") ;;
  esac
  shift
done
# One program run may take this long; a fault that makes a program hang is noticed by it.
readonly kSeconds=60
# ccache must not mistrust the precompiled header of CAF, as in .cmake/KvOffloadBuild.cmake.
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime

# Splits the tables into $work/<id>/{group,file,old,new,fails}; prints the ids in order.
split_tables() {
  awk -v work="$work" '
    function flush_block() {
      if (!have) return
      if (!("id" in f)) f["id"] = ""
      for (k in want)
        if (f[k] == "" && k != "new") { print FILENAME ": fault \"" f["id"] "\" has no " k > "/dev/stderr"; bad = 1 }
      if (f["id"] in seen) { print FILENAME ": fault \"" f["id"] "\" is there twice" > "/dev/stderr"; bad = 1 }
      if (f["id"] !~ /^[a-z0-9-]+$/) { print FILENAME ": \"" f["id"] "\" is no id" > "/dev/stderr"; bad = 1 }
      if (bad) exit 1
      seen[f["id"]] = 1
      system("mkdir -p \"" work "/" f["id"] "\"")
      for (k in want) { printf "%s", f[k] > (work "/" f["id"] "/" k); close(work "/" f["id"] "/" k) }
      print f["id"]
      split("", f); have = 0
    }
    BEGIN { split("id group file old new fails", names, " "); for (i in names) want[names[i]] = 1 }
    FNR == 1 { flush_block() }
    /^#/ { next }
    /^$/ { flush_block(); next }
    {
      at = index($0, ": "); key = substr($0, 1, at - 1); value = substr($0, at + 2)
      if ($0 ~ /^new:$/) { key = "new"; value = "" }
      if (!(key in want)) { print FILENAME ":" FNR ": \"" $0 "\" is not understood" > "/dev/stderr"; bad = 1; exit 1 }
      if (key == "fails") f[key] = f[key] value "\n"; else f[key] = value
      have = 1
    }
    END { if (!bad) flush_block(); exit bad }' "$@"
}

# plant ID: writes the changed copy; fails unless `old` stands exactly once.
plant() {
  local id=$1 file
  file=$(< "$work/$id/file")
  [[ -f $root/$file ]] || { echo "$id: there is no $file"; return 1; }
  local copy=$work/$id/include/kv_offload/$file
  mkdir -p "$(dirname "$copy")"
  awk -v old="$(sed 's/\\/\\\\/g' "$work/$id/old")" -v new="$(sed 's/\\/\\\\/g' "$work/$id/new")" '
    {
      line = $0; rest = line; at = 0
      while ((i = index(rest, old)) > 0) { ++count; at += i; rest = substr(rest, i + length(old)); first = first ? first : i; hit = NR }
      if (hit == NR) line = substr($0, 1, first - 1) new substr($0, first + length(old))
      print line
    }
    END { if (count != 1) exit 3 }' "$root/$file" > "$copy.new" || {
    echo "$id: the old text is not exactly once in $file"
    return 1
  }
  # An unchanged time lets ccache and a repeated run recognise what was compiled before.
  if cmp -s "$copy.new" "$copy"; then rm "$copy.new"; else mv "$copy.new" "$copy"; fi
}

# compile SOURCE COPY OBJECT [INCLUDE]: with the command that the build uses for SOURCE.
compile() {
  local command
  command=$(awk -F '\t' -v source="$1" '$1 == source { print $2; exit }' "$work/commands")
  [[ -n $command ]] || { echo "the build $build does not compile $1"; return 1; }
  command=${command% -o *}
  [[ -z ${4:-} ]] || command=${command/ -I/ -I$4 -I}
  (cd "$build" && eval "$command -w -o '$3' -c '$2'")
}

# link PROGRAM OUT OBJECT...: with the objects in front of, and instead of, those of the same source.
link() {
  local program=$1 out=$2 command object
  shift 2
  command=$(< "$work/link_$program")
  for object in "$@"; do
    [[ -z ${replaces[$object]:-} ]] || command=${command/ ${replaces[$object]} / }
  done
  (cd "$build" && eval "${command/" -o tests/$program "/" $* -o $out "}")
}

# run_test PROGRAM NAME: status of one test case; its name as Catch reads it.
run_test() {
  (cd "$work" && timeout "$kSeconds" "$1" "$(sed 's/[\\,\[]/\\&/g' <<< "$2")" --warn NoTests)
}

# one ID: prints "ID<TAB>group<TAB>result<TAB>seconds"; keeps the words in $work/ID/log.
one() {
  local id=$1 started=$EPOCHREALTIME result=noticed file name program status source
  local -A replaces=()
  file=$(< "$work/$id/file")
  local -A linked=()
  exec 9> "$work/$id/log"
  if ! plant "$id" >&9 2>&1; then
    result='PATTERN DOES NOT FIT'
  else
    while IFS= read -r name; do
      if grep -qxF -- "$name" "$work/useless"; then
        result='TEST FAILS WITHOUT THE FAULT'
        break
      fi
      program=test_${name%%/*}
      if [[ -z ${linked[$program]:-} ]]; then
        local objects=()
        if [[ $file == *.hpp ]]; then
          for source in "$root/tests/${program#test_}"/*.cpp; do
            objects+=("$work/$id/$(basename "$source").o")
            replaces[${objects[-1]}]=tests/CMakeFiles/$program.dir/${program#test_}/$(basename "$source").o
            compile "$source" "$source" "${objects[-1]}" "$work/$id/include" >&9 2>&1 || result='DOES NOT COMPILE'
          done
        else
          objects=("$work/$id/object.o")
          replaces[${objects[0]}]=$(awk -F '\t' -v source="$root/$file" '$1 == source { print $3; exit }' "$work/commands")
          [[ -n ${linked[any]:-} ]] ||
            compile "$root/$file" "$work/$id/include/kv_offload/$file" "${objects[0]}" >&9 2>&1 || result='DOES NOT COMPILE'
        fi
        [[ $result == noticed ]] || break
        link "$program" "$work/$id/$program" "${objects[@]}" >&9 2>&1 || { result='DOES NOT LINK'; break; }
        linked[$program]=1 linked[any]=1
      fi
      status=0
      run_test "$work/$id/$program" "${name#*/}" >&9 2>&1 || status=$?
      case $status in
        0) result="NOT NOTICED by $name"; break ;;
        124) result='noticed (it hangs)' ;;
      esac
    done < "$work/$id/fails"
    rm -f "$work/$id"/test_*
  fi
  printf '%s\t%s\t%s\t%.1f\n' "$id" "$(< "$work/$id/group")" "$result" \
    "$(awk -v a="$started" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')"
}

if [[ ${KV_OFFLOAD_ONE:-} ]]; then
  work=$KV_OFFLOAD_ONE
  one "${ids[0]}"
  exit
fi

if ((check)); then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  failed=0
  split_tables "$here"/*.txt > "$work/ids" || exit 1
  while IFS= read -r id; do plant "$id" || failed=1; done < "$work/ids"
  echo "$(wc -l < "$work/ids") faults"
  exit $failed
fi

work=${scratch:-$build/mutations}
mkdir -p "$work"
split_tables "$here"/*.txt > "$work/ids" || exit 1
if ((${#ids[@]})); then
  for id in "${ids[@]}"; do grep -qxF -- "$id" "$work/ids" || { echo "run.sh: no fault is called $id" >&2; exit 2; }; done
  printf '%s\n' "${ids[@]}" > "$work/ids"
elif ((sample)); then
  awk -v n="$sample" '{ all[NR] = $0 }
    END { for (i = 0; i < n && i < NR; ++i) print all[int(i * NR / (n < NR ? n : NR)) + 1] }' "$work/ids" > "$work/ids.new"
  mv "$work/ids.new" "$work/ids"
fi

# What the build compiles and links, once for all faults.
while IFS= read -r id; do sed 's|/.*||; s|^|test_|' "$work/$id/fails"; done < "$work/ids" | sort -u > "$work/programs"
if ((do_build)); then
  xargs cmake --build "$build" --parallel "$jobs" --target < "$work/programs" > "$work/log" || {
    tail -20 "$work/log"
    exit 1
  }
fi
ninja -C "$build" -t compdb | jq -r '.[] | select(.command | test(" -c [^ ]+$")) | [.file, .command, .output] | join("\t")' |
  sed -E 's/ -MD -MT [^ ]+ -MF [^ ]+//' > "$work/commands"
while IFS= read -r program; do
  ninja -C "$build" -t commands "$program" 2> /dev/null | tail -1 | sed -E 's/^: && //; s/ && .*$//' > "$work/link_$program"
done < "$work/programs"

# A test that fails without the fault proves nothing.
failed=0
: > "$work/useless"
while IFS= read -r name; do
  run_test "$build/tests/test_${name%%/*}" "${name#*/}" > "$work/log" 2>&1 ||
    { echo "without any fault this test fails or is not there: $name"; tail -5 "$work/log"; echo "$name" >> "$work/useless"; failed=1; }
done < <(while IFS= read -r id; do cat "$work/$id/fails"; done < "$work/ids" | sort -u)

# Faults of one source follow each other, so that what they share stays in the caches.
started=$SECONDS
KV_OFFLOAD_ONE=$work xargs -P "$jobs" -I{} \
  "${BASH_SOURCE[0]}" --build "$build" {} < "$work/ids" |
  while IFS=$'\t' read -r id group result seconds; do
    printf '%-44s %-24s %6.1f s  %s\n' "$id" "$group" "$seconds" "$result"
  done | tee "$work/results"
total=$(wc -l < "$work/ids") noticed=$(grep -c ' s  noticed' "$work/results" || true)
echo "$noticed of $total faults noticed in $((SECONDS - started)) s"
((noticed == total && failed == 0))
