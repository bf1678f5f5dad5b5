"""Train a small dense retriever and log MAP, MAP@10 and P@5 of its ranking after each epoch.

The texts are generated. The words of a document come from a few topics. A query contains a few synonyms from one topic,
so that the words themselves do not match. The documents of this topic are relevant.

Run: python examples/rank_documents.py

It prints:

    epoch 0: MAP 0.0617  MAP@10 0.0202  P@5 0.0476
    epoch 1: MAP 0.1713  MAP@10 0.1103  P@5 0.1424
    epoch 2: MAP 0.3763  MAP@10 0.3617  P@5 0.3996
    epoch 3: MAP 0.7441  MAP@10 0.7737  P@5 0.8008
    epoch 4: MAP 0.9039  MAP@10 0.8976  P@5 0.9140
    epoch 5: MAP 0.9617  MAP@10 0.9618  P@5 0.9656
    epoch 6: MAP 0.9680  MAP@10 0.9678  P@5 0.9700
    epoch 7: MAP 0.9747  MAP@10 0.9743  P@5 0.9768
    epoch 8: MAP 0.9775  MAP@10 0.9769  P@5 0.9784
    worst queries: 250 (AP 0.0249), 91 (AP 0.0340), 89 (AP 0.0411), 128 (AP 0.0461), 125 (AP 0.0719)
"""

import torch
from torch import Tensor, nn
from torchmetrics import MetricCollection

from torch_ap.retrieval import RetrievalMAP, RetrievalPrecision

TOPICS, WORDS_A_TOPIC, COMMON, DOCUMENTS, QUERIES, WORDS = 20, 12, 200, 1000, 1000, 30
EPOCHS = 8


def texts(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return word counts of documents and queries, and the topic of each."""
    vocabulary = TOPICS * WORDS_A_TOPIC * 2 + COMMON

    def draw(topics: Tensor, length: int, synonyms: bool) -> Tensor:
        first = (topics * 2 + int(synonyms)) * WORDS_A_TOPIC
        own = first[:, None] + torch.randint(WORDS_A_TOPIC, (len(topics), length), generator=generator)
        noise = vocabulary - 1 - torch.randint(COMMON, own.shape, generator=generator)
        words = torch.where(torch.rand(own.shape, generator=generator) < 0.4, own, noise)
        return torch.zeros(len(topics), vocabulary).scatter_add_(1, words, torch.ones(words.shape))

    documents = torch.randint(TOPICS, (DOCUMENTS,), generator=generator)
    queries = torch.randint(TOPICS, (QUERIES,), generator=generator)
    return draw(documents, WORDS, False), documents, draw(queries, WORDS // 3, True), queries


class Retriever(nn.Module):
    """Documents and queries are the means of their words' vectors; the score is the inner product."""

    def __init__(self, vocabulary: int, width: int = 32) -> None:
        super().__init__()
        self.documents = nn.Linear(vocabulary, width, bias=False)
        self.queries = nn.Linear(vocabulary, width, bias=False)

    def forward(self, queries: Tensor, documents: Tensor) -> Tensor:
        """(Q, D) scores."""
        scores: Tensor = self.queries(queries) @ self.documents(documents).t()
        return scores


def train_epoch(
    model: Retriever, optimizer: torch.optim.Optimizer, data: tuple[Tensor, ...], generator: torch.Generator
) -> None:
    """Train each query to score the documents of its topic highest in its batch."""
    documents, document_topics, queries, query_topics = data
    for places in torch.randperm(len(queries), generator=generator).split(50):  # type: ignore[no-untyped-call]
        some = torch.randint(len(documents), (200,), generator=generator)
        relevant = (query_topics[places][:, None] == document_topics[some]).float()
        loss = nn.functional.binary_cross_entropy_with_logits(model(queries[places], documents[some]), relevant)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


@torch.no_grad()
def validate(model: Retriever, metrics: MetricCollection, data: tuple[Tensor, ...]) -> dict[str, Tensor]:
    """Compute all measures, in batches of queries; they share one state and one sort."""
    documents, document_topics, queries, query_topics = data
    metrics.reset()
    for places in torch.arange(len(queries)).split(64):  # type: ignore[no-untyped-call]
        relevant = query_topics[places][:, None] == document_topics
        metrics.update(model(queries[places], documents), relevant)
    values: dict[str, Tensor] = metrics.compute()
    return values


def main() -> None:
    """Train, print the measures of each epoch and the worst queries of the last."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    documents, document_topics, queries, query_topics = texts(generator)
    half = QUERIES // 2
    training = (documents, document_topics, queries[:half], query_topics[:half])
    validation = (documents, document_topics, queries[half:], query_topics[half:])
    model = Retriever(documents.shape[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    metrics = MetricCollection(
        {"MAP": RetrievalMAP(), "MAP@10": RetrievalMAP(top_k=10), "P@5": RetrievalPrecision(top_k=5)}
    )
    values = validate(model, metrics, validation)
    for epoch in range(EPOCHS + 1):
        print(f"epoch {epoch}: " + "  ".join(f"{name} {value:.4f}" for name, value in values.items()))
        if epoch < EPOCHS:
            train_epoch(model, optimizer, training, generator)
            values = validate(model, metrics, validation)
    numbers, each = metrics["MAP"].per_query()  # type: ignore[operator]
    print("worst queries: " + ", ".join(f"{numbers[i]} (AP {each[i]:.4f})" for i in each.argsort()[:5].tolist()))


if __name__ == "__main__":
    main()
