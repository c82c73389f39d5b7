"""Counting, from the command line."""

from typing import Annotated, NoReturn

import typer

from headgate.cli.app import JobArgument, JsonOption, StorageOption, found, refuse, show

PLACE = "a directory, kafka://host:9092/topic or postgres://user@host/database/table"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (audit, rollback):
        app.command()(command)


def audit(
    job: Annotated[
        str, typer.Argument(metavar="[JOB]", help="A job, by its name or its file: its receipts and sinks are proven.")
    ] = "",
    source: Annotated[str, typer.Option(metavar="PLACE", help=f"Where the records came from: {PLACE}.")] = "",
    sink: Annotated[str, typer.Option(metavar="PLACE", help="Where they went to, the same way.")] = "",
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
    shown: Annotated[int, typer.Option("--show", min=0, help="Show details of at most this many keys.")] = 10,
    storage: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Prove that nothing is missing or doubled, or name what is.

    With JOB: from the receipts of its checkpoints, the offsets in them, and what its sinks have. Files are compared one
    by one with their checksums, topics of Kafka and tables of PostgreSQL by their rows; it is said what was not proven.
    The job may be running.

    Without JOB, of any job, also a plain one of Spark: count what went in and what came out, by key and sequence
    number.

    Files are Parquet, JSON or CSV; names that begin with _ or . are passed over. Values in Kafka are JSON objects, read
    as far as they are committed; @key, @value and @partition mean the record itself. A dot leads into an object. A
    sequence number may be a list, as a job that sums up keeps the numbers of what it summed.

    Example: headgate audit --source kafka://127.0.0.1:9092/orders --sink postgres://me@127.0.0.1/shop/orders
    --key user --seq n

    Example: headgate audit orders --storage file:///data/headgate

    Exit codes: 0 exactly once, 1 not, or a place does not answer, 2 a job, a place or a column is not there.
    """
    options = _options(kafka_option or [])
    if job:
        if source or sink or seq or key or source_key or sink_key or source_seq or sink_seq:
            refuse(f"audit {job} with --source, --sink or columns: give a job, or the places of any job")
        _prove(job, storage, options, as_json=as_json)
    if not source or not sink:
        refuse("audit: name a job, or say --source PLACE and --sink PLACE")
    from headgate.audit import count, read  # noqa: PLC0415 - what it needs is loaded where it is needed

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


def rollback(
    job: JobArgument,
    to: Annotated[int, typer.Option("--to", min=0, metavar="ID", help="The checkpoint to go back to.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list. There is nothing else yet.")] = False,
    storage: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what was published after a checkpoint, sink by sink: what comes out again if the job goes back to it.

    Told by the receipts: rows, offsets, and whether the sink could take it back. Nothing is changed.

    Example: headgate rollback orders --to 12 --dry-run

    Exit codes: 0, or 2 if there is no such job or checkpoint, or without --dry-run.
    """
    if not dry_run:
        refuse("rollback: only --dry-run is supported: add it to list what was published; nothing is changed")
    from headgate.receipts.gather import gather  # noqa: PLC0415 - as above
    from headgate.receipts.rollback import published_after, total  # noqa: PLC0415

    with found(job, storage) as store:
        receipts = gather(store)
        after = published_after(receipts, to)
    text = "\n".join([*(each.text() for each in after), *receipts.problems, total(after)])
    view = {"to": to, "sinks": [each.data() for each in after], "unreadable": list(receipts.problems)}
    show(view, text, as_json=as_json)


def _prove(job: str, storage: str | None, options: dict[str, str], *, as_json: bool) -> NoReturn:
    from headgate.receipts.gather import gather  # noqa: PLC0415 - as above
    from headgate.receipts.proof import prove  # noqa: PLC0415

    with found(job, storage) as store:
        proof = prove(store.job, gather(store), options, lambda: gather(store))
    if not proof.sinks and not proof.problems:
        refuse(f"job {store.job} has no receipts yet: it has published nothing, or an earlier release ran it")
    show(proof.data(), proof.text(), as_json=as_json)
    raise typer.Exit(0 if proof.holds else 1)


def _options(given: list[str]) -> dict[str, str]:
    found = dict(each.partition("=")[::2] for each in given if "=" in each)
    if len(found) != len(given):
        refuse("--kafka-option: write NAME=VALUE, each name once")
    return found
