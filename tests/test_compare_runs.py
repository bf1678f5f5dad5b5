import pytest
import torch
from scipy import stats

from torch_ap.cli import main
from torch_ap.commands.compare_runs import compared, lines
from torch_ap.files.report import Result


def result(values, names="abcdefgh"):
    return Result(list(names[: len(values)]), torch.tensor(values, dtype=torch.float64), sum(values) / len(values))


def test_queries_are_paired_by_name():
    first, other = result([0.1, 0.5, 0.9, 0.4]), result([0.8, 0.5, 0.7], "dbc")
    found = compared(first, other)
    assert found.queries == 3
    wanted = stats.ttest_rel([0.8, 0.5, 0.7], [0.4, 0.5, 0.9])
    assert found.p_values["t"] == pytest.approx(wanted.pvalue)
    rows = lines({"one": {"map": first}, "two": {"map": other}, "none": {"map": result([0.3], "z")}})
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


def test_command_refuses_what_it_cannot_compare(files, capsys):
    assert main(["trec", *files[:2], "--compare"]) == 2
    assert main(["trec", *files, "--compare", "--json"]) == 2
    assert "--compare" in capsys.readouterr().err
