"""The small client with TLS, logins and rights, and a broker that is killed under open transactions."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from headgate.connect.kafka.broker import BrokerClient, Ended, Partition, TransactionOutcome
from headgate.errors import ExternalError, UserError
from services.kafka import Kafka
from services.server import wait_until
from tests.connect.kafka.opening import committed, left_open, the, unique

PATIENT_S = 60.0
LOGIN_MODULES = "org.apache.kafka.common.security"
GUEST = "guest"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker with TLS and three ways to log in, of which the guest knows one and may do nothing."""
    plain = f'{LOGIN_MODULES}.plain.PlainLoginModule required user_admin="admin-secret";'
    broker = Kafka(
        tmp_path_factory.mktemp("guarded"),
        sasl="SCRAM-SHA-256",
        users={GUEST: "guest-secret"},
        tls=True,
        authorizer=True,
        properties={
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.client.plain.sasl.jaas.config": plain,
            "listener.name.client.scram-sha-512.sasl.jaas.config": f"{LOGIN_MODULES}.scram.ScramLoginModule required;",
        },
    )
    with broker:
        strong = UserScramCredentialUpsertion(
            broker.user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192), broker.password.encode()
        )
        admin = broker.admin()
        admin.alter_user_scram_credentials([strong])[broker.user].result(PATIENT_S)
        yield broker


@pytest.fixture(scope="module")
def topic(guarded: Kafka) -> str:
    name = unique("topic")
    guarded.create_topic(name, partitions=2)
    return name


@pytest.fixture
def client(guarded: Kafka) -> Iterator[BrokerClient]:
    with BrokerClient(guarded.servers, guarded.client, timeout_s=PATIENT_S) as made:
        yield made


@pytest.fixture
def guest(guarded: Kafka) -> Iterator[BrokerClient]:
    with BrokerClient(guarded.servers, guarded.client_of(GUEST), timeout_s=PATIENT_S) as made:
        yield made


def _with(client: BrokerClient) -> str:
    """One line with the reason why the brokers cannot be asked."""
    with client, pytest.raises((UserError, ExternalError)) as refused:
        client.metadata()
    assert "\n" not in str(refused.value)
    return f"{type(refused.value).__name__}: {refused.value}"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_transaction_is_ended_with_tls_after_any_login(guarded: Kafka, mechanism: str) -> None:
    topic, name = unique("topic"), unique("secure")
    guarded.create_topic(topic)
    left_open(guarded.client, name, topic, ["a", "b"])
    options = guarded.client | {"sasl.mechanism": mechanism}

    def logs_in() -> bool:
        # The broker may hear of a new login a moment after it was stored.
        with BrokerClient(guarded.servers, options, timeout_s=PATIENT_S) as made:
            try:
                made.metadata()
            except UserError:
                return False
        return True

    wait_until(logs_in, 60, f"the login by {mechanism}")
    with BrokerClient(guarded.servers, options, timeout_s=PATIENT_S) as client:
        found = the(client, name)
        assert client.end(name, found.producer_id, found.epoch, commit=True) == Ended(TransactionOutcome.DONE)
        client.see_through(name, found.producer_id, found.epoch)
    assert committed(guarded.client, topic) == ["a", "b"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_told_and_not_shown(guarded: Kafka, mechanism: str) -> None:
    options = guarded.client | {"sasl.mechanism": mechanism, "sasl.password": "mistaken"}
    told = _with(BrokerClient(guarded.servers, options, timeout_s=PATIENT_S))
    assert told.startswith("UserError: ")
    assert f"{guarded.servers} refused the login of admin" in told
    assert "check sasl.username and sasl.password" in told
    assert "mistaken" not in told


def test_an_authority_that_is_not_trusted_is_told(guarded: Kafka) -> None:
    options = {name: value for name, value in guarded.client.items() if name != "ssl.ca.location"}
    told = _with(BrokerClient(guarded.servers, options, timeout_s=PATIENT_S))
    assert told.startswith("UserError: ")
    assert "not trusted" in told


def test_a_client_without_tls_is_told_what_to_check(guarded: Kafka) -> None:
    told = _with(BrokerClient(guarded.servers, timeout_s=3.0))
    assert guarded.servers in told
    assert "security.protocol" in told


def test_a_client_with_tls_is_told_that_the_port_has_none(guarded: Kafka) -> None:
    internal = f"127.0.0.1:{guarded.ports()[1]}"
    told = _with(BrokerClient(internal, guarded.client, timeout_s=3.0))
    assert internal in told
    assert "security.protocol" in told


def test_a_user_without_rights_is_told_which_one_is_missing(
    guarded: Kafka, client: BrokerClient, guest: BrokerClient, topic: str
) -> None:
    name = unique("forbidden")
    left_open(guarded.client, name, topic, ["x"])
    found = the(client, name)
    refusal = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED: allow the user to write"
    with pytest.raises(UserError, match=refusal):
        guest.end(name, found.producer_id, found.epoch, commit=True)
    with pytest.raises(UserError, match=refusal):
        guest.init_producer(name, 60_000)
    with pytest.raises(UserError, match=refusal):
        guest.describe([name])
    with pytest.raises(UserError, match="TOPIC_AUTHORIZATION_FAILED"):
        guest.metadata([topic])
    with pytest.raises(UserError, match="GROUP_AUTHORIZATION_FAILED"):
        guest.fetch_offsets(unique("group"), [Partition(topic, 0)])
    with pytest.raises(UserError, match="GROUP_AUTHORIZATION_FAILED"):
        guest.commit_offsets(unique("group"), {Partition(topic, 0): 1})
    with pytest.raises(UserError, match="CLUSTER_AUTHORIZATION_FAILED"):
        guest.broker_config("transaction.max.timeout.ms")
    assert guest.list_transactions(name) == []
    assert the(client, name).state == "Ongoing"
    client.init_producer(name, 60_000)


def test_a_broker_that_was_killed_still_has_its_open_transactions(guarded: Kafka, client: BrokerClient) -> None:
    topic, prefix = unique("topic"), unique("outlived")
    guarded.create_topic(topic)
    names = [f"{prefix}-{number}" for number in range(4)]
    for name in names:
        left_open(guarded.client, name, topic, [name])
    known = client.describe(names)
    first = known[names[0]]
    assert client.end(names[0], first.producer_id, first.epoch, commit=True).ok  # its end may be in the log alone

    guarded.kill()
    with (
        BrokerClient(guarded.servers, guarded.client, timeout_s=1.0) as hasty,
        pytest.raises(ExternalError, match=guarded.servers),
    ):
        hasty.describe(names)
    guarded.start()

    outcomes = {}
    for name, commit in zip(names, (True, True, True, False), strict=True):
        found = known[name]
        outcomes[name] = client.end(name, found.producer_id, found.epoch, commit=commit).outcome
        over = client.see_through(name, found.producer_id, found.epoch)
        assert over is not None
        assert over.state == ("CompleteCommit" if commit else "CompleteAbort")
    assert set(outcomes.values()) == {TransactionOutcome.DONE}
    assert sorted(committed(guarded.client, topic)) == names[:3]
    assert client.list_transactions(prefix, ["Ongoing"]) == []
