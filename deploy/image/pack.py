#!/usr/bin/env python3
"""Packs a directory as an image: a tar with the layout of OCI, which containerd, podman and skopeo read.

One layer, in which everything belongs to root and is as old as the epoch, so that equal files give equal digests.
"""

import argparse
import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

_OCI = "application/vnd.oci.image"


def main() -> None:
    arguments = _arguments()
    layer = _layer(arguments.root)
    packed = gzip.compress(layer, compresslevel=9, mtime=0)
    config = _config(arguments, layer)
    manifest = _json({
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": _descriptor("config.v1+json", config),
        "layers": [_descriptor("layer.v1.tar+gzip", packed)],
    })
    index = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.index.v1+json",
        "manifests": [_descriptor("manifest.v1+json", manifest) | {
            "platform": _platform(arguments.arch),
            # The first is the name for containerd, the second the one for all others.
            "annotations": {
                "io.containerd.image.name": arguments.name,
                "org.opencontainers.image.ref.name": arguments.name,
            },
        }],
    }
    with tarfile.open(arguments.out, "w") as image:
        _add(image, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(image, "index.json", _json(index))
        for blob in (config, packed, manifest):
            _add(image, f"blobs/sha256/{_sha256(blob)}", blob)
    print(f"{arguments.name} sha256:{_sha256(manifest)} ({len(packed)} bytes)")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="name of the image, with its tag")
    parser.add_argument("root", type=Path, help="directory that becomes the root of the image")
    parser.add_argument("out", type=Path, help="file to write")
    parser.add_argument("--arch", default="amd64", help="architecture of the programs, as Go names it")
    parser.add_argument("--entrypoint", default=None, help="path of the program in the image")
    parser.add_argument("--user", default="0:0", help="UID:GID that the program runs as")
    parser.add_argument("--label", action="append", default=[], metavar="KEY=VALUE")
    return parser.parse_args()


def _layer(root: Path) -> bytes:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            entry = archive.gettarinfo(path, arcname=str(path.relative_to(root)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = 0
            if entry.isreg():
                with path.open("rb") as content:
                    archive.addfile(entry, content)
            else:
                archive.addfile(entry)
    return layer.getvalue()


def _config(arguments: argparse.Namespace, layer: bytes) -> bytes:
    program = {"User": arguments.user, "WorkingDir": "/", "Env": ["PATH=/usr/bin:/bin:/"]}
    if arguments.entrypoint:
        program["Entrypoint"] = [arguments.entrypoint]
    program["Labels"] = dict(label.split("=", 1) for label in arguments.label)
    return _json(_platform(arguments.arch) | {
        "config": program,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_sha256(layer)}"]},
    })


def _platform(arch: str) -> dict[str, str]:
    return {"architecture": arch, "os": "linux"}


def _descriptor(kind: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": f"{_OCI}.{kind}", "digest": f"sha256:{_sha256(blob)}", "size": len(blob)}


def _add(image: tarfile.TarFile, name: str, blob: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(blob)
    image.addfile(entry, io.BytesIO(blob))


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _sha256(blob: bytes) -> str:
    return hashlib.sha256(blob).hexdigest()


if __name__ == "__main__":
    main()
