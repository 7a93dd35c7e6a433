"""A small OpenAI-compatible server whose behaviour is scripted.

Prints its port; ends with its standard input. It has W slots, takes `--token-ms` a token however many run,
and cancels what its client leaves. `--script` replaces the answer of requests whose x-request-id contains a
text, as `ladder-4=hang`. With `--stall-at` the whole server stands still for a while at that request.
"""

import argparse
import asyncio
import contextlib
import json
import sys
from typing import Any

PROMPT_TOKENS = 100


class Server:
    def __init__(self, width: int, token_s: float, script: dict[str, str], stall: tuple[int, float]) -> None:
        self.slots = asyncio.Semaphore(width)
        self.token_s = token_s
        self.script = script
        self.stall_at, self.stall_s = stall
        self.going = asyncio.Event()
        self.going.set()
        self.running = 0
        self.waiting = 0
        self.served = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                request_line, *lines = head.split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in lines if line)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                await self.answer(request_line.split(" ")[1], headers, body, reader, writer)
        writer.close()

    async def answer(
        self, path: str, headers: dict[str, str], body: bytes, reader: asyncio.StreamReader, writer: Any
    ) -> None:
        if path == "/metrics":
            running, waiting = f"running {self.running}", f"waiting {self.waiting}"
            page = f"vllm:num_requests_{running}\nvllm:num_requests_{waiting}\n"
            await self.respond(writer, 200, page.encode(), "text/plain")
            return
        request_id = headers.get("x-request-id", "")
        scripted = next((does for text, does in self.script.items() if text in request_id), "")
        if scripted == "hang":
            await reader.read(1)
            raise ConnectionResetError
        if scripted == "500":
            await self.respond(writer, 500, b'{"error": {"message": "scripted"}}', "application/json")
            return
        self.waiting += 1
        try:
            async with self.slots:
                self.waiting -= 1
                self.running += 1
                left = asyncio.ensure_future(reader.read(1))
                work = asyncio.ensure_future(self.generate(json.loads(body), scripted, writer))
                await asyncio.wait({left, work}, return_when=asyncio.FIRST_COMPLETED)
                left.cancel()
                await asyncio.wait({left})  # or the reader still counts it as reading
                if not work.done():
                    work.cancel()
                    raise ConnectionResetError
                work.result()
        finally:
            self.running -= 1

    async def generate(self, asked: dict[str, Any], scripted: str, writer: Any) -> None:
        self.served += 1
        if self.served == self.stall_at:
            self.going.clear()
            asyncio.get_running_loop().call_later(self.stall_s, self.going.set)
        await self.going.wait()
        name, count = f"chatcmpl-{self.served}", asked["max_tokens"]
        usage = {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": count,
            "total_tokens": PROMPT_TOKENS + count,
        }
        if not asked["stream"]:
            await asyncio.sleep(self.token_s * count)
            message = {"role": "assistant", "content": " word" * count}
            choice = {"index": 0, "message": message, "finish_reason": "length"}
            answer = {"id": name, "object": "chat.completion", "choices": [choice], "usage": usage}
            await self.respond(writer, 200, json.dumps(answer).encode(), "application/json")
            return
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": " word"}] * count
        for index, delta in enumerate(deltas):
            reason = "length" if index == count else None
            await self.event(writer, name, [{"index": 0, "delta": delta, "finish_reason": reason}])
            await asyncio.sleep(self.token_s)
        await self.event(writer, name, [], usage)
        if scripted != "no-done":
            await self.chunk(writer, b"data: [DONE]\n\n")
        await self.chunk(writer, b"")

    async def event(self, writer: Any, name: str, choices: list[Any], usage: Any = None) -> None:
        value = {"id": name, "object": "chat.completion.chunk", "choices": choices, "usage": usage}
        await self.chunk(writer, f"data: {json.dumps(value)}\n\n".encode())

    async def chunk(self, writer: Any, data: bytes) -> None:
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await writer.drain()

    async def respond(self, writer: Any, status: int, body: bytes, kind: str) -> None:
        writer.write(
            f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        )
        writer.write(body)
        await writer.drain()


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--token-ms", type=float, default=2.0)
    parser.add_argument("--script", nargs="*", default=[])
    parser.add_argument("--stall-at", type=int, default=0)
    parser.add_argument("--stall-s", type=float, default=1.0)
    options = parser.parse_args()
    script = dict(entry.split("=", 1) for entry in options.script)
    stall = (options.stall_at, options.stall_s)
    server = Server(options.width, options.token_ms / 1000, script, stall)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=1 << 20)
    print(listening.sockets[0].getsockname()[1], flush=True)
    stdin = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    await stdin.read()  # ends with whoever started us


if __name__ == "__main__":
    asyncio.run(main())
