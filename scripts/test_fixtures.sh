#!/usr/bin/env bash
# Installs the pip and npm packages of a program as users do, and tests the test fixtures in them: the pytest fixtures,
# startRowhouse(), and the snippets of docs/testing-with-rowhouse.md for both languages.
#
# usage: scripts/test_fixtures.sh PROGRAM
#
# PROGRAM can be any build of the program. Test runners and client libraries are installed once, in .venv-fixtures and
# in packages/npm/tests/node_modules. The last line of the output counts the tests. If the tools of a language are not
# installed, the language is reported as skipped; with CI=true, this is a failure.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/scripts/packaging.bash"

packaging_test "$@"
target=$(packaging_target "$program")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Prints the sum of the numbers that the first group of a regular expression matches in the lines of the output.
count() { sed -nE "s/$1/\1/p" "$scratch/output" | awk '{ sum += $1 } END { print sum + 0 }'; }

# ---- Python ----------------------------------------------------------------------------------------------------------

python_tests() {
    local home=$root/.venv-fixtures tests=$root/packages/python/tests status=0
    # Combine the requirements of the tests with the requirements of the wheel's build backend.
    cat "$tests/requirements.txt" "$root/packages/python/requirements-build.txt" >"$scratch/requirements.txt"
    if ! cmp -s "$scratch/requirements.txt" "$home/requirements.txt"; then
        python3 -m venv --clear "$home"
        "$home/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --requirement "$scratch/requirements.txt"
        cp "$scratch/requirements.txt" "$home/requirements.txt"
    fi
    PYTHON=$home/bin/python "$root/scripts/package-python.sh" "$program" "$target" "$scratch/wheel" >"$scratch/output" 2>&1 || { cat "$scratch/output"; exit 1; }
    "$home/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall "$scratch"/wheel/*.whl
    "$home/bin/python" -m pytest --quiet --color=no -p no:cacheprovider --numprocesses=2 "$tests" >"$scratch/output" 2>&1 || status=$?
    if [ "$status" -ne 0 ]; then cat "$scratch/output"; fi
    tail -n 1 "$scratch/output" | tr ',' '\n' >"$scratch/count"
    mv "$scratch/count" "$scratch/output"
    passed=$((passed + $(count '^[= ]*([0-9]+) passed.*')))
    failed=$((failed + $(count '^[= ]*([0-9]+) (failed|error).*')))
    [ "$status" -eq 0 ] || failed=$((failed > 0 ? failed : 1))
}

if ! has python3; then
    skip "python3, for the pytest fixtures"
elif ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    skip "Python's venv module (on Debian the package python3-venv), for the pytest fixtures"
else
    python_tests
fi

# ---- JavaScript ------------------------------------------------------------------------------------------------------

javascript_tests() {
    local tests=$root/packages/npm/tests status=0
    if ! cmp -s "$tests/package-lock.json" "$tests/node_modules/installed-lock.json"; then
        (cd "$tests" && npm ci --no-audit --no-fund --loglevel=error)
        cp "$tests/package-lock.json" "$tests/node_modules/installed-lock.json"
    fi
    "$root/scripts/package-npm.sh" "$program" "$target" "$scratch/npm" >/dev/null
    mkdir "$scratch/project"
    echo '{ "private": true }' >"$scratch/project/package.json"
    (cd "$scratch/project" && npm install --offline --no-audit --no-fund --loglevel=error "$scratch"/npm/*.tgz >/dev/null)
    (cd "$tests" && PACKAGES_PROJECT=$scratch/project node --test --test-reporter=tap --test-concurrency=2) \
        >"$scratch/output" 2>&1 || status=$?
    if [ "$status" -ne 0 ]; then sed -n '/^not ok/,/^  \.\.\.$/p' "$scratch/output" | head -n 200; fi
    passed=$((passed + $(count '^# pass ([0-9]+)$')))
    failed=$((failed + $(count '^# fail ([0-9]+)$') + $(count '^# cancelled ([0-9]+)$')))
    [ "$status" -eq 0 ] || failed=$((failed > 0 ? failed : 1))
}

if ! has node || ! has npm; then
    skip "Node.js with npm, for startRowhouse()"
else
    javascript_tests
fi

packaging_count
