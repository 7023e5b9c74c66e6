#!/usr/bin/env bash
# Runs a program on a machine with several NUMA nodes: a small guest under qemu, with Debian's cloud kernel and an
# initramfs of busybox, numactl, the program and the libraries it is linked with. Emulated, so that it runs everywhere:
# right for placement and order, meaningless for speed. Up in 4 s, about 7 s in all.
#
# Usage: numa_guest.sh [OPTION]... -- PROGRAM [ARGUMENT]...
#   --nodes N             2; at a distance of 21 from each other
#   --cpus-per-node N     2
#   --memory-per-node MIB 512
#   --disk MIB            an ext4 file system at /data (user attributes, direct I/O, io_uring); without it /tmp, a tmpfs
#   --file HOST:GUEST     one more file, or program with its libraries
#   --run 'WORDS'         what the guest's shell runs in place of PROGRAM, which is /bin/program there; beside it are
#                         numactl and busybox's commands (taskset, mount, ...)
#   --kernel WORDS        for its command line, such as 'hugepages=16'
#   --timeout SECONDS     240
#
# Output comes through. Status: the program's; 77 with a reason if something is missing; 125 if the guest did not end.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage() { sed -n '/^# Usage/,/^$/{/^$/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2; exit 2; }
skip() { echo "skipped: $*"; exit 77; }

nodes=2 cpus=2 memory=512 disk=0 limit=240 run='' kernel_words='' files=()
while [[ $# -gt 0 && $1 != -- ]]; do
  [[ $# -gt 1 ]] || usage
  case $1 in
    --nodes) nodes=$2 ;;
    --cpus-per-node) cpus=$2 ;;
    --memory-per-node) memory=$2 ;;
    --disk) disk=$2 ;;
    --file) files+=("$2") ;;
    --run) run=$2 ;;
    --kernel) kernel_words=$2 ;;
    --timeout) limit=$2 ;;
    *) usage ;;
  esac
  shift 2
done
[[ $# -gt 1 ]] || usage
shift

for tool in qemu-system-x86_64 busybox cpio numactl; do
  command -v "$tool" > /dev/null || skip "$tool is missing: .ci/install.sh guest"
done
kernel=$(source "$here/../../.ci/common.sh" && kv_offload_cache)/guest-kernel
[[ -e $kernel/vmlinuz ]] || skip "the guest's kernel is missing: .ci/guest_kernel.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{bin,proc,sys,dev,tmp,data,modules,usr}
cp "$(command -v busybox)" "$root/bin/busybox"

# add FILE GUEST_PATH: without debug information, and with its libraries at the paths where the loader looks.
add() {
  mkdir -p "$(dirname "$root/$2")"
  strip --strip-debug -o "$root/$2" "$1" 2> /dev/null || cp -L "$1" "$root/$2"
  local library
  { ldd "$1" 2> /dev/null || true; } | { grep -o '/[^ ]*' || true; } | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -Ln "$library" "$root$library"
  done
}
add "$(command -v numactl)" bin/numactl
add "$(command -v "$1")" bin/program
for file in ${files[@]+"${files[@]}"}; do add "${file%%:*}" "${file#*:}"; done
shift
[[ -n $run ]] || run="/bin/program $(printf '%q ' "$@")"
echo "$run" > "$root/run"

if ((disk > 0)); then
  cp "$kernel"/*.ko "$root/modules/" 2> /dev/null || true
  truncate -s "${disk}M" "$work/disk"
  PATH=$PATH:/sbin mkfs.ext4 -q -F "$work/disk"
fi
cat > "$root/init" << 'INIT'
#!/bin/busybox sh
export PATH=/bin HOME=/tmp
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/shm; mount -t tmpfs shm /dev/shm; mount -t tmpfs tmp /tmp; mount -t cgroup2 none /sys/fs/cgroup
ip link set lo up
for module in /modules/*.ko; do [ ! -e "$module" ] || insmod "$module"; done
if [ -e /modules ] && [ -n "$(ls /modules)" ]; then
  i=0; while [ ! -b /dev/vda ] && [ $i -lt 50 ]; do sleep 0.1; i=$((i + 1)); done
  mount -t ext4 /dev/vda /data
fi
sh /run
echo "guest ended with status $?"
sync
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) > "$work/initrd"

machine=(-nodefaults -machine q35 -accel "tcg,thread=multi" -cpu max
  -smp "$((nodes * cpus)),sockets=$nodes,cores=$cpus" -m "$((nodes * memory))M"
  -kernel "$kernel/vmlinuz" -initrd "$work/initrd" -append "console=ttyS0 quiet loglevel=1 panic=-1 $kernel_words"
  -serial stdio -display none -no-reboot)
for ((i = 0; i < nodes; ++i)); do
  machine+=(-object "memory-backend-ram,id=m$i,size=${memory}M"
    -numa "node,nodeid=$i,cpus=$((i * cpus))-$((i * cpus + cpus - 1)),memdev=m$i")
  for ((j = 0; j < i; ++j)); do machine+=(-numa "dist,src=$i,dst=$j,val=21"); done
done
((disk == 0)) || machine+=(-drive "file=$work/disk,format=raw,if=virtio,cache=none,aio=threads")

timeout "$limit" qemu-system-x86_64 "${machine[@]}" < /dev/null 2>&1 | tr -d '\r' | tee "$work/out" |
  sed '/^guest ended with status /d; /reboot: Power down/d' || true
status=$(sed -n 's/^guest ended with status //p' "$work/out" | tail -1)
[[ -n $status ]] || echo "numa_guest.sh: the guest did not end in $limit s, or not by itself"
exit "${status:-125}"
