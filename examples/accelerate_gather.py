"""Validate in several processes with Accelerate: each item counts once, although the last batches are padded.

Accelerate repeats items until all processes have the same number of full batches. `gather` returns these repetitions;
`gather_for_metrics` leaves them out. Both return all items to every process. The metric must not gather them again:
items that count once per process would make the interval too narrow.

Alternatively each process updates the metric with its own items, and the metric gathers. Ids then mark repeated items.

Run: torchrun --nproc_per_node 2 examples/accelerate_gather.py  (needs the extra `neighbours`)

It prints:

    gather_for_metrics  301 items, AP 0.6152, 95% interval 0.4792 to 0.7353
    gather              320 items, AP 0.6040, 95% interval 0.4737 to 0.7210
    each its own        320 items, AP 0.6040, 95% interval 0.4737 to 0.7210
    with sample_ids     301 items, AP 0.6152, 95% interval 0.4792 to 0.7353
    scikit-learn        301 items, AP 0.6152
"""

import torch
from accelerate import Accelerator
from sklearn.metrics import average_precision_score
from torch.utils.data import DataLoader, TensorDataset

from torch_ap import BinaryAveragePrecision


def main() -> None:
    accelerator = Accelerator(cpu=True)
    generator = torch.Generator().manual_seed(0)
    target = (torch.rand(301, generator=generator) < 0.2).long()
    scores = torch.randn(301, generator=generator) + 1.5 * target  # for example from a model
    loader = accelerator.prepare(DataLoader(TensorDataset(scores, target, torch.arange(301)), batch_size=32))
    gathers = {"gather_for_metrics": accelerator.gather_for_metrics, "gather": accelerator.gather}
    metrics = {name: BinaryAveragePrecision(sync_on_compute=False) for name in gathers}
    metrics |= {"each its own": BinaryAveragePrecision(), "with sample_ids": BinaryAveragePrecision()}
    for batch in loader:
        for name, gather in gathers.items():
            metrics[name].update(*gather(tuple(batch))[:2])
        preds, truth, ids = batch
        metrics["each its own"].update(preds, truth)
        metrics["with sample_ids"].update(preds, truth, sample_ids=ids)
    found = {name: (metric.curve(), metric.confidence_interval()) for name, metric in metrics.items()}  # all gather
    if accelerator.is_main_process:
        for name, (curve, interval) in found.items():
            print(
                f"{name:20}{curve.items[-1]} items, AP {interval.estimate:.4f}, "
                f"95% interval {interval.low:.4f} to {interval.high:.4f}"
            )
        print(f"{'scikit-learn':20}{len(target)} items, AP {average_precision_score(target, scores):.4f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
