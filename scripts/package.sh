#!/usr/bin/env bash
# Packs a program with its documentation, units and completions: rowhouse-VERSION-TARGET.tar.gz, or .zip for Windows.
#
# usage: scripts/package.sh PROGRAM TARGET [FOLDER]
#
#   scripts/package.sh "$(scripts/build-static.sh)" x86_64-unknown-linux-musl dist
#
# TARGET is a target triple of the Rust compiler; a program for another target is refused. The program generates its
# completions and manual pages itself, so it must run on this machine. The same program yields the same archive, byte
# for byte: the order, the owners and the times of the files are fixed. SOURCE_DATE_EPOCH sets the time of the files
# (default: the time of the last commit). Needs GNU tar, or Python for a zip archive. Prints the path of the archive.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/scripts/packaging.bash"

packaging_usage "$@"
program=$(realpath "$1") target=$2 folder=${3:-dist}
packaging_inspect "$program" "$target"
epoch=$(packaging_epoch)
name=rowhouse-$(packaging_version)-$target
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
content=$scratch/$name

# Do not depend on the caller's umask.
umask 022
mkdir -p "$content/bin" "$folder"
case $target in
    *-windows-*) install -m 755 "$program" "$content/bin/rowhouse.exe" ;;
    *) install -m 755 "$program" "$content/bin/rowhouse" ;;
esac
packaging_texts "$program" "$content/completions" "$content/man/man1"
case $target in
    *-linux-*)
        mkdir -p "$content/systemd" "$content/kubernetes" "$content/helm" "$content/failover"
        install -m 644 "$root"/deploy/systemd/* "$content/systemd/"
        install -m 755 "$root"/deploy/failover/* "$content/failover/"
        cp -r "$root/deploy/kubernetes/." "$content/kubernetes/"
        cp -r "$root/deploy/helm/." "$content/helm/"
        ;;
esac
cp -r "$root/deploy/monitoring" "$content/monitoring"
# Include all pages, because they link to each other.
cp -r "$root/docs" "$content/docs"
install -m 644 "$root"/{LICENSE,README.md,SECURITY.md,CHANGELOG.md} "$content/"
chmod -R u=rwX,go=rX "$content"

case $target in
    *-windows-*)
        archive=$folder/$name.zip
        # The bytes of the archive depend only on the names, the contents and the given time.
        "${PYTHON:-python3}" - "$content" "$archive" "$epoch" <<'EOF'
import sys, time, zipfile
from pathlib import Path

folder, archive, seconds = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
moment = time.gmtime(seconds)[:6]
with zipfile.ZipFile(archive, "w") as packed:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        entry = zipfile.ZipInfo(path.relative_to(folder.parent).as_posix(), moment)
        entry.compress_type = zipfile.ZIP_DEFLATED
        # Make all entries regular Unix files, whatever system they are packed on. Programs are executable.
        entry.create_system = 3
        entry.external_attr = (0o100755 if path.parent.name == "bin" else 0o100644) << 16
        packed.writestr(entry, path.read_bytes(), compresslevel=9)
EOF
        ;;
    *)
        archive=$folder/$name.tar.gz
        tar=tar
        # On macOS, GNU tar is called gtar.
        if command -v gtar >/dev/null; then tar=gtar; fi
        "$tar" --create --directory "$scratch" --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner \
            --format=ustar "$name" | gzip -n >"$archive"
        ;;
esac
echo "$archive"
