"""The Kinesis API over plain HTTP: botocore finds credentials and signs, urllib3 sends, orjson parses.

Per record, boto3's response parser takes eight times as long as this path. Throttling, 5xx and lost connections are
retried here, with jitter and within a budget; everything else becomes a condition.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from ds_dagster.aws_session import aws_session
from ds_dagster.clock import Clock, SystemClock
from ds_dagster.errors import DsError, error
from ds_dagster.spark.kinesis.options import Connection
from ds_dagster.spark.kinesis.timing import Retries, RetryPolicy

API = "Kinesis_20131202."
CONNECT_SECONDS = 5.0
READ_SECONDS = 20.0

THROTTLING = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "LimitExceededException",
        "ThrottlingException",
        "KMSThrottlingException",
        "RequestLimitExceeded",
        "TooManyRequestsException",
    }
)
"""Error codes of throttling."""

DENIED = frozenset(
    {
        "AccessDeniedException",
        "UnrecognizedClientException",
        "InvalidSignatureException",
        "IncompleteSignatureException",
        "IncompleteSignature",
        "MissingAuthenticationTokenException",
        "MissingAuthenticationToken",
        "InvalidClientTokenId",
        "ExpiredTokenException",
        "OptInRequired",
        "KMSAccessDeniedException",
    }
)
"""Error codes of refused logins and missing permissions."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Times of a request, in epoch seconds.

    Attributes:
        asked_at: our clock right before the request.
        answered_at: our clock right after the answer.
        date: the server's ``Date`` in whole seconds; None if the server sends none.
    """

    asked_at: float
    answered_at: float
    date: float | None = None

    @property
    def agrees(self) -> bool:
        """Whether the clocks of this machine and of the server agree; true if the server sends none."""
        return self.date is None or (self.date <= self.answered_at and self.asked_at < self.date + 1)

    @property
    def earliest(self) -> float:
        """Server time that had certainly passed when the request was answered (epoch seconds)."""
        if self.agrees or self.date is None:
            return self.asked_at
        return min(self.asked_at, self.date - 1)

    @property
    def latest(self) -> float:
        """Server time of the request (epoch seconds); if the clocks differ, rather too late than too early."""
        return self.asked_at if self.agrees or self.date is None else self.date + 1


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer.

    Attributes:
        body: parsed JSON.
        exchange: time of the successful attempt.
        code: error code if the caller expected it, else empty.
        message: text of the error.
        throttled: number of attempts before this one that were throttled.
    """

    body: Mapping[str, Any]
    exchange: Exchange
    code: str = ""
    message: str = ""
    throttled: int = 0


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Answer of one HTTP request; ``status`` 0: no valid answer."""

    status: int
    reply: Reply


class KinesisClient:
    """A thread-safe client of one endpoint.

    Args:
        connection: address and login.
        policy: retries of one call.
        clock: the system's clock by default.
        stopped: when set, pauses between retries end early.
        connections: number of HTTP connections kept open.
    """

    def __init__(
        self,
        connection: Connection,
        policy: RetryPolicy | None = None,
        clock: Clock | None = None,
        stopped: threading.Event | None = None,
        connections: int = 32,
    ) -> None:
        import urllib3

        self.connection = connection
        self.clock: Clock = clock or SystemClock()
        self.policy = policy or RetryPolicy()
        self.stopped = stopped or threading.Event()
        self._signer = _Signer(connection)
        self._pool = urllib3.PoolManager(
            maxsize=connections,
            retries=False,
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
        )

    def close(self) -> None:
        """Close idle connections."""
        self._pool.clear()

    def call(
        self,
        operation: str,
        payload: Mapping[str, Any],
        *,
        expected: frozenset[str] = frozenset(),
        read_seconds: float = READ_SECONDS,
        policy: RetryPolicy | None = None,
    ) -> Reply:
        """Call one operation; retries until it succeeds or the retry budget is used up.

        Args:
            operation: name in the Kinesis API, such as ``GetRecords``.
            payload: its input; binary members in base64.
            expected: error codes that the caller handles; they are returned in ``Reply.code``.
            read_seconds: how long to wait for the answer of one attempt.
            policy: replaces the client's policy.

        Raises:
            UserError: stream not found, access denied, no credentials.
            ExternalError: throttled or unreachable beyond the budget, or refused.
        """
        body = orjson.dumps(payload)
        backoff = Retries(policy or self.policy, self.clock, self.stopped)
        started, throttled = self.clock.monotonic(), 0
        while True:
            attempt = self._attempt(operation, body, read_seconds)
            reply = attempt.reply
            if attempt.status == 200 or (reply.code and reply.code in expected):
                return replace(reply, throttled=throttled) if throttled else reply
            throttled += reply.code in THROTTLING
            if not _worth_retrying(attempt) or not backoff.pause():
                raise self._failure(operation, payload, attempt, self.clock.monotonic() - started)

    def _attempt(self, operation: str, body: bytes, read_seconds: float) -> _Attempt:
        import urllib3

        url, headers = self._signer.sign(operation, body)
        timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=read_seconds)
        asked_at = self.clock.now()
        try:
            response = self._pool.request("POST", url, body=body, headers=headers, timeout=timeout, redirect=False)
        except urllib3.exceptions.HTTPError as lost:
            return _Attempt(0, Reply({}, Exchange(asked_at, self.clock.now()), type(lost).__name__, str(lost)))
        exchange = Exchange(asked_at, self.clock.now(), _server_date(response.headers.get("Date")))
        parsed = _parse(response.data)
        if parsed is None:
            # a 200 that is not valid JSON comes from something between us and Kinesis: worth another try
            return _Attempt(response.status if response.status >= 300 else 0, Reply({}, exchange, "Unreadable"))
        if response.status == 200:
            return _Attempt(200, Reply(parsed, exchange))
        code = str(parsed.get("__type") or parsed.get("code") or "").rsplit("#", 1)[-1]
        message = str(parsed.get("message") or parsed.get("Message") or "")
        return _Attempt(response.status, Reply(parsed, exchange, code or f"HTTP {response.status}", message))

    def _failure(self, operation: str, payload: Mapping[str, Any], attempt: _Attempt, seconds: float) -> DsError:
        code, stream = attempt.reply.code, str(payload.get("StreamName", ""))
        place, detail, rounded = self.connection.place, attempt.reply.message, round(seconds, 1)
        if code in THROTTLING:
            return error("KINESIS_THROTTLED", operation=operation, stream=stream, seconds=rounded, detail=detail)
        if attempt.status == 0 or attempt.status >= 500:
            detail = f"{code}: {detail}"
            return error("KINESIS_UNREACHABLE", place=place, operation=operation, seconds=rounded, detail=detail)
        if code == "ResourceNotFoundException":
            return error("KINESIS_STREAM_NOT_FOUND", stream=stream, place=place, detail=detail)
        if code in DENIED or attempt.status in (401, 403):
            return error("KINESIS_ACCESS_DENIED", place=place, operation=operation, code=code, detail=detail)
        return error("KINESIS_REFUSED", operation=operation, stream=stream, code=code, detail=detail)


def _worth_retrying(attempt: _Attempt) -> bool:
    return attempt.status == 0 or attempt.status >= 500 or attempt.status == 429 or attempt.reply.code in THROTTLING


def _parse(data: bytes) -> Mapping[str, Any] | None:
    if not data:
        return {}
    try:
        parsed = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return parsed if isinstance(parsed, dict) else None


def _server_date(header: str | None) -> float | None:
    if not header:
        return None
    try:
        return parsedate_to_datetime(header).timestamp()
    except ValueError:
        return None


class _Signer:
    """Signs requests with botocore (signature version 4), whose credentials refresh themselves."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._credentials: Any = None
        self._url = ""

    def sign(self, operation: str, body: bytes) -> tuple[str, dict[str, str]]:
        """URL and headers of one request.

        Raises:
            UserError: KINESIS_CREDENTIALS_MISSING, KINESIS_ROLE_REFUSED.
            ExternalError: KINESIS_CREDENTIALS_UNREACHABLE.
        """
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        with self._lock:
            if self._credentials is None:
                self._find()
        headers = {"X-Amz-Target": API + operation, "Content-Type": "application/x-amz-json-1.1"}
        request = AWSRequest("POST", self._url, data=body, headers=headers)
        SigV4Auth(self._frozen(), "kinesis", self._connection.region).add_auth(request)
        return self._url, dict(request.headers)

    def _frozen(self) -> Any:
        """The current keys; keys of a role are renewed here."""
        from botocore.exceptions import BotoCoreError, ClientError

        login = self._connection
        try:
            return self._credentials.get_frozen_credentials()
        except ClientError as refused:
            problem = refused.response["Error"]
            code, detail = str(problem["Code"]), str(problem.get("Message", ""))
            if code in THROTTLING or refused.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400) >= 500:
                raise error("KINESIS_CREDENTIALS_UNREACHABLE", place=login.place, detail=f"{code}: {detail}") from None
            raise error("KINESIS_ROLE_REFUSED", role=login.role_arn, code=code, detail=detail) from None
        except BotoCoreError as lost:
            raise error("KINESIS_CREDENTIALS_UNREACHABLE", place=login.place, detail=str(lost)) from lost

    def _find(self) -> None:
        from botocore.credentials import Credentials
        from botocore.exceptions import ProfileNotFound

        login = self._connection
        if login.access_key_id and not login.role_arn:
            # a session is slow to import and to build, and needless with keys and an endpoint
            credentials = Credentials(login.access_key_id, login.secret_access_key, login.session_token or None)
        else:
            try:
                credentials = aws_session(login.login).get_credentials()
            except ProfileNotFound as absent:
                raise error("KINESIS_CREDENTIALS_MISSING", place=login.place, detail=str(absent)) from None
        if credentials is None:
            raise error("KINESIS_CREDENTIALS_MISSING", place=login.place)
        self._url = (login.endpoint_url or _endpoint(login.region)).rstrip("/") + "/"
        self._credentials = credentials


def _endpoint(region: str) -> str:
    import botocore.session

    resolver = botocore.session.get_session().get_component("endpoint_resolver")
    return "https://" + str(resolver.construct_endpoint("kinesis", region)["hostname"])
