#!/usr/bin/env bash
# Makes an image of Weir without Docker: the program, the certificates of public authorities, and the names of its user.
#   deploy/image/build.sh BINARY OUT.tar [NAME]     NAME: weir:latest if not given
# BINARY may be static or not; of one that is not, the libraries it is linked with are packed too, from this machine.
# For another architecture, STRIP names the `strip` of its binutils, and BINARY must be static.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here
# What Weir's pods run as; nothing else may have this number on a node.
readonly user=10001
readonly authorities=/etc/ssl/certs/ca-certificates.crt

fail() {
    echo "deploy/image/build.sh: $*" >&2
    exit 1
}

architecture() {
    local machine
    machine=$(readelf --file-header "$1" | sed -n 's/ *Machine: *//p')
    case "$machine" in
    *X86-64*) echo amd64 ;;
    AArch64) echo arm64 ;;
    *) fail "cannot pack $1: programs for '$machine' have no known image architecture" ;;
    esac
}

# With each library its path, because the program looks for it there. The loader is named by the program itself.
pack_libraries() { # BINARY ROOT
    local library
    readelf --program-headers "$1" | grep -q 'INTERP' || return 0
    ldd "$1" | grep -oE '/[^ ]+' | while read -r library; do
        install -D -m 0755 "$(realpath "$library")" "$2$library"
    done
}

(($# == 2 || $# == 3)) || fail "usage: $0 BINARY OUT.tar [NAME]"
readonly binary=$1 out=$2 name=${3:-weir:latest}
[[ -x $binary ]] || fail "cannot pack $binary: not an executable file"
[[ -r $authorities ]] || fail "cannot pack $authorities: install ca-certificates"
command -v readelf >/dev/null || fail "cannot read $binary: no 'readelf' in PATH; install binutils"

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/etc"
# Line numbers of backtraces go, names of functions stay.
"${STRIP:-strip}" --strip-debug -o "$root/weir" "$binary"
chmod 0755 "$root/weir"
pack_libraries "$root/weir" "$root"
install -D -m 0644 "$authorities" "$root$authorities"
printf 'root:x:0:0:root:/:/sbin/nologin\nweir:x:%d:%d:weir:/:/sbin/nologin\n' $user $user >"$root/etc/passwd"
printf 'root:x:0:\nweir:x:%d:\n' $user >"$root/etc/group"
find "$root" -type d -exec chmod 0755 {} +

"$here/pack.py" "$name" "$root" "$out" --arch "$(architecture "$binary")" --entrypoint /weir --user $user:$user \
    --label org.opencontainers.image.title=weir --label org.opencontainers.image.licenses=Apache-2.0
