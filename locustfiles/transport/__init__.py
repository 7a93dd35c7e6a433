"""HTTP/1.1 for load tests whose times stay right while the load generator is busy.

The order of use: `Connection(target).prepare(...)` builds the bytes, `Exchange.send()` (or `fire` for a
whole wave) stamps and sends them, `Exchange.wait()` blocks the greenlet until the reply is over, and
`sse.decode(reply)` turns the collected bytes into events with the arrival time of each.

All times named `_ns` are nanoseconds since the epoch on CLOCK_REALTIME, as `time.time_ns()` gives them.
"""

from locustfiles.transport.connection import Connection
from locustfiles.transport.exchange import Exchange, in_flight
from locustfiles.transport.firing import fire, sleep_until, undisturbed
from locustfiles.transport.reply import Clock, End, Reply
from locustfiles.transport.target import Target

__all__ = [
    "Clock",
    "Connection",
    "End",
    "Exchange",
    "Reply",
    "Target",
    "fire",
    "in_flight",
    "sleep_until",
    "undisturbed",
]
