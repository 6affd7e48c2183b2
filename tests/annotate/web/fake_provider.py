"""A small OpenID Connect provider: discovery, authorization, tokens with PKCE, and keys."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.annotate.http_server import answering, send

CLIENT = "workbench"


@cache
def rsa_key(number: int) -> rsa.RSAPrivateKey:
    """Return one of some keys; each takes a second to make."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class FakeProvider:
    """Signs everybody in as `subject`. `claims` and `key` can be replaced by wrong ones."""

    def __init__(self) -> None:
        self.issuer = ""
        self.subject = "ann-1"
        self.claims: dict[str, Any] = {}
        self.published = rsa_key(0)
        self.key_fields: dict[str, str] = {}
        self.key: Any = self.published
        self.algorithm = "RS256"
        self.verify_challenge = True
        self.codes: dict[str, dict[str, str]] = {}
        self.token_requests: list[dict[str, str]] = []

    def authorize(self, url: str) -> str:
        """Do what the provider's page does when somebody has signed in; return the address to go back to."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert query["scope"] == "openid"
        code = f"code{len(self.codes)}"
        self.codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def exchange(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        self.token_requests.append(form | {"authorization": authorization})
        asked = self.codes.pop(form["code"], None)
        if asked is None or form["redirect_uri"] != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "sub": self.subject, "iat": now, "exp": now + 60}
        claims |= {"nonce": asked["nonce"]} | self.claims
        token = jwt.encode(claims, self.key, algorithm=self.algorithm, headers={"kid": "k1"})
        return 200, {"id_token": token, "access_token": "x", "token_type": "Bearer"}

    def answer(self, path: str) -> dict[str, Any]:
        if path == "/.well-known/openid-configuration":
            return {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
            }
        key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.published.public_key()))
        return {"keys": [key | {"kid": "k1", "use": "sig", "alg": "RS256"} | self.key_fields]}


@contextmanager
def fake_provider() -> Iterator[FakeProvider]:
    provider = FakeProvider()

    def respond(request: BaseHTTPRequestHandler) -> None:
        if request.command == "GET":
            status, content = 200, provider.answer(request.path)
        else:
            body = request.rfile.read(int(request.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            status, content = provider.exchange(form, request.headers.get("authorization", ""))
        send(request, status, json.dumps(content).encode())

    with answering(respond) as address:
        provider.issuer = address.rstrip("/")
        yield provider
