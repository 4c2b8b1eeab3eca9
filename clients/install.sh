#!/usr/bin/env bash
# Installs the pinned agents, and the server that carries jobs to other hosts, under target/clients and prints their versions,
# a line each. Quick when they are there already.
#
# Tests find them in target/clients/bin. With CI=true one that cannot be installed is a failure; elsewhere it is left out
# with one loud line, and so are all of them on a machine without npm.
set -euo pipefail
cd "$(dirname "$0")"

place="${CARGO_TARGET_DIR:-../target}/clients"
names='claude claude-197 codex gemini opencode claude-agent-acp codex-acp restate-server'

left_out() {
    if [ "${CI:-}" = true ]; then
        echo "error: $1 cannot be installed: $2" >&2
        exit 1
    fi
    echo "!!! NOT TESTED WITH $1: $2 !!!"
}

command -v npm > /dev/null || { left_out 'real agents' 'npm is not here'; exit 0; }

mkdir -p "$place"
place="$(cd "$place" && pwd)"
wanted="$(cat package.json package-lock.json .npmrc install.sh | cksum)"

# Two at once would tear each other's files.
exec 9> "$place/lock"
if command -v flock > /dev/null; then flock 9; fi

# What was left out on a contributor's machine is not left out where CI=true.
is_there() {
    [ "$(cat "$place/stamp" 2> /dev/null)" = "$wanted" ] &&
        { [ "${CI:-}" != true ] || ! grep -q 'NOT TESTED' "$place/versions"; }
}
if is_there; then
    cat "$place/versions"
    exit 0
fi

rm -rf "$place/stamp" "$place/bin"
cp package.json package-lock.json .npmrc "$place"
cd "$place"

# Nobody's install script runs, save the one of Claude Code, which puts the program for this system in its place.
install() {
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error &&
        npm rebuild --loglevel=error @anthropic-ai/claude-code &&
        (cd node_modules/claude-197 && node install.cjs)
}
install > npm.log 2>&1 || { tail -n 20 npm.log >&2; left_out 'real agents' 'npm failed'; exit 0; }

# One folder for the search path: the programs, and the node that those written in JavaScript run on.
mkdir bin
programs='node_modules/.bin/codex node_modules/.bin/gemini node_modules/.bin/claude-agent-acp
    node_modules/.bin/codex-acp node_modules/opencode-*/bin/opencode node_modules/node-*/bin/node
    node_modules/@restatedev/restate-server-*/bin/restate-server'
for program in $programs; do
    if [ -x "$program" ]; then ln -s "../$program" bin/; fi
done
# Two versions of one client, which have the same name: the newest, and the one that many users still have.
ln -s ../node_modules/@anthropic-ai/claude-code/bin/claude.exe bin/claude
ln -s ../node_modules/claude-197/bin/claude.exe bin/claude-197

# A version that is printed is also a program that starts, in an environment and a home of its own.
home="$(mktemp -d)"
trap 'rm -rf "$home"' EXIT
start() { env -i PATH="$place/bin:$PATH" HOME="$home" "$@" 2> /dev/null < /dev/null; }
version_of() {
    if [ "$1" = codex-acp ]; then # It has no --version.
        start codex-acp --help > /dev/null &&
            start node -p 'require("./node_modules/@zed-industries/codex-acp/package.json").version'
    else
        start "$1" --version | head -n 1
    fi
}
for name in $names; do
    if [ -x "bin/$name" ] && version="$(version_of "$name")" && [ -n "$version" ]; then
        printf '%-17s %s\n' "$name" "$version"
    else
        rm -f "bin/$name"
        left_out "$name" 'it does not start here'
    fi
done > versions
printf '%s\n' "$wanted" > stamp
cat versions
