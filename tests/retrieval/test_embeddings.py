"""Embeddings that search embeddings, against the whole matrix of similarities and other libraries."""

import itertools
import math
import statistics
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.each import each
from tests.support.every_metric import share_a_tag
from tests.support.threads import Threads
from tests.support.tolerances import REORDERED, SINGLE
from torch_ap import EmbeddingMAP, functional
from torch_ap.core.ranking import order, products
from torch_ap.functional import embedding_average_precision
from torch_ap.retrieval import embedding_inputs as inputs
from torch_ap.retrieval.embedding_inputs import LabelRelevance
from torch_ap.retrieval.embeddings import OneMeasure

K = (1, 3, 10)
X, LABELS = torch.eye(4), torch.tensor([0, 0, 1, 1])
TINY_ROW = torch.tensor([[1e-310], [1], [1], [1]], dtype=torch.float64)
ROW_OF_NAN = torch.where(torch.arange(4)[:, None] == 2, torch.nan, X)


def values_of_matrix(scores, relevant, counts, ties, denominator="min", interpolation=None):
    """Return every value of each query, one row of the matrix at a time, by the functions of rankings."""
    out = {
        name: []
        for name in ("map", "map_at_k", "map_at_r", "precision_at_k", "recall_at_k", "r_precision", "cmc", "mrr")
    }
    for row, hit, kept in zip(scores, relevant, counts, strict=True):
        given = row[kept].double(), hit[kept].long()
        how = {"ties": ties, "empty_target_action": "nan"}
        m = int(given[1].sum())

        def precision(k, denominator, given=given, how=how):
            return functional.retrieval_average_precision(*given, top_k=k, denominator=denominator, **how)

        out["map"].append(functional.retrieval_average_precision(*given, interpolation=interpolation, **how))
        out["map_at_k"].append(torch.stack([precision(k, denominator) for k in K]))
        out["map_at_r"].append(precision(m, "relevant") if m else torch.tensor(torch.nan))
        for name, measure in (
            ("precision_at_k", functional.retrieval_precision),
            ("recall_at_k", functional.retrieval_recall),
            ("cmc", functional.retrieval_hit_rate),
        ):
            out[name].append(torch.stack([measure(*given, top_k=k, **how) for k in K]))
        out["r_precision"].append(functional.retrieval_r_precision(*given, **how))
        out["mrr"].append(functional.retrieval_reciprocal_rank(*given, **how))
    return {name: torch.stack(values).double() for name, values in out.items()}


def whole(size, dimensions, values, generator):
    """Draw vectors of few whole numbers, whose products are exact and often equal."""
    return torch.randint(-values, values + 1, (size, dimensions), generator=generator).float()


@pytest.fixture
def small_tiles(monkeypatch):
    """Use tiles so small that a small matrix has many."""
    monkeypatch.setattr(products, "_TILE", {"cpu": (4, 1024)})


def drawn(queries, items, labels, generator, dimensions=3, values=2):
    q, g = (whole(size, dimensions, values, generator) for size in (queries, items))
    ql, gl = (torch.randint(labels, (size,), generator=generator) for size in (queries, items))
    return q, g, ql, gl


def assert_same(found, expected):
    assert found.keys() - {"relevant", "items"} == expected.keys()
    for name, values in expected.items():
        torch.testing.assert_close(found[name], values, rtol=REORDERED, atol=REORDERED, equal_nan=True, msg=name)


@given(
    seed=st.integers(0, 2**31),
    queries=st.integers(1, 9),
    items=st.integers(1, 30),
    labels=st.integers(1, 6),
    ties=st.sampled_from(["expected", "grouped", "optimistic", "pessimistic"]),
    similarity=st.sampled_from(["dot", "euclidean"]),
    denominator=st.sampled_from(["min", "relevant", "found"]),
    groups=st.booleans(),
    itself=st.booleans(),
    sorted_share=st.sampled_from([0, 2]),
)
def test_every_value_is_that_of_the_whole_matrix(
    seed, queries, items, labels, ties, similarity, denominator, groups, itself, sorted_share
):
    generator = torch.Generator().manual_seed(seed)
    q, g = (whole(size, 3, 2, generator) for size in (queries, items))
    ql, gl = (torch.randint(labels, (size,), generator=generator) * 7 - 9 for size in (queries, items))
    qg, gg = (torch.randint(2, (size,), generator=generator) for size in (queries, items))
    if itself:
        g, gl, gg = q, ql, qg
    scores = (
        q @ g.t()
        if similarity == "dot"
        else -(torch.cdist(q.double(), g.double(), compute_mode="donot_use_mm_for_euclid_dist") ** 2)
    )
    relevant = ql[:, None] == gl
    counts = ~(relevant & (qg[:, None] == gg)) if groups else torch.ones_like(relevant)
    if itself:
        counts &= ~torch.eye(len(q), dtype=torch.bool)
    settings = {
        "similarity": similarity,
        "ties": ties,
        "denominator": denominator,
        "top_k": K,
        "empty_target_action": "nan",
    }
    if groups:
        settings |= {"query_groups": qg} | ({} if itself else {"gallery_groups": gg})
    with mock.patch.object(products, "_SORTED_SHARE", sorted_share):
        found = embedding_average_precision(q, None if itself else g, ql, None if itself else gl, **settings)
    assert_same(found.per_query, values_of_matrix(scores.round(), relevant, counts, ties, denominator))
    assert torch.equal(found.per_query["relevant"], (relevant & counts).sum(1))


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize(("few", "sorted_share"), [(0, 2), (12, 2), (10**6, 2), (0, 0)])
@pytest.mark.parametrize("room", [1, 1 << 20, 1 << 28])
def test_no_value_depends_on_tiles_memory_or_algorithm(few, sorted_share, room, monkeypatch, generator):
    monkeypatch.setattr(products, "_MAX_COMPARED", few)
    monkeypatch.setattr(products, "_SORTED_SHARE", sorted_share)
    q, g, ql, gl = drawn(21, 2500, 300, generator, values=9)
    ql[3] = -1
    found = embedding_average_precision(
        q, g, ql, gl, similarity="dot", max_memory=room, top_k=K, empty_target_action="nan"
    )
    scores, relevant = q @ g.t(), ql[:, None] == gl
    assert_same(found.per_query, values_of_matrix(scores, relevant, torch.ones_like(relevant), "expected"))
    assert found.without_relevant == 1
    custom = embedding_average_precision(
        q,
        g,
        ql,
        gl,
        similarity="dot",
        max_memory=room,
        top_k=K,
        empty_target_action="nan",
        relevance=lambda a, b: a[:, None] == b,
    )
    assert custom == found


def test_real_numbers_are_ranked_as_the_products_of_the_same_tiles(generator):
    """The values equal bit by bit the values of the matrix made of these products."""
    x = torch.randn(300, 40, generator=generator)
    labels = torch.randint(30, (300,), generator=generator)
    relation = LabelRelevance((labels, None), (labels, None), torch.arange(300))
    matrix = products.Products(x, x, relation, "dot")
    rows = [
        matrix.scores(span, slice(0, 300))[: span.stop - span.start, :300] for span in order.blocks(slice(0, 300), 64)
    ]
    scores = torch.empty(300, 300)
    scores[relation.query_order[:, None], relation.item_order] = torch.cat(rows)
    relevant, counts = labels[:, None] == labels, ~torch.eye(300, dtype=torch.bool)
    found = embedding_average_precision(x, None, labels, similarity="dot", top_k=K, empty_target_action="nan")
    assert_same(found.per_query, values_of_matrix(scores, relevant, counts, "expected"))
    if torch.backends.mkl.is_available():  # the kernel of a tile equals the kernel of the whole product
        assert torch.equal(scores, x @ x.t())


# -- values of other packages


def oxford_average_precision(ranked, good, junk):
    """Follow `compute_ap` of the Oxford and Paris buildings line by line."""
    old_recall, old_precision, ap, found, place = 0.0, 1.0, 0.0, 0, 0
    for one in ranked:
        if one in junk:
            continue
        if one in good:
            found += 1
        recall, precision = found / len(good), found / (place + 1.0)
        ap += (recall - old_recall) * ((old_precision + precision) / 2.0)
        old_recall, old_precision = recall, precision
        place += 1
    return ap


def test_oxford_s_trapezoid_and_junk(generator):
    q, g = torch.randn(5, 16, generator=generator), torch.randn(60, 16, generator=generator)
    judged = torch.randint(-1, 2, (5, 60), generator=generator)
    judged[0] = 0
    found = embedding_average_precision(
        q, g, torch.arange(5), torch.arange(60), relevance=lambda a, b: judged[a][:, b], interpolation="trapezoid"
    )
    ranked = (torch.nn.functional.normalize(q) @ torch.nn.functional.normalize(g).t()).argsort(1, descending=True)
    expected = [
        oxford_average_precision(row.tolist(), *({*(one == value).nonzero().flatten().tolist()} for value in (1, -1)))
        for row, one in zip(ranked[1:], judged[1:], strict=True)
    ]
    assert found.per_query["map"][1:].tolist() == pytest.approx(expected, abs=REORDERED)
    assert math.isnan(found.per_query["map"][0])
    assert (found.queries, found.without_relevant) == (4, 1)


def market_1501(distances, q_pids, g_pids, q_camids, g_camids, max_rank):
    """Return CMC and mean average precision of person retrieval as published for Market-1501."""
    cmcs, aps = [], []
    for row, pid, camera in zip(distances, q_pids, q_camids, strict=True):
        order_ = row.argsort()
        keep = ~((g_pids[order_] == pid) & (g_camids[order_] == camera))
        matches = (g_pids[order_] == pid)[keep]
        if not matches.any():
            continue
        cmcs.append(matches.cumsum(0).clamp(max=1)[:max_rank])
        aps.append((matches.cumsum(0) / torch.arange(1, len(matches) + 1))[matches].mean())
    return torch.stack(cmcs).double().mean(0), torch.stack(aps).double().mean()


def test_market_1501_with_cameras(generator):
    q, g = torch.randn(40, 8, generator=generator), torch.randn(90, 8, generator=generator)
    ids, cameras = torch.randint(1, 30, (130,), generator=generator), torch.randint(3, (130,), generator=generator)
    found = embedding_average_precision(
        *(q, g, ids[:40], ids[40:]),
        similarity="euclidean",
        top_k=range(1, 21),
        query_groups=cameras[:40],
        gallery_groups=cameras[40:],
    )
    cmc, ap = market_1501(torch.cdist(q, g), ids[:40], ids[40:], cameras[:40], cameras[40:], 20)
    assert found.without_relevant
    torch.testing.assert_close(found.cmc, cmc, rtol=0, atol=REORDERED)
    assert float(found.map) == pytest.approx(float(ap), abs=1e-7)  # theirs sums float32


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("itself", [True, False])
def test_pytorch_metric_learning(similarity, itself, generator):
    pytest.importorskip("pytorch_metric_learning")
    from pytorch_metric_learning import distances
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
    from pytorch_metric_learning.utils.inference import CustomKNN

    kinds = {
        "cosine": distances.CosineSimilarity(),
        "dot": distances.DotProductSimilarity(normalize_embeddings=False),
        "euclidean": distances.LpDistance(normalize_embeddings=False),
    }
    x, labels = torch.randn(150, 16, generator=generator), torch.randint(12, (150,), generator=generator)
    q, ql = (None, None) if itself else (x[:50], labels[:50])
    names = (
        "mean_average_precision",
        "mean_average_precision_at_r",
        "r_precision",
        "precision_at_1",
        "mean_reciprocal_rank",
    )
    size = 150 if itself else 100
    theirs = AccuracyCalculator(
        include=names, k=size - itself, knn_func=CustomKNN(kinds[similarity], 64), device=torch.device("cpu")
    )
    if itself:
        expected = theirs.get_accuracy(x, labels)
        found = embedding_average_precision(x, None, labels, similarity=similarity)
    else:
        expected = theirs.get_accuracy(q, ql, x[50:], labels[50:])
        found = embedding_average_precision(q, x[50:], ql, labels[50:], similarity=similarity)
    ours = (found.map, found.map_at_r, found.r_precision, found.precision_at_k[0], found.mrr)
    assert [float(x) for x in ours] == pytest.approx([expected[name] for name in names], abs=1e-6)  # float32 there


# -- similarities


def test_cosine_ignores_lengths_of_any_size(generator):
    x, labels = torch.randn(40, 6, generator=generator), torch.randint(8, (40,), generator=generator)
    expected = embedding_average_precision(x, None, labels)
    powers = 2.0 ** torch.randint(-110, 120, (40, 1), generator=generator)
    assert embedding_average_precision(x * powers, None, labels) == expected
    unit = torch.nn.functional.normalize(x.double())
    close = embedding_average_precision(unit, None, labels, similarity="euclidean")
    assert close.map == pytest.approx(float(expected.map), abs=REORDERED)


@pytest.mark.parametrize("far", [0, 1000, 10000])
def test_distances_far_from_0_keep_their_digits(far, generator):
    x, labels = torch.randn(1500, 16, generator=generator) + far, torch.arange(1500) % 50
    x[:1000] = x[:1000].round()
    exact = embedding_average_precision(x.double(), None, labels, similarity="euclidean")
    found = embedding_average_precision(x, None, labels, similarity="euclidean")
    for name in ("map", "map_at_r", "mrr"):
        assert float(getattr(found, name)) == pytest.approx(float(getattr(exact, name)), abs=1e-4)  # few places change
    exact, found = (
        embedding_average_precision(y[:1000], None, labels[:1000], similarity="euclidean") for y in (x.double(), x)
    )
    assert found == exact


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32_by_default(dtype, generator):
    x, labels = torch.randn(64, 24, generator=generator).to(dtype), torch.randint(8, (64,), generator=generator)
    exact = embedding_average_precision(x.double(), None, labels, similarity="dot")
    found = embedding_average_precision(x, None, labels, similarity="dot")
    assert found.map == pytest.approx(float(exact.map), abs=1e-3)  # a few places change
    asked = embedding_average_precision(x, None, labels, similarity="dot", product_dtype=dtype)
    assert asked.map != found.map
    assert asked.map == pytest.approx(float(exact.map), abs=0.05)  # similarities of 8 bits tie


@pytest.mark.parametrize("similarity", ["cosine", "euclidean"])
def test_products_in_float64_are_of_vectors_in_float64(similarity, generator):
    x = torch.randn(9, 6, generator=generator)
    vectors = inputs.vectors(x, similarity, torch.float64, inputs.mean_vector(x))
    assert torch.equal(vectors, inputs.vectors(x.double(), similarity, torch.float64, inputs.mean_vector(x.double())))


def test_float32_stays_float32_under_any_settings_of_training(generator):
    """Test the function, and the metric, whose batches and value are computed under the settings of training."""
    x, labels = torch.randn(100, 64, generator=generator), torch.randint(8, (100,), generator=generator)
    expected = embedding_average_precision(x, None, labels)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert embedding_average_precision(x, None, labels) == expected
            metric = EmbeddingMAP()
            assert torch.equal(metric(x, labels), metric.compute())
            assert float(metric.compute()) == pytest.approx(float(expected.map), rel=SINGLE)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


def test_threads_change_nothing_and_their_number_is_restored(monkeypatch, generator):
    x, labels = torch.randn(500, 16, generator=generator), torch.randint(50, (500,), generator=generator)
    expected = embedding_average_precision(x, None, labels)
    monkeypatch.setattr(order, "workers", lambda _: 1)
    assert embedding_average_precision(x, None, labels) == expected
    monkeypatch.undo()
    seen = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(torch, "set_num_threads", seen.append)
    assert embedding_average_precision(x, None, labels) == expected
    assert seen == [1, 2]


# -- as a metric


def shares_of(kind, generator):
    """Return the arguments of ``update`` on two ranks, and the settings."""
    x, labels = whole(90, 3, 2, generator), torch.randint(12, (90,), generator=generator)
    more = {
        "itself": {},
        "two sides": {"is_query": torch.rand(90, generator=generator) < 0.3},
        "all queries on the first": {"is_query": torch.arange(90) < 30, "groups": torch.arange(90) % 2},
        "all of the gallery on the first": {"is_query": torch.arange(90) >= 60},
        "padded": {"sample_ids": torch.arange(90) % 70},
        "nothing on the second": {},
    }[kind]
    labels = labels[more["sample_ids"]] if "sample_ids" in more else labels
    drawn = {"preds": x[more["sample_ids"]] if "sample_ids" in more else x, "target": labels, **more}
    first = 90 if kind == "nothing on the second" else 60
    return [{name: value[part] for name, value in drawn.items()} for part in (slice(0, first), slice(first, 90))]


KINDS = ("itself", "two sides", "all queries on the first", "all of the gallery on the first", "padded")


def check_exchange(rank):
    """Check that each rank keeps its gallery, and returns the value of all queries in all galleries."""
    generator = torch.Generator().manual_seed(3)
    products._TILE = {"cpu": (4, 1024)}
    inputs._ROWS_OF_CENTRE = 16
    products.rows_at_once = lambda *_: 32
    for kind, similarity in itertools.product((*KINDS, "nothing on the second"), ("dot", "euclidean")):
        shares = shares_of(kind, generator)
        if similarity == "euclidean":  # differences that are not exact
            shares = [{**share, "preds": share["preds"] * math.pi + 1000} for share in shares]
        settings = {"similarity": similarity, "ignore_index": 5, "max_memory": 1 << 16}
        here, whole_ = EmbeddingMAP(sync="exchange", **settings), EmbeddingMAP(sync_on_compute=False, **settings)
        for place, share in enumerate(shares):
            if len(share["target"]):
                whole_.update(**share)
                if place == rank:
                    here.update(**share)
        expected = whole_.compute()
        assert torch.equal(here.compute(), expected), kind
        for found, wanted in zip(here.per_query(), whole_.per_query(), strict=True):
            assert torch.equal(found, wanted), kind
        assert sum(map(len, here.labels)) == len(shares[rank]["target"])
        assert here.evaluate(K) == whole_.evaluate(K)


def test_galleries_stay_on_their_ranks(ranks):
    ranks(check_exchange)


def scarce_labels(queries, gallery):
    if 99 in gallery:
        raise MemoryError("no room")
    return queries[:, None] == gallery


@pytest.mark.parametrize(
    ("owner", "name"),
    [(None, ""), (products.Products, "__init__"), (EmbeddingMAP, "_batch_of"), (OneMeasure, "__call__")],
)
def test_a_rank_without_memory_raises_on_all_ranks(owner, name, monkeypatch):
    """If one rank fails anywhere, all raise, and none waits."""
    threads = Threads(3)
    if owner is not None:
        given_room = getattr(owner, name)

        def scarce(*args, **words):
            if threads.local.rank == 1:
                raise torch.OutOfMemoryError("no room")
            return given_room(*args, **words)

        monkeypatch.setattr(owner, name, scarce)

    def work(rank):
        metric = EmbeddingMAP("dot", relevance=scarce_labels, sync="exchange", distributed_available_fn=lambda: True)
        metric.update(torch.ones(2, 2), torch.tensor([0, 99 if rank == 1 and owner is None else 1]))
        with pytest.raises((MemoryError, RuntimeError), match="no room") as error:
            metric.compute()
        return type(error.value)

    assert threads(work) == [MemoryError if owner is None else RuntimeError] * 3


@pytest.mark.parametrize("two_sides", [False, True])
@pytest.mark.parametrize("merged", [False, True])
def test_relevance_by_a_function(two_sides, merged, generator):
    """The metric, whole or merged, equals the function, whatever the form of the labels."""
    x = whole(40, 3, 2, generator)
    flags = {"is_query": torch.rand(40, generator=generator) < 0.4} if two_sides else {}
    tags = torch.rand(40, 5, generator=generator) < 0.3
    for labels, relevance in (
        (tags, share_a_tag),
        (tags.long(), lambda a, b: a @ b.T),
        (torch.randn(40, generator=generator), lambda a, b: ((a[:, None] - b).abs() < 0.3).long() - (b > 1.5).long()),
    ):
        parts = [EmbeddingMAP("dot", relevance=relevance) for _ in range(2)]
        for part in torch.arange(40).split(9):
            given_ = {name: value[part] for name, value in {"preds": x, "target": labels, **flags}.items()}
            parts[int(part[0] > 20) * merged].update(**given_)
        parts[1].merge_state(parts[0])
        metric = parts[1]
        query = flags.get("is_query")
        sides = (x, None, labels) if query is None else (x[query], x[~query], labels[query], labels[~query])
        if merged:  # merged states come first
            assert torch.equal(torch.cat(metric.labels), labels)
        assert metric.evaluate(K) == embedding_average_precision(*sides, similarity="dot", relevance=relevance, top_k=K)
        again = EmbeddingMAP("dot", relevance=relevance).from_bytes(metric.to_bytes())
        assert torch.equal(again.compute(), metric.compute())
        assert metric.chance_level() > 0
    with pytest.raises(ValueError, match=r"whose `update` has the same settings .*whether there is a `relevance`"):
        EmbeddingMAP("dot").merge_state(metric)
    with pytest.raises(ValueError, match="same settings; relevance: <lambda> here, share_a_tag there"):
        metric.compare(EmbeddingMAP("dot", relevance=share_a_tag))


def test_the_metric_is_the_function_and_keeps_its_places(generator):
    q, g, ql, gl = drawn(20, 60, 6, generator, values=9)
    metric = EmbeddingMAP("dot", top_k="relevant", denominator="relevant")
    metric.update(g[:25], gl[:25], is_query=False)
    metric.update(torch.cat([q, g[25:]]), torch.cat([ql, gl[25:]]), torch.arange(55) < 20)
    found = embedding_average_precision(q, g, ql, gl, similarity="dot", top_k=K, denominator="relevant")
    assert metric.compute() == found.map_at_r.float()
    assert metric.evaluate(K) == found
    queries, values = metric.per_query()
    torch.testing.assert_close(found.per_query["map_at_r"][queries].float(), values, rtol=0, atol=0)
    assert repr(metric) == "EmbeddingMAP(similarity='dot', top_k='relevant', denominator='relevant')"


def test_chance_is_the_mean_over_random_vectors():
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(5, (40,), generator=generator)
    values = []
    for _ in range(200):
        metric = EmbeddingMAP()
        metric.update(torch.randn(40, 8, generator=generator), labels)
        values.append(float(metric.compute()))
    assert float(metric.chance_level()) == pytest.approx(statistics.fmean(values), abs=0.005)  # 5 standard errors
    found = metric.confidence_interval()
    assert found.low < metric.compute() < found.high


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"preds": [1.0]}, r"`preds` must be a tensor"),
        ({"preds": torch.eye(3)}, r"`preds` must have the same number of dimensions.* got 3 and 4"),
        ({"preds": ROW_OF_NAN}, r"`preds` must contain finite numbers only, got nan in row 2"),
        ({"preds": torch.zeros(4, 4)}, r"`preds` must not contain a row of zeros .* got zeros in row 0"),
        ({"target": LABELS[:2]}, r"`target` .*one label per row of `preds`.* got shape \(2,\)"),
        ({"is_query": LABELS}, r"`is_query` must be bool, of shape \(4,\), got torch.int64"),
        ({"is_query": True}, r"`is_query` must be given in every update or in none"),
        ({"groups": LABELS}, r"`groups` must be given in every update or in none"),
        ({"groups": LABELS.float()}, r"`groups` must be an integer"),
        ({"sample_ids": LABELS}, r"`sample_ids` must be given in every update or in none"),
    ],
)
def test_updates_that_are_refused(changed, message):
    metric = EmbeddingMAP()
    metric.update(X, LABELS)
    arguments = {"preds": X, "target": LABELS} | changed
    if len(arguments["preds"]) == 3:
        arguments["target"] = LABELS[:3]
    with pytest.raises((ValueError, TypeError), match=message):
        metric.update(**arguments)
    assert metric.update_count == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"target": LABELS}, r"`target` must have the same shape behind \(N,\) in every update, got \(\) and \(4,\)"),
        ({"target": X.long()}, r"`target` must have the same dtype in every update, got torch.bool and torch.int64"),
        ({"target": X.to(torch.complex64)}, r"`target` must be .*bool or real numbers, .* got torch.complex64"),
        ({"target": X[:, None, None]}, r"`target` must be .* at most 3 dimensions, got torch.float32, 4 dimensions"),
        ({"target": X[:2]}, r"`target` .*one label per row of `preds`, shape \(4, \.\.\.\), got shape \(2, 4\)"),
        ({"groups": LABELS}, r"`groups` must be None with `relevance`, which defines the pairs that do not count"),
    ],
)
def test_updates_that_are_refused_with_a_function(changed, message):
    metric = EmbeddingMAP(relevance=share_a_tag)
    metric.update(X, X.bool())
    with pytest.raises((ValueError, TypeError), match=message):
        metric.update(**{"preds": X, "target": X.bool()} | changed)
    assert metric.update_count == 1


def test_copies_may_have_labels_of_nan(generator):
    """Copies of an item without a label, NaN, have equal labels."""
    x, labels = torch.randn(6, 3, generator=generator), torch.tensor([0.0, torch.nan, 0.1, torch.nan, 3, 3])
    for given_ in (labels, labels[:, None].repeat(1, 2)):
        metric = EmbeddingMAP(relevance=lambda a, b: torch.cdist(a.reshape(len(a), -1), b.reshape(len(b), -1)) < 0.5)
        ids = torch.arange(6)
        metric.update(x, given_, sample_ids=ids)
        expected = metric.compute()
        metric.update(x[:3], given_[:3], sample_ids=ids[:3])
        assert torch.equal(metric.compute(), expected)
        metric.update(x[:1], given_[1:2], sample_ids=ids[:1])
        with pytest.raises(ValueError, match="got 0 with two different targets"):
            metric.compute()


def test_ignore_index_cannot_be_combined_with_a_function():
    with pytest.raises(ValueError, match="`ignore_index` must be None with `relevance`"):
        EmbeddingMAP(relevance=share_a_tag, ignore_index=0)
    with pytest.raises(TypeError, match="`relevance` must be a function"):
        EmbeddingMAP(relevance="same")


# -- invalid input


@each(
    "changed, message",
    [
        ({"queries": [[1.0]]}, r"`queries` must be a tensor.* got list"),
        ({"queries": X.long()}, r"`queries` must be a floating .*\(N, d\).* got shape \(4, 4\), torch.int64"),
        ({"queries": X[0]}, r"`queries` .*shape \(N, d\).* got shape \(4,\)"),
        ({"queries": ROW_OF_NAN}, r"`queries` must contain finite .*row 2"),
        ({"gallery": X[:0], "gallery_labels": LABELS[:0]}, r"`gallery` must contain .* got shape \(0, 4\)"),
        ({"gallery": X[:, :3], "gallery_labels": LABELS}, r"`gallery` must have 4 columns.* got shape \(4, 3\)"),
        ({"gallery": X + 1}, r"`gallery_labels` must be a tensor.* got NoneType"),
        (
            {"gallery": X + 1, "gallery_labels": LABELS[:3]},
            r"`gallery_labels` .* of `gallery`, shape \(4,\).* got .*\(3,\)",
        ),
        ({"gallery_labels": LABELS + 1}, r"`gallery_labels` must be None if .* own gallery, got other labels"),
        ({"gallery_groups": LABELS}, r"`gallery_groups` must be None if .* own gallery, got other groups"),
        ({"query_labels": ["a", "b", "c", "d"]}, r"`query_labels` must be a tensor.*unique.* got list"),
        ({"query_labels": LABELS.float()}, r"`query_labels` must be an integer tensor.* got torch.float32"),
        ({"query_labels": torch.eye(4).long()}, r"`query_labels` .*use `relevance`.* got shape \(4, 4\)"),
        ({"gallery": X + 1, "gallery_labels": LABELS, "query_groups": LABELS}, "must both be None or both be tensors"),
        ({"similarity": "cosin"}, r"`similarity` must be one of 'cosine', .* got 'cosin'"),
        ({"top_k": []}, r"`top_k` .* got \[\]"),
        ({"top_k": [0]}, r"`top_k` .* got \[0\]"),
        ({"top_k": [5, 5]}, r"`top_k` must be a list of different ints of at least 1, got \[5, 5\]"),
        ({"ties": "none"}, r"`ties` .* got 'none'"),
        ({"max_memory": 0}, r"`max_memory` .* got 0"),
        ({"product_dtype": torch.int8}, r"`product_dtype` .* got torch.int8"),
        ({"relevance": 3}, r"`relevance` must be a function.* got int"),
        ({"relevance": lambda a, _: a}, r"`relevance` must return a tensor of shape \(4, 4\).* got shape \(4,\)"),
        ({"relevance": lambda a, b: a[:, None] / (0 * b)}, r"`relevance` must return no NaN"),
        (
            {"empty_target_action": "error", "query_labels": torch.arange(4)},
            r"must contain a relevant item for each query, got none for query 0",
        ),
        (
            {"queries": X * torch.tensor([[1e-44], [1], [1], [1e38]]), "similarity": "dot"},
            r"`queries` and `gallery` must have products .*float32 represents.*`product_dtype=torch.float64`.* "
            r"got items with numbers of 2\^-147 and of 2\^127",
        ),
        (
            {"queries": X.double() * TINY_ROW, "similarity": "euclidean"},
            r"must have products that torch.float64 represents, without zeros from underflow, got items",
        ),
        (
            {"queries": (X * 2 - 1) * 3e38, "similarity": "euclidean"},
            r"`queries` and `gallery` must have differences that are finite in torch.float32; scale them",
        ),
    ],
)
def test_invalid_input_is_refused(changed, message):
    arguments = {"queries": X, "gallery": None, "query_labels": LABELS} | changed
    with pytest.raises((ValueError, TypeError), match=message):
        embedding_average_precision(**arguments)


def test_rows_of_zeros_have_no_direction():
    zeros = torch.cat([X, torch.zeros(1, 4)])
    with pytest.raises(ValueError, match=r"`gallery` must not contain a row of zeros .*row 4"):
        embedding_average_precision(X, zeros, LABELS, torch.arange(5))
    found = embedding_average_precision(X, zeros, LABELS, torch.tensor([0, 0, 1, 1, 2]), similarity="dot")
    assert found.cmc[0] == 1


def test_unusual_input_warns():
    with pytest.warns(UserWarning, match="each query is its own first result"):
        found = embedding_average_precision(X, X.clone(), LABELS, LABELS)
    assert not found.without_itself
    assert found.cmc[0] == 1
    with pytest.warns(UserWarning, match="No query has a relevant item"):
        found = embedding_average_precision(X, None, torch.arange(4))
    assert math.isnan(found.map)
    assert (found.queries, found.without_relevant) == (0, 4)
    for action, value in (("neg", 0.0), ("pos", 1.0)):
        found = embedding_average_precision(X, None, torch.arange(4), empty_target_action=action)
        assert (float(found.map), found.queries, found.without_relevant) == (value, 4, 4)


def test_labels_of_the_queries_may_be_passed_twice():
    queries, groups = X + 0.1, torch.arange(4)
    expected = embedding_average_precision(queries, None, LABELS, query_groups=groups)
    again = {"gallery_labels": LABELS.clone(), "gallery_groups": groups.clone()}
    assert embedding_average_precision(queries, queries, LABELS, query_groups=groups, **again) == expected


def test_the_record_prints_means_and_exports_all():
    found = embedding_average_precision(X + 0.1, None, LABELS, top_k=[1, 2])
    assert "per_query" not in repr(found)
    assert found.to_dict()["per_query"]["relevant"] == [1, 1, 1, 1]
    assert found.to("cpu") == found
    assert found.per_query["map_at_k"].shape == (4, 2)
    assert found.per_query["map"].mean() == found.map
    assert embedding_average_precision(X + 0.1, None, LABELS, top_k=[1, 3]) != found


# -- magnitudes

POWERS = {torch.float16: (-12, 5), torch.bfloat16: (-110, 100), torch.float32: (-110, 100), torch.float64: (-900, 900)}


def scale_by_power(vectors, power):
    """Return the vectors times 2^power."""
    half = power // 2
    return vectors * 2.0**half * 2.0 ** (power - half)


@each(
    "dtype, product_dtype",
    [(dtype, None) for dtype in POWERS]
    + [(torch.float32, torch.float64), (torch.float64, torch.float32), (torch.float32, torch.bfloat16)],
)
def test_no_power_of_two_changes_a_ranking(dtype, product_dtype):
    """Whole numbers up to 4 are exact in every dtype, and tie often: any underflow changes values."""
    generator = torch.Generator().manual_seed(2)
    q, g, ql, gl = drawn(20, 60, 4, generator, dimensions=4, values=4)
    q[0], g[0] = 0, 0
    for similarity in ("dot", "euclidean", "cosine"):
        sides = [(x[1:] if similarity == "cosine" else x).to(dtype) for x in (q, g)]
        labels = [(x[1:] if similarity == "cosine" else x) for x in (ql, gl)]
        how = {"similarity": similarity, "product_dtype": product_dtype}
        expected = embedding_average_precision(*sides, *labels, **how)
        for q_power, g_power in itertools.product((0, *POWERS[dtype]), repeat=2):
            if similarity == "euclidean" and q_power != g_power:
                continue
            scaled = [scale_by_power(x, power) for x, power in zip(sides, (q_power, g_power), strict=True)]
            found = embedding_average_precision(*scaled, *labels, **how)
            assert found == expected, (similarity, q_power, g_power)


def test_each_query_and_each_process_has_a_magnitude_of_its_own():
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(40, 8, generator=generator)
    labels = torch.randint(4, (40,), generator=generator)
    flags = torch.arange(40) % 2 == 0
    powers = torch.where(flags, torch.linspace(-110, 100, 40).round(), torch.where(torch.arange(40) < 20, -100, -95))
    wide = x.double() * torch.exp2(powers.double())[:, None]
    whole_ = EmbeddingMAP("dot")
    whole_.update(wide, labels, flags)
    expected = whole_.compute().float()
    single = EmbeddingMAP("dot")
    single.update(wide.float(), labels, flags)
    torch.testing.assert_close(single.compute(), expected, rtol=0, atol=SINGLE)
    for similarity, parts in (("dot", wide.float()), ("euclidean", x * 1e-30), ("euclidean", x * 1e30)):
        alone = EmbeddingMAP(similarity)
        alone.update(parts, labels, flags)

        def work(rank, similarity=similarity, parts=parts):
            metric = EmbeddingMAP(similarity, sync="exchange", distributed_available_fn=lambda: True)
            metric.update(*(value[20 * rank : 20 * rank + 20] for value in (parts, labels, flags)))
            return metric.compute()

        for found in Threads(2)(work):
            torch.testing.assert_close(found, alone.compute(), rtol=0, atol=SINGLE)
    usual = EmbeddingMAP("euclidean")
    usual.update(x, labels, flags)
    torch.testing.assert_close(alone.compute(), usual.compute(), rtol=0, atol=SINGLE)


def test_tiny_embeddings_do_not_tie():
    """Products of float32 embeddings of 1e-30 are zeros, so all items would tie."""
    generator = torch.Generator().manual_seed(0)
    x, labels = torch.randn(30, 8, generator=generator), torch.randint(3, (30,), generator=generator)
    for similarity, factor in itertools.product(("dot", "euclidean", "cosine"), (1e-30, 1e30)):
        expected = embedding_average_precision(x, None, labels, similarity=similarity)
        found = embedding_average_precision(x * factor, None, labels, similarity=similarity)
        torch.testing.assert_close(found.map, expected.map, rtol=0, atol=SINGLE)
