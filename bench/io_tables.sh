#!/bin/sh
# What moving chunks costs, the whole table, in Markdown on standard output. About a quarter of an hour and 15 GB of
# the file system that holds DIR; nothing else should run meanwhile.
#
#   bench/io_tables.sh BUILD_DIR [DIR [ROUNDS]]
#
# Needs fio; with free huge pages (sysctl vm.nr_hugepages=16) fio's registered buffers are measured, too.
set -eu

build=${1:?usage: io_tables.sh BUILD_DIR [DIR [ROUNDS]]}
place=$(mktemp -d "${2:-${TMPDIR:-/tmp}}/kv-offload-io-XXXXXX")
rounds=${3:-7}
tables=$place/tables.md
trap 'rm -rf "$place"' EXIT

io() {
  "$build/bench/kv-offload-bench" io --quiet --markdown "$tables" --pairs "$rounds" "$@"
}
export TMPDIR="$place"

echo "$(date +%F), $(nproc) cores, Linux $(uname -r), $(df --output=fstype "$place" | tail -n 1)"
echo
against='--against-floor --against-fio'
# shellcheck disable=SC2086  # two options
{
  io --tier fs --chunk-bytes 2MiB --depth 4 --set-bytes 512MiB --engine $against
  io --tier fs --chunk-bytes 64KiB --depth 32 --set-bytes 256MiB --engine $against
  io --tier extent --chunk-bytes 64KiB --depth 32 --set-bytes 512MiB --engine $against
  io --tier extent --chunk-bytes 4KiB --depth 64 --set-bytes 256MiB $against
  io --tier fs --chunk-bytes 2MiB --depth 4 --set-bytes 512MiB --engine --no-checksum --against-floor
  io --tier extent --chunk-bytes 2MiB --depth 4 --set-bytes 512MiB --engine --no-checksum --against-floor
  io --tier fs --chunk-bytes 2MiB --set-bytes 512MiB --io threads --against-floor
  io --tier fs --chunk-bytes 64KiB --depth 32 --set-bytes 256MiB --io threads --against-floor
}
io --what latency --tier fs --chunk-bytes 2MiB --set-bytes 512MiB --seconds 1 --against-floor
io --what latency --tier fs --chunk-bytes 64KiB --set-bytes 256MiB --seconds 1.5 --against-floor
io --what latency --tier extent --chunk-bytes 64KiB --set-bytes 256MiB
io --what memory --chunk-bytes 2MiB
cat "$tables"
