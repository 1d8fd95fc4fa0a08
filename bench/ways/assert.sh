# One script over plain ssh that asserts what the look asserts: what a careful admin would write.
# Runs as root; in front of it stand the variables that bench/state.py writes. Exit 1 and one line
# per difference; nothing is changed.
LC_ALL=C
export LC_ALL
bad=0
differs() {
  echo "differs: $*"
  bad=1
}
same() { # what, wanted, found
  [ "$2" = "$3" ] || differs "$1"
}
w=$(mktemp -d) || exit 2
trap 'rm -rf "$w"' EXIT

# Packages: versions, whole, held.
found=$(dpkg-query -W -f '${Package} ${Version} ${db:Status-Want} ${db:Status-Status}\n' $names | sort)
same packages "$(printf %s "$packages" | sort)" "$found"

# Every file of the packages: there, not empty, for all to read, root's, older than dpkg's record.
for name in $names; do
  list=/var/lib/dpkg/info/$name:amd64.list
  [ -e "$list" ] || list=/var/lib/dpkg/info/$name.list
  echo "$list"
done >"$w/lists"
xargs stat -c '%Y %n' <"$w/lists" >"$w/since"
awk -v unread="$unread" '
  NR == FNR { since[$2] = $1; next }
  $0 !~ unread && $0 != "/." { print FILENAME "\t" $0 }
' "$w/since" $(cat "$w/lists") >"$w/paths"
cut -f 2 "$w/paths" | sort -u | xargs -d '\n' stat -c '%n	%s	%a	%u	%Y	%F' >"$w/stats" 2>"$w/missing"
awk -F '\t' '
  FILENAME ~ /since$/ { split($0, part, " "); since[part[2]] = part[1]; next }
  FILENAME ~ /stats$/ { seen[$1] = $0; next }
  !($2 in seen) { next }
  {
    split(seen[$2], part, "\t")
    if (part[6] == "regular empty file" && $2 !~ /\/(provider|marker)/) print "empty " $2
    if (part[6] ~ /^regular/ && part[5] > since[$1]) print "touched " $2
    if ($2 ~ /^\/usr\// && part[6] !~ /link/ && (part[4] != 0 || part[3] % 10 < 4)) print "closed " $2
  }
' "$w/since" "$w/stats" "$w/paths" >"$w/flaws"
# Paths that dpkg-divert moved away are looked for where they are now.
sed -n "s/^stat: cannot statx* '\(.*\)': .*/\1/p" "$w/missing" | while read -r path; do
  [ -e "$(dpkg-divert --truename "$path")" ] || echo "missing $path"
done >>"$w/flaws"
[ -s "$w/flaws" ] && differs "files of packages: $(head -3 "$w/flaws" | tr '\n' ' ')"

# Our files, links, and apt's components.
printf %s "$hashes" | sha256sum --quiet --check - >/dev/null 2>&1 || differs files
printf %s "$links" | while read -r path to; do
  [ "$(readlink "$path")" = "$to" ] || echo "$path"
done >"$w/links"
[ -s "$w/links" ] && differs "links $(cat "$w/links")"
grep -qs non-free /etc/apt/sources.list /etc/apt/sources.list.d/* || differs "apt's components"

# cuDNN: every file as it was unpacked.
found=$(find "$cudnn" -mindepth 1 \( -type l -printf '%P -> %l\n' -o -type f -printf '%P %s %04m\n' \) | sort)
same cudnn "$(printf %s "$cudnn_files" | sort)" "$found"

# The loader: each soname to a file that is there, an ELF file.
ldconfig -p >"$w/loader"
for name in $sonames; do
  path=$(awk -v name="$name" '$1 == name && /x86-64/ { print $NF; exit }' "$w/loader")
  if [ -z "$path" ] || [ "$(head -c 4 "$path" 2>/dev/null | tail -c 3)" != ELF ]; then
    differs "soname $name"
  fi
done
for path in $libraries; do
  [ -s "$path" ] || differs "$path"
done

# The environment as systemd has it.
case "$(systemctl show --property=Environment --value)" in
  *XLA_FLAGS=*) ;;
  *) differs "systemd's environment" ;;
esac

# The venv: finished, its Python, exactly the wheels, their libraries as their RECORDs say.
grep -q "$requirements" "$venv/.provision.json" || differs "the venv's mark"
same requirements "$requirements  -" "$(sha256sum <"$venv/requirements.txt")"
case "$(readlink -f "$venv/bin/python")" in
  *"/python$python") ;;
  *) differs "the venv's python" ;;
esac
site=$venv/lib/python$python/site-packages
found=$(cd "$site" && printf '%s\n' *.dist-info | sed 's/\.dist-info$//; s/-\([^-]*\)$/ \1/' |
  tr 'A-Z' 'a-z' | sed 's/[.-]\([^ ]* \)/_\1/g' | grep -Ev '^(pip|pkg_resources) ' | sort)
same wheels "$(printf %s "$wheels" | sort)" "$found"
grep -h '\.so' "$site"/*.dist-info/RECORD | tr -d '\r' | awk -F , -v site="$site" '$3 != "" { print $3 "\t" site "/" $1 }' |
  sort -t "$(printf '\t')" -k 2 >"$w/record"
cut -f 2 "$w/record" | xargs -d '\n' stat -c '%s	%n' >"$w/sizes" 2>/dev/null
cmp -s "$w/record" "$w/sizes" || differs "libraries of wheels"

# A run was finished here, for this lock.
grep -q "$digest" /var/lib/provision/receipt.json || differs receipt
[ ! -e /var/lib/provision/unfinished.json ] || differs "an unfinished run"
exit "$bad"
