"""A server that somebody else started, at a URL."""

from __future__ import annotations

from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from pydantic import field_validator

from launchers.engines import base


class ExternalSettings(base.EngineSettings):
    """`url`: where the server's /v1 is found. An API key comes from HEADTOHEAD_API_KEY only."""

    url: str
    ready_path: str = "/v1/models"

    @field_validator("url")
    @classmethod
    def http(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"is {value!r}; must look like http://127.0.0.1:8000")
        return value.rstrip("/").removesuffix("/v1")


class External(base.Engine):
    name = "external"
    Settings = ExternalSettings

    def __init__(self, settings: base.EngineSettings) -> None:
        super().__init__(settings)
        own = cast(ExternalSettings, settings)
        self.external_url = own.url
        self.ready_path = own.ready_path

    def capabilities(self) -> base.Capabilities:
        return base.Capabilities(honours={"stream_options": "yes"}, metrics_path="/metrics")

    @classmethod
    def found(cls, settings: base.EngineSettings | None = None) -> base.Found:
        return base.Found(True, None, cast(ExternalSettings, settings).url if settings else "any URL")

    def processes(self, mode: str, port: int, workdir: Path) -> list[base.ProcessSpec]:
        return []
