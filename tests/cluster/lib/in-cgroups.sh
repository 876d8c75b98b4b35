#!/usr/bin/env bash
# Runs a command in the cgroups whose directories a file lists.
#   in-cgroups.sh FILE COMMAND...
set -euo pipefail

while read -r directory; do
    echo $$ >"$directory/cgroup.procs"
done <"$1"
exec "${@:2}"
