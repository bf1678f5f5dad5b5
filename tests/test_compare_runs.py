import csv
import json
from pathlib import Path

import pytest
import torch
from scipy import stats

from torch_ap.cli import main
from torch_ap.commands.compare_runs import NAMES, compared, comparisons, lines
from torch_ap.files.report import Result


def result(values, names="abcdefgh"):
    return Result(list(names[: len(values)]), torch.tensor(values, dtype=torch.float64), sum(values) / len(values))


def test_queries_are_paired_by_name():
    first, other = result([0.1, 0.5, 0.9, 0.4]), result([0.8, 0.5, 0.7], "dbc")
    found = compared(first, other)
    assert found.queries == 3
    wanted = stats.ttest_rel([0.8, 0.5, 0.7], [0.4, 0.5, 0.9])
    assert found.p_values["t"] == pytest.approx(wanted.pvalue)
    rows = lines(comparisons({"one": {"map": first}, "two": {"map": other}, "none": {"map": result([0.3], "z")}}))
    assert rows[1][:4] == ("map", "two", "3", f"{0.2 / 3:+.4f}")
    assert rows[2][:4] == ("map", "none", "0", "-")


@pytest.fixture
def files(tmp_path):
    qrels, good, bad = (tmp_path / name for name in ("qrels", "good", "bad"))
    topics = range(1, 9)
    qrels.write_text("".join(f"{q} 0 d{d} {int(d % 3 == 0)}\n" for q in topics for d in range(9)))
    good.write_text("".join(f"{q} Q0 d{d} 1 {9 - d % 3 + d / 20} good\n" for q in topics for d in range(9)))
    bad.write_text("".join(f"{q} Q0 d{d} 1 {(d * q) % 7} bad\n" for q in topics for d in range(9)))
    return [str(path) for path in (qrels, good, bad)]


def test_command_prints_differences(files, capsys):
    assert main(["trec", *files, "-m", "map", "--compare"]) == 0
    out = capsys.readouterr().out
    assert "p (randomization)" in out
    assert out.splitlines()[-1].split()[:3] == ["map", "bad", "8"]
    assert "-0." in out.splitlines()[-1]


def test_command_writes_json_and_csv(files, capsys):
    command = ["trec", *files, "-m", "map", "-m", "P@5", "--compare"]
    assert main([*command, "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert set(out["good"]["map"]) == {"all"}
    for name in ("map", "P@5"):
        found = out["bad"][name]["compared"]
        assert tuple(found) == NAMES
        assert found["difference"] == pytest.approx(out["bad"][name]["all"] - out["good"][name]["all"])
        assert found["queries"] == 8
    assert main([*command, "--csv"]) == 0
    rows = list(csv.reader(capsys.readouterr().out.splitlines()))
    compared_rows = [row for row in rows if row[1].startswith("compared.")]
    assert all(row[2] == "" for row in compared_rows)
    wanted = [out["bad"][name]["compared"][number] for name in ("map", "P@5") for number in NAMES]
    assert [float(row[3]) for row in compared_rows] == wanted


def test_numbers_that_do_not_exist_are_left_empty(files, tmp_path, capsys):
    qrels, good, _ = files
    one, none = tmp_path / "one", tmp_path / "none"
    one.write_text("1 Q0 d1 1 3 one\n1 Q0 d3 2 2 one\n")
    none.write_text("20 Q0 d3 1 3 none\n")
    Path(qrels).write_text(Path(qrels).read_text() + "20 0 d3 1\n")
    command = ["trec", qrels, good, str(one), str(none), "-m", "map", "--compare"]
    assert main([*command, "--json"]) == 0
    out = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert out["one"]["map"]["compared"]["low"] is None
    assert out["one"]["map"]["compared"]["queries"] == 1
    assert out["none"]["map"]["compared"] == {"queries": 0}
    assert main([*command, "--csv"]) == 0
    rows = {row[1]: row[2:] for row in csv.reader(capsys.readouterr().out.splitlines())}
    assert rows["compared.queries"] == ["", "1", "0"]
    assert rows["compared.low"] == ["", "nan", ""]


def test_command_refuses_what_it_cannot_compare(files, capsys):
    assert main(["trec", *files[:2], "--compare"]) == 2
    assert "--compare" in capsys.readouterr().err
