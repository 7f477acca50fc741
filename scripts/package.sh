#!/usr/bin/env bash
# Packs a program with its documents, units and completions: rowhouse-VERSION-TARGET.tar.gz, and SHA256SUMS beside it.
#
# usage: scripts/package.sh PROGRAM TARGET [FOLDER]
#
#   scripts/package.sh "$(scripts/build-static.sh)" x86_64-unknown-linux-musl dist
#
# The program writes its completions and manual pages itself, so it must run on this machine. The same program gives the same
# archive, byte for byte: order, owners and times are fixed. SOURCE_DATE_EPOCH sets the time of the files; the default is that of
# the last commit.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

if [ $# -lt 2 ] || [ $# -gt 3 ]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
program=$(realpath "$1") target=$2 folder=${3:-dist}
epoch=${SOURCE_DATE_EPOCH:-$(git -c safe.directory="$root" -C "$root" log -1 --format=%ct)}
version=$("$program" --version | cut -d ' ' -f 2)
name=rowhouse-$version-$target
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
content=$scratch/$name

# Whatever the caller's umask is.
umask 022
mkdir -p "$content"/{bin,completions,man/man1,systemd,kubernetes} "$folder"
install -m 755 "$program" "$content/bin/rowhouse"
"$program" completions bash >"$content/completions/rowhouse.bash"
"$program" completions zsh >"$content/completions/_rowhouse"
"$program" completions fish >"$content/completions/rowhouse.fish"
"$program" man --dir "$content/man/man1"
find "$content/man/man1" -type f -exec gzip --no-name --best {} +
install -m 644 "$root"/deploy/systemd/* "$content/systemd/"
cp -r "$root/deploy/kubernetes/." "$content/kubernetes/"
# The documents link to each other.
cp -r "$root/docs" "$content/docs"
install -m 644 "$root"/{LICENSE,README.md,SECURITY.md,CHANGELOG.md} "$content/"
chmod -R u=rwX,go=rX "$content"

archive=$folder/$name.tar.gz
tar --create --directory "$scratch" --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner \
    --format=ustar "$name" | gzip --no-name >"$archive"
(cd "$folder" && sha256sum ./*.tar.gz | sed 's|\./||' >SHA256SUMS)
echo "$archive"
