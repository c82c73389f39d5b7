"""SCRAM as the RFCs have it."""

import pytest

from headgate.connect.kafka.broker.connection import Scram, ScramFailure

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = f"r={SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def _scram() -> Scram:
    return Scram("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_the_exchange_of_rfc_7677_is_made_byte_for_byte() -> None:
    scram = _scram()
    assert scram.first() == f"n,,n=user,r={NONCE}".encode()
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert scram.final(SERVER_FIRST.encode()) == f"c=biws,r={SERVER_NONCE},p={proof}".encode()
    scram.verify(SERVER_FINAL)


def test_a_name_with_signs_of_the_protocol_is_escaped() -> None:
    assert Scram("SCRAM-SHA-512", "a=b,c", "x", "N").first() == b"n,,n=a=3Db=2Cc,r=N"


def test_two_exchanges_have_different_nonces() -> None:
    assert Scram("SCRAM-SHA-512", "a", "x").first() != Scram("SCRAM-SHA-512", "a", "x").first()


def test_a_server_that_does_not_know_the_password_is_not_believed() -> None:
    scram = _scram()
    scram.final(SERVER_FIRST.encode())
    with pytest.raises(ScramFailure, match="did not prove"):
        scram.verify(b"v=" + b"A" * 43 + b"=")


def test_a_server_that_proves_itself_before_it_is_asked_is_not_believed() -> None:
    with pytest.raises(ScramFailure, match="did not prove"):
        _scram().verify(SERVER_FINAL)


def test_the_reason_of_a_server_is_passed_on() -> None:
    with pytest.raises(ScramFailure, match="unknown-user"):
        _scram().verify(b"e=unknown-user")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        ("r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (f"r={SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1", "1 iterations"),
        (f"r={SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=99999999", "99999999 iterations"),
        (f"r={SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=-5", "no number"),
        (f"r={SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==", "no number"),
        (f"r={SERVER_NONCE},s=!,i=4096", "base64"),
        ("", "nonce"),
    ],
)
def test_an_answer_that_cannot_be_trusted_ends_the_exchange(message: str, reason: str) -> None:
    with pytest.raises(ScramFailure, match=reason):
        _scram().final(message.encode())


def test_an_answer_that_is_not_text_ends_the_exchange() -> None:
    with pytest.raises(ScramFailure, match="not text"):
        _scram().final(b"\xff")
