"""`ottla configs`: Kafka's kafka-configs, with its options and output, for Ottla and Apache Kafka alike."""

import sys
from typing import Any

import click

from ottla.cli.options import KafkaCommand


class ConfigsCommand(KafkaCommand):
    """Where it stands among the names of entities, `--entity-default` is the empty name, as for Kafka's tool."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line."""
        ctx.obj = list(args)
        return super().parse_args(ctx, ["--entity-name=" if word == "--entity-default" else word for word in args])


def _entity(name: str, text: str) -> Any:
    return click.option(f"--{name}", metavar="NAME", help=text)


_OPTIONS = (
    click.option("--bootstrap-server", metavar="HOST:PORT,...", help="The brokers to connect to first."),
    click.option("--command-config", metavar="FILE", help="Settings of the client as a properties file (`ottla docs clients`)."),
    click.option("--alter", is_flag=True, help="Change settings or quotas."),
    click.option("--describe", is_flag=True, help="Print the settings or quotas that are set."),
    click.option("--all", is_flag=True, help="With --describe: print all settings, also those that are not set."),
    click.option(
        "--entity-type", multiple=True, metavar="TYPE", help="topics, clients, users, brokers, ips or groups; users and clients together."
    ),
    click.option("--entity-name", multiple=True, metavar="NAME", help="The name for each --entity-type, in order."),
    click.option("--entity-default", is_flag=True, help="In place of an --entity-name: the default of clients, users, brokers or ips."),
    click.option("--add-config", metavar="K=V,...", help="What is set; brackets hold commas together: k1=v1,k2=[v2,v3]."),
    click.option("--add-config-file", metavar="FILE", help="A properties file with what is set."),
    click.option("--delete-config", multiple=True, metavar="K,...", help="What is deleted; it must be set."),
    _entity("topic", "A topic."),
    _entity("client", "A client id."),
    click.option("--client-defaults", is_flag=True, help="The default of all client ids."),
    _entity("user", "A user, by the principal's name."),
    click.option("--user-defaults", is_flag=True, help="The default of all users."),
    _entity("broker", "A broker, by its id."),
    click.option("--broker-defaults", is_flag=True, help="The default of all brokers."),
    _entity("ip", "An address."),
    click.option("--ip-defaults", is_flag=True, help="The default of all addresses."),
    _entity("group", "A group."),
    click.option("--json", is_flag=True, help="Print JSON."),
)


def command(context: click.Context, /, **given: Any) -> None:
    """Change and print settings of topics, brokers and groups, and quotas of users, clients and addresses: Kafka's kafka-configs.

    Works with Ottla and with Apache Kafka. Output and exit status are those of kafka-configs 4.3; --json is Ottla's own. A user's password
    is salted and hashed before it is sent: --add-config 'SCRAM-SHA-256=[iterations=8192,password=...]'.
    """
    from ottla.cli.configs import run

    sys.exit(run(given, context.obj))


for _option in reversed(_OPTIONS):
    command = _option(command)
COMMAND = click.command("configs", cls=ConfigsCommand, short_help="Change and print settings and quotas.")(click.pass_context(command))
