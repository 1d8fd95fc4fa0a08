#!/bin/sh
# Stands for nvidia-installer @VERSION@: its options, messages, exit codes, log and records.
version=@VERSION@
name="NVIDIA Accelerated Graphics Driver for Linux-x86_64"
library=/usr/lib/x86_64-linux-gnu
records=/var/lib/nvidia
log=/var/log/nvidia-installer.log
silent=; uninstall=; dkms=; kernel_module=1; nouveau_check=1; x_check=1; disable_nouveau=; backup=1
kernel=$(uname -r); source=
jobs=$(nproc)

line="$*"
while [ $# -gt 0 ]; do
    case $1 in
        -s|--silent|-q|--no-questions) silent=1 ;;
        --ui=none) ;;
        --ui=*) [ -t 0 ] || { echo "ERROR: Unable to load: nvidia-installer ncurses user interface"; } ;;
        --dkms) dkms=1 ;;
        --no-dkms) dkms= ;;
        --no-kernel-module|--no-kernel-modules) kernel_module= ;;
        --no-nouveau-check) nouveau_check= ;;
        --no-x-check) x_check= ;;
        --disable-nouveau) disable_nouveau=1 ;;
        --no-backup) backup= ;;
        --uninstall) uninstall=1 ;;
        --log-file-name=*) log=${1#*=} ;;
        -k|--kernel-name) shift; kernel=$1 ;;
        --kernel-name=*) kernel=${1#*=} ;;
        --kernel-source-path=*) source=${1#*=} ;;
        -j|--concurrency-level) shift; jobs=$1 ;;
        --concurrency-level=*) jobs=${1#*=} ;;
        --target) shift ;;
        -i|--driver-info)
            if [ -f $records/log ]; then
                echo "The currently installed driver is: '$name' (version: $(sed -n 's/^version //p' $records/log))."
            else
                echo "There is no NVIDIA driver currently installed."
            fi
            exit 0 ;;
        --sanity) [ -f $records/log ] || { echo "ERROR: There is no NVIDIA driver currently installed."; exit 1; }; exit 0 ;;
        -a|--accept-license|--keep|--no-rpms|--no-drm|--no-nvidia-modprobe|--no-precompiled-interface|\
        --no-opengl-files|--no-install-libglvnd|--install-libglvnd|--install-compat32-libs|\
        --no-install-compat32-libs|--no-cc-version-check|--no-libglx-indirect|--no-wine-files|\
        --run-nvidia-xconfig|--no-runlevel-check|--no-distro-scripts|--no-check-for-alternate-installs|\
        --no-systemd|--systemd|--no-unified-memory|--no-peermem|--rebuild-initramfs|--no-rebuild-initramfs|\
        --tmpdir=*|--x-prefix=*|--utility-prefix=*|--utility-libdir=*|--kernel-output-path=*|\
        --kernel-install-path=*|-m=*|--kernel-module-type=*|--module-signing-*|--skip-module-load|--skip-depmod)
            case $1 in --no-check-for-alternate-installs) no_alternate=1 ;; esac ;;
        *)
            printf '\nnvidia-installer: unrecognized option: "%s".\n\nERROR: Invalid commandline, please run `nvidia-installer --help` for usage information.\n\n' "$1"
            exit 1 ;;
    esac
    shift
done
[ "${0##*/}" != nvidia-uninstall ] || uninstall=1

say() { printf '%s\n' "$*" >> "$log"; [ -n "$silent" ] || printf '%s\n' "$*"; }
warning() { printf 'WARNING: %s\n' "$*" | tee -a "$log"; }
error() { printf '\nERROR: %s\n\n' "$*" >> "$log"; printf '\nERROR: %s\n\n' "$*" >&2; }
failed() {
    [ -z "${1-}" ] || error "$1"
    error "Installation has failed.  Please see the file '$log' for details.  You may find suggestions on fixing installation problems in the README available on the Linux driver download page at www.nvidia.com."
    exit 1
}

if [ "$(id -u)" != 0 ]; then
    printf '\nERROR: nvidia-installer must be run as root\n\n' >&2
    exit 1
fi
if [ -n "$uninstall" ]; then log=/var/log/nvidia-uninstall.log; fi
{
    echo "nvidia-installer log file '$log'"
    echo "creation time: $(date)"
    echo "installer version: $version"
    echo
    echo "PATH: $PATH"
    echo
    echo "nvidia-installer command line:"
    echo "    ./nvidia-installer"
    for one in $line; do echo "    $one"; done
    echo
    echo "Using built-in stream user interface"
    echo "-> Detected $(nproc) CPUs online; setting concurrency level to $jobs."
} > "$log"

remove_installed() {
    old=$(sed -n 's/^version //p' $records/log)
    if command -v dkms >/dev/null && [ -n "$(dkms status -m nvidia -v "$old" 2>/dev/null)" ]; then
        say "-> Removing the DKMS module nvidia $old"
        dkms remove -m nvidia -v "$old" --all >> "$log" 2>&1
    fi
    sed -n 's/^file //p' $records/log | while read -r path; do
        if [ -e "$path" ] || [ -L "$path" ]; then
            rm -f "$path"
        else
            warning "Failed to delete '$path' (No such file or directory)."
        fi
    done
    sed -n 's/^directory //p' $records/log | sort -r | while read -r path; do
        rmdir "$path" 2>/dev/null
    done
    sed -n 's/^backup //p' $records/log | while read -r number path; do
        mv "$records/$number" "$path"
    done
    sed -n 's/^module //p' $records/log | while read -r one; do depmod "$one"; done
    rm -rf $records
    ldconfig
}

if [ -n "$uninstall" ]; then
    if [ ! -f $records/log ]; then
        error "There is no NVIDIA driver currently installed."
        exit 1
    fi
    installed=$(sed -n 's/^version //p' $records/log)
    say "Parsing log file:"
    say "Validating previous installation:"
    remove_installed
    printf "Uninstallation of existing driver: %s (%s) is complete.\n" "$name" "$installed" | tee -a "$log"
    exit 0
fi

say "-> Tagging shared libraries as being safe for use"
if [ -n "$x_check" ] && [ -f /tmp/.X0-lock ] && kill -0 "$(tr -d ' ' < /tmp/.X0-lock)" 2>/dev/null; then
    failed "You appear to be running an X server; please exit X before installing.  For further details, please see the section INSTALLING THE NVIDIA DRIVER in the README available on the Linux driver download page at www.nvidia.com."
fi
if [ -n "$kernel_module" ] && grep -q '^nvidia ' /proc/modules 2>/dev/null; then
    failed "An NVIDIA kernel module 'nvidia' appears to already be loaded in your kernel.  This may be because it is in use (for example, by an X server, a CUDA program, or the NVIDIA Persistence Daemon), but this may also happen if your kernel was configured without support for module unloading.  Please be sure to exit any programs that may be using the GPU(s) before attempting to upgrade your driver.  If no GPU-based programs are running, you know that your kernel supports module unloading, and you still receive this message, then an error may have occurred that has corrupted an NVIDIA kernel module's usage count, for which the simplest remedy is to reboot your computer."
fi
present=/usr/lib/nvidia/alternate-install-present
if [ -f $present ] && [ -z "${no_alternate-}" ]; then
    warning "The NVIDIA driver appears to have been installed previously using a different installer. To prevent potential conflicts, it is recommended either to update the existing installation using the same mechanism by which it was originally installed, or to uninstall the existing installation before installing this driver."
    say "Please review the message provided by the maintainer of this alternate installation method and decide how to proceed:"
    tee -a "$log" < $present
    say "(Answer: Abort installation)"
    error "The installation was canceled due to the availability or presence of an alternate driver installation. Please see $log for more details."
    exit 1
fi
if [ -n "$kernel_module" ] && [ -n "$nouveau_check" ] && grep -q '^nouveau ' /proc/modules 2>/dev/null; then
    error "The Nouveau kernel driver is currently in use by your system.  This driver is incompatible with the NVIDIA driver, and must be disabled before proceeding.  Please consult the NVIDIA driver README and your Linux distribution's documentation for details on how to correctly disable the Nouveau kernel driver."
    failed
fi
for tool in ldconfig modprobe depmod; do
    case $tool in ldconfig) package=glibc ;; *) package="module-init-tools' or 'kmod" ;; esac
    command -v $tool >/dev/null || failed "Unable to find the system utility \`$tool\`; please make sure you have the package '$package' installed.  If you do have $package installed, then please check that \`$tool\` is in your PATH."
done
if [ -n "$kernel_module" ]; then
    for pair in cc:gcc ld:binutils make:make; do
        tool=${pair%:*}; package=${pair#*:}
        command -v "$tool" >/dev/null || failed "Unable to find the development tool \`$tool\` in your path; please make sure that you have the package '$package' installed.  If $package is installed on your system, then please check that \`$tool\` is in your PATH."
    done
    tree=${source:-/lib/modules/$kernel/build}
    if [ ! -e "$tree/Makefile" ]; then
        failed "Unable to find the kernel source tree for the currently running kernel.  Please make sure you have installed the kernel source files for your kernel and that they are properly configured; on Red Hat Linux systems, for example, be sure you have the 'kernel-source' or 'kernel-devel' RPM installed.  If you know the correct kernel source files are installed, you may specify the kernel source path with the '--kernel-source-path' command line option."
    fi
    if [ -n "$dkms" ] && ! command -v dkms >/dev/null; then
        failed "Unable to find the system utility \`dkms\`; please make sure you have the package 'dkms' installed."
    fi
fi

here=$(pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
new="$work/log"
{ echo "version $version"; echo "# Files this installer put here, and those it moved away."; } > "$new"

# A file of somebody else's is kept, and comes back when this driver goes.
place() {
    if [ -e "$2" ] || [ -L "$2" ]; then
        if [ -n "$backup" ]; then
            count=$(grep -c '^backup ' "$new")
            mv "$2" "$records/$((100 + count))"
            echo "backup $((100 + count)) $2" >> "$new"
        else
            rm -f "$2"
        fi
    fi
    mkdir -p "${2%/*}" && cp -dp "$1" "$2" && echo "file $2" >> "$new" || failed "Unable to install '$2' (No space left on device)"
}

if [ -f $records/log ]; then
    installed=$(sed -n 's/^version //p' $records/log)
    say "There appears to already be a driver installed on your system (version: $installed).  As part of installing this driver (version: $version), the existing driver will be uninstalled.  Are you sure you want to continue? (Answer: Continue installation)"
    say "-> Uninstalling the previous installation with /usr/bin/nvidia-uninstall."
    remove_installed
fi
mkdir -p $records

install_source() {
    mkdir -p "/usr/src/nvidia-$version"
    echo "directory /usr/src/nvidia-$version" >> "$new"
    (cd "$here/kernel" && find . -type d) | while read -r path; do
        mkdir -p "/usr/src/nvidia-$version/$path"
        [ "$path" = . ] || echo "directory /usr/src/nvidia-$version/${path#./}" >> "$new"
    done
    (cd "$here/kernel" && find . ! -type d) | while read -r path; do
        cp -dp "$here/kernel/$path" "/usr/src/nvidia-$version/$path"
        echo "file /usr/src/nvidia-$version/${path#./}" >> "$new"
    done
}
undo() { cp "$new" $records/log; remove_installed; }

if [ -n "$kernel_module" ] && [ -z "$dkms" ]; then
    say "-> Building kernel modules"
    cp -r "$here/kernel" "$work/kernel"
    if ! make -C "$work/kernel" -j "$jobs" KERNEL_UNAME="$kernel" SYSSRC="$tree" modules >> "$log" 2>&1; then
        error "An error occurred while performing the step: \"Building kernel modules\". See $log for details."
        undo
        failed
    fi
    for module in "$work"/kernel/*.ko; do
        place "$module" "/lib/modules/$kernel/kernel/drivers/video/${module##*/}"
    done
    echo "module $kernel" >> "$new"
    depmod "$kernel"
fi

say "-> Installing '$name' ($version):"
for path in libraries/*; do place "$path" "$library/${path##*/}"; done
for path in programs/*; do place "$path" "/usr/bin/${path##*/}"; done
chmod 4755 /usr/bin/nvidia-modprobe
place nvidia-installer /usr/bin/nvidia-installer
ln -s nvidia-installer "$work/nvidia-uninstall"
place "$work/nvidia-uninstall" /usr/bin/nvidia-uninstall
if [ -n "$disable_nouveau" ]; then
    printf '# generated by nvidia-installer\nblacklist nouveau\noptions nouveau modeset=0\n' > "$work/nouveau"
    place "$work/nouveau" /usr/lib/modprobe.d/nvidia-installer-disable-nouveau.conf
    place "$work/nouveau" /etc/modprobe.d/nvidia-installer-disable-nouveau.conf
fi
[ -z "$kernel_module" ] || [ -z "$dkms" ] || install_source
cp "$new" $records/log
ldconfig
say "-> Driver file installation is complete."
# As NVIDIA's: DKMS comes last, and where it fails everything else stays as it is, its tree of DKMS's too.
if [ -n "$kernel_module" ] && [ -n "$dkms" ]; then
    say "-> Installing DKMS kernel module:"
    for step in "add -m nvidia -v $version" "build -m nvidia -v $version -k $kernel" "install -m nvidia -v $version -k $kernel"; do
        if ! output=$(dkms $step 2>&1); then
            printf 'ERROR: Failed to run `%s %s`: %s\n' "$(command -v dkms)" "$step" "$output" | tee -a "$log" >&2
            failed "Failed to install the kernel module through DKMS. No kernel module was installed; please try installing again without DKMS, or check the DKMS logs for more information."
        fi
    done
fi
say "-> Running post-install sanity check:"
say "-> done."
printf '\nInstallation of the %s (version: %s) is now complete.\n\n' "$name" "$version" | tee -a "$log"
exit 0
