# Shared by ./run, ./check and the scripts in .ci. Sourced, never run: it changes into the source root.
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Where things that take minutes to make are kept between builds and checkouts.
kv_offload_cache() {
  echo "${KV_OFFLOAD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kv_offload}"
}

# One compiler per core, but no more than memory carries: a file that uses CAF takes up to 1 GiB.
kv_offload_jobs() {
  local cores gib
  cores=$(nproc)
  gib=$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)
  echo $((gib < 1 ? 1 : gib < cores ? gib : cores))
}

# configure_and_build PRESET [TARGET]...
configure_and_build() {
  local preset=$1
  shift
  cmake --preset "$preset" --log-level=NOTICE
  cmake --build --preset "$preset" --parallel "$(kv_offload_jobs)" ${1:+--target "$@"}
}

# step NAME COMMAND...: runs it and says how long it took, also when it fails.
step() {
  local name=$1 start=$SECONDS status=0
  shift
  echo "== $name"
  # In a shell of its own: `set -e` does not work in a function whose status is tested.
  (set -e; "$@") &
  wait $! || status=$?
  local seconds=$((SECONDS - start))
  printf '== %s: %s after %d.%d min\n' "$name" "$( ((status == 0)) && echo done || echo FAILED)" \
    $((seconds / 60)) $((seconds % 60 / 6))
  return $status
}

# ThreadSanitizer of GCC 12 cannot place its shadow memory where a kernel randomises with more than 28 bits.
without_address_randomisation() {
  if setarch -R true 2> /dev/null; then setarch -R "$@"; else "$@"; fi
}
