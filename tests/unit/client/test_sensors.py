"""Figures over time: two samples of 30 s, and totals."""

from math import isnan

from ottla.client.sensors import WINDOW_MS, Sensor


def test_without_values_there_are_no_figures() -> None:
    sensor = Sensor(0)
    assert isnan(sensor.average(1))
    assert isnan(sensor.maximum(1))
    assert (sensor.count_rate(1), sensor.sum(1), sensor.total, sensor.count) == (0, 0, 0, 0)


def test_figures_of_the_current_sample_and_the_one_before() -> None:
    sensor = Sensor(1_000)
    for value, now_ms in ((10, 1_000), (30, 20_000), (2, 40_000)):
        sensor.record(value, now_ms)
    assert (sensor.sum(40_000), sensor.average(40_000), sensor.maximum(40_000)) == (42, 14, 30)
    assert sensor.maximum(1_000 + 2 * WINDOW_MS) == 2, "the first sample is too old"
    assert isnan(sensor.maximum(1_000 + 3 * WINDOW_MS))
    assert (sensor.total, sensor.count) == (42, 3), "totals stay"


def test_samples_that_are_both_too_old_are_dropped_at_once() -> None:
    sensor = Sensor(0)
    sensor.record(5, 29_000)
    sensor.record(1, 95_000)
    assert sensor.maximum(95_000) == 1
    assert sensor.sum(119_999) == 1, "the sample began at 90 s"


def test_rates_count_a_whole_sample_at_least() -> None:
    sensor = Sensor(0)
    for _ in range(60):
        sensor.record(2, 10)
    assert sensor.count_rate(10) == 60 / 30.01
    assert sensor.sum_rate(WINDOW_MS) == 120 / 30
    assert sensor.sum_rate(1.5 * WINDOW_MS) == 120 / 45
