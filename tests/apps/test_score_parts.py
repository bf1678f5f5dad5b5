"""``torch-ap score`` of several files, folders, patterns and URIs; and ``--exact`` in bounded memory."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from torch_ap.cli import score_exact
from torch_ap.cli.main import main
from torch_ap.core.ranking.spill import SpilledItems

COLUMNS = ("--preds", "score", "--target", "label")


def table(rows=3000):
    random = np.random.default_rng(0)
    label = random.integers(0, 2, rows)
    return pa.table({"score": (random.normal(size=rows) + label).round(2), "label": label})


@pytest.fixture
def parts(tmp_path):
    """Return a folder of four files, one of them in a folder and one empty, with the marker of an engine."""
    folder, rows = tmp_path / "parts", table()
    (folder / "day=2").mkdir(parents=True)
    pq.write_table(rows.slice(0, 1000), folder / "part-0.parquet")
    pq.write_table(rows.slice(1000, 500), folder / "part-1.parquet")
    pq.write_table(rows.slice(0, 0), folder / "part-2.parquet")
    pq.write_table(rows.slice(1500), folder / "day=2" / "part-3.parquet")
    (folder / "_SUCCESS").write_text("")
    (folder / "_temporary.parquet").write_text("incomplete")
    return folder


@pytest.fixture
def result(capsys):
    def run(*arguments):
        assert main(["score", *map(str, arguments), *COLUMNS, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        return document["items"], document["measures"]

    return run


@pytest.fixture
def whole(tmp_path):
    """Return one file with the rows of all parts."""
    pq.write_table(table(), path := tmp_path / "whole.parquet")
    return path


def test_a_baseline_in_parts(parts, result, tmp_path, monkeypatch):
    rows = pa.concat_tables([table().slice(1500), table().slice(0, 1500)])  # in the order of the names of the parts
    mine = rows.set_column(0, "score", pa.array(np.flip(rows["score"].to_numpy())))
    pq.write_table(rows, tmp_path / "whole.parquet")
    pq.write_table(mine, path := tmp_path / "mine.parquet")
    monkeypatch.chdir(tmp_path)

    def difference(baseline):
        compared = result(path, "--baseline", baseline)[1]["ap"]["compared"]
        assert compared.pop("baseline") == baseline
        return compared

    expected = difference("whole.parquet")
    assert expected["difference"]
    for baseline in ("parts/", "parts/**/part-*.parquet", f"file://{parts}"):
        assert difference(baseline) == expected, baseline
    pq.write_table(mine.append_column("parts", rows["score"]), path)
    assert difference("parts") == expected  # the column, not the folder


def test_folders_patterns_and_lists_are_one_table(parts, whole, result):
    expected = result(whole)
    assert expected[0] == 3000
    for source in ([parts], [f"{parts}/**/part-*.parquet"], sorted(parts.rglob("part-*")), [f"file://{parts}"]):
        assert result(*source) == expected, source
    assert result(f"{parts}/part-*.parquet")[0] == result(f"file://{parts}/part-*.parquet")[0] == 1500
    assert result(f"file://{parts}/part-1.parquet")[0] == 500
    assert result(parts, "--bins", 4000) == result(whole, "--bins", 4000)


def test_text_files_of_another_file_system(tmp_path, result):
    (tmp_path / "table.csv").write_text("score,label\n0.9,1\n0.8,0\n0.1,1\n")
    assert result(f"file://{tmp_path}/table.csv") == result(tmp_path / "table.csv")


def test_exact_in_bounded_memory_has_the_value_in_memory(parts, whole, result, monkeypatch, tmp_path):
    spill = tmp_path / "spill"
    spill.mkdir()
    monkeypatch.setattr(score_exact, "SpilledItems", lambda folder: SpilledItems(folder, 100))
    monkeypatch.setattr(score_exact, "_CHUNK", 200)
    measures = ("-m", "ap", "-m", "ap@50", "--ties", "expected", "--denominator", "relevant")
    assert result(parts, "--exact", "--spill", spill, *measures) == result(whole, *measures)
    assert not list(spill.iterdir())


def failure(capsys, *arguments):
    assert main(["score", *map(str, arguments), *COLUMNS]) == 2
    return capsys.readouterr().err


def test_invalid_parts(parts, capsys):
    pq.write_table(pa.table({"score": [0.5, 0.7], "label": [1, 7]}), parts / "part-9.parquet")
    for options in ((), ("--exact",), ("--bins", 10)):
        assert "part-9.parquet, row 2: column 'label' must be 0 or 1" in failure(capsys, parts, *options)
    for nothing in (f"{parts}/*.orc", f"file://{parts}/*.orc"):
        assert "must contain or match at least one file" in failure(capsys, nothing)
    assert "must contain rows" in failure(capsys, parts / "part-2.parquet", parts / "part-2.parquet")


def test_options_that_need_all_rows_in_memory(whole, capsys):
    for options in (
        ["--group", "label"],
        ["--weights", "label"],
        ["--interval"],
        ["--bins", "9"],
        ["--fail-below", "ap=0"],
    ):
        assert "has no meaning with --exact" in failure(capsys, whole, "--exact", *options)
    for measure in ("P@3", "11-point"):
        assert "--exact computes ap" in failure(capsys, whole, "--exact", "-m", measure)
    assert "has no meaning without --exact" in failure(capsys, whole, "--spill", ".")


def test_exact_checks_the_space_first(whole, capsys, monkeypatch):
    monkeypatch.setattr(score_exact, "_ROW_BYTES", 1 << 50)
    assert "temporary files need" in failure(capsys, whole, "--exact")


@pytest.mark.filterwarnings("ignore")
def test_object_store(parts, result, monkeypatch):
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    for name, value in {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}.items():
        monkeypatch.setenv(name, value)
    server.start()
    try:
        address = f"127.0.0.1%3A{server.get_host_and_port()[1]}"
        options = f"scheme=http&endpoint_override={address}&region=us-east-1&allow_bucket_creation=true"
        store, _ = fs.FileSystem.from_uri(f"s3://bucket?{options}")
        store.create_dir("bucket")
        fs.copy_files(str(parts), "bucket/parts", destination_filesystem=store)
        assert result(f"s3://bucket/parts?{options}") == result(parts)
        assert result(f"s3://bucket/parts/part-*.parquet?{options}", "--exact")[0] == 1500
        assert result(f"s3://bucket/parts/part-1.parquet?{options}", "--bins", 100)[0] == 500
    finally:
        server.stop()
