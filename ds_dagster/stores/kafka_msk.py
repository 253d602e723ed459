"""Tokens for Amazon MSK: a signed request in disguise, made by botocore; no library of AWS's is needed.

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


@dataclass(frozen=True, slots=True)
class MskSigner:
    """Answers librdkafka's question for a token: (token, epoch seconds of its end)."""

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
        """Of the process (environment, profile, instance), or of the role it assumes."""
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.session import Session

        session = Session()
        try:
            if not self.role:
                found = session.get_credentials()
                if found is None:
                    raise error("STORE_CREDENTIALS_MISSING", store=self.store, reason="none were found")
                return found.get_frozen_credentials()
            return self._assumed(session.create_client("sts", region_name=self.region))
        except (BotoCoreError, ClientError) as problem:
            raise error("STORE_CREDENTIALS_MISSING", store=self.store, reason=str(problem)) from problem

    def _assumed(self, sts: Any) -> Any:
        from botocore.credentials import ReadOnlyCredentials

        found = sts.assume_role(RoleArn=self.role, RoleSessionName=SESSION_NAME)["Credentials"]
        return ReadOnlyCredentials(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])


def msk_token(region: str, credentials: Any) -> str:
    """The token of one signature, good for fifteen minutes."""
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest

    url = f"https://kafka.{region}.amazonaws.com/"
    request = AWSRequest(method="GET", url=url, params={"Action": "kafka-cluster:Connect"})
    SigV4QueryAuth(credentials, SERVICE, region, expires=TOKEN_SECONDS).add_auth(request)
    signed = f"{request.prepare().url}&User-Agent={USER_AGENT}"
    return base64.urlsafe_b64encode(signed.encode()).rstrip(b"=").decode()
