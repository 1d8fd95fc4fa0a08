#!/bin/sh
# Brings what the lock names into an image; every file is compared with the lock's SHA-256 before it is
# used. Run once, by the Containerfile, on the distribution's own image; what it reads lies beside it.
set -eu
cd /locked
. ./stack.env

. /etc/os-release
if [ "$ID $VERSION_ID" != "$RELEASE" ]; then
    echo "the base is $ID $VERSION_ID; the lock is for $RELEASE: give another --build-arg BASE" >&2
    exit 1
fi

export DEBIAN_FRONTEND=noninteractive
apt() {
    apt-get --quiet --option Acquire::Retries=3 --option APT::Update::Error-Mode=any "$@"
}
# The base's own sources may name the same archives with other keys, which apt refuses.
rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*
cp apt.sources /etc/apt/sources.list.d/provision.sources
apt update
# shellcheck disable=SC2046  # a list of names
apt install --yes --no-install-recommends $(cat python.txt)
# Over HTTPS, for which the distributions' images have no certificates before.
if [ -s nvidia.sources ]; then
    [ ! -s nvidia.asc ] || cp nvidia.asc /usr/share/keyrings/provision-nvidia.asc
    cp nvidia.sources /etc/apt/sources.list.d/provision-nvidia.sources
    apt update
fi

if [ -s packages.txt ]; then
    mkdir -p /tmp/locked/debs /tmp/locked/files
    cd /tmp/locked/debs
    # shellcheck disable=SC2046  # a list of NAME=VERSION
    apt download $(cat /locked/packages.txt)
    sha256sum -- *.deb | cut -d ' ' -f 1 | sort >/tmp/locked/sha256
    if ! cmp -s /tmp/locked/sha256 /locked/packages.sha256; then
        echo "checksum mismatch: these packages are not the lock's:" >&2
        sha256sum -- *.deb | grep -v -F -f /locked/packages.sha256 >&2
        exit 1
    fi
    # Of these packages single files are needed, without all that they depend on.
    while read -r package path; do
        [ -d "/tmp/locked/files/$package" ] || dpkg-deb --extract "$package"_*.deb "/tmp/locked/files/$package"
        mkdir -p "$(dirname "$path")"
        cp -L "/tmp/locked/files/$package$path" "$path"
    done </locked/files.txt
    cut -d ' ' -f 1 /locked/files.txt | sort -u | while read -r package; do
        rm -- "$package"_*.deb
    done
    apt install --yes --no-install-recommends ./*.deb
    cd /locked
fi
if [ -n "$LIBDEVICE" ] && [ -n "$XLA" ]; then
    mkdir -p "$XLA/nvvm/libdevice"
    [ -e "$XLA/nvvm/libdevice/$(basename "$LIBDEVICE")" ] || ln -s "$LIBDEVICE" "$XLA/nvvm/libdevice/"
fi

if [ -n "$CUDNN" ]; then
    archive=/locked/cudnn.archive
    if [ ! -e "$archive" ]; then
        archive=/tmp/cudnn.archive
        "$PYTHON" - "$archive" $CUDNN_URLS <<'DOWNLOAD'
import shutil, sys, urllib.request
for url in sys.argv[2:]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer, open(sys.argv[1], "wb") as file:
            shutil.copyfileobj(answer, file)
        break
    except OSError as error:
        print(url, error, sep=": ", file=sys.stderr)
else:
    sys.exit("cuDNN's archive can't be fetched; put it beside install.sh as cudnn.archive")
DOWNLOAD
    fi
    echo "$CUDNN_SHA256  $archive" | sha256sum --check --quiet -
    mkdir -p "$CUDNN"
    tar --extract --file "$archive" --directory "$CUDNN" --strip-components 1 --no-same-owner --exclude '*.a'
    rm -f /tmp/cudnn.archive
    for folder in "$CUDNN/lib64" "$CUDNN/lib"; do
        [ ! -d "$folder" ] || echo "$folder"
    done >/etc/ld.so.conf.d/00-provision.conf
fi
for folder in $LIBRARY; do
    echo "$folder"
done >>/etc/ld.so.conf.d/00-provision.conf
ldconfig
for name in $SONAMES; do
    ldconfig -p | grep -q -F "$name (" || { echo "the image has no $name" >&2; exit 1; }
done

"$PYTHON" -m venv "$VENV"
cp requirements.txt "$VENV/requirements.txt"
$PIP
"$VENV/bin/python" -c "import tensorflow; assert tensorflow.__version__ == '$TENSORFLOW'"

rm -rf /tmp/locked /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/log/apt
