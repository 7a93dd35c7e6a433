"""Whether a reply belongs to its own prompt: concurrent replies against what each prompt gets alone."""

from __future__ import annotations

import re
from dataclasses import dataclass

from analysis.rundata import Arm
from analysis.schema import Verdict, verdict

EVIDENCE_CHARS = 32
"""So much text of another prompt's reply, and not of the own one, is no accident. Half as much
can be: small models repeat themselves, and a few words in a row turn up by chance."""
ALONE = re.compile(r"isolation_alone(\d+)-r(\d+)-0")
TOGETHER = re.compile(r"isolation(_streams)?-(\d+)-r(\d+)-(\d+)")


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply that was given in company: which prompt it answers, what it says, whether it was streamed."""

    request: str
    topic: tuple[int, int]
    text: str
    streamed: bool


def verdicts(arm: Arm) -> list[Verdict]:
    references, replies = read(arm)
    return [_mixed(references, replies), _streamed(references, replies)]


def read(arm: Arm) -> tuple[dict[tuple[int, int], str], list[Reply]]:
    """Solo replies by topic (repeat, index), and the replies that were given in company."""
    references: dict[tuple[int, int], str] = {}
    replies: list[Reply] = []
    sound = set(arm.requests.loc[arm.requests["outcome"] == "ok", "request"])
    for request, text in arm.texts.items():
        if request not in sound:
            continue
        if found := ALONE.fullmatch(request):
            references[int(found[2]), int(found[1])] = text
        elif found := TOGETHER.fullmatch(request):
            replies.append(Reply(request, (int(found[3]), int(found[4])), text, bool(found[1])))
    return references, replies


def agreement(text: str, reference: str) -> int:
    """Characters up to the first difference."""
    pairs = zip(text, reference, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(text), len(reference)))


def foreign(text: str, own: str, others: list[str]) -> str:
    """Text of another prompt's reply within `text`, "" if there is no evidence of any.

    From where the reply leaves its own reference, it must say at least `EVIDENCE_CHARS` that another
    reference says and its own does not. Batch numerics may make a reply go its own way; that is no
    evidence.
    """
    start = agreement(text, own)
    for at in range(start, max(len(text) - EVIDENCE_CHARS, start) + 1, EVIDENCE_CHARS // 2):
        piece = text[at : at + EVIDENCE_CHARS]
        say_it = sum(piece in other for other in others)
        # What half of the replies say belongs to nobody: a small model's favourite phrase.
        if len(piece) == EVIDENCE_CHARS and piece not in own and 0 < 2 * say_it < len(others):
            return piece
    return ""


def _mixed(references: dict[tuple[int, int], str], replies: list[Reply]) -> Verdict:
    limit = "no reply continues another prompt's"
    judged = [reply for reply in replies if reply.topic in references]
    if not judged:
        return verdict("isolation.mixed", "skip", "not tried", limit)
    if len(set(references.values())) == 1 and len(references) > 1:
        detail = "every prompt gets the same reply from this model: mixing could not be seen"
        return verdict("isolation.mixed", "skip", "replies do not depend on the prompt", limit, detail)
    guilty = []
    for reply in judged:
        own = references[reply.topic]
        others = [text for topic, text in references.items() if topic != reply.topic and text != own]
        if piece := foreign(reply.text, own, others):
            guilty.append(f"{reply.request} says {piece!r}")
    shares = [agreement(reply.text, references[reply.topic]) / max(len(reply.text), 1) for reply in judged]
    detail = f"replies agree with their own solo reply for {sum(shares) / len(shares):.1%} of their length"
    observed = f"{len(guilty)} of {len(judged)} replies"
    if guilty:
        return verdict("isolation.mixed", "fail", observed, limit, f"{guilty[0]}; {detail}")
    return verdict("isolation.mixed", "pass", observed, limit, detail)


def _streamed(references: dict[tuple[int, int], str], replies: list[Reply]) -> Verdict:
    """Streamed against not streamed: alone, or in the same company, one of them has to say the same."""
    limit = "the same text streamed and not streamed"
    plain = {reply.topic: reply.text for reply in replies if not reply.streamed}
    streamed = [reply for reply in replies if reply.streamed and reply.topic in references]
    if not streamed:
        return verdict("equivalence.stream", "skip", "not tried", limit)
    differing = [r for r in streamed if r.text not in (references[r.topic], plain.get(r.topic))]
    detail = ""
    if differing:
        first = differing[0]
        detail = f"{first.request} differs from character {agreement(first.text, references[first.topic])}"
    status = "warn" if differing else "pass"
    return verdict("equivalence.stream", status, f"{len(differing)} of {len(streamed)} differ", limit, detail)
