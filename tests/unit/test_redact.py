"""What people are shown never has a password in it, in whatever form the address came."""

import pickle

import pytest

from headgate.connect.jdbc.jvm import Access
from headgate.errors import ExternalError, HeadgateError, InvalidOption
from headgate.redact import redact, shown
from headgate.task.failure import classify

SECRET = "hunter2"  # noqa: S105 - the secret that must not be seen
"""Every form has it, whole or as a part of a longer password."""

FORMS = {
    # PostgreSQL, MySQL, MariaDB and what is like them
    f"jdbc:postgresql://db:5432/shop?user=etl&password={SECRET}": "jdbc:postgresql://db:5432/shop",
    f"jdbc:postgresql://db/shop?password=x@{SECRET}&ssl=true": "jdbc:postgresql://db/shop",
    f"jdbc:mysql://etl:{SECRET}@db:3306/shop": "jdbc:mysql://db:3306/shop",
    f"jdbc:mysql://etl:x@{SECRET}@db:3306/shop": "jdbc:mysql://db:3306/shop",
    f"jdbc:mysql://etl:x@{SECRET}@one:3306,two:3306/shop?useSSL=true": "jdbc:mysql://one:3306,two:3306/shop",
    f"jdbc:mysql://etl:12/{SECRET}@db/shop": "jdbc:mysql:***",
    f"jdbc:mysql://etl:12?{SECRET}@db/shop": "jdbc:mysql:***",
    f"jdbc:mysql://etl:12;{SECRET}@db/shop": "jdbc:mysql:***",
    f"jdbc:mysql://address=(host=db)(port=3306)(user=etl)(password={SECRET})/shop": "jdbc:mysql:***",
    f"jdbc:mysql://(host=db,user=etl,password={SECRET})/shop": "jdbc:mysql:***",
    f"jdbc:mysql:loadbalance://etl:{SECRET}@one,two/shop": "jdbc:mysql:loadbalance://one,two/shop",
    f"jdbc:mariadb://db/shop?user=etl&password={SECRET}": "jdbc:mariadb://db/shop",
    f"jdbc:mariadb:replication://one,two/shop?password={SECRET}": "jdbc:mariadb:replication://one,two/shop",
    f"jdbc:mysql://[::1]:3306/shop?password={SECRET}": "jdbc:mysql://[::1]:3306/shop",
    # Oracle
    f"jdbc:oracle:thin:etl/{SECRET}@db:1521:shop": "jdbc:oracle:thin:@db:1521:shop",
    f"jdbc:oracle:thin:etl/{SECRET}@//db:1521/shop": "jdbc:oracle:thin:@//db:1521/shop",
    f"jdbc:oracle:thin:etl/x@{SECRET}@//db:1521/shop": "jdbc:oracle:thin:@//db:1521/shop",
    f'jdbc:oracle:thin:etl/"x/@{SECRET}"@db:1521/shop': "jdbc:oracle:thin:@db:1521/shop",
    f"jdbc:oracle:thin:etl/{SECRET}?x@db:1521/shop": "jdbc:oracle:***",
    f"jdbc:oracle:oci:etl/{SECRET}@shop": "jdbc:oracle:oci:@shop",
    f"jdbc:oracle:thin:etl/{SECRET}@tcps://db:2484/shop?wallet_location=/w": "jdbc:oracle:thin:@tcps://db:2484/shop",
    f"jdbc:oracle:thin:@//db:1521/shop?password=x@{SECRET}": "jdbc:oracle:***",
    f"jdbc:oracle:thin:etl/{SECRET}@(DESCRIPTION=(ADDRESS=(HOST=db)(PORT=1521)))": "jdbc:oracle:thin:@***",
    # SQL Server, DB2 and others with their parameters after the database
    f"jdbc:sqlserver://db:1433;databaseName=shop;user=etl;password={SECRET}": "jdbc:sqlserver://db:1433",
    f"jdbc:sqlserver://db\\one:1433;password={{x;@{SECRET}}};encrypt=true": "jdbc:sqlserver:***",
    f"jdbc:sqlserver://db\\one;password={SECRET}": "jdbc:sqlserver://db\\one",
    f"jdbc:jtds:sqlserver://db:1433/shop;user=etl;password={SECRET}": "jdbc:jtds:sqlserver://db:1433/shop",
    f"jdbc:db2://db:50000/shop:user=etl;password={SECRET};": "jdbc:db2://db:50000/shop",
    f"jdbc:db2://db:50000/shop:password={SECRET};user=etl;": "jdbc:db2://db:50000/shop",
    f"jdbc:teradata://db/USER=etl,PASSWORD={SECRET}": "jdbc:teradata://db/USER",
    f"jdbc:h2:mem:shop;USER=sa;PASSWORD={SECRET}": "jdbc:h2:mem:shop",
    f"jdbc:snowflake://one.example.com/?user=etl&password={SECRET}": "jdbc:snowflake://one.example.com/",
    # others
    f"postgresql://etl:{SECRET}@db:5432/shop": "postgresql://db:5432/shop",
    f"postgresql://etl:x@{SECRET}@db/shop?sslmode=require": "postgresql://db/shop",
    f"postgresql://etl:x/{SECRET}@db/shop": "postgresql://***",
    f"mongodb+srv://etl:{SECRET}@db.example.com/shop": "mongodb+srv://db.example.com/shop",
    f"https://etl:{SECRET}@search:9200": "https://search:9200",
    f"s3a://AKIA:{SECRET}@bucket/path": "s3a://bucket/path",
}

SETTINGS = [
    f"fs.s3a.secret.key={SECRET}",
    f"spark.hadoop.fs.s3a.access.key={SECRET} cannot be set",
    f"spark.authenticate.secret={SECRET} cannot be set in a session that runs",
    f'sasl.jaas.config=org.apache.kafka.PlainLoginModule required username="etl" password="x\\" {SECRET}";',
    f"sasl.jaas.config=ScramLoginModule required username='etl' password='{SECRET}';",
    f"{{'sasl.password': '{SECRET}', 'ssl.key.password': \"{SECRET}\"}}",
    f'{{"password": "{SECRET}"}}',
    f"('spark.hadoop.fs.s3a.secret.key', '{SECRET}')",
    f"host=db user=etl password={SECRET} dbname=shop",
    f"host=db password='x {SECRET}' dbname=shop",
    f"https://account.example.com/c?token=x@{SECRET}",
    f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={SECRET}==;EndpointSuffix=x",
    f"PWD={SECRET}",
]


@pytest.mark.parametrize("address", FORMS)
def test_an_address_is_shown_without_its_secret(address: str) -> None:
    assert shown(address) == FORMS[address]
    assert SECRET not in redact(f"No suitable driver found for {address}")
    assert SECRET not in redact(f"cannot open '{address}': connection refused")
    assert SECRET not in str(ExternalError(f"the database at {address} is away"))


@pytest.mark.parametrize("text", SETTINGS)
def test_a_secret_setting_is_not_shown(text: str) -> None:
    assert SECRET not in redact(text)
    assert SECRET not in str(InvalidOption(text))
    assert SECRET not in classify(f"java.lang.IllegalArgumentException: {text}").message


@pytest.mark.parametrize(
    "text",
    [
        "PostgreSQL refused the login: password authentication failed for user etl",
        "Kafka refused the login: wrong password: check sasl.username and sasl.password",
        "the connection string cannot be read: write 'postgresql://user:password@host:5432/database'",
        "jdbc.sink: the url is not a valid JDBC URL: write url='jdbc:postgresql://host/database'",
        "the storage s3a://bucket/path could not be reached: Connection refused",
        "mail me@example.com: checkpoint 3 failed",
        "kafka://one:9092,two:9092/orders has no topic",
        "Unexpected token: SELECT",
        "nobody knows the driver of jdbc:unheard: write driver='its.class.Name'",
        "",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


def test_an_error_keeps_its_words_through_pickling() -> None:
    error = pickle.loads(pickle.dumps(ExternalError(f"away: password={SECRET}")))  # noqa: S301 - our own
    assert type(error) is ExternalError
    assert str(error) == "away: password=***"
    assert str(HeadgateError()) == ""


def test_a_database_is_described_without_its_secret() -> None:
    access = Access(f"jdbc:oracle:thin:etl/x@{SECRET}@//db:1521/shop", "d", "etl", SECRET, {"token": SECRET}, ())
    assert str(access) == "jdbc:oracle:thin:@//db:1521/shop"
    assert SECRET not in repr(access)


def test_a_long_word_is_looked_through_once() -> None:
    """Were it once for each of its letters, this would take minutes."""
    for word in ("a" * 1_000_000, "token" * 200_000, "secret-" * 100_000):
        assert redact(f"x = 1: {word}") == f"x = 1: {word}"
        assert redact(f"{word}password=hidden") == f"{word}password=***"
