"""Log average precision with its interval in Ignite, with a handler for any metric of torch_ap, and stop early by it.

Run: python examples/ignite_handler.py  (needs the extra `neighbours`)

It prints:

    epoch 1: AP 0.547, 95% interval 0.446 to 0.644; chance gives 0.131
    epoch 2: AP 0.660, 95% interval 0.563 to 0.745; chance gives 0.131
    epoch 3: AP 0.671, 95% interval 0.572 to 0.756; chance gives 0.131
    epoch 4: AP 0.692, 95% interval 0.594 to 0.775; chance gives 0.131
    epoch 5: AP 0.708, 95% interval 0.615 to 0.786; chance gives 0.131
    epoch 6: AP 0.705, 95% interval 0.612 to 0.784; chance gives 0.131
    epoch 7: AP 0.700, 95% interval 0.606 to 0.779; chance gives 0.131
    stopped after epoch 7
"""

import torch
from ignite.engine import Engine, Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import Checkpoint, EarlyStopping
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from torch_ap import BinaryAveragePrecision


def attach_summary(metric: BinaryAveragePrecision, engine: Engine) -> None:
    """Put the metric's summary over the engine's outputs, (preds, target), into `engine.state.metrics`."""

    def update(engine: Engine) -> None:
        preds, target = engine.state.output
        metric.update(preds, target.long())

    def log(engine: Engine) -> None:
        engine.state.metrics |= {name: value.item() for name, value in metric.summary().items()}

    engine.add_event_handler(Events.EPOCH_STARTED, metric.reset)
    engine.add_event_handler(Events.ITERATION_COMPLETED, update)
    engine.add_event_handler(Events.EPOCH_COMPLETED, log)


def data(generator: torch.Generator) -> tuple[TensorDataset, TensorDataset]:
    features = torch.randn(1200, 20, generator=generator)
    noise = 3 * torch.randn(1200, generator=generator)
    target = (features.sum(1) + noise > 6).float()
    return TensorDataset(features[:400], target[:400]), TensorDataset(features[400:], target[400:])


def main() -> None:
    torch.manual_seed(0)
    train, valid = data(torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.Linear(20, 1), nn.Flatten(0))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    trainer = create_supervised_trainer(model, optimizer, nn.BCEWithLogitsLoss())
    evaluator = create_supervised_evaluator(model)
    attach_summary(BinaryAveragePrecision(), evaluator)
    stopping = EarlyStopping(patience=2, score_function=Checkpoint.get_default_score_fn("ap"), trainer=trainer)
    evaluator.add_event_handler(Events.COMPLETED, stopping)

    def validate(engine: Engine) -> None:
        found = evaluator.run(DataLoader(valid, batch_size=100)).metrics
        print(
            f"epoch {engine.state.epoch}: AP {found['ap']:.3f}, 95% interval {found['ap_low']:.3f} to "
            f"{found['ap_high']:.3f}; chance gives {found['ap_chance']:.3f}"
        )

    trainer.add_event_handler(Events.EPOCH_COMPLETED, validate)
    ended = trainer.run(DataLoader(train, batch_size=50, shuffle=True), max_epochs=30).epoch
    print(f"stopped after epoch {ended}")


if __name__ == "__main__":
    main()
