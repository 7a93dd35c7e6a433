"""What a client may ask for, held to it as a careful server does: a wrong field is a 400 that names it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from launchers.simulator.profile import Profile

DEFAULT_BUDGET = 16
Count = Annotated[int, Field(ge=1)]


class BadRequest(Exception):
    """Answered with `status` and this message."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Lenient(BaseModel):
    """Unknown fields pass, as with most engines; a known one has to be right."""

    model_config = ConfigDict(strict=True, frozen=True)


class Part(Lenient):
    type: Literal["text"]
    text: str


class Message(Lenient):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[Part]

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class StreamOptions(Lenient):
    include_usage: bool = False
    continuous_usage_stats: bool = False


class ChatRequest(Lenient):
    """A chat completion as asked for."""

    messages: Annotated[list[Message], Field(min_length=1)]
    model: str | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    min_tokens: Annotated[int, Field(ge=0)] = 0
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    n: Literal[1] | None = None
    ignore_eos: bool = False
    stream: bool = False
    stream_options: StreamOptions | None = None

    @model_validator(mode="after")
    def options_need_a_stream(self) -> ChatRequest:
        if self.stream_options and not self.stream:
            raise ValueError("stream_options need stream = true")
        return self

    @property
    def limit(self) -> int:
        """The most tokens that the answer may have."""
        return self.max_completion_tokens or self.max_tokens or DEFAULT_BUDGET

    def budget(self, prompt_tokens: int, profile: Profile) -> int:
        """How many tokens the answer will have. Raises BadRequest if the context cannot hold them."""
        if prompt_tokens + self.limit > profile.max_context:
            asked = f"{prompt_tokens} prompt and {self.limit} output tokens"
            raise BadRequest(f"{asked} exceed the context of {profile.max_context}")
        if profile.stops_after and not self.ignore_eos:
            return min(self.limit, max(profile.stops_after, self.min_tokens))
        return self.limit


class TokenizeRequest(Lenient):
    """Either a prompt as it is, or messages that a chat template is put around."""

    prompt: str | None = None
    messages: list[Message] | None = None

    @model_validator(mode="after")
    def one_of_both(self) -> TokenizeRequest:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("give either prompt or messages")
        return self


Asked = TypeVar("Asked", ChatRequest, TokenizeRequest)


def read(kind: type[Asked], body: bytes) -> Asked:
    """Raises BadRequest with one line that names the first field that is wrong."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first: Any = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BadRequest(f"{where or 'body'}: {first['msg']}") from None
