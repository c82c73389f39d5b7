"""Counting, from the command line."""

from typing import Annotated

import typer

from headgate.cli.app import JsonOption, refuse, show

PLACE = "a directory, kafka://host:9092/topic or postgres://user@host/database/table"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(audit)


def audit(
    source: Annotated[str, typer.Option(metavar="PLACE", help=f"Where the records came from: {PLACE}.")],
    sink: Annotated[str, typer.Option(metavar="PLACE", help="Where they went to, the same way.")],
    seq: Annotated[str, typer.Option(metavar="NAME", help="The column with the sequence number.")] = "",
    key: Annotated[
        str, typer.Option(metavar="NAME", help="The column with the key, if numbers are counted key by key.")
    ] = "",
    source_key: Annotated[str, typer.Option(metavar="NAME", help="Its name at the source, if they differ.")] = "",
    sink_key: Annotated[str, typer.Option(metavar="NAME", help="Its name at the sink.")] = "",
    source_seq: Annotated[
        str, typer.Option(metavar="NAME", help="The sequence number's name at the source, if they differ.")
    ] = "",
    sink_seq: Annotated[str, typer.Option(metavar="NAME", help="Its name at the sink.")] = "",
    kafka_option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of librdkafka, for TLS and logins; may be repeated."),
    ] = None,
    shown: Annotated[int, typer.Option("--show", min=0, help="Of this many keys it is told what is wrong.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Count what went into a job and what came out of it, by key and sequence number.

    Files are Parquet, JSON or CSV; names that begin with _ or . are passed over. Values in Kafka are JSON objects, read
    as far as they are committed; @key, @value and @partition mean the record itself. A dot leads into an object. A
    sequence number may be a list, as a job that sums up keeps the numbers of what it summed.

    Example: headgate audit --source kafka://127.0.0.1:9092/orders --sink postgres://me@127.0.0.1/shop/orders
    --key user --seq n

    Exit codes: 0 exactly once, 1 not, or a place does not answer, 2 a place or a column is not there.
    """
    from headgate.audit import count, read  # noqa: PLC0415 - what it needs is loaded where it is needed

    options = _options(kafka_option or [])
    keys = source_key or key, sink_key or key
    numbers = source_seq or seq, sink_seq or seq
    if not all(numbers):
        refuse("no sequence number is named: say --seq NAME, or --source-seq NAME and --sink-seq NAME")
    if bool(keys[0]) != bool(keys[1]):
        refuse("a key is named for one side alone: say --key NAME, or --source-key NAME and --sink-key NAME")
    went_in, came_out = (
        read(place, key=its_key or None, seq=its_seq, options=options)
        for place, its_key, its_seq in zip((source, sink), keys, numbers, strict=True)
    )
    verdict = count(went_in, came_out, show=shown)
    text = "\n".join([str(verdict), *(f"  {example}" for example in verdict.examples)])
    show(verdict.to_json(), text, as_json=as_json)
    raise typer.Exit(0 if verdict.exact else 1)


def _options(given: list[str]) -> dict[str, str]:
    found = dict(each.partition("=")[::2] for each in given if "=" in each)
    if len(found) != len(given):
        refuse("--kafka-option: write NAME=VALUE, each name once")
    return found
