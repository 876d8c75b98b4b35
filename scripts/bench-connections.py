#!/usr/bin/env python3
"""How much resident memory idle HTTP/2 connections take.

  target/release/weir run examples/quickstart.yaml --no-data-dir &
  scripts/bench-connections.py $! 2000         # process, connections
  scripts/bench-connections.py $! 2000 --tls   # of a gateway with --tls-cert and --tls-key

They are opened on port 4317, say what a client has to say first, and nothing more. Needs `ulimit -n` above their number.
"""

import argparse
import socket
import ssl
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
FRAME_HEADER = 9


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def connect(port, context):
    connection = socket.create_connection(("127.0.0.1", port))
    if context:
        connection = context.wrap_socket(connection)
    connection.sendall(PREFACE)
    return connection


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pid", type=int)
    parser.add_argument("connections", type=int)
    parser.add_argument("--port", type=int, default=4317)
    parser.add_argument("--tls", action="store_true")
    args = parser.parse_args()
    context = None
    if args.tls:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
    before = resident_kib(args.pid)
    connections = [connect(args.port, context) for _ in range(args.connections)]
    for connection in connections:
        connection.recv(FRAME_HEADER)
    time.sleep(1)
    each = (resident_kib(args.pid) - before) / args.connections
    print(f"{args.connections} connections: {each:.1f} KiB each, {before} KiB before")


if __name__ == "__main__":
    main()
