"""TensorBoard, Weights & Biases and MLflow receive the figure and the page of a training, as docs/runs.md shows."""

import socket

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.support.pages import execute
from tests.support.paths import ROOT

OFFLINE = {
    "MLFLOW_ALLOW_FILE_STORE": "true",  # mlflow-skinny has no database
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "WANDB_ERROR_REPORTING": "false",
    "WANDB_SILENT": "true",
}


@pytest.mark.slow
def test_loggers_receive_figure_and_page_without_a_network(tmp_path, monkeypatch, capsys):
    import wandb

    def resolve(host, *_, **__):
        raise AssertionError(f"the network is not needed, but {host!r} was looked up")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    folders = dict.fromkeys(("WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"), str(tmp_path))
    for name, value in {**OFFLINE, **folders, "MLFLOW_TRACKING_URI": str(tmp_path / "mlruns")}.items():
        monkeypatch.setenv(name, value)
    execute(ROOT / "docs" / "runs.md", capsys)
    wandb.teardown()

    events = EventAccumulator(str(tmp_path / "tensorboard"), size_guidance={"images": 0, "tensors": 0})
    events.Reload()
    (figure,) = events.Images("valid_ap")
    (text,) = events.Tensors("report/text_summary")
    assert figure.encoded_image_string.startswith(b"\x89PNG")
    assert text.tensor_proto.string_val[0].decode() == (tmp_path / "run.md").read_text()

    page = (tmp_path / "run.html").read_bytes()
    for place in ("wandb/offline-run-*/files/media/*", "mlruns/*/*/artifacts"):
        (html,), (picture,) = tmp_path.glob(f"{place}/*.html"), tmp_path.glob(f"{place}/*.png")
        assert html.read_bytes().strip() == page.strip()
        assert picture.read_bytes().startswith(b"\x89PNG")
