"""Does the server batch, does it stay correct, and how fast is it?

One arm's acceptance, from the warm-up to the client that walks away:

    locust -f locustfiles/acceptance.py --host http://127.0.0.1:8000 --headless --out results/mine/arm

`waves` says which requests start together, `checks` what each answer must look like; the rows of all
requests are in the folder that --out names. Without --headless the same runs from Locust's web page.
All arguments: python -m locustfiles.arguments
"""

from locust import LoadTestShape

from locustfiles import stage
from locustfiles.plays import Tick
from locustfiles.users import ChatUser, DisconnectingChatUser, StreamingChatUser

__all__ = ["AcceptanceShape", "ChatUser", "DisconnectingChatUser", "StreamingChatUser"]


class AcceptanceShape(LoadTestShape):
    """As many users of each kind as the widest wave needs, until the last wave is over."""

    play = "acceptance"

    def tick(self) -> Tick | None:
        """Locust asks every second; None ends the test."""
        return stage.current().users()
