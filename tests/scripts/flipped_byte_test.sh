#!/usr/bin/env bash
# One flipped byte in one stored file fails exactly that chunk in the next run: counted, and never served as data.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh" "$@"

mkdir "$work/dir"
small_replay --json "$work/clean.json"
equal 'corrupt chunks of a clean run' "$(number "$work/clean.json" '.tiers["1:fs"].corrupt')" 0

# The next run starts with an empty primary tier and a tier that holds the whole trace: it reads every file.
mapfile -t files < <(find "$work/dir" -name '*.bin' | sort)
((${#files[@]} > 0)) || fail 'the first run stored nothing'
victim=${files[0]}
old=$(od -An -tu1 -j 1000 -N 1 "$victim")
printf "\\x$(printf %02x $((old ^ 1)))" | dd of="$victim" bs=1 seek=1000 conv=notrunc status=none

small_replay --json "$work/flipped.json"
equal mismatches "$(number "$work/flipped.json" .mismatches)" 0
equal 'corrupt chunks' "$(number "$work/flipped.json" '.tiers["1:fs"].corrupt')" 1
