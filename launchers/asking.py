"""One plain HTTP request to a server: for readiness, telemetry and probes, never for what is measured."""

from __future__ import annotations

import http.client
import json
import os
from typing import Any
from urllib.parse import urlsplit

API_KEY_VARIABLE = "HEADTOHEAD_API_KEY"
Trouble = (OSError, http.client.HTTPException)


def ask(
    base_url: str, path: str, body: dict[str, Any] | None = None, timeout_s: float = 5.0
) -> tuple[int, bytes]:
    """Status and whole body of a GET, or of a POST when there is a body. Raises one of `Trouble`.

    Without proxies and without redirects. A key for a protected server comes from the environment, as for the
    load.
    """
    url = urlsplit(base_url)
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.hostname or "", url.port, timeout=timeout_s)
    headers = {"content-type": "application/json"} if body is not None else {}
    if key := os.environ.get(API_KEY_VARIABLE):
        headers["authorization"] = f"Bearer {key}"
    try:
        connection.request(
            "GET" if body is None else "POST",
            url.path.rstrip("/") + path,
            None if body is None else json.dumps(body).encode(),
            headers,
        )
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
