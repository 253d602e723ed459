"""How often a call of control is made."""

from __future__ import annotations

from io import BytesIO
from types import SimpleNamespace
from typing import Any

import botocore.endpoint
import pytest
from botocore.awsrequest import AWSResponse

from ds_dagster.errors import DsError
from ds_dagster.stores.kinesis.admin import KinesisAdmin

SETTINGS = {"region_name": "eu-west-1", "aws_access_key_id": "a", "aws_secret_access_key": "b"}


@pytest.mark.parametrize(("attempts", "sent"), [((), 3), ((1,), 1)])
def test_a_service_that_fails_is_called_three_times(
    monkeypatch: pytest.MonkeyPatch, attempts: tuple[int, ...], sent: int
) -> None:
    """Once where the caller counts itself what the service may have taken."""
    monkeypatch.setattr(botocore.endpoint.time, "sleep", lambda _: None)
    admin, calls = KinesisAdmin("k", SETTINGS), []
    client = admin._client(*attempts)

    def fails(request: Any, **_: object) -> AWSResponse:
        calls.append(request.url)
        raw = SimpleNamespace(stream=lambda *_, **__: iter([b"{}"]), read=BytesIO(b"{}").read)
        return AWSResponse(request.url, 500, {}, raw)

    client.meta.events.register("before-send.kinesis", fails)
    monkeypatch.setattr(admin, "_client", lambda: client)
    with pytest.raises(DsError, match="STORE_CALL_FAILED"):
        admin._call("list streams", "list_streams", Limit=1)
    admin.close()
    assert len(calls) == sent
