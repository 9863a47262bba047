"""An issuer of signed tokens for one test: its key is made in memory, and its public half is a JWKS."""

import json
import time
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

AUDIENCE: Final = "ottla"
ISSUER: Final = "https://issuer.example"
_KEY_ID: Final = "test-key"


class TokenIssuer:
    """`jwks` is the text that brokers check tokens with."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        public = {**json.loads(ECAlgorithm.to_jwk(self._key.public_key())), "kid": _KEY_ID, "alg": "ES256", "use": "sig"}
        self.jwks = json.dumps({"keys": [public]})

    def token(self, user: str, *, life_seconds: float = 3600, **claims: Any) -> str:
        """A token of `user`; `claims` replace others, or take their place. With a negative life it has expired."""
        now = time.time()
        made = {"sub": user, "aud": AUDIENCE, "iss": ISSUER, "iat": now - max(-life_seconds, 0), "exp": now + life_seconds, **claims}
        return jwt.encode(made, self._key, algorithm="ES256", headers={"kid": _KEY_ID})
