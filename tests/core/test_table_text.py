"""Numbers in text files: pyarrow and Python read the same rows, and no literal changes its value silently."""

import json
import random
import sys
from decimal import Decimal
from itertools import product

import pytest

from torch_ap.cli import main
from torch_ap.core.columns import literals
from torch_ap.core.columns.tables import Table
from torch_ap.detection.files import activitynet, coco, dota, lvis, voc, yolo
from torch_ap.retrieval.runs import trec

pytest.importorskip("pyarrow")

CSV_BODIES = (
    *("1,1,a", "1,1,a\r2,0,b\r", '1,1,"a\rb"\n', '1,1,"a"x\n', '1,1,a"x\n', '1,1,"a""b"\n', '1,1,""""\n', '1,1,"a\n'),
    *(
        "1,1,a\n\n2,0,b\n",
        "1,1,a\n  \n",
        "1,1,a,4\n",
        "1,1,a\n2,0\n",
        "1,1,a\n\r\n3,0,b\n",
        "1,1,a\n\n\n2\n",
        "",
        "\n\n",
    ),
    *('1,1,"a"\r\n2,0,"b"\r\n', "1,1,\n", " 1 ,1,a\n", ' "1",1,a\n', '"1",1,a\n', "NA,1,a\n", ",1,a\n", "1,x,a\n"),
    *("1,1,\xff\n", "\xff,1,a\n", "1,1,a\nx,0,a\n2\n", f'1,1,"{"a" * 200_000}"\n', "1,1,a\n" * 400_000 + "2,1\n"),
)
SCORES = (
    *("1", "+1", "-.5", "1.", "1e5", "1E+5", "00012", "inf", "-Infinity", "NAN", "nan", "-NaN", "nan(1)", "infinit"),
    *(
        "1_0",
        "0x10",
        "1e",
        "-",
        ".",
        "1d5",
        "1,000",
        "\u0661",
        "0",
        "-0.0",
        "0e5",
        "0e-999",
        "1e400",
        "-1e400",
        "1e-400",
    ),
    *("1e-320", "1.0001e-320", "5e-324", "2e-324", "9007199254740992", "9007199254740993", "9007199254740993.0"),
    *("-9007199254740993.00", "9007199254740993e0", "1e23", "1.2345678901234567e+20", "100000000000000000000000"),
    *("1e-99999999999999999999", "1e99999999999999999999", "0." + "0" * 400 + "1", "9" * 400, "0.1234567890123456789"),
)
REFUSED = (
    *("1e400", "-1e400", "1e-400", "1.0001e-320", "2e-324", "9007199254740993", "9007199254740993.0", "9" * 400),
    *("-9007199254740993.00", "9007199254740993e0", "1e-99999999999999999999", "0." + "0" * 400 + "1"),
)
JSON_LINES = [
    line.replace("@", value)
    for line, values in {
        '{"s": @, "y": 1, "g": "a"}': (*SCORES, "true", '"x"', "null", "[1]", "[1, null]", "{}", "[" * 3000),
        '{"s": [@, 2], "y": 1, "g": "a"}': (*SCORES, "[1]", "null"),
        '{"s": 1, "y": @, "g": "a"}': ("1", "1.0", "true", '"1"', "null", "9" * 30, "9" * 5000, "[1]", "2.5"),
        '{"s": 1, "y": 1, "g": @}': ('"\\ud800"', '"\xff"', '"\\u00e9"', "1", "1.5", "NaN", "{}", '""'),
        '{"s": 1, "y": 1, "g": "a"@': ("", ",}", "}x", "}\n[1]", "}\n\n", '}\n{"s": 1}', ', "s": 2}', "}\r\n"),
    }.items()
    for value in values
]


def read(path):
    """Return the columns, groups and labels of a table, or its error."""
    table = Table(path, ["s"], ["y"], group="g")
    try:
        columns = vars(table.read())
    except ValueError as error:
        return str(error)
    return {key: None if x is None else (x.dtype, x.tolist()) for key, x in columns.items()}, table.groups, table.labels


@pytest.mark.parametrize(
    ("suffix", "texts"),
    {
        "csv": [f"s,y,g\n{body}" for body in (*CSV_BODIES, *(f"{x},1,a\n" for x in SCORES))],
        "tsv": ["s\ty\tg\n1\t1\ta\n2\t0\tb\n", "s\ty\tg\n1\t1\n"],
        "jsonl": [*JSON_LINES, *('{"s": 1, "y": 1, "g": "a"}\n' + x for x in JSON_LINES)],
    }.items(),
)
def test_python_and_pyarrow_read_equal_tables(suffix, texts, tmp_path, monkeypatch):
    """Compare columns or errors."""
    path = tmp_path / f"x.{suffix}"
    for text in texts:
        path.write_bytes(text.encode("latin-1", "ignore"))
        with_pyarrow = read(path)
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "pyarrow", None)
            assert read(path) == with_pyarrow, text[:100]


def test_random_tables_are_read_alike(tmp_path, monkeypatch):
    """Draw seeded cells of all kinds, in several blocks."""
    draw = random.Random(5)
    monkeypatch.setattr("torch_ap.core.columns.table_text._BLOCK", 1024)
    monkeypatch.setattr("torch_ap.core.columns.table_text._ROWS", 7)
    for place in range(60):
        good = [
            repr(draw.choice([0.0, draw.gauss(0, 1), draw.gauss(0, 1) * 10.0 ** draw.randint(-30, 30)]))
            for _ in range(60)
        ]
        scores = good if place % 2 else [*good[:50], draw.choice(SCORES), *good[50:]]
        rows = [(x, draw.choice("01"), draw.choice(["a", "b c", "d"])) for x in scores]
        (tmp_path / "x.csv").write_text("s,y,g\n" + "".join(f"{s},{y},{g}\n" for s, y, g in rows))
        (tmp_path / "x.jsonl").write_text("".join(f'{{"s": {s}, "y": {y}, "g": "{g}"}}\n' for s, y, g in rows))
        results = []
        for hidden in (False, True):
            with monkeypatch.context() as patch:
                if hidden:
                    patch.setitem(sys.modules, "pyarrow", None)
                results.append([read(tmp_path / f"x.{suffix}") for suffix in ("csv", "jsonl")])
        assert results[0] == results[1]
        if place % 2:
            assert results[0][0] == results[0][1]
            assert results[0][0][0]["preds"][1] == [float(x) for x, _, _ in rows]


# -- literals that float64 does not represent


def test_two_accepted_literals_tie_only_beyond_15_digits():
    """Exact decimal arithmetic is the reference: float64 keeps the order of short literals."""
    draw = random.Random(1)
    texts = set()
    for _ in range(4000):
        exponent = draw.choice([-330, -323, -318, -310, -20, 14, 300, 309]) + draw.randint(-3, 3)
        digits = draw.randint(0, 10 ** draw.randint(1, 15) - 1)
        texts.add(f"{draw.choice(['', '-'])}{digits}{draw.choice(['', '.0', f'e{exponent}'])}")
    accepted = {}
    for text in filter(lambda x: literals.is_represented(x, float(x)), texts):
        accepted.setdefault(float(text), set()).add(Decimal(text))
    assert len(accepted) > 1000
    assert all(len(values) == 1 for values in accepted.values())


def test_numbers_written_by_python_are_accepted():
    """Write numbers of any size with the fewest digits and with any number of digits."""
    draw = random.Random(2)
    for _ in range(2000):
        value = draw.gauss(0, 1) * 10.0 ** draw.randint(-323, 307)
        for text in (repr(value), f"{value:.17e}", f"{value:.30e}", f"{float(f'{value:.3e}')!r}"):
            assert literals.parse(text) == float(text)


def write_readers(folder, literal):
    """Write a file of each kind with this score; return a reader of each and the place in its message."""
    (folder / "truth").mkdir(exist_ok=True)
    (folder / "found").mkdir(exist_ok=True)
    image, category = {"id": 1, "width": 64, "height": 64}, {"id": 1, "name": "cat", "frequency": "f"}
    box = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 30, 40], "area": 1200}
    federated = image | {"neg_category_ids": [], "not_exhaustive_category_ids": []}
    truth = {"images": [federated], "categories": [category], "annotations": [box]}
    (folder / "truth.json").write_text(json.dumps(truth))
    one, other = (
        '{"image_id": 1, "category_id": 1, "bbox": [1, 2, 30, 40], "score": @}'.replace("@", x)
        for x in ("0.5", literal)
    )
    (folder / "found.json").write_text(f"[{one}, {other}]")
    (folder / "found.jsonl").write_text(f"{one}\n{other}\n")
    segment = {"segment": [2, 10], "label": "x"}
    video = {"subset": "validation", "duration": 20, "annotations": [segment]}
    (folder / "videos.json").write_text(json.dumps({"database": {"v": video}}))
    (folder / "segments.json").write_text(
        f'{{"results": {{"v": [{{"segment": [2, 10], "label": "x", "score": {literal}}}]}}}}'
    )
    (folder / "run.txt").write_text(f"q Q0 d0 1 0.5 tag\nq Q0 d1 1 {literal} tag\n")
    (folder / "sizes.txt").write_text("one.jpg 64 64\n")

    def read_folders(kind, truth_line, found_line, name="one"):
        def call():
            for path in (*folder.glob("truth/*"), *folder.glob("found/*")):
                path.unlink()
            (folder / "truth" / "one.txt").write_text(truth_line)
            (folder / "found" / f"{name}.txt").write_text(found_line)
            kind(folder / "truth", folder / "found")

        return call

    corners = "10 0 20 10 10 20 0 10"
    return {
        "COCO": (lambda: coco.read_coco(folder / "truth.json", folder / "found.json"), "found.json[1]: 'score'"),
        "lines": (lambda: coco.read_coco(folder / "truth.json", folder / "found.jsonl"), "found.jsonl[1]: 'score'"),
        "LVIS": (lambda: lvis.read_lvis(folder / "truth.json", folder / "found.json"), "found.json[1]: 'score'"),
        "ActivityNet": (
            lambda: activitynet.read_activitynet(folder / "videos.json", folder / "segments.json"),
            "[0]: 'score'",
        ),
        "TREC": (lambda: trec.read_run(folder / "run.txt"), "run.txt, line 2: "),
        "VOC": (read_folders(voc.read_voc, "cat 1 1 9 9", f"cat {literal} 1 1 9 9"), "one.txt, line 1: score"),
        "DOTA": (
            read_folders(dota.read_dota, f"{corners} ship 0", f"one {literal} {corners}", "Task1_ship"),
            "Task1_ship.txt, line 1: score",
        ),
        "YOLO": (
            read_folders(
                lambda *x: yolo.read_yolo(*x, folder / "sizes.txt"), "0 .5 .5 .2 .2", f"0 .5 .5 .2 .2 {literal}"
            ),
            "one.txt, line 1: box and confidence",
        ),
    }


READERS = ("COCO", "lines", "LVIS", "ActivityNet", "TREC", "VOC", "DOTA", "YOLO")


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_refuses_literals_that_float64_does_not_represent(reader, tmp_path):
    for literal in REFUSED:
        call, place = write_readers(tmp_path, literal)[reader]
        with pytest.raises(ValueError, match="number") as error:
            call()
        assert place in str(error.value)
        assert literal[:20] in str(error.value)
    for literal in ("0.5", "0", "1e-20", "5e-324", "0.1234567890123456789"):
        write_readers(tmp_path, literal)[reader][0]()


def test_the_command_names_row_column_and_literal(tmp_path, capsys, monkeypatch):
    """Check a literal that reads as 0, and one that is rounded."""
    for hidden, (literal, suffix) in product((False, True), product(REFUSED, ("csv", "jsonl"))):
        path = tmp_path / f"x.{suffix}"
        body = f"s,y\n0,0\n{literal},1\n" if suffix == "csv" else f'{{"s": 0, "y": 0}}\n{{"s": {literal}, "y": 1}}\n'
        path.write_text(body)
        with monkeypatch.context() as patch:
            if hidden:
                patch.setitem(sys.modules, "pyarrow", None)
            assert main.main(["score", str(path), "--preds", "s", "--target", "y"]) == 2
        message = capsys.readouterr().err
        assert f"x.{suffix}, row 2: column 's' must contain numbers that float64 represents, got " in message
        assert literal[:20] in message
