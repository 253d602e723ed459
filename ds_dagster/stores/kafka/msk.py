"""Tokens for Amazon MSK, signed by botocore; no other library of AWS is needed.

The token is the URL of a presigned ``kafka-cluster:Connect`` request, base64 without padding (source of the rule:
aws-msk-iam-sasl-signer-python).
"""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass
from typing import Any

from ds_dagster.errors import error

TOKEN_SECONDS = 900
SERVICE = "kafka-cluster"
SESSION_NAME = "ds-dagster"
USER_AGENT = "ds-dagster"
PASSING = ("Throttling", "ThrottlingException", "RequestLimitExceeded", "ServiceUnavailable", "InternalFailure")
"""Transient error codes of STS; the user has to correct all others."""


@dataclass(frozen=True, slots=True)
class MskSigner:
    """Callback of librdkafka that gives a token: (token, epoch seconds of its end)."""

    store: str
    region: str
    role: str = ""

    def __call__(self, _config: str) -> tuple[str, float]:
        """A new token.

        Raises:
            UserError: STORE_CREDENTIALS_MISSING.
        """
        return msk_token(self.region, self.credentials()), time.time() + TOKEN_SECONDS

    def credentials(self) -> Any:
        """Credentials of the process (environment, profile, instance), or of the role it assumes.

        Raises:
            UserError: STORE_CREDENTIALS_MISSING. ExternalError: STORE_UNREACHABLE, STORE_CALL_FAILED (throttled).
        """
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
        from botocore.exceptions import ConnectionError as NoConnectionError
        from botocore.session import Session

        session = Session()
        try:
            if not self.role:
                credentials = session.get_credentials()
                if credentials is None:
                    raise error("STORE_CREDENTIALS_MISSING", store=self.store, reason="there are none")
                return credentials.get_frozen_credentials()
            return self._assumed(session.create_client("sts", region_name=self.region))
        except ClientError as problem:
            code = str(problem.response.get("Error", {}).get("Code", ""))
            if code in PASSING:
                action = f"assume the role {self.role}"
                raise error("STORE_CALL_FAILED", store=self.store, action=action, detail=str(problem)) from problem
            raise error("STORE_CREDENTIALS_MISSING", store=self.store, reason=str(problem)) from problem
        except BotoCoreError as problem:
            if isinstance(problem, NoConnectionError | HTTPClientError):
                address = f"sts.{self.region}.amazonaws.com"
                raise error("STORE_UNREACHABLE", store=self.store, address=address, detail=str(problem)) from problem
            raise error("STORE_CREDENTIALS_MISSING", store=self.store, reason=str(problem)) from problem

    def _assumed(self, sts: Any) -> Any:
        from botocore.credentials import ReadOnlyCredentials

        credentials = sts.assume_role(RoleArn=self.role, RoleSessionName=SESSION_NAME)["Credentials"]
        return ReadOnlyCredentials(
            credentials["AccessKeyId"], credentials["SecretAccessKey"], credentials["SessionToken"]
        )


def msk_token(region: str, credentials: Any) -> str:
    """A signed token, valid for fifteen minutes."""
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest

    url = f"https://kafka.{region}.amazonaws.com/"
    request = AWSRequest(method="GET", url=url, params={"Action": "kafka-cluster:Connect"})
    SigV4QueryAuth(credentials, SERVICE, region, expires=TOKEN_SECONDS).add_auth(request)
    signed = f"{request.prepare().url}&User-Agent={USER_AGENT}"
    return base64.urlsafe_b64encode(signed.encode()).rstrip(b"=").decode()
