"""A real OAuth2 token server with one client: `programs/node/token-server.js`."""

import re

import requests

from .clients import NODE_ENVIRONMENT, PROGRAMS
from .process import Lab

CLIENT_ID = "weir"
# Characters that have to be encoded on their way.
CLIENT_SECRET = "s3cret: 100 % + &="
SCOPE = "traces.write"


class TokenServer:
    def __init__(self, lab: Lab):
        argv = ["node", PROGRAMS / "node" / "token-server.js", CLIENT_ID, CLIENT_SECRET, SCOPE]
        process = lab.start("token-server", argv, NODE_ENVIRONMENT)
        found = process.wait_for(lambda: re.search(r"^listening (\S+)$", process.log_text(), re.MULTILINE), "listens")
        self.address = found[1]

    def introspect(self, token: str) -> dict[str, object]:
        """What the server knows of a token (RFC 7662)."""
        credentials = {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
        response = requests.post(f"{self.address}/token/introspection", data={"token": token, **credentials}, timeout=60)
        response.raise_for_status()
        return response.json()
