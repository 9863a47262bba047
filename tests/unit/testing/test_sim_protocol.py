"""What test members write: Kafka's own bytes, and a range plan."""

from ottla.testing.sim_protocol import encode_assignment, encode_subscription, range_plan


def test_bytes_are_kafkas() -> None:
    assert encode_subscription(["t"]).hex() == "000000000001000174ffffffff"
    assert encode_subscription(["t"], {"t": [0, 1]}).hex() == "000100000001000174ffffffff0000000100017400000002" + "0000000000000001"
    assert encode_assignment({"t": [3]}).hex() == "0000000000010001740000000100000003ffffffff"


def test_s4_1_range() -> None:
    members = {"c": ("t",), "a": ("t",), "b": ("t",)}
    plan = range_plan(members, {"t": 10, "unused": 4})
    assert [plan[member]["t"] for member in "abc"] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert range_plan(members, {"t": 1}) == {"a": {"t": [0]}, "b": {}, "c": {}}
    assert range_plan({"a": ("t",), "b": ("u",)}, {"t": 2, "u": 1}) == {"a": {"t": [0, 1]}, "b": {"u": [0]}}
