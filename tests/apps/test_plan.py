"""``torch-ap plan``: printed numbers against the functions, and invalid options."""

import csv
import io
import json

import pytest

from tests.support.each import each
from torch_ap.cli import main
from torch_ap.inference import plan_interval, reported_average_precision_interval


def planned(capsys, *words, status=0):
    assert main.main(["plan", *words]) == status
    return capsys.readouterr()


def test_a_printed_value(capsys):
    wanted = plan_interval(reported_average_precision_interval(0.62, m=80), 80, [0.05, 0.02])
    words = ("--ap", "0.62", "--units", "80", "--half-width", "0.05", "0.02")
    assert json.loads(planned(capsys, *words, "--json").out) == wanted.to_dict()
    rows = list(csv.DictReader(io.StringIO(planned(capsys, *words, "--csv").out)))
    assert [float(row["units"]) for row in rows] == wanted.units.tolist()
    assert f"{int(wanted.units_high[1]):,}" in planned(capsys, *words).out


def test_pictures(capsys, tmp_path):
    for words in (
        ("--ap", "0.62", "--units", "80", "--half-width", "0.05", "0.02"),
        ("--difference", "-0.01", "0.07", "--units", "80", "--gap", "0.02", "--planned-units", "80", "500"),
    ):
        path = tmp_path / "plan.png"
        assert f"wrote {path}" in planned(capsys, *words, "--picture", str(path)).err
        assert path.read_bytes().startswith(b"\x89PNG")


def test_printed_intervals(capsys):
    out = planned(capsys, "--interval", "0.4", "0.6", "--units", "50", "--half-width", "0.05", "--json").out
    assert json.loads(out)["units"] == [200]
    words = ("--difference", "-0.01", "0.07", "--units", "80", "--gap", "0.02", "--planned-units", "80", "500")
    found = json.loads(planned(capsys, *words, "--json").out)
    assert found["power"][0] < 0.3 < found["power"][1] < 0.8
    assert f"{int(found['needed']):,} units" in planned(capsys, *words).out


@each(
    "words, message",
    [
        (("--units", "50"), "one of --ap, --interval and --difference"),
        (("--units", "50", "--ap", "0.5"), "--ap needs --half-width"),
        (("--units", "50", "--difference", "0", "0.1"), "--difference needs --gap"),
        (("--units", "50", "--interval", "0.6", "0.4", "--half-width", "0.1"), "--interval must be LOW below HIGH"),
        (("--units", "50", "--difference", "0", "2", "--gap", "0.1"), "--difference must be LOW below HIGH"),
    ],
)
def test_invalid_options(words, message, capsys):
    assert message in planned(capsys, *words, status=2).err


@each(
    "option, value, rule",
    [
        ("--ap", "62", "a number in [0, 1]"),
        ("--units", "1", "an int of at least 2"),
        ("--half-width", "5", "a number above 0 and below 0.5"),
        ("--gap", "0", "a number in [-1, 1] other than 0"),
        ("--gap", "2", "a number in [-1, 1] other than 0"),
        ("--planned-units", "1", "an int of at least 2"),
    ],
)
def test_values_out_of_range(option, value, rule, capsys):
    with pytest.raises(SystemExit) as stopped:
        main.main(["plan", "--units", "50", option, value])
    assert stopped.value.code == 2
    assert f"argument {option}: must be {rule}, got '{value}'" in capsys.readouterr().err


def test_small_pilots_are_noted(capsys):
    words = ("--ap", "0.5", "--units", "20", "--half-width", "0.1")
    assert "a pilot of 20 units is too small" in planned(capsys, *words).err
    with pytest.raises(SystemExit):
        main.main(["plan", "--ap", "0.5"])
