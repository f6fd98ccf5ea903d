"""A stand-in for the services that issue credentials: STS, single sign-on and the metadata services
of AWS; Google's token and metadata servers; Entra and managed identities; an OAuth server.

It also checks what requests to models are authorised by: that a token which it has issued has not
expired, and that a signature of AWS is right for the request as it came.
"""

import base64
import hashlib
import hmac
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

import msgspec

from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.recording import RecordedRequest

KEY_ID = "AKIDSIMULATED"
SECRET = "simulated-secret-access-key"
TOKEN = "sim-token-"
_LATEST_SKEW_S = 300.0
_GOOGLE_TOKEN_URL = "https://oauth2.googleapis.com/token"
_REDEEMABLE = "refresh-"

Answer = tuple[int, list[tuple[str, str]], bytes]


@dataclass
class Failing:
    """The answer of an issuer in place of a credential."""

    status: int = 500
    body: Any = None


@dataclass
class Authority:
    """Issues credentials that last `life_s`. `failing` are issuers that fail, by name; `issued`
    counts what each has issued; `asked` counts the requests. `clock_s` is by how much its clock is
    ahead. `keys` are the public keys, in PEM, of whose signatures assertions must be: by the `iss`
    of their claims; those of others are not checked."""

    life_s: float = 3600.0
    failing: dict[str, Failing] = field(default_factory=dict)
    issued: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    clock_s: float = 0.0
    keys: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=lambda: {KEY_ID: SECRET})
    """Secret access keys by id."""
    sessions: dict[str, str] = field(default_factory=dict)
    """Session tokens by the id of their access key."""
    expires: dict[str, float] = field(default_factory=dict)
    """When each token ends that was issued, in Unix seconds."""
    refreshes: dict[str, str] = field(default_factory=dict)
    """The family of each refresh token that was not redeemed."""
    redeemed: dict[str, str] = field(default_factory=dict)
    """The family of each refresh token that was: one that comes again ends its family."""
    last: dict[str, dict[str, str]] = field(default_factory=dict)
    """The form or query of the last request to each issuer."""

    def revoke(self) -> None:
        """End all tokens and keys that were issued."""
        self.expires = dict.fromkeys(self.expires, 0.0)

    def answer(self, record: RecordedRequest) -> Answer | None:
        """The answer to a request for a credential; None if it is none."""
        name, issue = self._issuer(record)
        if issue is None:
            return None
        self.asked[name] += 1
        fields = _fields(record)
        self.last[name] = {key: str(value) for key, value in fields.items()}
        failing = self.failing.get(name)
        if failing is not None:
            return failing.status, [], msgspec.json.encode(failing.body or {})
        try:
            answer = issue(record, fields)
        except _Denied as denied:
            return denied.status, [], msgspec.json.encode(denied.body)
        return answer

    def _issuer(
        self, record: RecordedRequest
    ) -> tuple[str, Callable[[RecordedRequest, Mapping[str, Any]], Answer] | None]:
        path, method = record.path, record.method
        if method == "POST" and path == "/" and b"Action=Assume" in record.body:
            return "sts", self._sts
        if path.endswith("/oauth2/v2.0/token"):
            return "entra", self._entra
        if path.endswith(":generateAccessToken"):
            return "impersonation", self._impersonation
        if path == "/latest/api/token" and method == "PUT":
            return "imds_token", self._imds_token
        if path.startswith("/latest/meta-data/iam/security-credentials/"):
            return "imds", self._imds
        return {
            "/container/credentials": ("container", self._container),
            "/federation/credentials": ("sso", self._sso),
            "/token": ("google", self._google),
            "/v1/token": ("google_sts", self._google_sts),
            "/computeMetadata/v1/instance/service-accounts/default/token": (
                "google_metadata",
                self._google_metadata,
            ),
            "/metadata/identity/oauth2/token": ("managed_identity", self._managed),
            "/msi/token": ("app_service", self._managed),
            "/oauth/token": ("oauth", self._oauth),
        }.get(path, ("", None))

    # AWS

    def keys_of(self, name: str) -> tuple[str, str, str, float]:
        """New keys that end: id, secret, session token, and when."""
        self.issued[name] += 1
        number = sum(self.issued.values())
        id, secret = f"ASIASIMULATED{number}", f"issued-secret-{number}"
        token = f"{TOKEN}session-{name}-{number}"
        self.secrets[id], self.sessions[id] = secret, token
        self.expires[token] = until = time.time() + self.life_s
        return id, secret, token, until

    def _keys_answer(self, name: str) -> Answer:
        id, secret, token, until = self.keys_of(name)
        return _json(
            {
                "Code": "Success",
                "AccessKeyId": id,
                "SecretAccessKey": secret,
                "Token": token,
                "Expiration": _moment(until),
            }
        )

    def _sts(self, record: RecordedRequest, fields: Mapping[str, Any]) -> Answer:
        if fields["Action"] == "AssumeRole":
            self.check_signature(record)
        elif not fields.get("WebIdentityToken"):
            raise _Denied(400, {"__type": "InvalidIdentityToken"})
        id, secret, token, until = self.keys_of("sts")
        tags = (
            f"<AccessKeyId>{id}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>"
            f"<SessionToken>{token}</SessionToken><Expiration>{_moment(until)}</Expiration>"
        )
        name = fields["Action"]
        role = f"<AssumedRoleUser><Arn>{fields['RoleArn']}</Arn></AssumedRoleUser>"
        result = f"<{name}Result><Credentials>{tags}</Credentials>{role}</{name}Result>"
        space = "https://sts.amazonaws.com/doc/2011-06-15/"
        body = f'<{name}Response xmlns="{space}">{result}</{name}Response>'
        return 200, [("content-type", "text/xml")], body.encode()

    def _imds_token(self, record: RecordedRequest, fields: Mapping[str, Any]) -> Answer:
        if not _header(record, "x-aws-ec2-metadata-token-ttl-seconds"):
            raise _Denied(400, {})
        return 200, [], b"imds-token"

    def _imds(self, record: RecordedRequest, fields: Mapping[str, Any]) -> Answer:
        if _header(record, "x-aws-ec2-metadata-token") != "imds-token":
            raise _Denied(401, {})
        if record.path.endswith("/security-credentials/"):
            return 200, [], b"simulated-role"
        return self._keys_answer("imds")

    def _container(self, record: RecordedRequest, fields: Mapping[str, Any]) -> Answer:
        return self._keys_answer("container")

    def _sso(self, record: RecordedRequest, fields: Mapping[str, Any]) -> Answer:
        if not _header(record, "x-amz-sso_bearer_token"):
            raise _Denied(401, {"message": "Session token not found or invalid"})
        id, secret, token, until = self.keys_of("sso")
        return _json(
            {
                "roleCredentials": {
                    "accessKeyId": id,
                    "secretAccessKey": secret,
                    "sessionToken": token,
                    "expiration": int(until * 1000),
                }
            }
        )

    def check_signature(self, record: RecordedRequest, wire_paths: Sequence[str] = ()) -> str:
        """The access key id by which a request is signed; `wire_paths` are its path as it may have
        been sent, where that does not follow from the decoded one.

        Raises:
            ApiError: the signature, its time or its session is not valid.
        """
        headers = {name.lower(): value for name, value in record.headers}
        parts = dict(
            part.strip().split("=", 1)
            for part in headers["authorization"].partition(" ")[2].split(",")
        )
        id, day, region, service, _ = parts["Credential"].split("/")
        sent = headers.get("x-amz-date", "")
        at = datetime.strptime(sent, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
        now = time.time() + self.clock_s
        if abs(now - at) > _LATEST_SKEW_S:
            first, theirs = _stamp(now - _LATEST_SKEW_S), _stamp(now)
            message = f"Signature expired: {sent} is now earlier than {first} ({theirs} - 5 min.)"
            raise ApiError(403, message, code="InvalidSignatureException")
        if id not in self.secrets:
            message = "The security token included in the request is invalid."
            raise ApiError(403, message, code="UnrecognizedClientException")
        token = self.sessions.get(id)
        if token != headers.get("x-amz-security-token"):
            message = "The security token included in the request is invalid."
            raise ApiError(403, message, code="UnrecognizedClientException")
        if token is not None and self.expires[token] <= time.time():
            message = "The security token included in the request is expired"
            raise ApiError(403, message, code="ExpiredTokenException")
        names = parts["SignedHeaders"].split(";")
        lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in names)
        pairs = sorted(pair.partition("=") for pair in record.query.split("&") if pair)
        query = "&".join(
            f"{quote(unquote(name), safe='-_.~')}={quote(unquote(value), safe='-_.~')}"
            for name, _, value in pairs
        )
        body = hashlib.sha256(record.body).hexdigest()
        key = f"AWS4{self.secrets[id]}".encode()
        for part in (day, region, service, "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        for wire_path in wire_paths or (record.path,):
            path = quote(wire_path, safe="/-_.~")
            canonical = [record.method, path, query, lines, parts["SignedHeaders"], body]
            digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
            text = f"AWS4-HMAC-SHA256\n{sent}\n{day}/{region}/{service}/aws4_request\n{digest}"
            if hmac.digest(key, text.encode(), "sha256").hex() == parts["Signature"]:
                break
        else:
            message = (
                "The request signature we calculated does not match the signature you provided."
            )
            raise ApiError(403, message, code="SignatureDoesNotMatch")
        return id

    # Tokens

    def token(self, name: str) -> str:
        """A new token that ends."""
        self.issued[name] += 1
        token = f"{TOKEN}{name}-{sum(self.issued.values())}"
        self.expires[token] = time.time() + self.life_s
        return token

    def _token_answer(self, name: str, *headers: tuple[str, str], **more: object) -> Answer:
        life = int(self.life_s) if self.life_s >= 1 else self.life_s
        body = {"access_token": self.token(name), "expires_in": life, "token_type": "Bearer"}
        status, own, encoded = _json(body | more)
        return status, [*own, *headers], encoded

    def check_token(self, token: str) -> None:
        """
        Raises:
            ApiError: it was issued here, and has ended.
        """
        if token.startswith(TOKEN) and self.expires.get(token, 0.0) <= time.time():
            message = "Access token is missing, invalid, or has expired."
            raise ApiError(401, message, code="401")

    def _google(self, record: RecordedRequest, fields: Mapping[str, Any]) -> Answer:
        if fields.get("grant_type") == "refresh_token":
            if fields.get("refresh_token") in self.redeemed:
                raise _Denied(400, {"error": "invalid_grant"})
            return self._token_answer("google")
        claims = self._claims(str(fields.get("assertion", "")))
        # Libraries of the vendor name its own server, whatever the file does.
        urls = (f"http://{_header(record, 'host')}{record.path}", _GOOGLE_TOKEN_URL)
        if claims.get("aud") not in urls or not claims.get("scope"):
            raise _Denied(400, {"error": "invalid_grant", "error_description": "Invalid JWT"})
        return self._token_answer("google")

    def _google_sts(self, record: RecordedRequest, fields: Mapping[str, Any]) -> Answer:
        if not fields.get("subject_token") or not fields.get("audience"):
            raise _Denied(400, {"error": "invalid_request"})
        return self._token_answer("google_sts")

    def _impersonation(self, record: RecordedRequest, fields: Mapping[str, Any]) -> Answer:
        self.check_token(_header(record, "authorization").removeprefix("Bearer "))
        token = self.token("impersonation")
        return _json({"accessToken": token, "expireTime": _moment(self.expires[token])})

    def _google_metadata(self, record: RecordedRequest, fields: Mapping[str, Any]) -> Answer:
        if _header(record, "metadata-flavor") != "Google":
            raise _Denied(403, {})
        return self._token_answer("google_metadata", ("Metadata-Flavor", "Google"))

    def _entra(self, record: RecordedRequest, fields: Mapping[str, Any]) -> Answer:
        assertion = fields.get("client_assertion")
        if assertion:
            self._claims(str(assertion))
        elif fields.get("client_secret") == "wrong":
            text = "AADSTS7000215: Invalid client secret provided."
            raise _Denied(401, {"error": "invalid_client", "error_description": text})
        return self._token_answer("entra")

    def _managed(self, record: RecordedRequest, fields: Mapping[str, Any]) -> Answer:
        if _header(record, "metadata") != "true" and not _header(record, "x-identity-header"):
            raise _Denied(400, {"error": "invalid_request"})
        token = self.token("managed_identity")
        until = str(int(self.expires[token]))
        return _json({"access_token": token, "expires_on": until, "resource": fields["resource"]})

    def _oauth(self, record: RecordedRequest, fields: Mapping[str, Any]) -> Answer:
        if fields.get("grant_type") == "refresh_token":
            return self._refreshed(str(fields.get("refresh_token", "")))
        if assertion := fields.get("client_assertion"):
            self._claims(str(assertion))
        elif fields.get("grant_type") == "client_credentials":
            given = _header(record, "authorization")
            pair = base64.b64decode(given.partition(" ")[2]).decode() if given else ""
            secret = pair.partition(":")[2] or str(fields.get("client_secret", ""))
            if unquote(secret) != "oauth-secret":
                raise _Denied(401, {"error": "invalid_client"})
        return self._token_answer("oauth")

    def _refreshed(self, given: str) -> Answer:
        """A token for a refresh token, which is replaced: as RFC 9700 recommends, one that comes a
        second time ends all of its family."""
        if given in self.redeemed:
            family = self.redeemed[given]
            self.refreshes = {one: of for one, of in self.refreshes.items() if of != family}
            raise _Denied(400, {"error": "invalid_grant"})
        family = self.refreshes.pop(given, "")
        if not family:
            raise _Denied(400, {"error": "invalid_grant"})
        self.redeemed[given] = family
        following = f"{_REDEEMABLE}{family}-{len(self.redeemed)}"
        self.refreshes[following] = family
        return self._token_answer("oauth", refresh_token=following)

    def _claims(self, token: str) -> dict[str, Any]:
        """The claims of a signed token.

        Raises:
            _Denied: it is none, has expired, or its signature is not of the key that is known.
        """
        try:
            head, body, signature = token.split(".")
            header, claims = (msgspec.json.decode(_unpadded(part)) for part in (head, body))
        except (ValueError, msgspec.DecodeError):
            raise _Denied(400, {"error": "invalid_grant"}) from None
        pem = self.keys.get(str(claims.get("iss", "")))
        if pem is not None and not _is_signed(pem, header["alg"], f"{head}.{body}", signature):
            raise _Denied(400, {"error": "invalid_grant", "error_description": "Invalid signature"})
        if float(claims.get("exp", 0)) <= time.time():
            raise _Denied(400, {"error": "invalid_grant", "error_description": "expired"})
        found: dict[str, Any] = claims
        return found


class _Denied(Exception):
    def __init__(self, status: int, body: object) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


def _is_signed(pem: str, algorithm: str, text: str, signature: str) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    key, sha256 = load_pem_public_key(pem.encode()), hashes.SHA256()
    assert isinstance(key, RSAPublicKey)
    padded: padding.PSS | padding.PKCS1v15 = padding.PKCS1v15()
    if algorithm == "PS256":
        padded = padding.PSS(padding.MGF1(sha256), padding.PSS.DIGEST_LENGTH)
    try:
        key.verify(_unpadded(signature), text.encode(), padded, sha256)
    except InvalidSignature:
        return False
    return True


def _fields(record: RecordedRequest) -> Mapping[str, Any]:
    text = record.body.decode("utf-8", "replace") or record.query
    if text.startswith("{"):
        found: dict[str, Any] = msgspec.json.decode(text)
        return found
    return dict(parse_qsl(text))


def _header(record: RecordedRequest, name: str) -> str:
    return next((value for key, value in record.headers if key.lower() == name), "")


def _json(value: object) -> Answer:
    return 200, [("content-type", "application/json")], msgspec.json.encode(value)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%dT%H%M%SZ")


def _unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
