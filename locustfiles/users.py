"""The three kinds of client. Each takes a call, sends it when told, and judges what comes back."""

import gevent
from locust import User, constant, task
from locust.env import Environment

from locustfiles import payloads, stage
from locustfiles.checks import Expected, Fault, check, check_transport
from locustfiles.crew import Job
from locustfiles.reading import Reading, read
from locustfiles.rows import Record
from locustfiles.transport import Connection, Exchange, Reply

PATH = "/v1/chat/completions"
# A stream that trickles for ever never goes a whole deadline without a byte.
DEADLINES_IN_ALL = 20
# Whoever finds nobody there does not try again at once, thousands of times a second.
REFUSED_PAUSE_S = 0.1


class EngineUser(User):
    """A client with one connection of its own."""

    abstract = True
    wait_time = constant(0)
    kind = ""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.crew = stage.current().crew
        self.number = self.crew.enlist()
        self.settings = self.crew.settings
        self.connection = Connection(self.settings.target)

    @task
    def chat(self) -> None:
        """One call, from its bytes to its row."""
        job = self.crew.next_job(type(self).__name__, self.number)
        record = Record(job.row, [], "")
        refused = False
        try:
            self.get_ready(job)
            self.crew.prepared(job)
            job.fired.wait()
            if not self.crew.closed:
                reply = self.get_reply(job, self.exchange_of(job))
                self.judge(job, record, reply)
                refused = reply.end == "refused"
        finally:
            if record.row.outcome == "unfinished":
                note_unfinished(job, record)
            self.crew.done(job, record)
        if refused:
            gevent.sleep(REFUSED_PAUSE_S)

    def get_ready(self, job: Job) -> None:
        """Build the bytes and open the connection, so that firing is nothing but sending."""
        call = job.call
        messages = payloads.messages(self.settings.seed, call, job.content)
        payload = payloads.chat(self.settings, messages, call.max_tokens, call.stream)
        job.row.payload_sha256 = payload.sha256
        headers = {**self.settings.headers, "x-request-id": call.request}
        job.connect = lambda: self.connection.prepare("POST", PATH, headers, payload.body)
        if self.settings.preconnect:
            job.exchange = job.connect()
        else:
            self.connection.close()

    def exchange_of(self, job: Job) -> Exchange:
        """The exchange that was sent; without connections made beforehand, it is sent only here."""
        if job.exchange is None:
            assert job.connect is not None
            job.exchange = job.connect()
            job.exchange.send()
        return job.exchange

    def get_reply(self, job: Job, exchange: Exchange) -> Reply:
        """Wait for the end of the response."""
        return exchange.wait(self.settings.deadline_s, total_s=self.total_s)

    @property
    def total_s(self) -> float:
        """The longest that one request may take."""
        return DEADLINES_IN_ALL * self.settings.deadline_s

    def judge(self, job: Job, record: Record, reply: Reply) -> None:
        """Read the response, find its first fault, tell Locust."""
        if self.crew.closed and reply.end == "left":
            return
        reading = read(reply, job.call.stream)
        record.take(reading)
        fault = self.find_fault(job, reading)
        record.row.outcome = "failed" if fault else "disconnected" if reply.end == "left" else "ok"
        if fault:
            record.row.failure, record.row.detail = fault.code, fault.detail
        self.tell_locust(record, fault)

    def find_fault(self, job: Job, reading: Reading) -> Fault | None:
        """The verdict on a response; one that we left early is held to nothing that comes at the end."""
        if reading.reply.end == "left":
            return check_transport(reading)
        usage_asked = bool(self.settings.stream_options.get("include_usage"))
        budget = job.call.max_tokens if job.call.fixed_budget else 0
        fault = check(reading, Expected(budget, usage_asked, self.settings.sends_done))
        if fault is None and self.crew.repeats_an_id(reading):
            return Fault("stream.identity", f"another stream had the id {reading.ids[0]} too")
        return fault

    def tell_locust(self, record: Record, fault: Fault | None) -> None:
        """Locust's own statistics; times count from when it was due, a failure's text is the verdict code."""
        row = record.row
        late_ms = ((row.sent_ns or 0) - (row.scheduled_ns or row.sent_ns or 0)) / 1e6
        self.environment.events.request.fire(
            request_type=self.kind,
            name=f"{'warm-up' if row.repeat == 0 else row.case} n={row.count}",
            response_time=(row.latency_ms or 0.0) + late_ms,
            response_length=len(record.text),
            exception=fault.code if fault else None,
            context={"row": row},
        )


class ChatUser(EngineUser):
    """Asks and waits for the whole answer."""

    kind = "CHAT"


class StreamingChatUser(EngineUser):
    """Asks for a stream and reads it to its end."""

    kind = "STREAM"


class DisconnectingChatUser(EngineUser):
    """Asks and goes away before the answer is complete."""

    kind = "LEAVE"

    def get_reply(self, job: Job, exchange: Exchange) -> Reply:
        """Wait until it is time to leave: after so many events, or after so many seconds."""
        leave = job.call.leave
        if leave is not None and leave.after_events is not None:
            return exchange.wait(
                self.settings.deadline_s, leave.after_events, self.total_s, leave_with_reset=leave.reset
            )
        leaving = gevent.spawn_later(job.leave_s, exchange.leave)
        try:
            return super().get_reply(job, exchange)
        finally:
            leaving.kill(block=False)


def note_unfinished(job: Job, record: Record) -> None:
    """The run stopped before this request was over: keep what had come."""
    record.row.detail = "not sent when the run stopped"
    if job.exchange is not None and job.exchange.sent_ns:
        record.take(read(job.exchange.reply(), job.call.stream))
        record.row.detail = "in flight when the run stopped"
