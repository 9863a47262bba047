"""`ottla dump-log`: prints the files of a data directory, with the output and the options of Kafka's kafka-dump-log."""

import sys
from typing import Any

import click


@click.command("dump-log", short_help="Print the files of a log.")
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option("--files", "listed", metavar="FILE,FILE", default="", help="More files, as for Kafka's tool.")
@click.option("--deep-iteration", is_flag=True, help="List records, not only batches.")
@click.option("--print-data-log", is_flag=True, help="List records with their keys and values.")
@click.option("--offsets-decoder", is_flag=True, help="List records, decoded as those of __consumer_offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="The same for __transaction_state.")
@click.option("--cluster-metadata-decoder", is_flag=True, help="The same for __cluster_metadata.")
@click.option("--skip-record-metadata", is_flag=True, help="Print only keys and values of records.")
@click.option("--index-sanity-check", is_flag=True, help="Of indexes, report only whether a broker would accept them unchanged.")
@click.option("--verify-index-only", is_flag=True, help="Of indexes, report only problems.")
@click.option("--max-bytes", type=click.IntRange(min=1), metavar="N", help="Read at most this many bytes of each log.")
@click.option("--max-message-size", type=click.IntRange(min=1), metavar="N", help="Largest batch that an index entry may point to.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
def command(files: tuple[str, ...], listed: str, as_json: bool, **options: Any) -> None:
    """Print the files of a log: Ottla's or Apache Kafka's, intact or damaged, even while a broker writes to them.

    FILE is a segment (.log), an index of it (.index, .timeindex, .txnindex; compared with the .log beside it), a producer snapshot, a
    checkpoint, partition.metadata, meta.properties, or a directory with any of them. Problems go to stderr, and the exit
    status is then 1; nothing is changed.
    """
    names = [*files, *(name for name in listed.split(",") if name)]
    if not names:
        raise click.UsageError("Which files? Name some, or a directory.")
    if sum(options[name] for name in ("offsets_decoder", "transaction_log_decoder", "cluster_metadata_decoder")) > 1:
        raise click.UsageError(
            "--offsets-decoder, --transaction-log-decoder and --cluster-metadata-decoder read different topics: choose one."
        )
    if as_json and options["skip_record_metadata"]:
        raise click.UsageError("--skip-record-metadata is for text: with --json, leave out the fields that you do not want.")

    from ottla.cli.dump import JsonPrinter, Printer, RecordContents, TextPrinter, reader_for, run
    from ottla.log.dump.batches import DumpOptions

    contents = RecordContents.TEXT if options["print_data_log"] else RecordContents.NOTHING
    if options["offsets_decoder"]:
        contents = RecordContents.OFFSETS
    elif options["transaction_log_decoder"]:
        contents = RecordContents.TRANSACTIONS
    elif options["cluster_metadata_decoder"]:
        contents = RecordContents.METADATA
    reader = reader_for(contents)
    dump_options = DumpOptions(
        with_records=options["deep_iteration"] or contents is not RecordContents.NOTHING,
        with_entries=not options["verify_index_only"],
        is_sanity_check=options["index_sanity_check"],
        bytes_max=options["max_bytes"],
        batch_bytes_max=options["max_message_size"],
    )
    if as_json:
        printer: Printer = JsonPrinter(sys.stdout, contents=contents, reader=reader)
    else:
        with_metadata = not options["skip_record_metadata"]
        printer = TextPrinter(sys.stdout, sys.stderr, contents=contents, reader=reader, with_metadata=with_metadata)
    click.get_current_context().exit(run(names, dump_options, printer))


COMMAND = command
