#!/usr/bin/env bash
# Chunk files are read and written by io_uring_enter alone: no other system call moves their bytes.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh" "$@"

strace -o /dev/null true 2> /dev/null || skip 'this machine does not allow strace'
[[ $(cat /proc/sys/kernel/io_uring_disabled 2> /dev/null || echo 0) == 0 ]] || skip 'the kernel forbids io_uring'

mkdir "$work/dir"
calls=read,readv,pread64,preadv,preadv2,write,writev,pwrite64,pwritev,pwritev2
calls+=,sendfile,splice,copy_file_range,io_submit,mmap
strace -f -qq -y --seccomp-bpf -e trace=$calls,io_uring_enter -o "$work/calls" \
  "$bench" replay --synthetic multi-turn --requests 40 --chunk-bytes 64KiB --primary-chunks 64 --tier fs \
  --dir "$work/dir" --verify all --quiet --json "$work/run.json"

equal mismatches "$(number "$work/run.json" .mismatches)" 0
read_bytes=$(number "$work/run.json" '.tiers["1:fs"].read_bytes')
written_bytes=$(number "$work/run.json" '.tiers["1:fs"].written_bytes')
((read_bytes > 0 && written_bytes > 0)) || fail "the run moved nothing: $read_bytes read, $written_bytes written"
# A name of a chunk file ends in .bin, of one being written in .tmp; the descriptor's path stands behind its number.
if grep -E "<$work/dir/[^>]*\.(bin|tmp)[^>]*>" "$work/calls" | grep -v 'io_uring_enter('; then
  fail 'the calls above touch chunk files beside the ring'
fi
enters=$(grep -c 'io_uring_enter(' "$work/calls" || true)
((enters > 0)) || fail 'the ring was never entered'
echo "$enters calls of io_uring_enter moved $read_bytes bytes in and $written_bytes bytes out"
