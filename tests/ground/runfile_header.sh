#!/bin/sh
# A self-extracting archive that behaves as NVIDIA's do; made by a proving ground, not by NVIDIA.
label="NVIDIA Accelerated Graphics Driver for Linux-x86_64 @VERSION@"
target="NVIDIA-Linux-x86_64-@VERSION@"
md5=@MD5@
size=@SIZE@
skip=@SKIP@

check() {
    printf 'Verifying archive integrity... '
    found=$(tail -n "+$skip" "$0" | md5sum | cut -d ' ' -f 1)
    if [ "$found" != "$md5" ]; then
        echo "Error in MD5 checksum: $found is different from $md5"
        exit 1
    fi
    echo OK
}

extract_only=; keep=; chosen=; tmp=${TMPDIR:-/tmp}
for one; do
    case $one in
        --info)
            printf '\n  Identification    : %s\n  Target directory  : %s\n' "$label" "$target"
            printf '  Uncompressed size : %s KB\n  Compression       : gzip\n' "$size"
            printf '  Application run after extraction : ./nvidia-installer\n\n'
            exit 0 ;;
        --check) check; exit 0 ;;
        --lsm) exit 0 ;;
        -v|--version)
            printf '\nnvidia-installer:  version @VERSION@\n'
            printf '  The NVIDIA Software Installer for Unix/Linux.\n\n'
            printf '  This program is used to install, upgrade and uninstall The NVIDIA Accelerated\n'
            printf '  Graphics Driver Set for Linux-x86_64.\n\n'
            exit 0 ;;
        -x|--extract-only) extract_only=1 ;;
        --keep) keep=1 ;;
        --target) chosen=next ;;
        --tmpdir=*) tmp=${one#--tmpdir=} ;;
        *) [ "$chosen" != next ] || chosen=$one ;;
    esac
done

check
if [ -n "$extract_only" ] || [ -n "$keep" ]; then
    place=${chosen:-$target}
    if [ -e "$place" ]; then
        echo "The directory '$place' already exists.  Please either move it out of the way, or specify a different directory with '--target'." >&2
        exit 1
    fi
else
    place=$(mktemp -d "$tmp/selfgz.XXXXXX") || exit 1
    trap 'rm -rf "$place"' EXIT
fi
mkdir -p "$place" || exit 1
echo "Uncompressing $label"
tail -n "+$skip" "$0" | tar -xzf - -C "$place" || { echo "Signal caught or no space left"; exit 1; }
[ -z "$extract_only" ] || exit 0
(cd "$place" && ./nvidia-installer "$@")
exit $?
