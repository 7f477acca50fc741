#!/usr/bin/env bash
# Builds the documentation as a searchable site below target/site/book, and checks all its links.
#
# usage: scripts/docs.sh [--open]
#
# --open  show the site in a browser
#
# Needs Python 3. Uses the mdbook in PATH if it has the version below; otherwise, installs mdbook below target/.
set -euo pipefail
cd "$(dirname "$0")/.."
mdbook_version=0.5.4

open=
case "$*" in
    '') ;;
    --open) open=--open ;;
    *)
        sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
        if [ "$*" = --help ]; then exit 0; fi
        exit 2
        ;;
esac

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
tools=$target/tools
export PATH="$PATH:$tools/bin"
if [ "$(mdbook --version 2>/dev/null)" != "mdbook v$mdbook_version" ]; then
    echo "docs: installing mdbook $mdbook_version, which takes a few minutes" >&2
    # Without optimisation, mdbook compiles in a minute, and still builds the site in seconds.
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --force --debug --no-default-features --features search \
        --root "$tools" --version "=$mdbook_version" mdbook
fi
rm -rf "$target/site"
python3 scripts/site.py stage "$target/site"
mdbook build "$target/site" 2>"$target/site/log" || { cat "$target/site/log"; exit 1; }
# A warning means that readers would see a page incorrectly, for example because a <word> is mistaken for HTML.
if grep -A 1 WARN "$target/site/log"; then exit 1; fi
python3 scripts/site.py check "$target/site/book"
if [ -n "$open" ]; then mdbook build "$target/site" --open; fi
