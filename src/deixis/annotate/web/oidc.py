"""Sign-in by OpenID Connect: the authorization code flow with PKCE (RFC 7636), the check of the ID token, and routes.

The routes exist only if the server was started with a provider.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from deixis.annotate.client import StatusError, is_http_address, send_request
from deixis.annotate.people import (
    InvitationError,
    Worker,
    accept_by_subject,
    find_invitation,
    find_subject,
    start_session,
)
from deixis.annotate.project import Project
from deixis.annotate.web.context import AppContext, Context, errors, limit_address
from deixis.annotate.web.schemas import SignInRequest, SignInResponse
from deixis.errors import DeixisError
from deixis.storage.checksums import READ_ERRORS
from deixis.storage.remote import is_loopback, split_url

CALLBACK = "/api/oidc/callback"
_COOKIE = "deixis-oidc"
_LOG = logging.getLogger("uvicorn.error")

PENDING_SECONDS = 600.0
_MAX_PENDING = 1000
_MAX_BYTES = 2**20
_MAX_SUBJECT_LENGTH = 255  # of the specification
_TIMEOUT_S = 10.0
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]  # never HS256 or none
_LEEWAY_S = 60


class SignInError(DeixisError):
    """The provider did not confirm who somebody is."""


@dataclass(frozen=True)
class OidcSettings:
    """A provider, and this server as its client; public clients have no secret."""

    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not _is_endpoint(self.issuer):
            raise DeixisError(f"--oidc-issuer {self.issuer}: use an https address")
        if not self.client_id:
            raise DeixisError("--oidc-client: name the client that the provider knows this server by")

    @property
    def label(self) -> str:
        """The name of the provider on the pages."""
        return split_url(self.issuer).hostname or self.issuer


@dataclass(frozen=True, slots=True)
class PendingSignIn:
    """A sign-in that the provider has not confirmed yet."""

    nonce: str
    verifier: str
    invitation: str
    began_at: float


class Provider:
    """An OpenID Connect provider. Thread-safe.

    Pending sign-ins are in memory: after a restart of the server somebody has to begin again.
    """

    def __init__(self, settings: OidcSettings, redirect_uri: str, clock: Callable[[], float]) -> None:
        self.settings, self._redirect_uri, self._clock = settings, redirect_uri, clock
        self._pending: OrderedDict[str, PendingSignIn] = OrderedDict()
        self._metadata: dict[str, Any] | None = None
        self._lock = threading.Lock()
        _import_jwt()

    def begin(self, invitation: str = "") -> tuple[str, str]:
        """Begin a sign-in: return its state, which the browser must bring back, and the address to go to."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self._redirect_uri,
            "scope": "openid",
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        endpoint = self._read_metadata()["authorization_endpoint"]
        with self._lock:
            self._pending[state] = PendingSignIn(nonce, verifier, invitation, self._clock())
            while len(self._pending) > _MAX_PENDING:
                self._pending.popitem(last=False)
        return state, f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    def finish(self, state: str, code: str) -> tuple[str, str]:
        """Exchange the code for an ID token; return the person's issuer and subject, and the invitation if any."""
        with self._lock:
            pending = self._pending.pop(state, None)
        if pending is None or self._clock() - pending.began_at > PENDING_SECONDS:
            raise SignInError("this sign-in is not known or took too long; begin again")
        claims = self._check(self._exchange(code, pending.verifier), pending.nonce)
        return f"{self.settings.issuer} {claims['sub']}", pending.invitation

    def _exchange(self, code: str, verifier: str) -> str:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": self._redirect_uri}
        form |= {"client_id": self.settings.client_id, "code_verifier": verifier}
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        if self.settings.client_secret:
            pair = f"{quote(self.settings.client_id, safe='')}:{quote(self.settings.client_secret, safe='')}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        answer = self._fetch("POST", self._read_metadata()["token_endpoint"], headers, urlencode(form).encode())
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise SignInError(f"{self.settings.label}: sent no ID token")
        return token

    def _check(self, token: str, nonce: str) -> dict[str, Any]:
        """Check signature, issuer, audience, times and nonce of an ID token, and return its claims."""
        jwt = _import_jwt()
        try:
            keys = jwt.PyJWKSet.from_dict(self._fetch("GET", self._read_metadata()["jwks_uri"], {}))
            header = jwt.get_unverified_header(token)
            found = [key for key in keys.keys if header.get("kid") in (None, key.key_id)]
            if not found:
                raise SignInError(f"{self.settings.label}: the ID token has an unknown key")
            claims: dict[str, Any] = jwt.decode(
                token,
                found[0],
                algorithms=_ALGORITHMS,
                audience=self.settings.client_id,
                issuer=self.settings.issuer,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, *READ_ERRORS) as error:  # of keys that PyJWT did not expect
            raise SignInError(f"{self.settings.label}: the ID token is not valid ({error})") from None
        if not secrets.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise SignInError(f"{self.settings.label}: the ID token is not for this sign-in")
        if claims.get("azp", self.settings.client_id) != self.settings.client_id:
            raise SignInError(f"{self.settings.label}: the ID token is for another client")
        if not (claims["sub"].isprintable() and 0 < len(claims["sub"]) <= _MAX_SUBJECT_LENGTH):
            raise SignInError(f"{self.settings.label}: the ID token does not say who it is for")
        return claims

    def _read_metadata(self) -> dict[str, Any]:
        """Read the description of the provider, once."""
        if self._metadata is None:
            found = self._fetch("GET", f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration", {})
            if found.get("issuer") != self.settings.issuer:
                raise SignInError(f"{self.settings.issuer}: calls itself {found.get('issuer')!r}; use that issuer")
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                if not _is_endpoint(found.get(name)):
                    raise SignInError(f"{self.settings.issuer}: {name} is not an https address")
            self._metadata = found
        return self._metadata

    def _fetch(self, method: str, url: str, headers: dict[str, str], body: bytes | None = None) -> dict[str, Any]:
        try:
            content = send_request(method, url, headers=headers, body=body, timeout_s=_TIMEOUT_S, max_bytes=_MAX_BYTES)
            found = json.loads(content)
        except StatusError as error:
            raise SignInError(f"{self.settings.label}: answered {error.status}") from None
        except (ValueError, RecursionError):
            raise SignInError(f"{self.settings.label}: answered with something other than JSON") from None
        if not isinstance(found, dict):
            raise SignInError(f"{self.settings.label}: answered with something other than a JSON object")
        return found


def _is_endpoint(address: object) -> bool:
    """Return whether an address is one of https, or of this machine, to which a query can be added."""
    if not isinstance(address, str) or not is_http_address(address):
        return False
    parts = split_url(address)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def _import_jwt() -> Any:
    try:
        import jwt
    except ModuleNotFoundError:
        raise DeixisError(
            "sign-in by OpenID Connect needs PyJWT, which is not installed: pip install 'deixis[oidc]'"
        ) from None
    return jwt


router = APIRouter(dependencies=[Depends(limit_address)])


@router.post("/oidc/start", summary="Begin a sign-in by OpenID Connect", responses=errors(404, 429))
async def start(response: Response, body: SignInRequest, context: Context) -> SignInResponse:
    if body.invitation:
        await context.readers.run(find_invitation, context.project, body.invitation)
    state, url = await context.sign_ins.run(_provider_of(context).begin, body.invitation)
    # Lax: the browser comes back from another site. It ties the sign-in to this browser.
    response.set_cookie(_COOKIE, state, max_age=int(PENDING_SECONDS), **_cookie_options(context))
    return SignInResponse(url=url)


@router.get("/oidc/callback", summary="The return from the provider", response_class=RedirectResponse)
async def callback(
    request: Request,
    context: Context,
    state: Annotated[str, Query(max_length=200)] = "",
    code: Annotated[str, Query(max_length=4000)] = "",
) -> Response:
    worker: Worker | None = None
    result = "failed"
    if code and hmac.compare_digest(request.cookies.get(_COOKIE, "").encode(), state.encode()):
        try:
            subject, invitation = await context.sign_ins.run(_provider_of(context).finish, state, code)
            worker = await context.readers.run(_find_or_join, context.project, subject, invitation)
            result = "unknown" if worker is None else "suspended" if worker.suspended else "done"
        except InvitationError:
            result = "invitation"
        except DeixisError as error:
            _LOG.warning("%s", error)
    # The page itself needs no cookie, and the requests that it sends come from this site.
    page = f"{context.base}/"
    response = RedirectResponse(page if result == "done" else f"{page}?sign-in={result}", status_code=303)
    response.delete_cookie(_COOKIE, **_cookie_options(context))
    if worker is not None and result == "done":
        token = await context.readers.run(start_session, context.project, worker.id)
        context.authentication.set_cookie(response, token)
    return response


def _provider_of(context: AppContext) -> Provider:
    if context.provider is None:
        raise HTTPException(404, "this server has no provider of sign-in")
    return context.provider


def _cookie_options(context: AppContext) -> dict[str, Any]:
    secure = context.link.startswith("https:")
    return {"path": context.base + CALLBACK, "httponly": True, "samesite": "lax", "secure": secure}


def _find_or_join(project: Project, subject: str, invitation: str) -> Worker | None:
    """Find the worker of a subject; somebody new needs an invitation."""
    return accept_by_subject(project, invitation, subject) if invitation else find_subject(project, subject)
