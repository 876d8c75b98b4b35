#!/usr/bin/env bash
# Puts the program that the tests start where the release is: it is there when they were built, and checks itself as it runs.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --workspace --bins
mkdir -p target/release
cp --remove-destination target/debug/weir target/release/weir
