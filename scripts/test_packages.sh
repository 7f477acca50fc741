#!/usr/bin/env bash
# Builds the packages of a program for this machine, installs each into clean folders, and tests the installed program:
# it must run, respond to clients, pass on signals and exit codes, and leave nothing behind.
#
# usage: scripts/test_packages.sh PROGRAM
#
# Does not change the machine. Needs no network once the build backend of the wheel is in .venv-packaging and the
# package managers are in packages/npm/managers/node_modules. The last line of the output counts the checks. If the
# tools for a kind of package are missing (Node.js with npm, Python with venv, .NET, dpkg), that kind is reported as skipped;
# with CI=true, this is a failure.
#
# The clients of conformance/javascript (node_modules) and conformance/python (.venv) are used if they are installed;
# the client in the program itself is always used. `cargo install` is tested only if PROGRAM is the release build of
# these sources, because then nothing is rebuilt. SOURCE_DATE_EPOCH defaults to the time of the last commit.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/scripts/packaging.bash"

packaging_test "$@"
export npm_config_offline=true

version=$(packaging_version)
target=$(packaging_target "$program")
case $(uname -m) in
    x86_64) npm_cpu=x64 deb_architecture=amd64 ;;
    aarch64) npm_cpu=arm64 deb_architecture=arm64 ;;
    *)
        echo "test_packages: there are no packages for $(uname -m)" >&2
        exit 2
        ;;
esac
scratch=$(mktemp -d)
# npm's shared cache would contain packages from earlier runs.
export npm_config_cache=$scratch/npm-cache
registry_pid=

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif sudo -n true 2>/dev/null; then
        sudo "$@"
    else
        unshare --user --map-root-user "$@"
    fi
}

# Also stops servers that a failed check left behind. Each server runs in its own session; a file lists the session IDs.
close() {
    local status=$? session
    if [ -n "$registry_pid" ]; then kill "$registry_pid" || true; fi
    touch "$scratch/sessions"
    while read -r session; do pkill -KILL --session "$session" || true; done <"$scratch/sessions"
    as_root rm -rf "$scratch" || rm -rf "$scratch"
    exit "$status"
}
trap close EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The check fails if any command in it fails.
check() {
    local what=$1 status=0
    shift
    set +e
    (
        set -e
        cd "$scratch"
        "$@"
    ) >"$scratch/output" 2>&1
    status=$?
    set -e
    if [ "$status" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $what"
        sed 's/^/    /' "$scratch/output"
    fi
}

fail() {
    echo "$*"
    exit 1
}

# Fails unless a command exits with the given code and its output matches a pattern.
expect() {
    local code=$1 pattern=$2 status=0 output
    shift 2
    output=$("$@" 2>&1) || status=$?
    [ "$status" -eq "$code" ] || fail "$*: exited with $status instead of $code: $output"
    grep -qE -- "$pattern" <<<"$output" || fail "$*: the output does not match $pattern: $output"
}

# Prints the first command in docs/installing.md that starts with the given text.
documented() { grep -o "\`$1[^\`]*\`" "$root/docs/installing.md" | head -n 1 | tr -d '\`'; }

same_bytes() {
    local file
    for file in "$1"/*; do cmp "$file" "$2/${file##*/}"; done
}

# ---- servers ---------------------------------------------------------------------------------------------------------

# Starts a server in its own session. The command gets the arguments for the server. Sets `pid` (the process ID of the
# command), `address` and `connection`.
start() {
    local status=0
    # If the caller ignores SIGHUP (for example under nohup), child processes do too, so restore the default.
    start_server "$scratch/server.log" setsid env --default-signal=HUP "$@" serve --in-memory --listen 127.0.0.1:0 || status=$?
    echo "$pid" >>"$scratch/sessions"
    [ "$status" -eq 0 ] || exit "$status"
}

# Fails if a process of the server's session is still running after a minute.
nothing_left() {
    for _ in $(seq 600); do
        if ! pgrep --session "$pid" >/dev/null; then return; fi
        sleep 0.1
    done
    pgrep --session "$pid" --list-full
    fail "a process is still running"
}

# Sends a signal to the started command. Fails unless the command exits with the given code and leaves no process
# behind.
stops() {
    local signal=$1 code=$2 status=0
    kill -s "$signal" "$pid"
    wait "$pid" || status=$?
    [ "$status" -eq "$code" ] || fail "after SIG$signal it exited with $status instead of $code: $(cat "$scratch/server.log")"
    nothing_left
}

# Uses a table with each installed client.
uses_clients() {
    "$program" table create made --endpoint "http://$address/devstoreaccount1"
    if [ -d "$root/conformance/javascript/node_modules/@azure/data-tables" ]; then
        (cd "$root/conformance/javascript" && node --input-type=module - "$connection" <<'END'
import { TableClient } from "@azure/data-tables";
const client = TableClient.fromConnectionString(process.argv[2], "made", { allowInsecureConnection: true });
await client.createEntity({ partitionKey: "javascript", rowKey: "1", value: "a value" });
if ((await client.getEntity("javascript", "1")).value !== "a value") throw new Error("the entity has a different value");
END
        )
    fi
    if [ -x "$root/.venv/bin/python" ] && "$root/.venv/bin/python" -c 'import azure.data.tables' 2>/dev/null; then
        "$root/.venv/bin/python" - "$connection" <<'END'
import sys
from azure.data.tables import TableClient

client = TableClient.from_connection_string(sys.argv[1], "made")
client.create_entity({"PartitionKey": "python", "RowKey": "1", "value": "a value"})
assert client.get_entity("python", "1")["value"] == "a value"
END
    fi
}

# Fails unless the given command starts a server that responds to clients, and each signal has the effect that it has on
# the program itself.
serves() {
    start "$@"
    uses_clients
    stops TERM 0
    start "$@"
    stops INT 0
    # On SIGHUP, the program reloads its files, and keeps running.
    start "$@"
    kill -s HUP "$pid"
    for _ in $(seq 600); do
        if grep -q SIGHUP "$scratch/server.log"; then break; fi
        sleep 0.1
    done
    grep -q SIGHUP "$scratch/server.log" || fail "SIGHUP did not reach the program"
    uses_clients
    stops TERM 0
}

# ---- what the program needs --------------------------------------------------------------------------------------

# Writes the head of a program for a target, which is all that the scripts read of a statically linked program.
placeholder() {
    case $1 in
        x86_64-*-linux-*) printf '\x7fELF\2\1\1\0\0\0\0\0\0\0\0\0\2\0\x3e\0\1\0\0\0' ;;
        aarch64-*-linux-*) printf '\x7fELF\2\1\1\0\0\0\0\0\0\0\0\0\2\0\xb7\0\1\0\0\0' ;;
        *-apple-*) printf '\xcf\xfa\xed\xfe' ;;
        *-windows-*) printf 'MZ\x90\0' ;;
    esac
    # The rest of the 64 bytes of an ELF header, after which nothing follows.
    head -c 28 /dev/zero
    printf '\x40\0\0\0\0\0\x40\0\0\0\0\0'
}

# Packs a program with a script. Fails unless the script refuses it with a message that matches a pattern.
refuses() { expect 1 "$3" "$root/scripts/package-$1.sh" "$scratch/placeholder" "$2" "$scratch/refused"; }

scripts_refuse_programs_for_other_targets() {
    local kind
    placeholder aarch64-unknown-linux-musl >"$scratch/placeholder"
    for kind in deb dotnet npm python; do
        refuses "$kind" x86_64-unknown-linux-musl "package-$kind: .* for the processor AArch64"
    done
    refuses npm x86_64-pc-windows-msvc 'is not a program for x86_64-pc-windows-msvc'
    refuses npm aarch64-apple-darwin 'is not a program for aarch64-apple-darwin'
    echo '#!/bin/sh' >"$scratch/placeholder"
    refuses npm x86_64-unknown-linux-musl 'is not a program for x86_64-unknown-linux-musl'
    [ ! -e "$scratch/refused" ]
}

# Prints the version of glibc that a program needs, or nothing.
needed_glibc() {
    { LC_ALL=C objdump -T "$1" 2>&1 || true; } | { grep -o 'GLIBC_[0-9][0-9.]*' || true; } | sort --version-sort | tail -n 1 | tr -d GLIBC_
}

# Every machine has the command `true`, which needs the C library.
dynamic=$(type -P true) dynamic_target=$(packaging_target "$(type -P true)")

scripts_refuse_a_program_that_is_not_static() {
    local kind
    [ "$dynamic_target" = "$(uname -m)-unknown-linux-gnu" ]
    cp "$dynamic" "$scratch/placeholder"
    for kind in deb dotnet npm python; do
        refuses "$kind" "$(uname -m)-unknown-linux-musl" \
            "needs glibc $(needed_glibc "$dynamic"): pass $dynamic_target instead of $(uname -m)-unknown-linux-musl"
    done
}

if has readelf && has objdump; then
    check "the scripts refuse programs for other targets" scripts_refuse_programs_for_other_targets
    check "the scripts refuse to call a program static that is not" scripts_refuse_a_program_that_is_not_static
else
    skip "binutils, for what the programs need"
fi

# ---- npm -------------------------------------------------------------------------------------------------------------

install_npm() {
    local folder=$1
    shift
    mkdir "$folder"
    cd "$folder"
    echo '{ "private": true }' >package.json
    npm install --no-audit --no-fund --loglevel=error "$@"
}

# The packages that are installed from files: the main package and the package for this platform.
npm_files=("rowhouse-tables-$version.tgz" "rowhouse-tables-linux-$npm_cpu-$version.tgz")

npm_packs_the_same_twice() {
    "$root/scripts/package-npm.sh" "$program" "$target" "$scratch/npm"
    (umask 077 && "$root/scripts/package-npm.sh" "$program" "$target" "$scratch/npm-again")
    same_bytes npm npm-again
}

# Prints the C library that the package for this machine's platform requires.
required_libc() {
    local file
    file=$("$root/scripts/package-npm.sh" "$1" "$2" "$scratch/npm-libc" | grep -- "-linux-$npm_cpu-")
    tar --extract --to-stdout --file "$file" package/package.json | node -p 'JSON.parse(fs.readFileSync(0)).libc?.join() ?? "any"'
}

npm_names_the_c_library() {
    local static
    static=$(uname -m)-unknown-linux-musl
    placeholder "$static" >"$scratch/placeholder"
    [ "$(required_libc "$dynamic" "$dynamic_target")" = glibc ]
    [ "$(required_libc "$scratch/placeholder" "$static")" = any ]
}

npm_installs_and_runs() {
    install_npm "$scratch/project" "$scratch"/npm/*.tgz
    expect 0 "^rowhouse $version\$" npx --no-install rowhouse --version
    expect 0 "^rowhouse $version\$" node_modules/.bin/rowhouse --version
    # Tests the exit code for an invalid command line.
    expect 2 'unexpected argument' npx --no-install rowhouse serve --no-such-option
    # Tests a failure of the program: no server listens at this address.
    expect 1 'error' node_modules/.bin/rowhouse health --listen 127.0.0.1:1
}

npm_serves() {
    cd "$scratch/project"
    serves node_modules/.bin/rowhouse
}

npx_serves() {
    cd "$scratch/project"
    start npx --no-install rowhouse
    uses_clients
    # npx starts a shell, which starts the script. Their exit codes do not matter, but no process may be left.
    kill -s TERM "$pid"
    wait "$pid" || true
    nothing_left
}

npm_run_serves() {
    cd "$scratch/project"
    npm pkg set scripts.db=rowhouse
    start npm run --silent db --
    kill -s TERM "$pid"
    wait "$pid" || true
    nothing_left
}

npm_finds_the_program() {
    cd "$scratch/project"
    local find='import("rowhouse-tables").then(({ programPath }) => console.log(programPath()))'
    expect 0 "^$PWD/node_modules/rowhouse-tables-linux-[a-z0-9]+/bin/rowhouse\$" node -e "$find"
    expect 0 "^/bin/true\$" env ROWHOUSE_BINARY=/bin/true node -e "$find"
    expect 1 'ROWHOUSE_BINARY names a file that does not exist: /no/such' env ROWHOUSE_BINARY=/no/such npx --no-install rowhouse --version
    expect 0 '^chosen --version$' env ROWHOUSE_BINARY=/bin/echo npx --no-install rowhouse chosen --version
    expect 1 'no package with the program for plan9-x64.*cargo install' \
        node -e "Object.defineProperty(process, 'platform', { value: 'plan9' }); $find"
}

npm_explains_what_is_missing() {
    install_npm "$scratch/without" "$scratch/npm/rowhouse-tables-$version.tgz"
    expect 1 'rowhouse-tables-linux-[a-z0-9]+, which contains the program, is not installed.*--omit=optional' \
        node_modules/.bin/rowhouse --version
}

# Adds packages to a project with a package manager. Then installs from the lock file in a second folder, and runs the
# program there. The second folder contains only the files that a team would commit.
lock_file_installs() {
    local manager=$1 registry=$2 file
    shift 2
    rm -rf "$scratch/locked"
    mkdir -p "$scratch/locked/"{project,clean}
    cd "$scratch/locked/project"
    echo '{ "private": true }' >package.json
    # The environment variable takes precedence over the configuration file, but not every package manager reads it.
    export npm_config_registry=$registry
    echo "registry=$registry" >.npmrc
    cp "$scratch"/npm/*.tgz .
    "${manager}_adds" "$@"
    for file in package.json .npmrc package-lock.json yarn.lock pnpm-lock.yaml *.tgz; do
        if [ -e "$file" ]; then cp "$file" ../clean/; fi
    done
    cd ../clean
    "${manager}_installs_what_is_locked"
    expect 0 "^rowhouse $version\$" node_modules/.bin/rowhouse --version
}

npm_adds() { npm install --save-dev --no-audit --no-fund --loglevel=error "$@"; }
npm_installs_what_is_locked() { npm ci --no-audit --no-fund --loglevel=error; }

yarn_1() { YARN_CACHE_FOLDER=$scratch/yarn-cache "$managers/yarn" --non-interactive --no-progress "$@"; }
yarn_adds() { yarn_1 add --dev "$@"; }
yarn_installs_what_is_locked() { yarn_1 install --frozen-lockfile; }

with_pnpm() { "$managers/pnpm" --store-dir "$scratch/pnpm-store" "$@"; }
pnpm_adds() { with_pnpm add --save-dev "$@"; }
pnpm_installs_what_is_locked() { with_pnpm install --frozen-lockfile; }

# No registry listens at this address, so the files must be sufficient.
files_install_by() { lock_file_installs "$1" http://127.0.0.1:1/ "${npm_files[@]/#/./}"; }

# A team with several platforms adds the files for the other platforms in this way.
npm_locks_other_platforms() {
    mkdir "$scratch/team" "$scratch/team-clean"
    cd "$scratch/team"
    cp "$scratch"/npm/*.tgz "$scratch"/npm-others/rowhouse-tables-darwin-arm64-"$version".tgz .
    echo '{ "private": true }' >package.json
    npm_adds "${npm_files[@]/#/./}"
    npm install --save-optional --no-audit --no-fund --loglevel=error "./rowhouse-tables-darwin-arm64-$version.tgz"
    cp ./*.json ./*.tgz "$scratch/team-clean/"
    cd "$scratch/team-clean"
    npm_installs_what_is_locked
    expect 0 "^rowhouse $version\$" node_modules/.bin/rowhouse --version
}

# Builds the packages for all platforms. Packages for other platforms contain a placeholder instead of the program.
npm_packs_for_all_platforms() {
    local other
    for other in {x86_64,aarch64}-{unknown-linux-musl,apple-darwin} x86_64-pc-windows-msvc; do
        placeholder "$other" >"$scratch/placeholder"
        "$root/scripts/package-npm.sh" "$scratch/placeholder" "$other" "$scratch/npm-others"
    done
    cp "$scratch"/npm/*.tgz "$scratch/npm-others/"
}

registry_gets_the_packages() {
    npm_config_offline=false "$root/scripts/publish-npm.sh" "$scratch/npm-others" --access public
    expect 0 "rowhouse-tables@$version is already published" \
        env npm_config_offline=false "$root/scripts/publish-npm.sh" "$scratch/npm-others"
}

registry_installs_by() {
    export npm_config_offline=false
    lock_file_installs "$1" "$registry" rowhouse-tables
}

npx_runs_what_the_registry_has() {
    mkdir "$scratch/npx"
    cd "$scratch/npx"
    expect 0 "^rowhouse $version\$" env npm_config_offline=false npx --yes rowhouse-tables --version
}

guide_names_the_files() {
    local command
    command=$(documented 'npm install --save-dev ./' | sed "s/-linux-x64-/-linux-$npm_cpu-/")
    [ "$command" = "npm install --save-dev ${npm_files[*]/#/./}" ] || fail "docs/installing.md contains a different command: $command"
}

install_managers() {
    local home=$root/packages/npm/managers
    managers=$home/node_modules/.bin
    if ! cmp -s "$home/package-lock.json" "$home/node_modules/installed-lock.json"; then
        (cd "$home" && npm_config_offline=false npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) >"$scratch/output" 2>&1 \
            || return
        cp "$home/package-lock.json" "$home/node_modules/installed-lock.json"
    fi
}

start_registry() {
    exec 4< <(exec node "$root/packages/npm/tests/registry.js")
    registry_pid=$!
    IFS= read -r -t 60 registry <&4
    # npm requires a token for publishing; this registry accepts any token.
    printf 'registry=%s\n%s:_authToken=any\n' "$registry" "${registry#http:}" >"$scratch/npmrc"
    export npm_config_userconfig=$scratch/npmrc npm_config_registry=$registry
}

if has npm && has node; then
    check "building the npm packages twice yields the same bytes" npm_packs_the_same_twice
    check "the npm package names the C library that the program needs" npm_names_the_c_library
    check "npm installs the packages, and the program runs" npm_installs_and_runs
    check "the script of the npm package starts a server and passes signals on" npm_serves
    check "a server that npx started stops when npx is stopped" npx_serves
    check "a script of package.json stops when npm run is stopped" npm_run_serves
    check "programPath() finds the program" npm_finds_the_program
    check "without the platform package, the script says what to do" npm_explains_what_is_missing
    check "the guide names the npm package files" guide_names_the_files
    check "packages can be built for every platform" npm_packs_for_all_platforms
    package_managers=(npm)
    if install_managers; then package_managers+=(yarn pnpm); else skip "Yarn and pnpm (npm ci in packages/npm/managers failed)"; fi
    for manager in "${package_managers[@]}"; do
        check "$manager installs the files, then installs from its lock file" files_install_by "$manager"
    done
    check "npm installs from a lock file that includes packages for other platforms" npm_locks_other_platforms
    start_registry
    check "the packages are published in a registry only once" registry_gets_the_packages
    for manager in "${package_managers[@]}"; do
        check "$manager installs from a registry, then installs from its lock file" registry_installs_by "$manager"
    done
    check "npx runs the package in a registry" npx_runs_what_the_registry_has
else
    skip "Node.js with npm, for the npm packages"
fi

# ---- Python ----------------------------------------------------------------------------------------------------------

# Sets PYTHON to an interpreter with the build backend.
build_environment() {
    local home=$root/.venv-packaging requirements=$root/packages/python/requirements-build.txt
    if ! cmp -s "$requirements" "$home/requirements.txt"; then
        python3 -m venv --clear "$home"
        "$home/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --requirement "$requirements"
        cp "$requirements" "$home/requirements.txt"
    fi
    export PYTHON=$home/bin/python
}

wheel_packs_the_same_twice() {
    "$root/scripts/package-python.sh" "$program" "$target" "$scratch/wheel"
    (umask 077 && "$root/scripts/package-python.sh" "$program" "$target" "$scratch/wheel-again")
    same_bytes wheel wheel-again
}

offline_pip() { "$1" -m pip --quiet --disable-pip-version-check "${@:2}" --no-index; }

# A wheel for one version of the C library, and one for every system.
wheel_names_the_systems() {
    local cpu version
    cpu=$(uname -m) version=$(needed_glibc "$dynamic")
    placeholder "$cpu-unknown-linux-musl" >"$scratch/placeholder"
    expect 0 "-py3-none-manylinux_${version/./_}_$cpu\.whl\$" "$root/scripts/package-python.sh" "$dynamic" "$dynamic_target" "$scratch/wheels"
    expect 0 "-py3-none-manylinux_2_17_$cpu\.manylinux2014_$cpu\.musllinux_1_1_$cpu\.whl\$" \
        "$root/scripts/package-python.sh" "$scratch/placeholder" "$cpu-unknown-linux-musl" "$scratch/wheels"
}

wheel_installs_and_runs() {
    local command
    python3 -m venv "$scratch/venv"
    cd "$scratch/venv"
    # Run the command from the guide in the folder of the wheel.
    command=$(documented 'pip install ./')
    (cd "$scratch/wheel" && PATH=$scratch/venv/bin:$PATH PIP_NO_INDEX=1 PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1 bash -c "$command")
    expect 0 "^rowhouse $version\$" bin/rowhouse --version
    expect 0 "^rowhouse $version\$" bin/python -m rowhouse_tables --version
    expect 2 'unexpected argument' bin/python -m rowhouse_tables serve --no-such-option
    cmp bin/rowhouse "$program"
}

wheel_serves() { serves "$scratch/venv/bin/python" -m rowhouse_tables; }

wheel_finds_the_program() {
    cd "$scratch/venv"
    local find='from rowhouse_tables._program import program_path; print(program_path())'
    expect 0 "^$PWD/bin/rowhouse\$" bin/python -c "$find"
    expect 0 '^/bin/true$' env ROWHOUSE_BINARY=/bin/true bin/python -c "$find"
    expect 1 'ROWHOUSE_BINARY names a file that does not exist: /no/such' env ROWHOUSE_BINARY=/no/such bin/python -m rowhouse_tables
    offline_pip bin/python install --target "$scratch/elsewhere" "$scratch"/wheel/*.whl
    expect 0 "^$scratch/elsewhere/bin/rowhouse\$" env PYTHONPATH="$scratch/elsewhere" python3 -S -c "$find"
    rm "$scratch/elsewhere/bin/rowhouse"
    expect 1 'the program of the package rowhouse-tables is missing: install the wheel' \
        env PYTHONPATH="$scratch/elsewhere" python3 -S -m rowhouse_tables
}

wheel_leaves_nothing() {
    cd "$scratch/venv"
    bin/python -m pip --quiet --disable-pip-version-check uninstall --yes rowhouse-tables
    [ -z "$(find . -name '*rowhouse*')" ] || fail "left: $(find . -name '*rowhouse*')"
}

if ! has python3; then
    skip "python3, for the wheel"
elif ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    skip "Python's venv module (on Debian the package python3-venv), for the wheel"
else
    build_environment
    check "building the wheel twice yields the same bytes" wheel_packs_the_same_twice
    check "the wheel names the systems on which the program runs" wheel_names_the_systems
    check "pip installs the wheel, and the program runs" wheel_installs_and_runs
    check "python -m rowhouse_tables starts a server, and signals reach it" wheel_serves
    check "program_path() finds the program" wheel_finds_the_program
    check "pip uninstall leaves nothing" wheel_leaves_nothing
fi

# ---- .NET ------------------------------------------------------------------------------------------------------------

nuget_packs_the_same_twice() {
    "$root/scripts/package-dotnet.sh" "$program" "$target" "$scratch/nuget"
    (umask 077 && "$root/scripts/package-dotnet.sh" "$program" "$target" "$scratch/nuget-again")
    same_bytes nuget nuget-again
}

# The program is not in the PATH, so it must be the one in the package for the platform.
nuget_installs_and_runs() {
    mkdir dotnet
    cat >dotnet/installed.csproj <<END
<Project Sdk="Microsoft.NET.Sdk">
  <PropertyGroup>
    <TargetFramework>net10.0</TargetFramework>
    <OutputType>Exe</OutputType>
    <UseAppHost>false</UseAppHost>
    <ImplicitUsings>enable</ImplicitUsings>
    <RestorePackagesPath>$scratch/dotnet/packages</RestorePackagesPath>
    <RestoreAdditionalProjectSources>$scratch/nuget</RestoreAdditionalProjectSources>
  </PropertyGroup>
  <ItemGroup>
    <PackageReference Include="Rowhouse.Testing" Version="$version" />
    <PackageReference Include="Rowhouse.Testing.linux-$npm_cpu" Version="$version" />
  </ItemGroup>
</Project>
END
    echo '<configuration><packageSources><clear /></packageSources></configuration>' >dotnet/nuget.config
    cat >dotnet/Program.cs <<'END'
using Rowhouse.Testing;

await using var server = await RowhouseServer.StartAsync();
Console.WriteLine((await server.NewAccountAsync()).ConnectionString);
END
    "$root/scripts/dotnet.sh" build "$scratch/dotnet"
    ! type -P rowhouse || fail "a program in the PATH would hide a missing one"
    expect 0 '^DefaultEndpointsProtocol=http;AccountName=test1;' "$root/scripts/dotnet.sh" exec dotnet/bin/Release/net10.0/installed.dll
    cmp "dotnet/bin/Release/net10.0/runtimes/linux-$npm_cpu/native/rowhouse" "$program"
    rm -r dotnet/bin/Release/net10.0/runtimes dotnet/packages
    expect 134 'the program rowhouse is missing: install it' "$root/scripts/dotnet.sh" exec dotnet/bin/Release/net10.0/installed.dll
}

if "$root/scripts/dotnet.sh" check; then
    check "building the NuGet packages twice yields the same bytes" nuget_packs_the_same_twice
    check "a .NET program that uses the packages starts the program in them" nuget_installs_and_runs
else
    skip "the .NET SDK 10, for the NuGet packages"
fi

# ---- Debian ----------------------------------------------------------------------------------------------------------

# Runs dpkg with a separate root folder and database. Package scripts run outside the root folder and get its path. The
# root folder does not contain the C library.
private_dpkg() { as_root dpkg --root="$scratch/system" --force-script-chrootless --force-not-root --force-depends "$@"; }

deb_packs_the_same_twice() {
    local command
    "$root/scripts/package-deb.sh" "$program" "$target" "$scratch/deb"
    (umask 077 && "$root/scripts/package-deb.sh" "$program" "$target" "$scratch/deb-again")
    same_bytes deb deb-again
    command=$(documented 'sudo apt install ./' | sed "s/_amd64/_$deb_architecture/")
    [ -f "deb/${command#sudo apt install ./}" ] || fail "docs/installing.md contains a different command: $command"
}

deb_depends_on_what_the_program_needs() {
    local version expected
    version=$(needed_glibc "$program")
    expected=${version:+"libc6 (>= $version), libgcc-s1"}
    [ "$(dpkg-deb --field "$scratch"/deb/*.deb Depends)" = "$expected" ] ||
        fail "the program needs ${expected:-nothing}, and the package $(dpkg-deb --field "$scratch"/deb/*.deb Depends)"
}

deb_installs_and_runs() {
    local system=$scratch/system file
    mkdir -p "$system/var/lib/dpkg/info" "$system/var/lib/dpkg/updates" "$system/etc/systemd/system"
    touch "$system/var/lib/dpkg/status" "$system/var/lib/dpkg/available"
    private_dpkg --install "$scratch"/deb/*.deb
    expect 0 'install ok installed' private_dpkg --status rowhouse-tables
    expect 0 "^rowhouse $version\$" "$system/usr/bin/rowhouse" --version
    for file in usr/lib/systemd/system/rowhouse{,-backup}.service usr/lib/systemd/system/rowhouse-backup.timer usr/lib/sysusers.d/rowhouse.conf \
        usr/share/doc/rowhouse-tables/{copyright,README.Debian,changelog.gz,examples/privileged-port.conf,examples/accounts.toml} usr/share/man/man1/rowhouse-serve.1.gz \
        usr/share/bash-completion/completions/rowhouse usr/share/zsh/vendor-completions/_rowhouse \
        usr/share/fish/vendor_completions.d/rowhouse.fish; do
        [ -s "$system/$file" ] || fail "missing: $file"
        [ "$(stat -c %a "$system/$file")" = 644 ] || fail "$file does not have the mode 644"
    done
    # Run the command that the message at the end of the installation names.
    "$system/usr/bin/rowhouse" accounts new orchard --file "$scratch/accounts.toml" >/dev/null
    expect 0 '^orchard  2 keys$' "$system/usr/bin/rowhouse" accounts list --file "$scratch/accounts.toml"
    # The installation enables nothing.
    [ -z "$(ls "$system/etc/systemd/system")" ]
    private_dpkg --verify rowhouse-tables
    serves "$system/usr/bin/rowhouse"
}

deb_has_units_that_systemd_takes() {
    # Add units and programs of other packages to which the units refer, because they are not in the private root.
    as_root cp -r --no-clobber /usr/lib/systemd/system "$scratch/system/usr/lib/systemd/" 2>/dev/null || true
    local output unit name
    for name in kill chgrp chmod; do
        as_root install -D -m 755 "$(type -P true)" "$scratch/system/bin/$name"
    done
    for unit in rowhouse.service rowhouse-backup.service rowhouse-backup.timer; do
        output=$(systemd-analyze verify --man=no --root="$scratch/system" "$unit" 2>&1) || fail "$unit: $output"
        if grep rowhouse <<<"$output"; then fail "systemd-analyze reports a problem with $unit"; fi
    done
}

deb_keeps_and_purges() {
    local system=$scratch/system
    # Create the files that the administrator and the server would write. shellcheck disable=SC2016
    as_root sh -c 'echo ROWHOUSE_LISTEN=127.0.0.1:1 >>"$1/etc/rowhouse/environment"; echo >"$1/etc/rowhouse/accounts.toml"
        mkdir -p "$1/var/lib/private/rowhouse/data" "$1/var/lib/private/rowhouse-backup/0"' - "$system"
    private_dpkg --install "$scratch"/deb/*.deb </dev/null
    as_root grep -q '^ROWHOUSE_LISTEN' "$system/etc/rowhouse/environment"
    private_dpkg --remove rowhouse-tables
    [ ! -e "$system/usr/bin/rowhouse" ]
    as_root test -e "$system/etc/rowhouse/accounts.toml" -a -e "$system/var/lib/private/rowhouse/data"
    private_dpkg --purge rowhouse-tables
    [ ! -e "$system/etc/rowhouse" ] || fail "the configuration was not removed"
    as_root test ! -e "$system/var/lib/private/rowhouse" || fail "the data was not removed"
    as_root test -e "$system/var/lib/private/rowhouse-backup/0" || fail "the backups were removed"
}

if ! has dpkg-deb; then
    skip "dpkg, for the Debian package"
else
    check "building the Debian package twice yields the same bytes" deb_packs_the_same_twice
    check "the Debian package depends on what the program needs" deb_depends_on_what_the_program_needs
    check "dpkg installs the package, and the program runs" deb_installs_and_runs
    if has systemd-analyze; then
        check "systemd accepts the installed units" deb_has_units_that_systemd_takes
    else
        echo "systemd-analyze is not installed, so the installed units are not checked"
    fi
    check "dpkg keeps changed configuration, and a purge removes everything except backups" deb_keeps_and_purges
    # The package overrides one of the checks for the static program of a release.
    if has lintian && { ldd "$program" 2>&1 || true; } | grep -qE 'statically linked|not a dynamic executable'; then
        check "lintian reports no problems" lintian --allow-root --fail-on error,warning "$scratch"/deb/*.deb
    else
        echo "lintian is not installed, or the program is not static, so the Debian package is not linted"
    fi
fi

# ---- the guide -------------------------------------------------------------------------------------------------------

# Runs the commands of docs/installing.md in a copy of the sources. Reuses the existing program and the build backend of
# the wheel.
guide_makes_the_packages() {
    local file
    mkdir "$scratch/clone"
    git -c safe.directory="$root" -C "$root" ls-files -z --cached --others --exclude-standard >"$scratch/files"
    tar --create --directory "$root" --null --files-from "$scratch/files" --ignore-failed-read | tar --extract --directory "$scratch/clone"
    cd "$scratch/clone"
    ln -s "$root/.venv-packaging" .venv-packaging
    if [ -e "$root/../shared/dotnet" ]; then ln -s "$root/../shared" "$scratch/shared"; fi
    sed -n '/^```sh file=packages$/,/^```$/{//!p}' docs/installing.md >"$scratch/guide.sh"
    # shellcheck disable=SC2016
    sed -i -e 's|^program=$(scripts/build-static.sh) .*|program=$1|' -e "s|^target=.*|target=$target|" -e '/^python3 -m venv /d' -e '/pip install --requirement/d' "$scratch/guide.sh"
    bash -euo pipefail "$scratch/guide.sh" "$program"
    for file in "${npm_files[@]}" "rowhouse_tables-$version-*.whl" "rowhouse-tables_${version}_$deb_architecture.deb" \
        "Rowhouse.Testing.$version.nupkg" "Rowhouse.Testing.linux-$npm_cpu.$version.nupkg" "rowhouse-$version-$target.tar.gz"; do
        [ -n "$(find dist -name "$file")" ] || fail "$file was not built"
    done
}

if has npm && has node && has dpkg-deb && [ -x "${PYTHON:-}" ] && "$root/scripts/dotnet.sh" check; then
    check "the commands of the guide build the packages" guide_makes_the_packages
else
    skip "Node.js, Python, .NET or dpkg, for the commands of the guide"
fi

# ---- cargo -----------------------------------------------------------------------------------------------------------

cargo_installs() {
    # Use a separate installation folder, so that nothing on the machine is replaced.
    # The C compiler of some dependencies is run again if this variable has changed since the release build.
    (cd "$root" && env -u SOURCE_DATE_EPOCH cargo install --quiet --path rowhouse --locked --offline --no-track --root "$scratch/cargo")
    expect 0 "^rowhouse $version\$" "$scratch/cargo/bin/rowhouse" --version
    # If the programs are identical, nothing was rebuilt.
    cmp "$scratch/cargo/bin/rowhouse" "$program"
}

if [ "$program" = "$(realpath -m "${CARGO_TARGET_DIR:-$root/target}/release/rowhouse")" ]; then
    check "cargo install puts the program into the given folder" cargo_installs
else
    echo "the program is not the release build of these sources, so cargo install is not tested"
fi

packaging_count
