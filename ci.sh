#!/usr/bin/env bash
# The whole gate, for contributors and for continuous integration alike. Needs Rust and git.
set -euo pipefail
cd "$(dirname "$0")"

step() { printf '\n== %s\n' "$*"; }

# The better of the two cages is tested where it can be had. Without it the tests say loudly what they skip.
if ! command -v bwrap > /dev/null && command -v apt-get > /dev/null; then
    step 'bubblewrap'
    sudo=''
    [ "$(id -u)" = 0 ] || sudo='sudo -n'
    timeout 120 $sudo apt-get install -y -q bubblewrap > /dev/null 2>&1 ||
        { timeout 120 $sudo apt-get update -q > /dev/null 2>&1 &&
            timeout 120 $sudo apt-get install -y -q bubblewrap > /dev/null 2>&1; } ||
        echo 'bubblewrap cannot be installed here; its cage is not tested'
fi

step 'the agents that are tested'
clients/install.sh

step 'format'
cargo fmt --all --check

step 'lints'
cargo clippy --workspace --all-targets --locked -- -D warnings

step 'the program and its tour'
cargo build --release --locked -p aot -p aot-testkit --bin aot --example simulate --example check_model
./target/release/aot demo > /dev/null

step 'a hundred thousand simulated lives'
./target/release/examples/simulate 100000

step 'every order of events on small graphs'
./target/release/examples/check_model

step 'tests'
cargo test --workspace --locked --lib --bins --tests 2>&1 | tee target/tests.log

# One line that says it all, whatever the last test binary was.
awk '/^test result:/ { passed += $4; failed += $6 } END { printf "%d passed, %d failed\n", passed, failed }' target/tests.log
