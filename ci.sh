#!/usr/bin/env bash
# The gate, for contributors and for continuous integration alike. Needs Rust and git.
#
#   ./ci.sh          everything
#   ./ci.sh quick    while working: format, lints, and the tests that start no real agent
#
# The last line is `N passed, N failed`, and the exit code is not 0 if anything failed.
set -euo pipefail
cd "$(dirname "$0")"

target="${CARGO_TARGET_DIR:-target}"
sum="$target/tests.sum"
mdbook=0.5.4 # The version that builds the book.
features=aot/restate # What the program has only when it is asked for.
mkdir -p "$target"

# Each heading shows the seconds since the beginning.
step() { printf '\n== %s (%s s)\n' "$1" "$SECONDS"; }

format_and_lints() {
    step 'format'
    cargo fmt --all --check
    step 'lints'
    cargo clippy --workspace --all-targets --features "$features" --locked -- -D warnings
    # The program as it is built when nothing is said.
    cargo clippy --workspace --bins --locked -- -D warnings
}

# Runs the tests and writes their sum into a file, to be printed last. cargo-nextest starts each test in a process of its
# own and keeps the cores busier; without it cargo's own runner runs the same tests.
run_tests() {
    local profile="$1" log="$target/tests.log" status=0
    if cargo nextest --version > /dev/null 2>&1; then
        cargo nextest run --workspace --features "$features" --locked --color never --profile "$profile" 2>&1 | tee "$log" || status=$?
        awk '/^ +Summary \[/ {
            for (i = 2; i <= NF; i++) {
                if ($i ~ /^passed/) passed = $(i - 1)
                if ($i ~ /^(failed|timed|exec)/) failed += $(i - 1)
            }
        } END { printf "%d passed, %d failed\n", passed, failed }' "$log" > "$sum"
    else
        # shellcheck disable=SC2046 # One word for each option.
        cargo test --workspace --features "$features" --locked --no-fail-fast --lib --bins --tests -- $(skipped "$profile") 2>&1 |
            tee "$log" || status=$?
        awk '/^test result:/ { passed += $4; failed += $6 }
            END { printf "%d passed, %d failed\n", passed, failed }' "$log" > "$sum"
    fi
    return "$status"
}

# What nextest's profile `quick` leaves out, as options of cargo's own runner.
skipped() {
    [ "$1" = quick ] || return 0
    printf -- '--skip %s ' agents::clients agents::loops agents::over_acp agents::talks agents::troubles machines mcp::clients \
        plugin::holds plugin::installing plugin::screen plugin::sessions run::crashes
}

# Programs that tests start: bubblewrap is the better of the two cages, tmux and Chromium show what people see, ip makes the
# networks of hosts. Without one of them the tests say which of them are left out. The path tells what is there already.
install_programs() {
    local missing='' sudo='' program
    for program in bwrap:bubblewrap tmux:tmux chromium:chromium ip:iproute2; do
        command -v "${program%:*}" > /dev/null || missing="$missing ${program#*:}"
    done
    if [ -z "$missing" ] || ! command -v apt-get > /dev/null; then return 0; fi
    [ "$(id -u)" = 0 ] || sudo='sudo -n'
    # shellcheck disable=SC2086 # One word for each package.
    timeout 300 $sudo apt-get install -y -q --no-install-recommends $missing > /dev/null 2>&1 ||
        { timeout 120 $sudo apt-get update -q > /dev/null 2>&1 &&
            timeout 300 $sudo apt-get install -y -q --no-install-recommends $missing > /dev/null 2>&1; } ||
        echo "cannot be installed here, so what needs it is not tested:$missing"
}

# The guide is made into a book where cargo can install mdbook, which takes a minute once.
install_mdbook() {
    if command -v mdbook > /dev/null; then return 0; fi
    nice cargo install mdbook --version "$mdbook" --no-default-features --locked --debug > /dev/null 2>&1 ||
        echo 'mdbook cannot be installed here, so the book is not built'
}

case "${1:-}" in
quick)
    format_and_lints
    step 'tests'
    tests=0
    run_tests quick || tests=$?
    cat "$sum"
    exit "$tests"
    ;;
'') ;;
*)
    echo "usage: ./ci.sh [quick]" >&2
    exit 2
    ;;
esac

# The installation waits for the network and the disk, so it runs while the compiler needs the cores.
{ install_programs && clients/install.sh && install_mdbook; } > "$target/install.log" 2>&1 &
install=$!

format_and_lints

# With the same packages and features as the tests, so that nothing is compiled twice.
step 'build'
cargo build --workspace --features "$features" --locked --lib --bins --tests --example simulate --example check_model \
    --example faults --example attacks --example performance

step 'the demo'
"$target/debug/aot" demo > /dev/null

step 'programs and agents that are tested'
wait "$install" || { cat "$target/install.log"; exit 1; }
cat "$target/install.log"

# Links, and that every page is in the book, are tests of their own.
if command -v mdbook > /dev/null; then
    step 'the book'
    mdbook build --dest-dir "$PWD/$target/book"
fi

# Tests wait for processes part of the time: the simulations, and a sample of the faults that docs/reliability.md describes,
# take what they leave.
{
    echo 'a hundred thousand simulated lives'
    nice -n 19 "$target/debug/examples/simulate" 100000
    echo 'every order of events on small graphs'
    nice -n 19 "$target/debug/examples/check_model"
} > "$target/simulations.log" 2>&1 &
simulations=$!
nice -n 10 "$target/debug/examples/faults" 100000 30 > "$target/faults.log" 2>&1 &
faults=$!
trap 'kill "$simulations" "$faults" 2> /dev/null || true' EXIT

step 'tests, with simulations and faults beside them'
failed=0
run_tests default || failed=$?

# A sample again. Attackers use up processes and memory, so tests do not run meanwhile.
step 'attacks'
AOT_SECONDS=20 "$target/debug/examples/attacks" || failed=$?

step 'faults and simulations'
wait "$faults" || failed=$?
cat "$target/faults.log"
wait "$simulations" || failed=$?
cat "$target/simulations.log"

# When nothing else runs: ratios to floors that are measured beside them, against those that were kept.
step 'performance'
"$target/debug/examples/performance" quick || failed=$?

step 'done'
cat "$sum"
exit "$failed"
