#!/usr/bin/env bash
# Runs the .NET SDK: the one in ../shared/dotnet, or else the one in PATH.
#
# usage: scripts/dotnet.sh build FOLDER              restores and builds a project in the configuration Release
#        scripts/dotnet.sh pack FOLDER OUTPUT...     builds the package of a project and writes it into a folder; options of
#                                                    `dotnet pack` can follow
#        scripts/dotnet.sh exec PROGRAM...           runs a program that was built
#        scripts/dotnet.sh check                     fails unless there is an SDK that can build the projects of this
#                                                    repository
#
# If the folder ../shared/dotnet/feed exists, packages are restored from there; otherwise, from where the machine's
# settings say, which is the public feed.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
shared=$root/../shared/dotnet

if [ "$1" = check ]; then
    test -e "$shared/setup.sh" || dotnet --list-sdks 2>/dev/null | grep -qE '^[1-9][0-9]\.'
    exit
fi
if [ -e "$shared/setup.sh" ]; then eval "$(sh "$shared/setup.sh")"; fi
# Without build servers, no process outlives the command.
options=(--configuration Release --nologo --verbosity quiet --disable-build-servers -consoleLoggerParameters:ErrorsOnly)
if [ -d "$shared/feed" ]; then options+=(--source "$(cd "$shared/feed" && pwd)"); fi
case $1 in
    build) exec dotnet build "$2" "${options[@]}" ;;
    pack) exec dotnet pack "$2" "${options[@]}" --output "$3" "${@:4}" ;;
    *) exec dotnet "$@" ;;
esac
