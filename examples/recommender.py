"""Recommend films from a generated catalogue: compare popularity and factors, among all films and among samples.

Each user has seen some films, and likes one more, which is left out of training (leave-one-out). Both systems rank all
films that the user has not seen. Then they rank the film among 100 sampled others, as many papers do. This gives far
higher values, and a larger difference in nDCG. The correction estimates the values for all films from the samples and
is closer to them.

Run: python examples/recommender.py

It prints:

    popularity, all films: hit rate@5 0.1705  nDCG@5 0.1225  hit rate@20 0.3397  MRR@20 0.1232
    popularity, 100 sampled films: hit rate@5 0.5078  nDCG@5 0.3797
    popularity, corrected: hit rate@5 0.1432  nDCG@5 0.0885
    factors, all films: hit rate@5 0.3260  nDCG@5 0.2392  hit rate@20 0.5190  MRR@20 0.2296
    factors, 100 sampled films: hit rate@5 0.6640  nDCG@5 0.5347
    factors, corrected: hit rate@5 0.2458  nDCG@5 0.1525
"""

import warnings

import torch
from torch import Tensor

from torch_ap.functional import recommendation_at_k

USERS, FILMS, FACTORS, SAMPLED = 2000, 1200, 8, 100
K = [5, 20]


def interactions(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the films that each user has seen, (U, I) bool, and the film that each likes next, (U,)."""
    taste = torch.randn(USERS, FACTORS, generator=generator)
    kinds = torch.randn(FILMS, FACTORS, generator=generator)
    popularity = -1.2 * torch.arange(1, FILMS + 1).log()[torch.randperm(FILMS, generator=generator)]
    noise = -torch.log(-torch.log(torch.rand(USERS, FILMS, generator=generator)))  # Gumbel: the top are a sample
    films = (0.7 * taste @ kinds.T + popularity + noise).topk(21, 1).indices
    order = torch.rand(films.shape, generator=generator).argsort(1)
    films = films.gather(1, order)
    return torch.zeros(USERS, FILMS, dtype=torch.bool).scatter_(1, films[:, 1:], True), films[:, 0]


def systems(seen: Tensor) -> dict[str, Tensor]:
    """(U, I) scores of each system."""
    counts = seen.float().sum(0)
    weighted = seen.float() / (counts + 10).sqrt()  # so that popular films do not fill the factors
    _, _, films = torch.svd_lowrank(weighted, q=2 * FACTORS, niter=8)
    return {"popularity": counts.expand(USERS, -1), "factors": weighted @ films @ films.T * (counts + 10).sqrt()}


def sampled(scores: Tensor, liked: Tensor, generator: torch.Generator) -> Tensor:
    """(U, 1 + S) the scores of the film liked, and of films drawn from all others."""
    others = torch.randint(FILMS - 1, (USERS, SAMPLED), generator=generator)
    others += others >= liked[:, None]
    return scores.gather(1, torch.cat([liked[:, None], others], 1))


def main() -> None:
    """Print both systems, measured in three ways."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    seen, liked = interactions(generator)
    first = torch.zeros(USERS, dtype=torch.int64)
    for name, scores in systems(seen).items():
        found = recommendation_at_k(scores, liked, seen, top_k=K)
        print(
            f"{name}, all films: hit rate@5 {found.hit_rate[0]:.4f}  nDCG@5 {found.ndcg[0]:.4f}  "
            f"hit rate@20 {found.hit_rate[1]:.4f}  MRR@20 {found.mrr[1]:.4f}"
        )
        offered = scores.masked_fill(seen, scores.min() - 1)
        part = sampled(offered, liked, generator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the warning about sampled items
            of_sample = recommendation_at_k(part, first, top_k=K, sampled_from=FILMS)
        estimate = recommendation_at_k(part, first, top_k=K, sampled_from=FILMS, correction="least-squares")
        for what, one in ((f"{SAMPLED} sampled films", of_sample), ("corrected", estimate)):
            print(f"{name}, {what}: hit rate@5 {one.hit_rate[0]:.4f}  nDCG@5 {one.ndcg[0]:.4f}")


if __name__ == "__main__":
    main()
