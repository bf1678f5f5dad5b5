"""The commands of the benchmarks: tables between markers, marks of old rows, and comparisons of two commits."""

import subprocess

import pytest

from benchmarks import __main__ as command
from benchmarks import gpu, regressions
from benchmarks.pages import MARK, Block, History, Measurement, read_blocks, tables_of_output, write_blocks
from benchmarks.tables import TABLES, Table
from tests.support.paths import ROOT

PAGE = """# Page

<!-- benchmark one -->
| call | ms |
|---|---|
| a † | 1.5 |
| b † | 2 |

Measured 2026-01-02 at commit `0123abcd`: a machine; Python 3.11; torch 2.13.0

† `89abcdef` changed the measured code later.
<!-- end of benchmark -->

Text.
<!-- benchmark two -->
<!-- end of benchmark -->
"""
ROWS = ("| call | ms |", "|---|---|", "| a | 1.5 |", "| b | 2 |")
MEASURED = Measurement("2026-01-02", "0123abcd", "a machine; Python 3.11; torch 2.13.0")


def test_tables_of_a_page_are_read_without_marks():
    assert read_blocks(PAGE) == {"one": Block(ROWS, MEASURED), "two": Block((), None)}


def test_writing_what_was_read_changes_nothing():
    later = {"one": "89abcdef"}
    assert write_blocks(PAGE, read_blocks(PAGE), lambda name, _: later.get(name)) == PAGE


def test_marks_follow_the_history():
    page = write_blocks(PAGE, read_blocks(PAGE), lambda *_: None)
    assert MARK not in page
    assert read_blocks(page) == read_blocks(PAGE)
    assert "Text.\n" in page


def test_new_tables_replace_old_ones_and_other_tables_remain():
    block = Block(("| call | ms |", "|---|---|", "| c | 3 |"), MEASURED._replace(commit="ffffffff"))
    page = write_blocks(PAGE, {"two": block}, lambda *_: None)
    assert read_blocks(page) == read_blocks(PAGE) | {"two": block}
    assert f"a {MARK} |" in page  # of the table that was not passed


def test_a_table_has_one_place():
    with pytest.raises(ValueError, match="one place for each table, got two for 'two'"):
        read_blocks(PAGE + "<!-- benchmark two -->\n<!-- end of benchmark -->\n")


def test_tables_are_found_by_the_title_above_them():
    output = "AMD, 2 cores; Python 3.11; torch 2\n\n### First, ms\n\n| a |\n|---|\n| 1 |\n(3 s)\n\n## Second\n| b |\n"
    machine, tables = tables_of_output(output)
    assert machine == "AMD, 2 cores; Python 3.11; torch 2"
    assert tables == {"First, ms": ("| a |", "|---|", "| 1 |"), "Second": ("| b |",)}


@pytest.fixture
def repository(tmp_path):
    """Return the history of a folder with one commit, and a function that commits a change of a file."""
    history = History(tmp_path)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]

    def commit(name):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(path.read_text() + "x" if path.exists() else "x")
        history.git("add", "-A")
        history.git(*identity, "commit", "-q", "-m", name)
        return history.head

    return history, commit


def test_rows_are_old_after_a_change_of_their_code(repository):
    history, commit = repository
    first = commit("code/a.py")
    assert history.changed_after(first, ["code"]) is None
    other = commit("text.md")
    assert history.changed_after(first, ["code"]) is None
    second = commit("code/b.py")
    assert history.changed_after(first, ["code"]) == history.changed_after(other, ["code/b.py"]) == second
    assert history.changed_after(first, ["code/a.py"]) is None
    assert history.changed_after("0123abcd", ["code/a.py"]) == second  # an unknown commit


def test_changes_without_a_commit_are_found(repository, tmp_path):
    history, commit = repository
    commit("code/a.py")
    (tmp_path / "code" / "a.py").write_text("y")
    assert history.uncommitted(["code"]) == ["code/a.py"]
    assert history.uncommitted(["text.md"]) == []


def test_the_command_writes_measured_tables_and_marks_the_others(repository, tmp_path):
    history, commit = repository
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text(PAGE)
    first = commit("code/a.py")
    tables = [Table(name, (name,), name, ("code",), "docs/page.md") for name in ("one", "two")]
    measured = {"two": Block(ROWS, MEASURED._replace(commit=first))}
    command.update_pages(tmp_path, tables, measured, history)
    page = (tmp_path / "docs" / "page.md").read_text()
    assert f"{MARK} `{first}` changed the measured code later." in page  # of the unknown commit of table one
    assert page.count(MARK) == 3
    assert read_blocks(page)["two"] == measured["two"]
    latest = commit("code/b.py")
    command.update_pages(tmp_path, tables, {}, history)
    assert (tmp_path / "docs" / "page.md").read_text().count(f"`{latest}` changed") == 2


def test_a_page_cannot_have_unknown_tables(repository, tmp_path):
    history, _ = repository
    (tmp_path / "page.md").write_text(PAGE)
    with pytest.raises(ValueError, match=r"page.md must only have tables of benchmarks/tables.py, got \['two'\]"):
        command.update_pages(tmp_path, [Table("one", ("one",), "", (), "page.md")], {}, history)


def test_a_table_that_was_not_printed_is_an_error(monkeypatch):
    done = subprocess.CompletedProcess([], 0, "### Other\n| a |\n")
    monkeypatch.setattr(command.subprocess, "run", lambda *_, **__: done)
    with pytest.raises(ValueError, match=r"one must print a table 'T', got \['Other'\]"):
        command.measure([Table("t", ("one",), "T", ())], "0123abcd", "2026-01-02", quick=True)


def test_one_command_measures_several_tables_in_one_run(monkeypatch, capsys):
    runs = []
    output = "a machine; Python 3.11\n### A\n| a |\n### B\n| b |\n"

    def run(words, **_):
        runs.append(words[1:])
        return subprocess.CompletedProcess(words, 0, output)

    monkeypatch.setattr(command.subprocess, "run", run)
    tables = [Table("a", ("one", "--x"), "A", ()), Table("b", ("one", "--x"), "B", ())]
    blocks = command.measure(tables, "0123abcd", "2026-01-02", quick=True)
    origin = Measurement("2026-01-02", "0123abcd", "a machine; Python 3.11")
    assert blocks == {"a": Block(("| a |",), origin), "b": Block(("| b |",), origin)}
    assert runs == [["-m", "benchmarks.one", "--x", "--quick"]]
    assert capsys.readouterr().out.count("python -m") == 1


def test_tables_name_existing_modules_code_and_places():
    assert len({table.name for table in TABLES}) == len(TABLES)
    places = {page: read_blocks((ROOT / page).read_text()) for page in {table.page for table in TABLES}}
    for table in TABLES:
        assert (ROOT / "benchmarks" / f"{table.words[0]}.py").exists(), table
        assert all((ROOT / path.removeprefix(":!")).exists() for path in table.code), table
        assert table.name in places[table.page], table
    for page, blocks in places.items():
        assert blocks.keys() == {table.name for table in TABLES if table.page == page}


def test_the_list_of_tables(capsys):
    assert command.main(["--list"]) == 0
    assert capsys.readouterr().out.count("\n") == len(TABLES)


class TestRegressions:
    """Comparison of two commits."""

    def test_only_slower_cases_are_reported(self):
        times = {"a": (1.0, 1.05), "b": (1.0, 1.2), "c": (2.0, 1.0)}
        assert regressions.slower(times, 0.1) == ["b"]

    def test_minima_of_both_sides_in_turns(self):
        order = []

        class Side:
            def __init__(self, name, seconds):
                self.name, self.seconds = name, iter(seconds)

            def seconds_of(self, case, calls):
                order.append((self.name, case, calls))
                return next(self.seconds)

        base, head = Side("base", [9, 3, 2, 4]), Side("head", [9, 5, 6, 1])
        assert regressions.compare_case("case", base, head, rounds=3, seconds=0.1) == (2, 1)
        assert [name for name, *_ in order] == ["base", "head", "base", "head", "head", "base", "base", "head"]
        assert {calls for *_, calls in order} == {1}

    def test_two_equal_folders(self):
        with regressions.Side("base", ROOT) as base, regressions.Side("head", ROOT) as head:
            names = base.cases()
            assert len(names) == len(set(names)) > 30
            case = next(name for name in names if "1,000 items" in name)
            pair = regressions.compare_case(case, base, head, rounds=1, seconds=0.001)
            assert all(0 < x < 10 for x in pair)
            with pytest.raises(RuntimeError, match="nothing"):
                base.seconds_of("nothing", 1)

    @pytest.mark.slow
    def test_every_case_runs(self):
        with regressions.Side("head", ROOT) as side:
            for case in side.cases():
                assert side.seconds_of(case, 1) > 0, case


def test_without_a_device_nothing_is_claimed(monkeypatch, capsys):
    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: False)
    assert gpu.main([]) == 0
    assert capsys.readouterr().out == "No CUDA device: no table was measured.\n"


def test_tables_of_a_device(capsys):
    gpu.print_tables(gpu.torch.device("cpu"), 0, 2000)
    out = capsys.readouterr().out
    for title in gpu.TABLES:
        assert f"### {title} on cpu" in out
    assert out.count("\n| ") > 15
