"""Settings of the credentials of accounts: `credentials = { kind = ... }`."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal, TypeGuard

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from dragoman.config.secret import Secret

Text = Annotated[str, Meta(min_length=1)]


class Credential(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """What authorises the requests of an account."""


class AwsCredentials(Credential, frozen=True, kw_only=True, tag="aws"):
    """Keys of AWS, with which requests are signed (Signature Version 4). Without `access_key_id`
    and `profile` they are looked for as the vendor's tools do: in the environment, a web identity,
    the profile `default`, the container and the instance."""

    access_key_id: Text | None = None
    """Id of an access key."""
    secret_access_key: Secret | None = None
    """The secret of that access key."""
    session_token: Secret | None = None
    """Token of temporary keys."""
    profile: Text | None = None
    """Profile of the files that the vendor's tools keep in `~/.aws`: keys, a role, single sign-on
    or a command. They are read again whenever keys are needed."""
    role_arn: Text | None = None
    """Role to assume with the keys."""
    external_id: Text | None = None
    """What the role's owner asks for besides."""
    session_name: Annotated[str, Meta(pattern=r"^[\w+=,.@-]{2,64}\Z")] = "dragoman"
    """Name of the role's session, in the logs of its owner."""
    duration_s: Annotated[int, Meta(ge=900, le=43200)] = 3600
    """Seconds for which a role is assumed."""
    signing_name: Text | None = None
    """Name of the service in signatures. Absent: it follows from the host, `bedrock` for
    `bedrock-runtime`, `bedrock-mantle`, or `aws-external-anthropic`."""
    form: Literal["signature", "bedrock_key"] = "signature"
    """How requests are authorised: `signature`, or `bedrock_key`, a Bedrock API key for at most 12
    hours that is made from the keys, for requests whose bodies are not to be hashed."""


class GoogleCredentials(Credential, frozen=True, kw_only=True, tag="google"):
    """Access tokens of Google Cloud."""

    file: Text | None = None
    """JSON file of a service account, a user, or a workload identity. Absent: application default
    credentials, which are the file of `GOOGLE_APPLICATION_CREDENTIALS`, then that of `gcloud`, then
    the metadata server of the machine."""
    scope: Text = "https://www.googleapis.com/auth/cloud-platform"
    """Scope of the tokens."""
    self_signed: bool = False
    """Send tokens that a service account's key signs, without asking Google for any."""


class AzureCredentials(Credential, frozen=True, kw_only=True, tag="azure"):
    """Access tokens of Microsoft Entra. Without a secret, certificate and token file: those of a
    workload identity if its variables are set, else of the managed identity of the machine. (A key
    of Azure is a `key`, with `auth = "api-key"` of the upstream.)"""

    tenant: Text | None = None
    """Id of the tenant; absent: `AZURE_TENANT_ID`."""
    client_id: Text | None = None
    """Id of the application, or of a managed identity that the user assigned; absent:
    `AZURE_CLIENT_ID`."""
    client_secret: Secret | None = None
    """Secret of the application."""
    certificate: Text | None = None
    """PEM or PFX file with a certificate of the application and its key."""
    certificate_password: Secret | None = None
    """Password of that file."""
    token_file: Text | None = None
    """File with a token of a federated identity, read anew each time; absent:
    `AZURE_FEDERATED_TOKEN_FILE`."""
    scope: Text | None = None
    """Scope of the tokens. Absent: `https://ai.azure.com/.default` for hosts below
    `services.ai.azure.com`, else `https://cognitiveservices.azure.com/.default`."""


class CommandCredentials(Credential, frozen=True, kw_only=True, tag="command"):
    """What a command prints, such as that of a vault."""

    command: tuple[Text, ...]
    """The program and its arguments; no shell is involved."""
    output: Literal["text", "json", "aws", "kubernetes"] = "text"
    """What it prints: `text`, the token alone; `json`, an object with `access_token`, `token` or
    `api_key`, and `expires_in` or `expires_at`; `aws`, keys as `credential_process` prints them,
    with which requests are signed; `kubernetes`, an `ExecCredential`."""
    signing_name: Text | None = None
    """Name of the service in signatures, with `aws`. Absent: it follows from the host."""
    refresh_s: Annotated[float, Meta(ge=1)] | None = None
    """Seconds after which it is run again; absent: shortly before what it printed expires, or after
    300 seconds if that is not said."""
    timeout_s: Annotated[float, Meta(gt=0, le=60)] = 30.0
    """Seconds after which it is killed, with all that it has started."""
    environment: dict[Text, Secret] = field(default_factory=dict)
    """Variables that it is given besides `PATH`, `HOME` and those of proxies. Values may be
    references."""


class OAuthCredentials(Credential, frozen=True, kw_only=True, tag="oauth2"):
    """Access tokens of an authorisation server (OAuth 2)."""

    token_url: Text
    """Address that issues tokens: `https`, or of this machine."""
    grant: Literal["client_credentials", "refresh_token", "jwt_bearer", "token_exchange"] = (
        "client_credentials"
    )
    """How they are asked for."""
    refresh_token: Secret | None = None
    """The refresh token of a login, for `refresh_token`. What replaces it is in the store,
    encrypted, until another one is set here."""
    client_id: Text | None = None
    """Id of the client."""
    client_secret: Secret | None = None
    """Secret of the client."""
    client_auth: Literal["basic", "body", "private_key_jwt"] = "basic"
    """How the client shows who it is: by its secret in the header, or in the body; or by a token
    signed with `private_key`."""
    private_key: Text | None = None
    """PEM file with a private key, for `private_key_jwt`."""
    private_key_id: Text | None = None
    """Id of that key at the server (`kid`)."""
    scope: Text | None = None
    """Scope of the tokens."""
    audience: Text | None = None
    """Audience of the tokens."""
    token_file: Text | None = None
    """File with the assertion, or the token to exchange; it is read anew each time."""
    fields: dict[Text, Text] = field(default_factory=dict)
    """Further members of the request."""
    headers: dict[Text, Secret] = field(default_factory=dict)
    """Headers of the request. Values may be references."""
    body: Literal["form", "json"] = "form"
    """How the request is written."""


Credentials = (
    AwsCredentials | GoogleCredentials | AzureCredentials | CommandCredentials | OAuthCredentials
)
"""All kinds of credentials."""

FILES = ("file", "certificate", "token_file", "private_key")
"""Settings that name files, relative to the directory of the configuration file."""


def signs(credentials: Credentials) -> TypeGuard[AwsCredentials | CommandCredentials]:
    """Whether requests are signed by what such credentials are."""
    if isinstance(credentials, CommandCredentials):
        return credentials.output == "aws"
    return isinstance(credentials, AwsCredentials) and credentials.form == "signature"


def source_of(credentials: Credentials) -> str:
    """Where credentials come from, for operators; no secret and no path."""
    match credentials:
        case AwsCredentials():
            place = "the environment, the machine or the profile default"
            if credentials.profile is not None:
                place = f"the profile {credentials.profile}"
            elif credentials.access_key_id is not None:
                place = "the configuration"
            role = "" if credentials.role_arn is None else ", by a role"
            return f"keys of AWS from {place}{role}"
        case GoogleCredentials():
            return f"tokens of Google from {'a file' if credentials.file else 'the machine'}"
        case AzureCredentials():
            names = {"client_secret": "a secret", "certificate": "a certificate"}
            names["token_file"] = "a token file"
            given = [word for name, word in names.items() if getattr(credentials, name) is not None]
            return f"tokens of Entra from {given[0] if given else 'the identity of the machine'}"
        case CommandCredentials():
            return "what a command prints"
        case OAuthCredentials():
            return f"tokens of an authorisation server ({credentials.grant})"


def secrets_of(credentials: Credentials) -> list[Secret]:
    """The secrets among the settings of credentials."""
    return [value for _, value in _values(credentials) if isinstance(value, Secret)]


def print_of(credentials: Credentials) -> str:
    """16 hexadecimal digits that distinguish these settings from others without showing them."""
    parts = [type(credentials).__name__]
    for name, value in _values(credentials):
        parts.append(f"{name}={value.reveal() if isinstance(value, Secret) else value!r}")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def reread(credentials: Credentials) -> Credentials:
    """The same settings, with their secrets as their files have them now."""

    def now(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: now(entry) for name, entry in value.items()}
        return Secret(value.reread()) if isinstance(value, Secret) else value

    names = credentials.__struct_fields__
    return replace(credentials, **{name: now(getattr(credentials, name)) for name in names})


def _values(credentials: Credentials) -> list[tuple[str, Any]]:
    """The settings by name, each value of a table by itself."""
    found: list[tuple[str, Any]] = []
    for name in credentials.__struct_fields__:
        value = getattr(credentials, name)
        if isinstance(value, dict):
            found += [(f"{name}.{key}", entry) for key, entry in value.items()]
        else:
            found.append((name, value))
    return found
