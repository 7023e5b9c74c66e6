#!/usr/bin/env bash
# Plans, threads and pages on a machine with NUMA nodes, which is emulated: numa_test.sh PLACEMENT_DRILL
set -euo pipefail
guest="$(cd "$(dirname "${BASH_SOURCE[0]}")/../support" && pwd)/numa_guest.sh"

# One boot. Node 1 has the CPUs 2 and 3; a group of processes without its memory, and a thread without its CPUs.
# Started with memory interleaved, as some serving processes are: bound memory and pinned threads do not follow it.
"$guest" --kernel hugepages=32 --run '
failed=0
try() { echo "== $*"; "$@" || failed=1; }
try program placed 2
try numactl --interleave=all program placed 2
try taskset 3 program one_domain "NUMA node 1 carries no domain: it has no CPU that this process may use"
try program full 1
echo +cpuset > /sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/half
echo 0 > /sys/fs/cgroup/half/cpuset.mems
echo $$ > /sys/fs/cgroup/half/cgroup.procs
try program one_domain "NUMA node 1 carries no domain: it has no memory that this process may use"
try program excluded 1
[ $failed = 0 ]
' -- "$1" placed 2
"$guest" --nodes 4 --cpus-per-node 1 --memory-per-node 256 --kernel hugepages=32 -- "$1" placed 4
