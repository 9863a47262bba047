"""The attacker's process names the attacks that are over, and ends with its input."""

import subprocess
import sys

from ottla.broker import Broker
from ottla.testing.attacks.catalog import ATTACKS


def test_it_attacks_until_its_input_ends() -> None:
    with Broker() as broker:
        command = [sys.executable, "-m", "ottla.testing.attacks.neighbours", broker.bootstrap_servers, "1", "0.0005"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as attacker:
            assert attacker.stdout is not None
            assert attacker.stdin is not None
            assert attacker.stdout.readline().strip() in ATTACKS
            attacker.stdin.close()
            assert attacker.wait(30) == 0
