"""Options of librdkafka, as the small client understands them."""

import pickle
import ssl
from pathlib import Path

import pytest

from headgate.connect.kafka.broker import BrokerClient
from headgate.connect.kafka.broker.connection import addresses
from headgate.connect.kafka.security import Sasl, security
from headgate.errors import InvalidOption
from services.tls import Certificates

LOGIN = {"sasl.username": "me", "sasl.password": "s3cret"}


def test_without_options_nothing_is_secured() -> None:
    found = security({"linger.ms": "5"})
    assert (found.protocol, found.tls, found.sasl) == ("PLAINTEXT", None, None)


@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "scram-sha-512"])
def test_a_login_is_taken_by_either_name(name: str, mechanism: str) -> None:
    found = security({"security.protocol": "sasl_plaintext", name: mechanism, **LOGIN})
    assert found.sasl == Sasl(mechanism.upper(), "me", "s3cret")
    assert found.tls is None


def test_by_default_the_certificate_and_the_name_of_the_server_are_checked() -> None:
    found = security({"security.protocol": "SSL"}).tls
    assert found is not None
    context = found.context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_the_check_of_the_name_can_be_turned_off_alone() -> None:
    found = security({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"}).tls
    assert found is not None
    context = found.context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert not context.check_hostname


def test_all_checks_can_be_turned_off() -> None:
    found = security({"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}).tls
    assert found is not None
    assert found.context().verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"security.protocol": "TLS"}, "security.protocol TLS is unknown"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is missing"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
            "OAUTHBEARER is not supported: choose PLAIN",
        ),
        ({"security.protocol": "SASL_SSL", "sasl.mechanisms": "GSSAPI"}, "GSSAPI is not supported: choose PLAIN"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "needs sasl.username and sasl.password"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "x"}, "ssl.keystore.location is not supported"),
        ({"security.protocol": "SSL", "ssl.key.location": "x"}, "needs ssl.certificate.location"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldap"}, "choose https or none"),
        ({"security.protocol": "SSL", "enable.ssl.certificate.verification": "maybe"}, "must be true or false"),
    ],
)
def test_what_the_client_cannot_do_is_refused_when_it_is_built(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message) as refused:
        BrokerClient("localhost:9092", options)
    assert "\n" not in str(refused.value)


def test_files_that_are_not_there_or_no_certificates_are_named(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("nothing")
    for file in (tmp_path / "none.pem", wrong):
        for name in ("ssl.ca.location", "ssl.certificate.location"):
            found = security({"security.protocol": "SSL", name: str(file)}).tls
            assert found is not None
            with pytest.raises(InvalidOption, match=str(file)):
                found.context()


def test_certificates_are_read_from_their_files(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    certificates.make()
    options = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(certificates.authority),
        "ssl.certificate.location": str(certificates.certificate),
        "ssl.key.location": str(certificates.key),
    }
    found = security(options).tls
    assert found is not None
    assert len(found.context().get_ca_certs()) == 1


def test_no_password_is_shown() -> None:
    options = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "ssl.key.password": "k3y", **LOGIN}
    shown = repr(security(options))
    assert "s3cret" not in shown
    assert "k3y" not in shown


def test_a_client_can_be_pickled() -> None:
    options = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", **LOGIN}
    again = pickle.loads(pickle.dumps(BrokerClient("a:1,b:2", options)))  # noqa: S301 - our own
    assert isinstance(again, BrokerClient)
    assert again.servers == "a:1,b:2"
    assert again._security == security(options)


def test_servers_are_read_as_librdkafka_reads_them() -> None:
    given = "a:1, b ,PLAINTEXT://c:3,[::1]:4,[::1],"
    assert addresses(given) == (("a", 1), ("b", 9092), ("c", 3), ("::1", 4), ("::1", 9092))


@pytest.mark.parametrize("servers", ["", " , ", "a:b", ":1", "a:0", "a:70000", "a:-1"])
def test_what_is_no_server_is_refused(servers: str) -> None:
    with pytest.raises(InvalidOption, match=r"host:port"):
        BrokerClient(servers)


def test_a_timeout_must_be_above_nothing() -> None:
    with pytest.raises(InvalidOption, match="timeout_s"):
        BrokerClient("a:1", timeout_s=0)
