"""Logins to AWS: keys, a profile, or an assumed role whose credentials renew themselves while they are used.

botocore does the work; this module puts its parts together in one way for our own HTTP client, for control connections
and for users' resources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

SESSION_NAME = "ds-dagster"
"""Name of the sessions of an assumed role, as CloudTrail shows it."""
CONNECT_SECONDS, READ_SECONDS, ATTEMPTS = 5, 10, 3


@dataclass(frozen=True, slots=True)
class AwsLogin:
    """Credentials of one store. Without any, botocore's default chain is used (environment, profile, instance role).

    Attributes:
        region_name: AWS region, also of the security token service; empty: the region of the profile or the
            environment.
        profile_name: section of the machine's AWS configuration.
        role_arn: role to assume with the other credentials; empty: none.
        external_id: external id that the role's trust policy requires; empty: none.
        sts_endpoint_url: replaces AWS's own security token service; empty for AWS.
    """

    region_name: str = ""
    aws_access_key_id: str = field(default="", repr=False)
    aws_secret_access_key: str = field(default="", repr=False)
    aws_session_token: str = field(default="", repr=False)
    profile_name: str = ""
    role_arn: str = ""
    external_id: str = ""
    sts_endpoint_url: str = ""

    @property
    def user(self) -> str:
        """The login as errors show it: the role, the key id or the profile."""
        profile = f"profile {self.profile_name}" if self.profile_name else "the machine's own role"
        return self.role_arn or self.aws_access_key_id or f"({profile})"


def aws_session(login: AwsLogin) -> Any:
    """A botocore session that signs as the login says; the role is assumed when the first request is signed.

    Raises:
        botocore.exceptions.ProfileNotFound: no such profile on this machine.
    """
    import botocore.session
    from botocore.credentials import CredentialResolver

    session = botocore.session.Session(profile=login.profile_name or None)
    if login.region_name:
        session.set_config_variable("region", login.region_name)
    if login.aws_access_key_id:
        session.set_credentials(login.aws_access_key_id, login.aws_secret_access_key, login.aws_session_token or None)
    if not login.role_arn:
        return session
    assumed = botocore.session.Session(profile=login.profile_name or None)
    assumed.set_config_variable("region", login.region_name)
    assumed.register_component("credential_provider", CredentialResolver([_role_provider(session, login)]))
    return assumed


def _role_provider(session: Any, login: AwsLogin) -> Any:
    from botocore.config import Config
    from botocore.credentials import AssumeRoleCredentialFetcher, CredentialProvider, DeferredRefreshableCredentials

    retries = {"total_max_attempts": ATTEMPTS, "mode": "standard"}
    limits = Config(connect_timeout=CONNECT_SECONDS, read_timeout=READ_SECONDS, retries=retries)

    def sts(service: str, **credentials: Any) -> Any:
        endpoint = login.sts_endpoint_url or None
        return session.create_client(
            service, region_name=login.region_name, endpoint_url=endpoint, config=limits, **credentials
        )

    class Role(CredentialProvider):  # type: ignore[misc] # botocore has no types
        METHOD = "assume-role"
        CANONICAL_NAME = "DsAssumeRole"

        def load(self) -> Any:
            source = session.get_credentials()
            if source is None:
                return None
            extra_args = {"RoleSessionName": SESSION_NAME}
            extra_args |= {"ExternalId": login.external_id} if login.external_id else {}
            fetcher = AssumeRoleCredentialFetcher(sts, source, login.role_arn, extra_args=extra_args)
            return DeferredRefreshableCredentials(fetcher.fetch_credentials, self.METHOD)

    return Role()


_LOGIN = frozenset(part.name for part in fields(AwsLogin))


def aws_client(service: str, settings: Mapping[str, Any]) -> Any:
    """A boto3 client.

    Args:
        service: ``kinesis``, ``secretsmanager``.
        settings: fields of :class:`AwsLogin` by name; other names are arguments of boto3's ``client``.
    """
    import boto3

    login = AwsLogin(**{name: value or "" for name, value in settings.items() if name in _LOGIN})
    rest = {name: value for name, value in settings.items() if name not in _LOGIN}
    session = boto3.Session(botocore_session=aws_session(login), region_name=login.region_name or None)
    return session.client(service, **rest)
