#!/usr/bin/env bash
# Installs what building needs and a fresh Debian machine with Rust may lack. Says what it does; does nothing twice.
set -euo pipefail

missing=()
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v make >/dev/null || missing+=(make)
if ((${#missing[@]})); then
    echo "installing: ${missing[*]}"
    as_root=()
    ((EUID == 0)) || as_root=(sudo)
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" apt-get install -y -qq "${missing[@]}"
fi

if ! command -v cargo >/dev/null; then
    echo "cannot find cargo: install Rust 1.90 or newer, see https://rustup.rs" >&2
    exit 1
fi
cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
