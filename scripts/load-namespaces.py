#!/usr/bin/env python3
"""Sends log records of several namespaces in every request, at a rate, over OTLP/HTTP: what `weir load`, whose requests
are each of one namespace, does not do. Namespaces are called namespace-0, namespace-1, ...; each is a resource of its own.

  scripts/load-namespaces.py --endpoint 127.0.0.1:4318 --namespaces 50 --rate 200000 --duration 20s --report load.json

A request is due at its time even when earlier ones are late. The report has the fields of that of `weir load` that
scripts/bench-gateway-cpu.py reads. One request is encoded once, and sent again and again: records have no ids.
"""

import argparse
import collections
import http.client
import itertools
import json
import struct
import sys
import time
from concurrent.futures import ThreadPoolExecutor

# Below this share of the wanted rate, the rate counts as not kept.
RATE_KEPT = 0.99
ATTRIBUTES = 5
BODY = "an order of the shop was taken, and its cart is empty again"


def varint(number):
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def field(number, payload):
    """A field of protobuf with a length: a message or a text."""
    payload = payload.encode() if isinstance(payload, str) else payload
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def attribute(number, key, value):
    return field(number, field(1, key) + field(2, field(1, value)))


def record(unix_nanos):
    """Of OTLP's LogRecord: time (1), severity (2, 3), body (5), attributes (6)."""
    attributes = [attribute(6, f"key{number}", f"value {number} of it".ljust(16)) for number in range(ATTRIBUTES)]
    when = varint(1 << 3 | 1) + struct.pack("<Q", unix_nanos)
    return when + varint(2 << 3) + varint(9) + field(3, "INFO") + field(5, field(1, BODY)) + b"".join(attributes)


def request(namespaces, batch):
    """Resources (1) with their attributes (1.1) and one scope (2), which has the records (2)."""
    scope = field(1, field(1, "load-namespaces")) + field(2, record(time.time_ns())) * (batch // namespaces)

    def resource(number):
        attributes = {"service.name": "load-test", "k8s.namespace.name": f"namespace-{number}"}
        about = b"".join(attribute(1, key, value) for key, value in attributes.items())
        return field(1, field(1, about) + field(2, scope))

    return b"".join(resource(number) for number in range(namespaces))


def send(args, body, begin, numbers):
    """Sends what is due until the end, as one of many. Returns how many requests ended how."""
    connection, ends = http.client.HTTPConnection(args.endpoint, timeout=10), collections.Counter()
    for number in numbers:
        due = begin + number * args.batch / args.rate
        if max(due, time.monotonic()) >= begin + args.duration:
            connection.close()
            return ends
        time.sleep(max(0, due - time.monotonic()))
        try:
            connection.request("POST", "/v1/logs", body, {"content-type": "application/x-protobuf"})
            answer = connection.getresponse()
            answer.read()
            ends["acked" if answer.status == 200 else "refused"] += 1
        except (OSError, http.client.HTTPException):
            # It is opened anew by the next request.
            connection.close()
            ends["unknown"] += 1


def arguments():
    seconds = lambda text: float(text.removesuffix("s"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoint", default="127.0.0.1:4318", metavar="HOST:PORT")
    parser.add_argument("--namespaces", type=int, default=50)
    parser.add_argument("--batch", type=int, default=500, help="records of a request: as many of each namespace")
    parser.add_argument("--rate", type=int, default=200_000, help="records a second")
    parser.add_argument("--duration", type=seconds, default=20, help="in seconds")
    parser.add_argument("--concurrency", type=int, default=16, help="connections, each with one request in flight")
    parser.add_argument("--report", help="a file for what became of them")
    args = parser.parse_args()
    if args.namespaces < 1 or args.batch < 1 or args.batch % args.namespaces:
        parser.error(f"--batch {args.batch} must be a multiple of --namespaces {args.namespaces}")
    return args


def main():
    args = arguments()
    body, numbers, begin = request(args.namespaces, args.batch), itertools.count(), time.monotonic()
    ends = collections.Counter()
    with ThreadPoolExecutor(args.concurrency) as threads:
        try:
            for one in [threads.submit(send, args, body, begin, numbers) for _ in range(args.concurrency)]:
                ends.update(one.result())
        except KeyboardInterrupt:
            # Then nothing more is due.
            args.duration = 0
            raise
    sent_per_s = ends.total() * args.batch / args.duration
    late = f"sent {sent_per_s:.0f} of {args.rate} items/s: answers came too late for this concurrency, or this script did"
    report = {f"{end}_items": ends[end] * args.batch for end in ("acked", "refused", "unknown")}
    report |= {"partial_rejected": 0, "bottleneck": late if sent_per_s < args.rate * RATE_KEPT else None}
    text = json.dumps(report)
    print(text)
    if args.report:
        with open(args.report, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped")
