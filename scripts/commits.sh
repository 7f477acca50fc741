#!/usr/bin/env bash
# Checks the subjects of commits against the rules in CONTRIBUTING.md.
#
# usage: scripts/commits.sh [RANGE]
#
# RANGE  the commits to check, in the syntax of git log [default: all since this script was added]
set -euo pipefail
case "${1:-}" in --*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; [ "$1" = --help ]; exit ;; esac
cd "$(dirname "$0")/.."

subject_length_max=72

if ! git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    echo "there are no commits to check here"
    exit
fi
range=${1:-}
if [ -z "$range" ]; then
    added=$(git log --diff-filter=A --format=%H -- scripts/commits.sh | tail -n 1)
    range=${added:+$added..}HEAD
fi

problems=0 checked=0
problem() {
    printf '%s: %s\n    %s\n' "$1" "$2" "$3"
    problems=$((problems + 1))
}
while IFS=' ' read -r commit subject; do
    checked=$((checked + 1))
    verb=${subject%% *}
    if [ "${#subject}" -gt "$subject_length_max" ]; then
        problem "$commit" "$subject" "has ${#subject} characters; the maximum is $subject_length_max"
    fi
    case $subject in
        [A-Z]*[!.]) ;;
        *) problem "$commit" "$subject" "must begin with a capital letter and not end with a period" ;;
    esac
    case $verb in
        *ss | *us | Alias | Bias | Embed | Feed | Seed | Shed | Speed | Bring | Ping) ;;
        A | An | The | What | Where | When | Every | Each | *ed | *ing | *s)
            problem "$commit" "$subject" "must begin with a verb in the imperative, such as Add, Refuse or Rename, not '$verb'" ;;
    esac
done < <(git log --no-merges --format='%h %s' "$range")
echo "$checked commit subjects checked, $problems problems"
[ "$problems" -eq 0 ]
