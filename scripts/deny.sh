#!/usr/bin/env bash
# Licences, sources and duplicates of dependencies; known vulnerabilities too where the advisory database can be reached.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.20.2
if ! cargo deny --version 2>/dev/null | grep -q "$version"; then
    echo "installing cargo-deny $version"
    cargo install --quiet --locked cargo-deny --version "$version"
fi
cargo deny --log-level error check licenses bans sources
if ! cargo deny --log-level error fetch db 2>/dev/null; then
    echo "note: the advisory database cannot be reached; known vulnerabilities were not checked"
else
    cargo deny --log-level error check advisories
fi
