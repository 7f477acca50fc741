#!/usr/bin/env bash
# Makes the packages of a program for this machine, installs each into clean folders, and tries what it installed: that it runs,
# answers a client, passes signals and exit codes on, and leaves nothing behind.
#
# usage: scripts/test_packages.sh PROGRAM
#
# Uses no network after the build backend of the wheel is in .venv-packaging, and changes nothing of the machine. Ends with a line
# that counts the checks. A kind of package whose tools are not installed (Node.js with npm, Python with venv, dpkg) is reported as
# skipped; with CI=true that is a failure.
#
# The clients of conformance/javascript (node_modules) and conformance/python (.venv) are used where they are installed; the
# program's own client is used anyway. `cargo install` is tried if PROGRAM is the release build of these sources, because it then
# builds nothing anew. SOURCE_DATE_EPOCH is set to the last commit's time if it is not set.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/scripts/packaging.bash"

packaging_test "$@"
export npm_config_offline=true

version=$(packaging_version)
case $(uname -m) in
    x86_64) target=x86_64-unknown-linux-musl ;;
    aarch64) target=aarch64-unknown-linux-musl ;;
    *)
        echo "test_packages: there are no packages for $(uname -m)" >&2
        exit 2
        ;;
esac
scratch=$(mktemp -d)

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif sudo -n true 2>/dev/null; then
        sudo "$@"
    else
        unshare --user --map-root-user "$@"
    fi
}

# Servers that a failed check left; each runs in a session of its own, whose number is in a file.
close() {
    local status=$? session
    touch "$scratch/sessions"
    while read -r session; do pkill -KILL --session "$session" || true; done <"$scratch/sessions"
    as_root rm -rf "$scratch" || rm -rf "$scratch"
    exit "$status"
}
trap close EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Runs a command as a check, which fails with the first command in it that fails.
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

# Fails unless a command ends with this code and prints something that matches.
expect() {
    local code=$1 pattern=$2 status=0 output
    shift 2
    output=$("$@" 2>&1) || status=$?
    [ "$status" -eq "$code" ] || fail "$*: ended with $status instead of $code: $output"
    grep -qE -- "$pattern" <<<"$output" || fail "$*: printed nothing like $pattern: $output"
}

same_bytes() {
    local file
    for file in "$1"/*; do cmp "$file" "$2/${file##*/}"; done
}

# ---- servers ---------------------------------------------------------------------------------------------------------

# Starts a server by a command that ends with the arguments for the server, in a session of its own, and sets `pid` (of what was
# started), `address` and `connection`.
start() {
    local status=0
    # The caller may ignore SIGHUP, as under nohup, and programs inherit that.
    start_server "$scratch/server.log" setsid env --default-signal=HUP "$@" serve --in-memory --listen 127.0.0.1:0 || status=$?
    echo "$pid" >>"$scratch/sessions"
    [ "$status" -eq 0 ] || exit "$status"
}

# Fails if anything of the session of the server is left after ten seconds.
nothing_left() {
    for _ in $(seq 100); do
        if ! pgrep --session "$pid" >/dev/null; then return; fi
        sleep 0.1
    done
    pgrep --session "$pid" --list-full
    fail "something is left running"
}

# Sends a signal to what was started, and fails unless that ends with this code and leaves nothing.
stops() {
    local signal=$1 code=$2 status=0
    kill -s "$signal" "$pid"
    wait "$pid" || status=$?
    [ "$status" -eq "$code" ] || fail "after SIG$signal it ended with $status instead of $code: $(cat "$scratch/server.log")"
    nothing_left
}

# Works with a table by the clients that are there.
uses_clients() {
    "$program" table create made --endpoint "http://$address/devstoreaccount1"
    if [ -d "$root/conformance/javascript/node_modules/@azure/data-tables" ]; then
        (cd "$root/conformance/javascript" && node --input-type=module - "$connection" <<'END'
import { TableClient } from "@azure/data-tables";
const client = TableClient.fromConnectionString(process.argv[2], "made", { allowInsecureConnection: true });
await client.createEntity({ partitionKey: "javascript", rowKey: "1", value: "a value" });
if ((await client.getEntity("javascript", "1")).value !== "a value") throw new Error("it is not there");
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

# A server by this command answers clients, and each signal ends it as it ends the program itself.
serves() {
    start "$@"
    uses_clients
    stops TERM 0
    start "$@"
    stops INT 0
    # The program does not handle this one: its default is to end the process.
    start "$@"
    stops HUP 129
}

# ---- npm -------------------------------------------------------------------------------------------------------------

install_npm() {
    local folder=$1
    shift
    mkdir "$folder"
    cd "$folder"
    echo '{ "private": true }' >package.json
    npm install --no-audit --no-fund --loglevel=error "$@"
}

npm_packs_the_same_twice() {
    "$root/scripts/package-npm.sh" "$program" "$target" "$scratch/npm"
    (umask 077 && "$root/scripts/package-npm.sh" "$program" "$target" "$scratch/npm-again")
    same_bytes npm npm-again
}

npm_installs_and_runs() {
    install_npm "$scratch/project" "$scratch"/npm/*.tgz
    expect 0 "^rowhouse $version\$" npx rowhouse --version
    expect 0 "^rowhouse $version\$" node_modules/.bin/rowhouse --version
    # The code for a wrong command line.
    expect 2 'unexpected argument' npx rowhouse serve --no-such-option
    # A failure of the program: nobody listens there.
    expect 1 'error' node_modules/.bin/rowhouse health --listen 127.0.0.1:1
}

npm_serves() {
    cd "$scratch/project"
    serves node_modules/.bin/rowhouse
}

npx_serves() {
    cd "$scratch/project"
    start npx rowhouse
    uses_clients
    # npx starts a shell, which starts the script; whatever code they end with, nothing may be left.
    kill -s TERM "$pid"
    wait "$pid" || true
    nothing_left
}

npm_run_serves() {
    cd "$scratch/project"
    npm pkg set scripts.db=rowhouse
    start npm run --silent db --
    # As above.
    kill -s TERM "$pid"
    wait "$pid" || true
    nothing_left
}

npm_finds_the_program() {
    cd "$scratch/project"
    local find='import("rowhouse").then(({ programPath }) => console.log(programPath()))'
    expect 0 "^$PWD/node_modules/@rowhouse/linux-[a-z0-9]+/bin/rowhouse\$" node -e "$find"
    expect 0 "^/bin/true\$" env ROWHOUSE_BINARY=/bin/true node -e "$find"
    expect 1 'ROWHOUSE_BINARY names a file that does not exist: /no/such' env ROWHOUSE_BINARY=/no/such npx rowhouse --version
    expect 0 '^chosen --version$' env ROWHOUSE_BINARY=/bin/echo npx rowhouse chosen --version
    expect 1 'no package with the program for plan9-x64.*cargo install' \
        node -e "Object.defineProperty(process, 'platform', { value: 'plan9' }); $find"
}

npm_explains_what_is_missing() {
    install_npm "$scratch/without" --omit=optional "$scratch"/npm/rowhouse-"$version".tgz
    expect 1 '@rowhouse/linux-[a-z0-9]+, which contains the program, is not installed.*--omit=optional' npx rowhouse --version
}

if has npm && has node; then
    check "packing for npm twice gives the same bytes" npm_packs_the_same_twice
    check "npm installs the packages, and the program runs" npm_installs_and_runs
    check "the script of the npm package serves, and passes signals on" npm_serves
    check "npx rowhouse serve stops when npx is stopped" npx_serves
    check "a script of package.json stops when npm run is stopped" npm_run_serves
    check "programPath() finds the program" npm_finds_the_program
    check "without the package of the platform, the script says what to do" npm_explains_what_is_missing
else
    skip "Node.js with npm, for the packages for npm"
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

wheel_installs_and_runs() {
    python3 -m venv "$scratch/venv"
    cd "$scratch/venv"
    offline_pip bin/python install "$scratch"/wheel/*.whl
    expect 0 "^rowhouse $version\$" bin/rowhouse --version
    expect 0 "^rowhouse $version\$" bin/python -m rowhouse --version
    expect 2 'unexpected argument' bin/python -m rowhouse serve --no-such-option
    cmp bin/rowhouse "$program"
}

wheel_serves() { serves "$scratch/venv/bin/python" -m rowhouse; }

wheel_finds_the_program() {
    cd "$scratch/venv"
    local find='from rowhouse._program import program_path; print(program_path())'
    expect 0 "^$PWD/bin/rowhouse\$" bin/python -c "$find"
    expect 0 '^/bin/true$' env ROWHOUSE_BINARY=/bin/true bin/python -c "$find"
    expect 1 'ROWHOUSE_BINARY names a file that does not exist: /no/such' env ROWHOUSE_BINARY=/no/such bin/python -m rowhouse
    offline_pip bin/python install --target "$scratch/elsewhere" "$scratch"/wheel/*.whl
    expect 0 "^$scratch/elsewhere/bin/rowhouse\$" env PYTHONPATH="$scratch/elsewhere" python3 -S -c "$find"
    rm "$scratch/elsewhere/bin/rowhouse"
    expect 1 'the program of the package rowhouse is not there: install a wheel' \
        env PYTHONPATH="$scratch/elsewhere" python3 -S -m rowhouse
}

wheel_leaves_nothing() {
    cd "$scratch/venv"
    bin/python -m pip --quiet --disable-pip-version-check uninstall --yes rowhouse
    [ -z "$(find . -name '*rowhouse*')" ] || fail "left: $(find . -name '*rowhouse*')"
}

if ! has python3; then
    skip "python3, for the wheel"
elif ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    skip "Python's venv module (on Debian the package python3-venv), for the wheel"
else
    build_environment
    check "packing a wheel twice gives the same bytes" wheel_packs_the_same_twice
    check "pip installs the wheel, and the program runs" wheel_installs_and_runs
    check "python -m rowhouse serves, and signals reach the program" wheel_serves
    check "program_path() finds the program" wheel_finds_the_program
    check "pip uninstall leaves nothing" wheel_leaves_nothing
fi

# ---- Debian ----------------------------------------------------------------------------------------------------------

# dpkg with a list of packages and files of its own, below a folder; the scripts of packages run outside of it, and are told where it is.
private_dpkg() { as_root dpkg --root="$scratch/system" --force-script-chrootless --force-not-root "$@"; }

deb_packs_the_same_twice() {
    "$root/scripts/package-deb.sh" "$program" "$target" "$scratch/deb"
    (umask 077 && "$root/scripts/package-deb.sh" "$program" "$target" "$scratch/deb-again")
    same_bytes deb deb-again
}

deb_installs_and_runs() {
    local system=$scratch/system file
    mkdir -p "$system/var/lib/dpkg/info" "$system/var/lib/dpkg/updates" "$system/etc/systemd/system"
    touch "$system/var/lib/dpkg/status" "$system/var/lib/dpkg/available"
    private_dpkg --install "$scratch"/deb/*.deb
    expect 0 'install ok installed' private_dpkg --status rowhouse
    expect 0 "^rowhouse $version\$" "$system/usr/bin/rowhouse" --version
    for file in usr/lib/systemd/system/rowhouse{,-backup}.service usr/lib/systemd/system/rowhouse-backup.timer \
        usr/share/doc/rowhouse/{copyright,changelog.gz,examples/live-accounts.conf,examples/accounts.toml} usr/share/man/man1/rowhouse-serve.1.gz \
        usr/share/bash-completion/completions/rowhouse usr/share/zsh/vendor-completions/_rowhouse \
        usr/share/fish/vendor_completions.d/rowhouse.fish; do
        [ -s "$system/$file" ] || fail "missing: $file"
        [ "$(stat -c %a "$system/$file")" = 644 ] || fail "nobody else can read $file"
    done
    # The command that the message at the end of the installation names.
    "$system/usr/bin/rowhouse" accounts new orchard --file "$scratch/accounts.toml" >/dev/null
    expect 0 '^orchard  2 keys$' "$system/usr/bin/rowhouse" accounts list --file "$scratch/accounts.toml"
    # Nothing was enabled.
    [ -z "$(ls "$system/etc/systemd/system")" ]
    private_dpkg --verify rowhouse
    serves "$system/usr/bin/rowhouse"
}

deb_has_units_that_systemd_takes() {
    # What units name and other packages bring, which is not below the folder.
    as_root cp -r --no-clobber /usr/lib/systemd/system "$scratch/system/usr/lib/systemd/" 2>/dev/null || true
    as_root install -D -m 755 "$(type -P true)" "$scratch/system/bin/kill"
    local output unit
    for unit in rowhouse.service rowhouse-backup.service rowhouse-backup.timer; do
        output=$(systemd-analyze verify --man=no --root="$scratch/system" "$unit" 2>&1) || fail "$unit: $output"
        if grep rowhouse <<<"$output"; then fail "a remark about $unit"; fi
    done
}

deb_keeps_and_purges() {
    local system=$scratch/system
    # What the administrator and the server wrote.
    # shellcheck disable=SC2016
    as_root sh -c 'echo ROWHOUSE_LISTEN=127.0.0.1:1 >>"$1/etc/rowhouse/environment"; echo >"$1/etc/rowhouse/accounts.toml"
        mkdir -p "$1/var/lib/private/rowhouse/data" "$1/var/lib/private/rowhouse-backup/0"' - "$system"
    private_dpkg --install "$scratch"/deb/*.deb </dev/null
    as_root grep -q '^ROWHOUSE_LISTEN' "$system/etc/rowhouse/environment"
    private_dpkg --remove rowhouse
    [ ! -e "$system/usr/bin/rowhouse" ]
    as_root test -e "$system/etc/rowhouse/accounts.toml" -a -e "$system/var/lib/private/rowhouse/data"
    private_dpkg --purge rowhouse
    [ ! -e "$system/etc/rowhouse" ] || fail "the configuration is left"
    as_root test ! -e "$system/var/lib/private/rowhouse" || fail "the data are left"
    as_root test -e "$system/var/lib/private/rowhouse-backup/0" || fail "the backups are gone"
}

if ! has dpkg-deb; then
    skip "dpkg, for the Debian package"
else
    check "packing for Debian twice gives the same bytes" deb_packs_the_same_twice
    check "dpkg installs the package, and the program runs" deb_installs_and_runs
    if has systemd-analyze; then
        check "systemd takes the installed units" deb_has_units_that_systemd_takes
    else
        echo "systemd-analyze is not installed, so the installed units are not verified"
    fi
    check "dpkg keeps what people changed, and purges everything but backups" deb_keeps_and_purges
    # The program of a test may be dynamically linked, and is then not what the package is meant for.
    if has lintian && { ldd "$program" 2>&1 || true; } | grep -qE 'statically linked|not a dynamic executable'; then
        check "lintian finds nothing" lintian --allow-root --fail-on error,warning "$scratch"/deb/*.deb
    else
        echo "lintian is not installed, or the program is not static, so the Debian package is not linted"
    fi
fi

# ---- cargo -----------------------------------------------------------------------------------------------------------

cargo_installs() {
    # Its own name for the folder, so that nothing of the machine is replaced.
    (cd "$root" && cargo install --quiet --path rowhouse --locked --offline --no-track --root "$scratch/cargo")
    expect 0 "^rowhouse $version\$" "$scratch/cargo/bin/rowhouse" --version
    # It was not built again.
    cmp "$scratch/cargo/bin/rowhouse" "$program"
}

if [ "$program" = "$(realpath -m "${CARGO_TARGET_DIR:-$root/target}/release/rowhouse")" ]; then
    check "cargo install puts the program where it is told" cargo_installs
else
    echo "the program is not the release build of these sources, so cargo install is not tried"
fi

packaging_count
