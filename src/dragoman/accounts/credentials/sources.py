"""The source of each kind of credentials."""

from __future__ import annotations

from dragoman.accounts.credentials.aws import obtain_aws
from dragoman.accounts.credentials.azure import obtain_azure
from dragoman.accounts.credentials.decide.refreshing import Credential, Lack
from dragoman.accounts.credentials.google import obtain_google
from dragoman.accounts.credentials.io import World
from dragoman.accounts.credentials.oauth import obtain_oauth, obtain_printed
from dragoman.accounts.credentials.place import Place
from dragoman.config.credentials import (
    AwsCredentials,
    AzureCredentials,
    CommandCredentials,
    Credentials,
    GoogleCredentials,
)


async def obtain(
    settings: Credentials, place: Place, lack: Lack | None, world: World
) -> Credential:
    """A credential for requests that are sent to `place`; `lack` is what came of the time before.

    Raises:
        CredentialError: there is none.
    """
    if isinstance(settings, AwsCredentials):
        return await obtain_aws(settings, place, lack, world)
    if isinstance(settings, GoogleCredentials):
        return await obtain_google(settings, place, lack, world)
    if isinstance(settings, AzureCredentials):
        return await obtain_azure(settings, place, lack, world)
    if isinstance(settings, CommandCredentials):
        return await obtain_printed(settings, place, world)
    return await obtain_oauth(settings, place, lack, world)
