"""`ottla spark-submit-args`: the arguments of spark-submit for a job with the format "ottla", as one line to put into its command."""

import json
import sys

import click


@click.command("spark-submit-args", short_help="Print the arguments that spark-submit needs.")
@click.option(
    "--python",
    default=None,
    metavar="PATH",
    help="The interpreter with ottla, at this path on every machine. Default: the one that runs this command.",
)
@click.option(
    "--archive",
    default=None,
    metavar="FILE",
    help="Send this packed environment (venv-pack, conda-pack) to the executors instead of using the installed packages.",
)
@click.option(
    "--deploy-mode",
    type=click.Choice(["client", "cluster"]),
    default="client",
    show_default=True,
    help="Where the driver will run, as given to spark-submit.",
)
@click.option("--json", "as_json", is_flag=True, help="Print settings, archive and environment as JSON.")
def command(python: str | None, archive: str | None, deploy_mode: str, as_json: bool) -> None:
    """Print the arguments that spark-submit needs, for use in its command line.

    \b
      spark-submit --master spark://host:7077 $(ottla spark-submit-args) job.py

    The job starts with `spark = ottla.spark.session()` and is the same on one machine and on a cluster. `ottla docs spark-cluster` has
    the details for each cluster manager.
    """
    from ottla.spark.sessions import NotPlainError, submit_arguments

    arguments = submit_arguments(python or sys.executable, archive=archive, deploy_mode=deploy_mode)
    if as_json:
        click.echo(json.dumps(arguments.to_dict(), indent=2))
        return
    try:
        click.echo(arguments.line())
    except NotPlainError as error:
        raise click.ClickException(str(error)) from error


COMMAND = command
