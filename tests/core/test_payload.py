"""Metrics as bytes, and merged metrics of separate jobs: equal values, and invalid payloads raise."""

import contextlib
import json
import math
import random
import struct
import zlib

import pytest
import torch

import torch_ap
from tests.support.each import each
from tests.support.every_metric import METRICS, one_of_each_state
from tests.support.modes import quiet, same
from tests.support.parts import count, cut
from torch_ap.core.metric import payload

each_state = each("row", one_of_each_state())


def updated_metric(row, *batches):
    metric = row.new()
    for batch in batches:
        quiet(metric.update, **batch)
    return metric


@each_state
def test_bytes_contain_the_state(row):
    for metric in (row.new(), updated_metric(row, *row.batches(2))):
        found = row.new().from_bytes(metric.to_bytes())
        assert found.update_count == metric.update_count
        same(quiet(found.compute), quiet(metric.compute))
        quiet(found.update, **row.batches(1)[0])
        assert found.from_bytes(found.to_bytes()).to_bytes() == found.to_bytes()


WITH_FUNCTIONS = ("embeddings_tags", "coco_function", "coco_own_iou", "voc_function")


@each("name", {name: name for name in METRICS})
def test_bytes_contain_the_settings(name):
    """All rows, because settings that do not change the state change the value."""
    metric = updated_metric(METRICS[name], *METRICS[name].batches(2))
    data = metric.to_bytes()
    if name in WITH_FUNCTIONS:
        with pytest.raises(ValueError, match="a setting is <function"):
            torch_ap.load(data)
        return
    loaded = quiet(torch_ap.load, data)
    assert repr(loaded) == repr(metric)
    same(quiet(loaded.compute), quiet(metric.compute))
    assert loaded.to_bytes() == data


@each_state
def test_merging_is_one_metric_with_all(row):
    if row.learns:
        pytest.skip("what was learnt apart is kept where it agrees: test_binned")
    drawn = row.draw(40, torch.Generator().manual_seed(3))
    n = count(drawn)
    parts = cut(drawn, [n // 3, 0, n // 2, n - n // 3 - n // 2])
    shards = [row.new().from_bytes(updated_metric(row, *([part] if count(part) else [])).to_bytes()) for part in parts]
    before = [shard.to_bytes() for shard in shards]
    whole = updated_metric(row, *(part for part in parts if count(part)))
    merged = torch_ap.merge(shards)
    same(quiet(merged.compute), quiet(whole.compute))
    assert merged.update_count == whole.update_count
    assert [shard.to_bytes() for shard in shards] == before
    left = torch_ap.merge([torch_ap.merge(shards[:2]), torch_ap.merge(shards[2:])])
    same(quiet(left.compute), quiet(whole.compute))


def test_the_order_of_merging_changes_no_bit(generator):
    for name, row in METRICS.items():
        if row.kind == "images" or "rows" in name or "mask" in name or "own_levels" in name:
            continue  # metrics whose value depends on the order of the items
        drawn = row.draw(60, generator)
        shards = [updated_metric(row, part) for part in cut(drawn, [15] * (count(drawn) // 15) or [count(drawn)])]
        same(quiet(torch_ap.merge(shards).compute), quiet(torch_ap.merge(shards[::-1]).compute))


def test_load_keeps_the_dtype_and_reads_no_other_classes(data):
    metric = torch_ap.BinaryAveragePrecision(sync="exchange")
    metric.set_dtype(torch.float64)
    loaded = torch_ap.load(metric.to_bytes())
    loaded.update(torch.tensor([0.5, 0.25]), torch.tensor([0, 1]))
    assert loaded.compute().dtype == torch.float64
    assert repr(loaded) == "BinaryAveragePrecision(thresholds=None, normalization=None, sync='exchange')"
    for old, new, part in (
        (b'"BinaryAveragePrecision"', b'"evaluate"', "must come from a metric class of torch_ap, got 'evaluate'"),
        (b'"BinaryAveragePrecision"', b'"os"', "must come from a metric class of torch_ap, got 'os'"),
        (b'"thresholds": null', b'"thresholds": "x"', "must contain valid settings of BinaryAveragePrecision"),
        (b'"thresholds": null', b'"thresholds": ["tensor"]', "must contain valid settings"),
        (b'"thresholds": null', b'"threshold": null', "must contain valid settings"),
        (b'"thresholds": null', b'"x": [[]]', "must contain valid settings"),
        (b'"settings"', b'"setting"', "must have a header"),
    ):
        rest = data[18:-16]
        header = rest[4 : 4 + struct.unpack("<I", rest[:4])[0]].replace(old, new)
        body = rest[4 + struct.unpack("<I", rest[:4])[0] :]
        with pytest.raises(ValueError, match=part):
            torch_ap.load(with_checksum(struct.pack("<I", len(header)) + header + body, version=2))
    with pytest.raises(TypeError, match="`data` must be bytes"):
        torch_ap.load("text")
    header = json.dumps({**HEADER, "states": []}).encode()
    with pytest.raises(ValueError, match="an earlier version wrote it"):
        torch_ap.load(with_checksum(struct.pack("<I", len(header)) + header))


def test_other_objects_do_not_merge():
    with pytest.raises(ValueError, match="`metrics` must contain at least one metric"):
        torch_ap.merge([])
    with pytest.raises(TypeError, match=r"`metrics\[1\]` must be a metric of torch_ap, got 'int'"):
        torch_ap.merge([torch_ap.BinaryAveragePrecision(), 3])
    with pytest.raises(TypeError, match="`metrics` must be a list"):
        torch_ap.merge(3)
    with pytest.raises(ValueError, match="same settings"):
        torch_ap.merge([torch_ap.BinaryAveragePrecision(), torch_ap.BinaryAveragePrecision(bins=8)])
    with pytest.raises(ValueError, match="must be a BinaryAveragePrecision, got a RetrievalMAP"):
        torch_ap.merge([torch_ap.BinaryAveragePrecision(), torch_ap.RetrievalMAP()])


@pytest.fixture
def data():
    return updated_metric(METRICS["binary"], *METRICS["binary"].batches(2)).to_bytes()


def refused(data, match):
    with pytest.raises(ValueError, match=match):
        torch_ap.BinaryAveragePrecision().from_bytes(data)


def test_invalid_payloads_raise(data):
    refused(b"", r"`data` must come from `to_bytes\(\)`")
    refused(b"PK\x03\x04 something else entirely", r"`data` must come from `to_bytes\(\)`")
    for length in (1, 7, 12, 18, len(data) // 2, len(data) - 1):
        refused(data[:length], "`data` must be complete")
    refused(data + b"\0", "`data` must be complete")
    refused(data[:8] + struct.pack("<H", 3) + data[10:], "got 3: a newer torch_ap wrote it")
    refused(data[:40] + bytes([data[40] ^ 1]) + data[41:], "wrong checksum")
    with pytest.raises(TypeError, match="`data` must be bytes, got 'text'"):
        torch_ap.BinaryAveragePrecision().from_bytes("text")
    with pytest.raises(ValueError, match="must come from a RetrievalMAP, got the state of a BinaryAveragePrecision"):
        torch_ap.RetrievalMAP().from_bytes(data)
    with pytest.raises(ValueError, match="same settings"):
        torch_ap.BinaryAveragePrecision(ignore_index=3).from_bytes(data)
    assert torch_ap.BinaryAveragePrecision().from_bytes(memoryview(data)).update_count == 2


def sealed_payload(header, body):
    """Return bytes with a valid length and checksum around any content."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return with_checksum(struct.pack("<I", len(text)) + text + body)


def with_checksum(rest, version=1):
    """Return bytes with a valid length and checksum, from the content after the start."""
    found = struct.pack("<8sHQ", b"torch_ap", version, 18 + len(rest) + 16) + rest
    return found + payload._checksum(found)


def test_sealed_payloads_without_a_header_or_a_version():
    for rest, version in ((b"", 1), (b"abc", 1), (b"\0" * 4, 0)):
        refused(with_checksum(rest, version), "must be as `to_bytes")


HEADER = {"class": "BinaryAveragePrecision", "updates": 1, "order": "little"}


@pytest.mark.parametrize(
    ("header", "body", "match"),
    [
        (b"{", b"", "must have a header"),
        (b"[" * 100_000, b"", "must have a header"),
        (b"\xff\xfe", b"", "must have a header"),
        ({**HEADER, "states": [["scores", "float32", [-1], 4, False]]}, b"abcd", "must have a header"),
        ({**HEADER, "states": [["scores", "float32", [1 << 50], 4, False]]}, b"abcd", "must have a header"),
        ({**HEADER, "states": [["scores", "uint8", [1 << 40, 1 << 40], 4, True]]}, b"abcd", "must have a header"),
        ({**HEADER, "states": [["scores", "float32", [0, 1 << 40, 1 << 40], 0, False]]}, b"", "must have a header"),
        ({**HEADER, "states": [["scores", "float32", [1] * 9, 4, False]]}, b"abcd", "must have a header"),
        ({**HEADER, "updates": -1, "states": []}, b"", "must have a header"),
        ({**HEADER, "updates": 1 << 48, "states": []}, b"", "must have a header"),
        ({**HEADER, "states": [["scores", "complex64", [1], 8, False]]}, b"abcdefgh", "must have a header"),
        ({**HEADER, "states": 3}, b"", "must have a header"),
        ({**HEADER, "order": "big", "states": []}, b"", "order of bytes"),
        ({**HEADER, "states": [["scores", "float32", [2], 4, False]]}, b"abcd", "states of the size"),
        ({**HEADER, "states": [["scores", "float32", [1], 3, True]]}, b"abc", "states of the size"),
        (
            {**HEADER, "states": [["scores", "float32", [1], 12, True]]},
            zlib.compress(b"\0" * 10**6)[:12],
            "states of the",
        ),
        ({**HEADER, "states": []}, b"more", "nothing else"),
        ({**HEADER, "states": []}, b"", "not the state of valid updates"),
        (
            {**HEADER, "states": [["scores", "float32", [1], 4, False]]},
            struct.pack("<f", math.nan),
            "not the state of valid updates",
        ),
    ],
)
def test_sealed_payloads_that_no_metric_wrote(header, body, match):
    refused(sealed_payload(header, body), match)


def mutated(data, source):
    """Return a mutation of the data."""
    while True:
        found = bytearray(data)
        for _ in range(source.choice((1, 1, 1, 3, 20))):
            at = source.randrange(len(found) + 1)
            kind = source.randrange(5)
            if kind == 0 and at < len(found):
                found[at] ^= 1 << source.randrange(8)
            elif kind == 1 and at < len(found):
                found[at] = source.randrange(256)
            elif kind == 2:
                found[at:at] = source.randbytes(source.randrange(1, 9))
            elif kind == 3:
                del found[at : at + source.randrange(1, 9)]
            elif kind == 4:
                del found[at:]
            if not found:
                break
        if bytes(found) != data:
            return bytes(found)


FUZZED = ["binary", "binary_64_bins", "binary_adaptive", "query_map", "query_ndcg", "embeddings", "coco", "voc"]
FUZZED += ["multilabel_scores_weighted"]


def fuzz(times, *, seal):
    """Check that no mutation loads, or that with a valid checksum only valid states load."""
    source = random.Random(0)
    written = {name: updated_metric(METRICS[name], *METRICS[name].batches(2, size=12)).to_bytes() for name in FUZZED}
    empty = {name: METRICS[name].new() for name in FUZZED}
    taken = 0
    for turn in range(times):
        name = FUZZED[turn % len(FUZZED)]
        data = written[name]
        given = mutated(data[18:-16] if seal else data, source)
        if seal:
            given = with_checksum(given)
        try:
            found = empty[name].from_bytes(given)
        except ValueError:
            continue
        taken += 1
        check_sound(found, METRICS[name])
    assert seal or not taken


def check_sound(found, row):
    """Check that the metric has a value and can be updated.

    A state with a stored violation of an update raises instead.
    """
    try:
        value = quiet(found.compute)
    except ValueError as error:
        if "broken first in update" in str(error):
            return
        raise
    for x in [x for key, x in value.items() if key.startswith("ma")] if isinstance(value, dict) else [value]:
        assert (((x >= 0) & (x <= 1 + 1e-6)) | (x == -1) | x.isnan()).all()
    with contextlib.suppress(ValueError):  # for example, for scores of another dtype
        quiet(found.update, **row.batches(1)[0])
    quiet(found.compute)


@pytest.mark.parametrize("seal", [False, True])
def test_mutations(seal):
    fuzz(2_000, seal=seal)


def mutated_state(states, source):
    """Return the state with one fault of form or value, rarely without a fault."""
    filled_ones = [name for name, x in states.items() if x is not None and x.numel()]
    name = source.choice([name for name in filled_ones if name != "first_violation"])
    x = states[name].clone()
    if x.is_floating_point():
        value = source.choice([-math.inf, math.inf, math.nan, -0.5, 0, 0.5, 1, 2])
    else:
        value = source.choice([torch.iinfo(x.dtype).min, torch.iinfo(x.dtype).max, 0, 1, 2, 100])
    with_value = x.clone()
    with_value.view(-1)[source.randrange(x.numel())] = value
    dtype = source.choice([torch.float64, torch.float16, torch.int32, torch.int64, torch.bool])
    ways = [x[:-1], torch.cat([x, x[:1]]), x[..., None], x.to(dtype), None, with_value, with_value, with_value]
    return {**states, name: source.choice(ways)}


def fuzz_states(times):
    """Write states with one fault each, as ``to_bytes`` does; check that only valid states load."""
    source, read = random.Random(0), 0
    metrics = {name: updated_metric(METRICS[name], *METRICS[name].batches(2, size=12)) for name in FUZZED}
    states = {name: payload.unpack(metric.to_bytes(), type(metric).__name__)[1] for name, metric in metrics.items()}
    for turn in range(times):
        name = FUZZED[turn % len(FUZZED)]
        data = payload.pack(type(metrics[name]).__name__, {}, 2, mutated_state(states[name], source))
        try:
            found = metrics[name].from_bytes(data)
        except ValueError:
            continue
        read += 1
        check_sound(found, METRICS[name])
    assert times // 20 < read < times // 2


def test_states_with_a_fault():
    fuzz_states(2_000)
