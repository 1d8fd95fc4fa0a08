# What the resources of a cold run take at least, on a host that was brought by hand: its bytes are
# received again, its archives unpacked again and its module compiled again, each alone and with all
# processors. In front of it stand the variables that bench/spending.py writes.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
place=/var/tmp/limits
rm -rf "$place"
mkdir -p "$place/wheels"
cd "$place"
echo "BENCH begun $(date +%s.%N)"

eval "$fetch"
echo "BENCH fetched $(date +%s.%N)"

# $debs, $tarballs and $wheels are patterns.
{
    for file in $debs; do [ ! -e "$file" ] || printf 'dpkg-deb -x %s\n' "$file"; done
    for file in $tarballs; do [ ! -e "$file" ] || printf 'tar -x -f %s -C\n' "$file"; done
    for file in $wheels; do [ ! -e "$file" ] || printf 'python3 -m zipfile -e %s\n' "$file"; done
} >work
xargs -P "$(nproc)" -I COMMAND sh -c 'into=$(mktemp -d -p .); COMMAND "$into"' <work
echo "BENCH unpacked $(date +%s.%N)"

if [ -n "$build" ]; then
    eval "$build"
    echo "BENCH compiled $(date +%s.%N)"
fi
cd /
rm -rf "$place"
