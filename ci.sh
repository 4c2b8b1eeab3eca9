#!/usr/bin/env bash
# The whole gate, for contributors and for continuous integration alike.
set -euo pipefail
cd "$(dirname "$0")"
cargo fmt --all --check
cargo clippy --workspace --all-targets --locked -- -D warnings
cargo test --workspace --locked
