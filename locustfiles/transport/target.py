"""The server under test, as its base URL names it."""

from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Target:
    """A base URL taken apart. `host` is without brackets, `prefix` without a trailing slash."""

    scheme: str
    host: str
    port: int
    prefix: str

    @classmethod
    def parse(cls, url: str) -> Self:
        """Take apart `http[s]://host[:port][/prefix]`; ValueError says in one line what is wrong with it."""
        try:
            parts = urlsplit(url.strip())
            port = parts.port
            (parts.hostname or "").encode("idna")
        except ValueError as error:
            raise ValueError(f"base URL {url!r}: {error}") from None
        if parts.scheme not in ("http", "https"):
            raise ValueError(f"base URL {url!r}: must begin with http:// or https://")
        if not parts.hostname:
            raise ValueError(f"base URL {url!r}: names no host")
        if parts.username is not None or parts.password is not None:
            raise ValueError("base URL: must hold no user or password; pass an API key by HEADTOHEAD_API_KEY")
        if parts.query or parts.fragment:
            raise ValueError(f"base URL {url!r}: must have no query and no fragment")
        default_port = 443 if parts.scheme == "https" else 80
        return cls(parts.scheme, parts.hostname, port or default_port, parts.path.rstrip("/"))

    @property
    def authority(self) -> str:
        """`host[:port]` as the Host header wants it: IPv6 in brackets, the scheme's own port left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default_port = 443 if self.scheme == "https" else 80
        return host if self.port == default_port else f"{host}:{self.port}"
