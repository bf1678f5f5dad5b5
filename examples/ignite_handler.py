"""Average precision with its interval in Ignite: a handler for any metric of this package, and early stopping by it.

Run: python examples/ignite_handler.py  (needs the extra `neighbours`)
"""

import torch
from ignite.engine import Engine, Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import Checkpoint, EarlyStopping
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from torch_ap import BinaryAveragePrecision


def attach_summary(metric: BinaryAveragePrecision, engine: Engine) -> None:
    """Put the metric's summary over the engine's outputs, (preds, target), into `engine.state.metrics`."""

    @engine.on(Events.EPOCH_STARTED)
    def reset() -> None:
        metric.reset()

    @engine.on(Events.ITERATION_COMPLETED)
    def update(engine: Engine) -> None:
        preds, target = engine.state.output
        metric.update(preds, target.long())

    @engine.on(Events.EPOCH_COMPLETED)
    def log(engine: Engine) -> None:
        engine.state.metrics |= {name: value.item() for name, value in metric.summary().items()}


def data(generator: torch.Generator) -> tuple[TensorDataset, TensorDataset]:
    features = torch.randn(1200, 20, generator=generator)
    noise = 3 * torch.randn(1200, generator=generator)
    target = (features.sum(1) + noise > 6).float()
    return TensorDataset(features[:400], target[:400]), TensorDataset(features[400:], target[400:])


def main() -> None:
    torch.manual_seed(0)
    train, valid = data(torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.Linear(20, 1), nn.Flatten(0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    trainer = create_supervised_trainer(model, optimizer, nn.BCEWithLogitsLoss())
    evaluator = create_supervised_evaluator(model)
    attach_summary(BinaryAveragePrecision(), evaluator)
    stopping = EarlyStopping(patience=2, score_function=Checkpoint.get_default_score_fn("ap"), trainer=trainer)
    evaluator.add_event_handler(Events.COMPLETED, stopping)

    @trainer.on(Events.EPOCH_COMPLETED)
    def validate(engine: Engine) -> None:
        found = evaluator.run(DataLoader(valid, batch_size=100)).metrics
        print(
            f"epoch {engine.state.epoch}: AP {found['ap']:.3f}, 95% interval {found['ap_low']:.3f} to "
            f"{found['ap_high']:.3f}; chance gives {found['ap_chance']:.3f}"
        )

    ended = trainer.run(DataLoader(train, batch_size=50, shuffle=True), max_epochs=20).epoch
    print(f"stopped after epoch {ended}")


if __name__ == "__main__":
    main()
