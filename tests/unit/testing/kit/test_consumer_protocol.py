"""The bytes that test members write, and the range assignment."""

from ottla.testing.kit.consumer_protocol import assign_range, encode_assignment, encode_subscription


def test_bytes_are_kafkas() -> None:
    assert encode_subscription(["t"]).hex() == "000000000001000174ffffffff"
    assert encode_subscription(["t"], {"t": [0, 1]}).hex() == "000100000001000174ffffffff0000000100017400000002" + "0000000000000001"
    assert encode_assignment({"t": [3]}).hex() == "0000000000010001740000000100000003ffffffff"


def test_range() -> None:
    members = {"c": ("t",), "a": ("t",), "b": ("t",)}
    assignments = assign_range(members, {"t": 10, "unused": 4})
    assert [assignments[member]["t"] for member in "abc"] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert assign_range(members, {"t": 1}) == {"a": {"t": [0]}, "b": {}, "c": {}}
    assert assign_range({"a": ("t",), "b": ("u",)}, {"t": 2, "u": 1}) == {"a": {"t": [0, 1]}, "b": {"u": [0]}}
