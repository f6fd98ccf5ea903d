"""The source of each kind of credentials."""

from __future__ import annotations

import asyncio
from functools import partial

from dragoman.accounts.credentials.aws import obtain_aws
from dragoman.accounts.credentials.azure import obtain_azure
from dragoman.accounts.credentials.decide.refreshing import Credential, CredentialError
from dragoman.accounts.credentials.google import obtain_google
from dragoman.accounts.credentials.io import Environment
from dragoman.accounts.credentials.messages import Obtain
from dragoman.accounts.credentials.oauth import obtain_oauth, obtain_printed, obtain_renewed
from dragoman.accounts.credentials.place import Place
from dragoman.accounts.credentials.rotating import shared
from dragoman.accounts.credentials.stored_logins import StoredLogins
from dragoman.config import Account
from dragoman.config.credentials import (
    AwsCredentials,
    AzureCredentials,
    CommandCredentials,
    GoogleCredentials,
    reread,
)


async def obtain(
    account: Account,
    place: Place,
    asked: Obtain,
    environment: Environment,
    logins: StoredLogins | None = None,
) -> Credential:
    """A credential of an account, for requests that are sent to `place`. `logins` keeps what
    instances share; None: nothing can be kept.

    Raises:
        CredentialError: there is none.
    """
    settings, failure = account.credentials, asked.failure
    assert settings is not None
    try:
        settings = await asyncio.to_thread(reread, settings)
        if isinstance(settings, AwsCredentials):
            assume = partial(obtain_aws, settings, place, failure, environment)
            if settings.role_arn is None or logins is None:
                return await assume()
            given = f"{account.fingerprint} {place.url} {place.region}"
            return await shared(logins, account.name, given, asked, assume, environment)
        if isinstance(settings, GoogleCredentials):
            return await obtain_google(settings, place, failure, environment)
        if isinstance(settings, AzureCredentials):
            return await obtain_azure(settings, place, failure, environment)
        if isinstance(settings, CommandCredentials):
            return await obtain_printed(settings, place, environment)
        if settings.grant == "refresh_token":
            return await obtain_renewed(settings, account.name, asked, environment, logins)
        return await obtain_oauth(settings, failure, environment)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # Its message may have what was read.
        why = f"its files or what it was answered cannot be read ({type(error).__name__})"
        raise CredentialError("unavailable", why) from None
