#!/usr/bin/env bash
# Builds a Debian package of a program, with systemd units, manual pages, completions and an options file.
#
# usage: scripts/package-deb.sh PROGRAM TARGET [FOLDER]
#
#   scripts/package-deb.sh "$(scripts/build-static.sh)" x86_64-unknown-linux-musl dist
#
# TARGET is a target triple of the Rust compiler; a program for another target is refused. If the program is statically
# linked, the package has no dependencies; otherwise, it depends on the version of glibc that the program needs. The
# program generates its completions and manual pages itself, so it must run on this machine. The same program yields the
# same package, byte for byte. Needs dpkg-deb. DEB_MAINTAINER names the publisher. Prints the path of the package.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/scripts/packaging.bash"

packaging_usage "$@"
program=$(realpath "$1") target=$2 folder=${3:-dist}
case $target in
    x86_64-*-linux-*) architecture=amd64 ;;
    aarch64-*-linux-*) architecture=arm64 ;;
    *)
        echo "package-deb: there is no Debian package for $target" >&2
        exit 2
        ;;
esac
packaging_inspect "$program" "$target"
# The package libc6 contains the loader and every library of the GNU C library.
depends=${glibc:+"Depends: libc6 (>= $glibc), libgcc-s1"$'\n'}
epoch=$(packaging_epoch)
# In Debian's order of versions, only a tilde sorts before the end of the string.
version=$(packaging_version | sed 's/-/~/')
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Do not depend on the caller's umask.
umask 022
content=$scratch/content
documents=$content/usr/share/doc/rowhouse-tables
mkdir -p "$folder" "$content/DEBIAN" "$content/etc/rowhouse" "$documents/examples" \
    "$content"/usr/{bin,lib/systemd/system,lib/sysusers.d,share/lintian/overrides,share/man} \
    "$content"/usr/share/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
install -m 755 "$program" "$content/usr/bin/rowhouse"
install -m 644 "$root"/deploy/systemd/*.{service,timer} "$content/usr/lib/systemd/system/"
install -m 644 "$root/deploy/systemd/rowhouse.sysusers" "$content/usr/lib/sysusers.d/rowhouse.conf"
install -m 644 "$root"/deploy/systemd/*.conf "$root/deploy/accounts.toml" "$documents/examples/"
install -m 640 "$root/packages/deb/environment" "$content/etc/rowhouse/environment"
install -m 644 "$root"/packages/deb/{copyright,README.Debian} "$documents/"
install -m 644 "$root/packages/deb/lintian-overrides" "$content/usr/share/lintian/overrides/rowhouse-tables"

packaging_texts "$program" "$scratch/completions" "$content/usr/share/man/man1"
install -m 644 "$scratch/completions/rowhouse.bash" "$content/usr/share/bash-completion/completions/rowhouse"
install -m 644 "$scratch/completions/_rowhouse" "$content/usr/share/zsh/vendor-completions/"
install -m 644 "$scratch/completions/rowhouse.fish" "$content/usr/share/fish/vendor_completions.d/"

maintainer=${DEB_MAINTAINER:-Rowhouse maintainers <maintainers@users.noreply.github.com>}
{
    printf 'rowhouse-tables (%s) unstable; urgency=medium\n\n  * Release %s; CHANGELOG.md in the sources lists the changes.\n\n' \
        "$version" "$version"
    printf ' -- %s  %s\n' "$maintainer" "$(date --utc --rfc-email --date="@$epoch")"
} | gzip --no-name --best >"$documents/changelog.gz"

install -m 755 "$root"/packages/deb/{postinst,prerm,postrm} "$content/DEBIAN/"
echo /etc/rowhouse/environment >"$content/DEBIAN/conffiles"
cat >"$content/DEBIAN/control" <<END
Package: rowhouse-tables
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du --summarize --apparent-size --block-size=1K "$content" | cut -f 1)
${depends}Recommends: ca-certificates, procps
Section: database
Priority: optional
Description: server for the Azure Table Storage protocol
 Rowhouse stores tables of entities in a folder, in memory or in PostgreSQL,
 and serves clients and tools of Azure Table Storage: for development,
 testing and production.
END
(cd "$content" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum) >"$content/DEBIAN/md5sums"
chmod 644 "$content"/DEBIAN/{control,conffiles,md5sums}
find "$content" -exec touch --no-dereference --date="@$epoch" {} +

package=$folder/rowhouse-tables_${version}_$architecture.deb
# The default compression differs between distributions.
SOURCE_DATE_EPOCH=$epoch dpkg-deb --root-owner-group -Zxz --build "$content" "$package" >&2
echo "$package"
