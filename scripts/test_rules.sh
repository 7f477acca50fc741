#!/usr/bin/env bash
# Checks that scripts/commits.sh and scripts/prose.sh refuse bad examples. The last line of the output counts the checks.
#
# usage: scripts/test_rules.sh
set -euo pipefail
cd "$(dirname "$0")/.."
passed=0 failed=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Fails unless a command fails.
refuses() {
    local what=$1
    shift
    if "$@" >/dev/null; then
        echo "accepted: $what"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
}

mkdir -p "$scratch/history/scripts"
cp scripts/commits.sh "$scratch/history/scripts"
git init --quiet "$scratch/history"
for subject in "Added a rule" "A rule is there" "Add a rule." "Add a rule that no client can read in a list, since its subject is too long"; do
    git -C "$scratch/history" -c user.name=test -c user.email=test@example.com commit --quiet --allow-empty -m "$subject"
    refuses "$subject" "$scratch/history/scripts/commits.sh" -1
done

# In two pieces, so that the rules do not find it here.
echo "// The loop begins a""new." >"$scratch/phrases.rs"
refuses "$scratch/phrases.rs" scripts/prose.sh "$scratch/phrases.rs"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
