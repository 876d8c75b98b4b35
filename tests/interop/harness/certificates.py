"""A certificate authority with a server and a client certificate for 127.0.0.1, made by the openssl command."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Identity:
    """A PEM certificate and its key."""

    cert: Path
    key: Path


class Authority:
    """A certificate authority whose files live in `directory`."""

    def __init__(self, directory: Path, name: str):
        self.directory = directory / name
        self.directory.mkdir()
        self.cert = self.directory / "ca.pem"
        self._key = self.directory / "ca.key"
        subject = ["-subj", f"/CN={name}", "-days", "1", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
        _openssl("req", "-x509", *_NEW_KEY, "-keyout", self._key, "-out", self.cert, *subject)

    def issue(self, name: str, days: int = 1) -> Identity:
        """A certificate valid for 127.0.0.1 and localhost, as server and as client; after 0 days it has ended."""
        identity = Identity(self.directory / f"{name}.pem", self.directory / f"{name}.key")
        request = self.directory / f"{name}.csr"
        extensions = self.directory / f"{name}.ext"
        extensions.write_text(
            "subjectAltName=IP:127.0.0.1,DNS:localhost\n"
            "extendedKeyUsage=serverAuth,clientAuth\n"
            "basicConstraints=critical,CA:FALSE\n"
        )
        _openssl("req", *_NEW_KEY, "-keyout", identity.key, "-out", request, "-subj", f"/CN={name}")
        signed_by = ["-CA", self.cert, "-CAkey", self._key, "-CAcreateserial", "-extfile", extensions]
        _openssl("x509", "-req", "-in", request, *signed_by, "-days", str(days), "-out", identity.cert)
        return identity


_NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def _openssl(*arguments: str | Path) -> None:
    command = ["openssl", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{' '.join(command)} failed: {done.stderr}"
