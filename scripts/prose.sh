#!/usr/bin/env bash
# Checks the English of comments, messages, help texts, pages and commit subjects against the rules in prose/styles.
#
# usage: scripts/prose.sh [FILE...]
#
# FILE  the files to check [default: all files, and the subjects of commits since this script was added]
#
# Needs Vale in the version below. Installs it below target/ if it is missing and Go is installed.
set -euo pipefail
case "${1:-}" in -*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; [ "$1" = --help ]; exit ;; esac
cd "$(dirname "$0")/.."
vale_version=3.17.1

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export PATH="$PATH:$target/tools/bin"
if [ "$(vale --version 2>/dev/null)" != "vale version $vale_version" ]; then
    # Without this linker flag, Vale reports that it is a development version.
    GOBIN=$target/tools/bin go install -ldflags "-s -w -X main.version=$vale_version" \
        "github.com/errata-ai/vale/v3/cmd/vale@v$vale_version"
fi
check() { vale --config prose/vale.ini --output line "$@"; }

if [ $# -gt 0 ]; then
    check "$@"
    exit
fi
problems=0
# The rules themselves contain the forbidden words.
git ls-files -z '*.bash' '*.c' '*.cs' '*.css' '*.go' '*.html' '*.java' '*.js' '*.md' '*.py' '*.rs' '*.sh' '*.sql' '*.toml' '*.ts' '*.yaml' '*.yml' \
    ':!prose/styles' >"$target/tools/prose-files"
xargs -0 -a "$target/tools/prose-files" vale --config prose/vale.ini --output line || problems=1
added=$(git log --diff-filter=A --format=%H -- scripts/prose.sh 2>/dev/null | tail -n 1)
if [ -n "$added" ]; then
    git log --format=%s "$added..HEAD" | check --ext .txt || problems=1
fi
# Comments must not be wider than code, whose width the formatter checks. Code and tables in comments may be wider.
if git ls-files -z '*.rs' | LC_ALL=C.UTF-8 xargs -0 grep -nE '^.{121,}$' | grep -E '^[^:]+:[0-9]+:\s*//' | grep -vE '[;|{]$'; then
    echo "comment lines must have at most 120 columns"
    problems=1
fi
[ "$problems" -eq 0 ] || { echo "prose/styles/Rowhouse lists the replacements"; exit 1; }
echo "$(tr -cd '\0' <"$target/tools/prose-files" | wc -c) files checked, no problems"
