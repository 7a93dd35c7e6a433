"""How does the server hold up under sustained load?

Users who ask again as soon as they are answered, or requests that come when they are due:

    locust -f locustfiles/traffic.py --host http://127.0.0.1:8000 --headless --load closed --levels "4 8 16"
    locust -f locustfiles/traffic.py --host http://127.0.0.1:8000 --headless --load poisson --levels "1 2 4"

`demand` says what is asked for and when. In an open loop every latency counts from when the request was due
(scheduled_ns), so that one slow answer cannot hide those behind it.
"""

from locust import LoadTestShape

from locustfiles import stage
from locustfiles.plays import Tick
from locustfiles.users import ChatUser, DisconnectingChatUser, StreamingChatUser

__all__ = ["ChatUser", "DisconnectingChatUser", "StreamingChatUser", "TrafficShape"]


class TrafficShape(LoadTestShape):
    """A closed loop's users follow the levels; an open loop has a stock of users from the beginning."""

    play = "traffic"

    def tick(self) -> Tick | None:
        """Locust asks every second; None ends the test."""
        return stage.current().users()
