"""Arguments of `spark-submit` for a job with the format "ottla" on a cluster: settings, the interpreter, a shipped environment.

The settings are those of `sessions`. It starts nothing and connects to no machine.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.spark.sessions import SETTINGS

CLIENT, CLUSTER = "client", "cluster"
UNPACKED: Final = "ottla_env"
"""The folder in which every executor finds the archive's files."""

_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%+=#~-]+")


class NotPlainError(ValueError):
    """A value that a shell would split or expand: the message names it."""


@dataclass(frozen=True, slots=True)
class SubmitArguments:
    """`conf` for --conf, `archives` for --archives (None: nothing is shipped), `environment` for the shell that submits.

    The environment is only for jobs that find the format by Spark's own discovery, which takes its interpreter from nowhere else. A job
    that begins with `ottla.spark.session()` needs none.
    """

    conf: Mapping[str, str]
    archives: str | None
    environment: Mapping[str, str]

    def words(self) -> list[str]:
        """The arguments as a list."""
        shipped = ["--archives", self.archives] if self.archives else []
        return [*shipped, *(word for name, value in sorted(self.conf.items()) for word in ("--conf", f"{name}={value}"))]

    def line(self) -> str:
        """The arguments as one line that a shell splits at its spaces only, since $(...) removes no quotes. Raises NotPlainError."""
        for word in self.words():
            if not _PLAIN.fullmatch(word):
                raise NotPlainError(f"{word!r} has characters that a shell would not leave alone: use paths without them, or --json")
        return " ".join(self.words())

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"conf": dict(sorted(self.conf.items())), "archives": self.archives, "environment": dict(self.environment)}


def submit_arguments(python: str, *, archive: str | None = None, deploy_mode: str = CLIENT) -> SubmitArguments:
    """`python`: the interpreter that has ottla, at the same place on every machine; with `archive`, a packed environment that is shipped to
    the executors, only the driver's. In deploy mode cluster the driver runs on the cluster, too.
    """
    driver = python
    conf = {**SETTINGS, "spark.pyspark.python": python}
    if archive is not None:
        conf["spark.pyspark.python"] = f"./{UNPACKED}/bin/python"
        if deploy_mode == CLIENT:
            conf["spark.pyspark.driver.python"] = python
        else:
            driver = conf["spark.pyspark.python"]
    if deploy_mode == CLUSTER:
        # The driver's own environment, where the shell that submits does not reach it.
        conf["spark.yarn.appMasterEnv.PYSPARK_PYTHON"] = driver
        conf["spark.kubernetes.driverEnv.PYSPARK_PYTHON"] = driver
    environment = {"PYSPARK_PYTHON": conf["spark.pyspark.python"]}
    if driver != environment["PYSPARK_PYTHON"]:
        environment["PYSPARK_DRIVER_PYTHON"] = driver
    return SubmitArguments(conf, f"{archive}#{UNPACKED}" if archive is not None else None, environment)
