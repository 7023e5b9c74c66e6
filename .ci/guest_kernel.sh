#!/usr/bin/env bash
# Prints a folder that holds the kernel and the modules of tests/support/numa_guest.sh. Both are taken out of Debian's
# package without installing it: that would make this machine boot it.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
folder=$(kv_offload_cache)/guest-kernel
modules=(virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk)  # in the order they load
if [[ ! -e $folder/vmlinuz ]]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  package=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
  (cd "$work" && apt-get -qq download "$package" 2> /dev/null && dpkg-deb -x "$package"_*.deb .)
  made=$work/made
  mkdir -p "$made"
  mv "$work"/boot/vmlinuz-* "$made/vmlinuz"
  for i in "${!modules[@]}"; do
    found=$(find "$work/lib/modules" -name "${modules[i]}.ko*")
    [[ -z $found ]] || mv "$found" "$made/$i-${modules[i]}.ko"  # else it is built in
  done
  rm -rf "$folder"
  mkdir -p "$(dirname "$folder")"
  mv "$made" "$folder"
fi
echo "$folder"
