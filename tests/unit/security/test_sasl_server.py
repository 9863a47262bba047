"""The broker's side of PLAIN, SCRAM and OAUTHBEARER: what is let in, and how everything else fails."""

import json
from base64 import b64decode, b64encode, urlsafe_b64encode
from hashlib import pbkdf2_hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.security.jaas import plain_users
from ottla.security.sasl_server import AuthenticationFailed, PlainServer, SaslServer, ScramServer, scram_keys
from ottla.security.scram import ScramClient, plain
from ottla.security.scram_words import parse_scram_user
from ottla.security.token_validation import InvalidToken, TokenRules, TokenServer, check_token

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000


def credential(mechanism: str, password: str, salt: bytes = b"salt", iterations: int = 4096) -> tuple[bytes, bytes, bytes, int]:
    hashed = pbkdf2_hmac({"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism], password.encode(), salt, iterations)
    return (salt, *scram_keys(mechanism, hashed), iterations)


ALICE = {mechanism: credential(mechanism, "secret") for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")}


def scram(mechanism: str = "SCRAM-SHA-256", nonce: str = "server") -> ScramServer:
    return ScramServer(mechanism, {"alice": ALICE[mechanism], "a,b=c": ALICE[mechanism]}.get, nonce=nonce, secret=b"s" * 32)


def refusal(server: SaslServer, *tokens: bytes) -> AuthenticationFailed:
    *before, last = tokens
    for token in before:
        server.evaluate(token, NOW_MS)
    with pytest.raises(AuthenticationFailed) as refused:
        server.evaluate(last, NOW_MS)
    assert server.user == ""
    return refused.value


class TestPlain:
    users = {"alice": "secret", "bob": "b\u00fc"}

    @pytest.mark.parametrize("token", [plain("alice", "secret"), b"alice\0alice\0secret", plain("bob", "b\u00fc")])
    def test_right(self, token: bytes) -> None:
        server = PlainServer(self.users)
        assert server.evaluate(token, 0) == b""
        assert server.user in self.users

    @pytest.mark.parametrize(
        ("token", "words"),
        [
            (plain("alice", "wrong"), "Authentication failed: Invalid username or password"),
            (plain("nobody", "secret"), "Authentication failed: Invalid username or password"),
            (b"other\0alice\0secret", "Client requested an authorization id that is different from username"),
            (b"\0\0secret", "Authentication failed: username not specified"),
            (b"\0alice\0", "Authentication failed: password not specified"),
            (b"\0alice", "expected 3 tokens, got 2"),
            (b"\0alice\0secret\0x", "expected 3 tokens, got 4"),
            (b"\xff\0alice\0secret", "not UTF-8"),
        ],
    )
    def test_wrong(self, token: bytes, words: str) -> None:
        refused = refusal(PlainServer(self.users), token)
        assert words in str(refused)
        assert "secret" not in refused.cause + str(refused)

    def test_users_of_the_brokers_jaas(self) -> None:
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        text = f'{module} required username="broker" password="x" user_alice="a\\"b" user_b-c=\'d e\';'
        assert plain_users(text) == {"alice": 'a"b', "b-c": "d e"}
        for wrong in ("", "com.sun.JndiLoginModule required user_a='b';", f"{module} required other='geheim';"):
            with pytest.raises(ValueError) as refused:
                plain_users(wrong)
            assert "geheim" not in str(refused.value)


class TestScram:
    @pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
    @pytest.mark.parametrize("user", ["alice", "a,b=c"])
    def test_right(self, mechanism: str, user: str) -> None:
        server, client = scram(mechanism), ScramClient(mechanism, user, "secret", "client")
        last = server.evaluate(client.final(server.evaluate(client.first(), 0)), 0)
        assert client.is_server(last)
        assert server.user == user

    def test_the_example_of_rfc_7677(self) -> None:
        stored = credential("SCRAM-SHA-256", "pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
        server = ScramServer("SCRAM-SHA-256", {"user": stored}.get, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", secret=b"")
        first = server.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", 0)
        assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        proof = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        assert server.evaluate(proof, 0) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

    def test_a_stranger_learns_from_no_step_who_exists(self) -> None:
        """Another password and another user fail at the same step, with the same words and the same form of salt."""
        said = []
        for user in ("alice", "nobody"):
            server, client = scram(), ScramClient("SCRAM-SHA-256", user, "wrong", "client")
            first = server.evaluate(client.first(), 0)
            again = scram().evaluate(client.first(), 0)
            assert first == again, "the salt is the same at each attempt"
            refused = refusal(server, client.final(first))
            said.append(str(refused))
        assert said == ["", ""], "one neutral sentence is made for all of them"

    @pytest.mark.parametrize(
        "first",
        [
            b"n,a=bob,n=alice,r=x",
            b"y,,n=alice,r=x",
            b"p=tls-unique,,n=alice,r=x",
            b"n,,n=alice,r=",
            b"n,,n=al=ice,r=x",
            b"n,,n=alice,r=x,tokenauth=true",
            b"n,,n=\xff,r=x",
            b"n,,r=x,n=alice",
            b"",
        ],
    )
    def test_first_messages_that_fail(self, first: bytes) -> None:
        refusal(scram(), first)

    def test_last_messages_that_fail(self) -> None:
        client = ScramClient("SCRAM-SHA-256", "alice", "secret", "client")
        final = client.final(scram().evaluate(client.first(), 0))
        binding, nonce, proof = final.split(b",", 2)
        short = b"p=" + b64encode(b64decode(proof[2:])[:-1])
        for wrong in (
            b",".join([binding, nonce + b"x", proof]),
            b",".join([binding, b"r=client", proof]),
            b",".join([b"c=eSws", nonce, proof]),
            b",".join([binding, nonce, short]),
            b",".join([binding, nonce, b"p=" + b64encode(b"\0" * 32)]),
            b",".join([binding, nonce, b"p===="]),
            b",".join([binding, nonce]),
        ):
            refusal(scram(), client.first(), wrong)

    def test_a_recorded_exchange_cannot_be_repeated(self) -> None:
        client = ScramClient("SCRAM-SHA-256", "alice", "secret", "client")
        final = client.final(scram().evaluate(client.first(), 0))
        refusal(scram(nonce="another"), client.first(), final)

    @pytest.mark.parametrize("iterations", [1, 4095])
    def test_weak_credentials_are_not_used(self, iterations: int) -> None:
        stored = credential("SCRAM-SHA-256", "secret", iterations=iterations)
        refusal(ScramServer("SCRAM-SHA-256", {"alice": stored}.get, nonce="x", secret=b""), b"n,,n=alice,r=x")

    @given(st.lists(st.binary(max_size=60), min_size=1, max_size=3))
    def test_any_bytes_are_an_answer_or_a_failure(self, tokens: list[bytes]) -> None:
        for server in (scram(), PlainServer({"alice": "secret"}), TokenServer(TokenRules(verify=None))):
            for token in tokens:
                try:
                    server.evaluate(token, NOW_MS)
                except AuthenticationFailed:
                    break


def encoded(value: object) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def unsecured(**claims: Any) -> str:
    return f"{encoded({'alg': 'none'})}.{encoded(claims)}."


CLAIMS = {"sub": "alice", "iat": NOW_S - 5, "exp": NOW_S + 60, "aud": ["other", "kafka"], "iss": "issuer", "scope": "a b"}


class TestTokens:
    def test_a_message_with_a_token(self) -> None:
        server = TokenServer(TokenRules(verify=None, clock_skew_s=0))
        message = f"n,a=alice,\x01auth=Bearer {unsecured(**CLAIMS)}\x01trace=1\x01\x01".encode()
        assert server.evaluate(message, NOW_MS) == b""
        assert (server.user, server.expires_at_ms) == ("alice", (NOW_S + 60) * 1000)

    def test_a_refused_token_is_told_and_then_fails(self) -> None:
        server = TokenServer(TokenRules(verify=None))
        message = f"n,,\x01auth=Bearer {unsecured(**CLAIMS | {'exp': NOW_S - 60})}\x01\x01".encode()
        assert server.evaluate(message, NOW_MS) == b'{"status":"invalid_token"}'
        refused = refusal(server, b"\x01")
        assert (str(refused), refused.cause) == ('{"status":"invalid_token"}', "it expired 60 s ago")

    @pytest.mark.parametrize(
        "message",
        [
            b"",
            b"n,,\x01\x01",
            b"n,,\x01auth=Basic abc\x01\x01",
            b"y,,\x01auth=Bearer abc\x01\x01",
            b"n,,\x01auth=Bearer abc\x01auth=Bearer abc\x01\x01",
            b"n,,\x01auth=Bearer abc\x01",
            b"n,,\x01auth=Bearer a\xffc\x01\x01",
        ],
    )
    def test_malformed_messages(self, message: bytes) -> None:
        assert "Invalid OAUTHBEARER client first message" in str(refusal(TokenServer(TokenRules(verify=None)), message))

    def test_the_rights_of_another(self) -> None:
        message = f"n,a=bob,\x01auth=Bearer {unsecured(**CLAIMS)}\x01\x01".encode()
        assert "authorization id" in str(refusal(TokenServer(TokenRules(verify=None)), message))

    @pytest.mark.parametrize(
        ("claims", "rules", "words"),
        [
            ({"exp": None}, {}, "does not say when it expires"),
            ({"exp": "soon"}, {}, "exp is no time"),
            ({"exp": NOW_S - 31}, {}, "it expired 31 s ago"),
            ({"iat": NOW_S + 31}, {}, "not valid yet"),
            ({"nbf": NOW_S + 31}, {}, "not valid yet"),
            ({"iat": None}, {}, "when it was issued"),
            ({"sub": " "}, {}, "claim sub names no user"),
            ({}, {"user_claim": "email"}, "claim email names no user"),
            ({}, {"issuer": "another"}, "not the expected issuer"),
            ({}, {"audiences": ("x",)}, "no expected audience"),
            ({"aud": 5}, {"audiences": ("x",)}, "aud is no text"),
            ({"scope": [1]}, {}, "scope is no text"),
        ],
    )
    def test_claims_that_are_refused(self, claims: dict[str, Any], rules: dict[str, Any], words: str) -> None:
        has = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
        token = f"{encoded({'alg': 'ES256', 'kid': 'k'})}.{encoded(has)}.sig"
        with pytest.raises(InvalidToken, match=words):
            check_token(token, TokenRules(verify=lambda *_: has, **rules), NOW_MS)

    def test_claims_that_are_accepted(self) -> None:
        token = f"{encoded({'alg': 'ES256', 'kid': 'k'})}.{encoded(CLAIMS)}.sig"
        rules = TokenRules(verify=lambda *_: CLAIMS, audiences=("kafka",), issuer="issuer")
        assert check_token(token, rules, NOW_MS) == ("alice", (NOW_S + 60) * 1000)
        assert check_token(token, rules, (NOW_S + 89) * 1000), "clocks may differ by 30 s"

    @pytest.mark.parametrize("header", [{"alg": "none"}, {"alg": 5}, {}, {"alg": "ES256", "kid": ["x"]}])
    def test_headers_that_are_refused_where_tokens_are_signed(self, header: dict[str, Any]) -> None:
        with pytest.raises(InvalidToken):
            check_token(f"{encoded(header)}.{encoded(CLAIMS)}.sig", TokenRules(verify=lambda *_: CLAIMS), NOW_MS)

    def test_a_signed_token_where_none_is_expected(self) -> None:
        with pytest.raises(InvalidToken, match="it is signed"):
            check_token(f"{encoded({'alg': 'ES256'})}.{encoded(CLAIMS)}.sig", TokenRules(verify=None), NOW_MS)


class TestWords:
    def test_right(self) -> None:
        user = parse_scram_user('SCRAM-SHA-512=[name="al,ice",password=p w,iterations=8192]', b"salt")
        assert user == ("al,ice", 2, b"salt", *credential("SCRAM-SHA-512", "p w", iterations=8192)[1:])
        salted = b64encode(pbkdf2_hmac("sha256", b"secret", b"salt", 4096)).decode()
        given_salt = f"SCRAM-SHA-256=[name=alice,salt={b64encode(b'salt').decode()},saltedpassword={salted}]"
        assert parse_scram_user(given_salt, b"unused") == ("alice", 1, *ALICE["SCRAM-SHA-256"])

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ("alice", "write SCRAM-SHA-256="),
            ("SCRAM-MD5=[name=a,password=b]", "write SCRAM-SHA-256="),
            ("SCRAM-SHA-256=[password=geheim]", "You must supply 'name'"),
            ("SCRAM-SHA-256=[name=a]", "one of 'password' or 'saltedpassword'"),
            ("SCRAM-SHA-256=[name=a,password=geheim,saltedpassword=eA==]", "one of 'password'"),
            ("SCRAM-SHA-256=[name=a,saltedpassword=eA==]", "'salt' with 'saltedpassword'"),
            ("SCRAM-SHA-256=[name=a,password=geheim,iterations=4095]", "from 4096 to 16384"),
            ("SCRAM-SHA-256=[name=a,password=geheim,iterations=16385]", "from 4096 to 16384"),
            ("SCRAM-SHA-256=[name=a,password=geheim,salt=?]", "no base64"),
            ("SCRAM-SHA-256=[name=a,name=b,password=geheim]", "once each"),
            ("SCRAM-SHA-256=[name=a,color=red,password=geheim]", "the keys are"),
        ],
    )
    def test_wrong(self, words: str, said: str) -> None:
        with pytest.raises(ValueError, match=said) as refused:
            parse_scram_user(words, b"salt")
        assert "geheim" not in str(refused.value)
