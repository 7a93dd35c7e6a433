"""All faults and dialects by name, and the verdict code under which each fault has to be found."""

from __future__ import annotations

from launchers.simulator import dialects, dialects_wire, faults_engine, faults_http, faults_stream
from launchers.simulator.profile import Profile
from launchers.simulator.twists import Twist

EXPECTED: dict[type[Twist], str] = {
    faults_http.Status400: "http.status",
    faults_http.Status429: "http.status",
    faults_http.Status500: "http.status",
    faults_http.Status503: "http.status",
    faults_http.Reset: "http.connection",
    faults_http.Refused: "http.connection",
    faults_http.ClosesIdle: "http.connection",
    faults_http.NeverAnswers: "engine.hang",
    faults_http.Exits: "engine.died",
    faults_http.EarlyEos: "budget.short",
    faults_http.UsageMissing: "usage.missing",
    faults_http.UsageZero: "usage.missing",
    faults_http.UsageTotal: "usage.total",
    faults_http.WrongObject: "http.body",
    faults_http.FinishUnknown: "finish.reason",
    faults_http.FinishTimeout: "finish.reason",
    faults_http.NotJson: "http.body",
    faults_stream.NoDone: "stream.done",
    faults_stream.NoRole: "stream.role",
    faults_stream.NoFinish: "stream.finish",
    faults_stream.TwoDone: "stream.done",
    faults_stream.TwoFinish: "stream.finish",
    faults_stream.DataAfterDone: "stream.done",
    faults_stream.BadJson: "stream.json",
    faults_stream.ErrorObject: "stream.error",
    faults_stream.ErrorEvent: "stream.error",
    faults_stream.NotSse: "stream.framing",
    faults_stream.CutMidEvent: "http.connection",
    faults_stream.EndsMidEvent: "stream.framing",
    faults_stream.Stalls: "engine.hang",
    faults_stream.SharedId: "stream.identity",
    faults_stream.SwappedChunks: "stream.identity",
    faults_stream.MixedText: "isolation.mixed",
    faults_stream.DiffersStreamed: "equivalence.stream",
    faults_engine.Widened: "serial.flat",
    faults_engine.Serialised: "batch.multiplexes",
    faults_engine.Clamped: "batch.width",
    faults_engine.Narrowed: "batch.width",
    faults_engine.PrefixCache: "compare.cache",
    faults_engine.PrefixCacheUntold: "compare.cache",
    faults_engine.PrefixCacheFull: "compare.cache",
    faults_engine.NeverCancels: "disconnect.reclaims",
    faults_engine.NeverCancelsUntold: "disconnect.reclaims",
    faults_engine.BodyUnwatched: "disconnect.reclaims",
    faults_engine.QueueUnwatched: "disconnect.reclaims",
    faults_engine.PrefillUnwatched: "disconnect.reclaims",
    faults_engine.LeaksSlot: "disconnect.leak",
    faults_engine.HurtsBystander: "disconnect.bystanders",
    faults_engine.HurtsBystanderQueued: "disconnect.bystanders",
    faults_engine.BrokenAfterDisconnect: "disconnect.recovers",
}
FAULTS: dict[str, type[Twist]] = {kind.name: kind for kind in EXPECTED}
DIALECTS: dict[str, type[Twist]] = {
    kind.name: kind
    for kind in (
        dialects_wire.Pings,
        dialects_wire.Crlf,
        dialects_wire.NoSpace,
        dialects_wire.ByteOrderMark,
        dialects_wire.InOneRead,
        dialects_wire.Split,
        dialects_wire.SseFields,
        dialects.ExtraFields,
        dialects.UsageNull,
        dialects.UsageOnLastChunk,
        dialects.FinishOnText,
        dialects.AllOnText,
        dialects.RoleWithNull,
        dialects.RoleBare,
        dialects.RoleWithText,
        dialects.ReasoningContent,
        dialects.Reasoning,
        dialects.ToolCalls,
        dialects_wire.DoneWithSpace,
        dialects_wire.CloseDelimited,
        dialects_wire.Gzipped,
        dialects_wire.GzippedStream,
        dialects.SeveralTokens,
        dialects.TokensCounted,
        dialects.NoMetrics,
        dialects.EarlyRole,
        dialects_wire.ClosesStreams,
    )
}


def listing() -> str:
    """A line for each fault with the code it earns, then one for each dialect: they earn none."""
    rows = [(name, EXPECTED[kind], kind.__doc__) for name, kind in FAULTS.items()]
    rows += [(name, "-", kind.__doc__) for name, kind in DIALECTS.items()]
    return "\n".join(f"{name:30} {code:22} {text}" for name, code, text in rows)


def twists(names: list[str], known: dict[str, type[Twist]]) -> list[Twist]:
    """From NAME or NAME:SHARE. Raises ValueError with one line."""
    made = []
    for text in names:
        name, _, share = text.partition(":")
        if name not in known:
            raise ValueError(f"no {name!r}; known: {', '.join(sorted(known))}")
        try:
            part = float(share or 1)
        except ValueError:
            part = -1.0
        if not 0 < part <= 1:
            raise ValueError(f"{text}: the share must be a number above 0, at most 1")
        made.append(known[name](part))
    return made


def twisted(profile: Profile, twists: list[Twist]) -> Profile:
    """The profile with what the twists change about the whole engine."""
    return profile.model_copy(update={key: value for twist in twists for key, value in twist.profile.items()})
