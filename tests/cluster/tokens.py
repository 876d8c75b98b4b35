"""A token server of OAuth2 (RFC 6749 4.4) in this process, with one client, on the address by which pods reach this machine."""

import base64
import json
import secrets
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote_plus

CLIENT_ID = "weir"
# Characters that have to be encoded on their way.
CLIENT_SECRET = "s3cret: 100 % + &="
SCOPE = "telemetry.write"
_LASTS_S = 3600


class TokenServer:
    """Gives a token to who proves to be the client, and asks for the scope."""

    def __init__(self, address: str):
        self._tokens: set[str] = set()
        self._server = ThreadingHTTPServer((address, 0), partial(_Handler, self))
        self.url = f"http://{address}:{self._server.server_port}/token"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def words(self) -> dict[str, str]:
        """What stands for it in scenarios."""
        return {"$tokens": self.url, "$client-id": CLIENT_ID, "$client-secret": CLIENT_SECRET, "$scope": SCOPE}

    def issue(self, authorization: str, form: dict[str, list[str]]) -> str | None:
        wanted = {"grant_type": ["client_credentials"], "scope": [SCOPE]}
        if _credentials(authorization) != (CLIENT_ID, CLIENT_SECRET) or form != wanted:
            return None
        token = secrets.token_urlsafe()
        self._tokens.add(token)
        return token

    def has_issued(self, authorization: str) -> bool:
        """Whether the header of a request has a token of this server."""
        scheme, _, token = authorization.partition(" ")
        return scheme == "Bearer" and token in self._tokens

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _credentials(authorization: str) -> tuple[str, str] | None:
    """Identifier and secret, each of which was encoded like a field of a form (RFC 6749 2.3.1)."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme != "Basic":
        return None
    identifier, _, secret = base64.b64decode(encoded).decode().partition(":")
    return unquote_plus(identifier), unquote_plus(secret)


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, server: TokenServer, *arguments: Any):
        self._of = server
        super().__init__(*arguments)

    def do_POST(self) -> None:  # noqa: N802 (the name is the library's)
        form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        token = self._of.issue(self.headers.get("authorization", ""), form)
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": _LASTS_S} if token else {"error": "invalid_client"}
        body = json.dumps(answer).encode()
        self.send_response(200 if token else 401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""
