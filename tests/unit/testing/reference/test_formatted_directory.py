"""A formatted directory is copied while its controller's port is free."""

import socket
from pathlib import Path

from ottla.testing.reference.formatted_directory import FormattedDirectory


def test_the_first_one_is_kept_and_copied(tmp_path: Path) -> None:
    formatted = FormattedDirectory(tmp_path / "kept")
    assert formatted.free_controller_port() is None
    for name in ("first", "second"):
        (tmp_path / name / "__cluster_metadata-0").mkdir(parents=True)
        (tmp_path / name / "meta.properties").write_text(name)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        formatted.keep(tmp_path / "first", port)
        assert formatted.free_controller_port() is None, "a node with it runs"
    formatted.keep(tmp_path / "second", port + 1)
    assert formatted.free_controller_port() == port
    formatted.copy_to(tmp_path / "node")
    assert (tmp_path / "node" / "meta.properties").read_text() == "first"
    assert (tmp_path / "node" / "__cluster_metadata-0").is_dir()
