#!/usr/bin/env bash
# Puts the program that the tests start where the release is: with them it is built already, and it checks itself as it runs.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test --workspace --no-run
mkdir -p target/release
cp --remove-destination target/debug/weir target/release/weir
