"""The training loop: schedules, averages, steps, checkpoints, resuming and early stopping."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from deixis.errors import DeixisError
from deixis.models.training.checkpoints import best_epoch, read_checkpoint
from deixis.models.training.objective import DevScores, LossValue
from deixis.models.training.run_record import RunDescription
from deixis.models.training.settings import Settings, TrainSettings
from deixis.models.training.trainer import MovingAverage, Outcome, Stepper, learning_rate_at
from tests.models.training import tiny
from tests.models.training.tiny import ABOUT, ROWS, SETTINGS, Tiny, read_log


def rates(steps_per_epoch: int = 10, **chosen: object) -> list[float]:
    settings = TrainSettings(epochs=4, learning_rate=1.0, **chosen)
    return [learning_rate_at(step, settings, steps_per_epoch) for step in range(4 * steps_per_epoch)]


def test_the_learning_rate_follows_its_schedule() -> None:
    assert set(rates()) == {1.0}
    assert rates(warmup_steps=4)[:6] == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 1.0])
    cosine = rates(lr_schedule="cosine", warmup_steps=4)[4:]
    assert (cosine[0], cosine[18]) == (1.0, pytest.approx(0.5))
    assert cosine == sorted(cosine, reverse=True)
    assert 0 < cosine[-1] < 0.01
    assert learning_rate_at(50, TrainSettings(epochs=1, lr_schedule="cosine"), 10) == 0.0  # never negative


def test_the_moving_average_equals_a_plain_loop() -> None:
    network = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    average = MovingAverage(network, decay=0.9)
    expected = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    for _ in range(5):
        with torch.no_grad():
            network[0].weight += torch.randn(3, 2)
        network(torch.randn(4, 2))
        average.update(network)
        for name, tensor in network.state_dict().items():
            expected[name] = 0.9 * expected[name] + 0.1 * tensor if tensor.is_floating_point() else tensor.clone()
    for name, tensor in expected.items():
        torch.testing.assert_close(average.weights[name], tensor)
    assert average.weights["1.num_batches_tracked"] == 5


def test_the_network_has_its_average_only_within_the_block() -> None:
    network = nn.Linear(1, 1)
    average = MovingAverage(network, decay=0.5)
    with torch.no_grad():
        network.weight += 2
    before, weight = network.weight.clone(), network.weight
    average.update(network)
    with pytest.raises(ZeroDivisionError), average.applied(network):
        assert torch.equal(network.weight, before - 1)
        raise ZeroDivisionError
    assert torch.equal(network.weight, before)
    assert network.weight is weight  # an optimizer holds it


CPU = torch.device("cpu")


class Squares:
    def __call__(self, network: nn.Module, batch: torch.Tensor) -> LossValue:
        out = network(batch)
        self.dtype = out.dtype
        return LossValue(out.float().square().mean(), {"mean": out.detach().mean()})


def stepper(**chosen: object) -> Stepper[torch.Tensor]:
    torch.manual_seed(0)
    return Stepper(nn.Linear(3, 2), Squares(), TrainSettings(**chosen), CPU, 10)


def weights(made: Stepper[torch.Tensor]) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in made.network.parameters()])


def test_gradient_accumulation_averages_gradients() -> None:
    batches = list(torch.randn(3, 4, 3))
    together, apart = stepper(), stepper()
    together.step(0, batches)
    apart.step(0, [torch.cat(batches)])
    torch.testing.assert_close(weights(together), weights(apart))


def test_a_step_is_adam_with_scheduled_rate_and_clipped_gradient() -> None:
    made, batch = stepper(learning_rate=0.1, warmup_steps=4, max_grad_norm=0.01, betas=(0.8, 0.9)), torch.randn(4, 3)
    torch.manual_seed(0)
    expected = nn.Linear(3, 2)
    adam = torch.optim.Adam(expected.parameters(), lr=0.1 / 4, betas=(0.8, 0.9))
    expected(batch).square().mean().backward()
    assert nn.utils.clip_grad_norm_(expected.parameters(), 0.01) > 0.01
    adam.step()
    made.step(0, [batch])
    torch.testing.assert_close(weights(made), torch.cat([w.detach().flatten() for w in expected.parameters()]))


def test_losses_are_means_since_the_last_call() -> None:
    made = stepper(learning_rate=1e-9)
    one, two = torch.randn(2, 4, 3)
    made.step(0, [one])
    first = made.mean_losses()
    made.step(1, [one])
    made.step(2, [two])
    both = made.mean_losses()
    made.step(3, [two])
    second = made.mean_losses()
    assert both["loss"] == pytest.approx((first["loss"] + second["loss"]) / 2, rel=1e-4)
    assert both.keys() == {"loss", "mean"}
    assert made.mean_losses() == {}


@pytest.mark.parametrize(("precision", "dtype"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)])
def test_bfloat16_applies_to_products_and_not_to_weights(precision: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    loss = Squares()
    made = Stepper(nn.Linear(3, 2), loss, TrainSettings(precision=precision), CPU, 10)
    made.step(0, [torch.randn(4, 3)])
    assert loss.dtype == dtype
    assert weights(made).dtype == torch.float32


STEPS = 21


def trained(out: Path, settings: TrainSettings = SETTINGS, **others: object) -> Tiny:
    made = Tiny(settings)
    made.trainer(out, **others).train()
    return made


def tensors(path: Path) -> dict[str, torch.Tensor]:
    return read_checkpoint(path)[0]


def same_bits(one: Path, other: Path) -> bool:
    ours, theirs = tensors(one), tensors(other)
    assert ours.keys() == theirs.keys()
    return all(torch.equal(ours[name], theirs[name]) for name in ours)


def without_clock(log: Path) -> list[dict[str, Any]]:
    clock = ("seconds", "examples_per_s")
    return [{key: value for key, value in line.items() if key not in clock} for line in read_log(log)]


def same_run(one: Path, other: Path) -> bool:
    return (
        same_bits(one / "last.safetensors", other / "last.safetensors")
        and same_bits(one / "best.safetensors", other / "best.safetensors")
        and (one / "model/weights.safetensors").read_bytes() == (other / "model/weights.safetensors").read_bytes()
        and without_clock(one / "log.jsonl") == without_clock(other / "log.jsonl")
    )


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with all that has a state: momenta, a moving average, a schedule, dropout, batch norm."""
    out = tmp_path_factory.mktemp("unbroken") / "run"
    trained(out, FULL)
    return out


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with the default settings; tests copy it."""
    out = tmp_path_factory.mktemp("plain") / "run"
    trained(out)
    return out


@pytest.fixture
def run(plain: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(plain, tmp_path / "run"))


FULL_WORDS = (
    *("save_every=4", "ema_decay=0.8", "lr_schedule=cosine", "warmup_steps=4"),
    *("max_grad_norm=1.0", "weight_decay=0.01", "optimizer=adamw"),
)
FULL = Settings((SETTINGS,)).with_assignments(FULL_WORDS)[TrainSettings]


def test_a_run_directory_holds_the_documented_files(unbroken: Path) -> None:
    assert sorted(path.name for path in unbroken.iterdir() if not path.name.startswith(".")) == [
        "best.safetensors",
        "last.safetensors",
        "log.jsonl",
        "model",
        "run.json",
    ]
    assert (unbroken / "model" / "README.md").read_text().startswith("# tiny, trained on made up")
    document = json.loads((unbroken / "run.json").read_text())
    assert (document["model"], document["settings"]["epochs"]) == ("tiny", 3)
    assert document["data"]["splits"] == {"train": "def"}
    assert "torch" in document["versions"]


def test_training_reduces_the_loss(tmp_path: Path) -> None:
    outcome = Tiny(replace(SETTINGS, epochs=25)).trainer(tmp_path / "run").train()
    lines = read_log(tmp_path / "run" / "log.jsonl")
    losses = [line["loss"] for line in lines if "loss" in line]
    assert losses[-1] < losses[0] / 2
    assert outcome.best.scores["r1"] > 10 * 100 / ROWS  # ten times chance
    assert outcome.steps == 25 * 7


class KilledError(Exception):
    pass


def kill_at(step: int) -> Any:
    """A progress callback that ends the run after a step."""

    def stop(doing: str, done: int, total: int | None) -> None:
        if done == step:
            raise KilledError

    return stop


@pytest.mark.parametrize(
    "last_step",
    [
        pytest.param(step, marks=pytest.mark.slow if step not in (2, 4, 7, 9, 21) else ())
        for step in range(1, STEPS + 1)
    ],
)
def test_a_run_interrupted_at_any_step_resumes_bit_for_bit(tmp_path: Path, unbroken: Path, last_step: int) -> None:
    with pytest.raises(KilledError):
        trained(tmp_path / "run", FULL, on_progress=kill_at(last_step))
    assert (tmp_path / "run" / "last.safetensors").exists() == (last_step >= 4)
    Tiny(FULL).trainer(tmp_path / "run").train(resume=True)
    assert same_run(tmp_path / "run", unbroken)


def test_resuming_a_finished_run_changes_nothing_and_restores_a_missing_model(run: Path, plain: Path) -> None:
    before = without_clock(run / "log.jsonl")
    (run / "model").rename(run / ".model.old")
    again = Tiny()
    assert again.trainer(run).train(resume=True).steps == STEPS
    assert without_clock(run / "log.jsonl") == before
    assert (run / "model/weights.safetensors").read_bytes() == (plain / "model/weights.safetensors").read_bytes()
    kept = load_file(run / "model" / "weights.safetensors")
    assert all(torch.equal(kept[name], tensor) for name, tensor in again.network.state_dict().items())


def scores_in_turn(*values: float) -> Any:
    """An `evaluate` that says these, one after another."""
    remaining = iter(values)
    return lambda: DevScores("r1", {"r1": next(remaining)})


def test_the_best_model_is_kept_and_not_the_last(tmp_path: Path) -> None:
    weights: list[torch.Tensor] = []
    tell = scores_in_turn(1.0, 3.0, 2.0)
    made = Tiny()

    def evaluate() -> DevScores:
        weights.append(made.network.text[0].weight.clone())
        return tell()

    outcome = made.trainer(tmp_path / "run", evaluate=evaluate).train()
    assert (outcome.best.epoch, outcome.best.step, outcome.best.scores) == (2, 14, {"r1": 3.0})
    kept = load_file(tmp_path / "run" / "model" / "weights.safetensors")
    assert torch.equal(kept["text.0.weight"], weights[1])
    assert torch.equal(made.network.text[0].weight, weights[1])
    assert torch.equal(tensors(tmp_path / "run" / "last.safetensors")["weights/text.0.weight"], weights[2])
    assert [line["best"] for line in read_log(tmp_path / "run" / "log.jsonl") if "dev" in line] == [True, True, False]


def test_epochs_before_all_terms_of_the_loss_count_are_never_kept(tmp_path: Path) -> None:
    settings = replace(SETTINGS, epochs=5, patience=2)
    trainer = Tiny(settings).trainer(tmp_path / "run", evaluate=scores_in_turn(9, 8, 7, 1, 3))
    trainer.choose_from = 3
    outcome = trainer.train()
    assert (outcome.best.epoch, outcome.best.scores["r1"], outcome.stopped_early) == (5, 3, False)
    best = [line["best"] for line in read_log(tmp_path / "run" / "log.jsonl") if "dev" in line]
    assert best == [False, False, False, True, True]


def test_an_equal_score_of_any_type_does_not_replace_the_best(tmp_path: Path) -> None:
    evaluate = scores_in_turn(np.float32(2.5), np.float32(2.5), np.float32(0.5))
    outcome = Tiny().trainer(tmp_path / "run", evaluate=evaluate).train()
    assert (outcome.best.epoch, outcome.best.scores) == (1, {"r1": 2.5})


def test_the_epochs_of_one_run_serve_several_validation_sets(tmp_path: Path) -> None:
    settings = replace(SETTINGS, epochs=7, patience=2, ema_decay=0.8)
    scores = {"one": (1, 3, 2, 1, 9, 9, 9), "two": (1, 2, 3, 4, 2, 1, 9)}

    def train(folder: str, *names: str, **others: object) -> Outcome:
        evaluate = {name: scores_in_turn(*scores[name]) for name in names}
        return Tiny(settings).trainer(tmp_path / folder, evaluate=evaluate, **others).train()

    both = train("both", "one", "two", keep_epochs=True)
    assert both.steps == 6 * 7, "the first set would stop after epoch 4, the second after epoch 6"
    assert both.best.epoch == 2
    for name, epoch in (("one", 2), ("two", 4)):
        best, _ = best_epoch(both.evaluations[name], settings.patience)
        assert best == train(name, name).best
        assert best.epoch == epoch
        assert same_bits(tmp_path / f"both/epochs/{epoch}.safetensors", tmp_path / name / "best.safetensors")
    lines = [line for line in read_log(tmp_path / "both" / "log.jsonl") if "dev" in line]
    assert [(line["validation"], line["best"]) for line in lines[:6]] == [
        *(("one", True), ("two", True), ("one", True), ("two", True), ("one", False), ("two", True))
    ]
    assert len(list((tmp_path / "both" / "epochs").iterdir())) == 6


def test_early_stopping_survives_a_kill(tmp_path: Path) -> None:
    settings = replace(SETTINGS, epochs=9, patience=2)
    stop = kill_at(3 * 7 + 2)
    with pytest.raises(KilledError):
        Tiny(settings).trainer(tmp_path / "run", evaluate=scores_in_turn(1, 3, 2), on_progress=stop).train()
    outcome = Tiny(settings).trainer(tmp_path / "run", evaluate=scores_in_turn(2.5, 9)).train(resume=True)
    assert (outcome.steps, outcome.best.epoch, outcome.stopped_early) == (4 * 7, 2, True)
    assert Tiny(settings).trainer(tmp_path / "run", evaluate=scores_in_turn()).train(resume=True).stopped_early


def test_dev_is_evaluated_at_the_set_interval_and_at_the_end(tmp_path: Path) -> None:
    trained(tmp_path / "run", replace(SETTINGS, epochs=5, evaluate_every=2, gradient_accumulation=3))
    looks = [(line["epoch"], line["step"]) for line in read_log(tmp_path / "run" / "log.jsonl") if "dev" in line]
    assert looks == [(2, 6), (4, 12), (5, 15)], "three batches are one step"


@pytest.mark.parametrize(("decay", "kept"), [(0.0, "weights"), (0.9, "average")])
def test_without_dev_the_last_weights_or_their_average_are_kept(tmp_path: Path, decay: float, kept: str) -> None:
    made = trained(tmp_path / "run", replace(SETTINGS, ema_decay=decay), evaluate=None)
    last = tensors(tmp_path / "run" / "last.safetensors")
    for name in ("weights", "average") if decay else ("weights",):
        assert torch.equal(made.network.text[0].weight, last[f"{name}/text.0.weight"]) == (name == kept)
    assert "Not measured on dev" in (tmp_path / "run" / "model" / "README.md").read_text()


def test_every_line_of_the_log_has_step_and_speed(plain: Path) -> None:
    lines = read_log(plain / "log.jsonl")
    assert [line["step"] for line in lines if "loss" in line] == [3, 6, 7, 9, 12, 14, 15, 18, 21]
    assert [line["step"] for line in lines if "dev" in line] == [7, 14, 21]
    first = lines[0]
    assert first.keys() == {"step", "epoch", "loss", "terms", "learning_rate", "examples_per_s", "seconds"}
    assert first["loss"] == pytest.approx(sum(first["terms"].values()), rel=1e-5)
    assert first["examples_per_s"] > 0


def test_progress_reports_throughput_and_time_left(tmp_path: Path) -> None:
    reports: list[tuple[str, int, int | None]] = []
    trained(tmp_path / "run", on_progress=lambda *report: reports.append(report))
    assert [report[1:] for report in reports] == [(step, STEPS) for step in range(1, STEPS + 1)]
    assert re.match(r"epoch 2 of 3, loss .* examples/s, .* s left$", reports[10][0])


def test_a_directory_in_use_is_not_touched(tmp_path: Path, run: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    for folder in (run, tmp_path / "thesis"):
        with pytest.raises(DeixisError, match=f"{folder.name}: "):
            trained(folder)
    assert os.listdir(tmp_path / "thesis") == ["thesis.tex"]
    with pytest.raises(DeixisError, match="run.json"):
        Tiny().trainer(tmp_path / "typo").train(resume=True)
    assert not (tmp_path / "typo").exists()


def test_two_processes_cannot_train_in_one_directory(tmp_path: Path) -> None:
    def meddle() -> DevScores:
        with pytest.raises(DeixisError, match="another process is writing it"):
            Tiny().trainer(tmp_path / "new").train(resume=True)
        return DevScores("r1", {"r1": 1.0})

    trained(tmp_path / "new", replace(SETTINGS, epochs=1), evaluate=meddle)


@pytest.mark.parametrize(
    ("settings", "about", "complaint"),
    [
        (replace(SETTINGS, learning_rate=0.5), ABOUT, "started with learning_rate = 0.01, now it is 0.5"),
        (replace(SETTINGS, betas=(0.9, 0.99)), ABOUT, r"started with betas = \[0.9, 0.999\], now it is \[0.9, 0.99\]"),
        (SETTINGS, replace(ABOUT, model="m-rnn"), 'started with model = "tiny", now it is "m-rnn"'),
        (SETTINGS, replace(ABOUT, model_settings={"width": 9}), "started with width of the model = 12, now it is 9"),
        (SETTINGS, replace(ABOUT, data=replace(ABOUT.data, hash="x")), "the hash of the data = "),
        (SETTINGS, replace(ABOUT, data=replace(ABOUT.data, splits={"train": "x"})), "the hash of split train = "),
        (SETTINGS, replace(ABOUT, features={"encoder": "x"}), 'features encoder = null, now it is "x"'),
    ],
)
def test_a_run_is_not_resumed_with_other_settings(
    plain: Path, settings: TrainSettings, about: RunDescription, complaint: str
) -> None:
    with pytest.raises(DeixisError, match=complaint) as refusal:
        Tiny(settings).trainer(plain, about=about).train(resume=True)
    assert "\n" not in str(refusal.value)


def test_data_that_was_moved_is_the_same_data(run: Path) -> None:
    moved = replace(ABOUT, command="other", data=replace(ABOUT.data, name="elsewhere"))
    Tiny().trainer(run, about=moved).train(resume=True)


DAMAGES = {
    "cut": lambda content: content[: len(content) // 2],
    "one bit": lambda content: content[:-3] + bytes([content[-3] ^ 1]) + content[-2:],
    "empty": lambda content: b"",
    "other": lambda content: b"something else entirely, and long enough to be read",
}


@pytest.mark.parametrize(
    ("name", "how"),
    [("last.safetensors", how) for how in DAMAGES] + [("best.safetensors", "one bit"), ("run.json", "cut")],
)
def test_a_damaged_file_is_named_in_one_line(run: Path, name: str, how: str) -> None:
    (run / name).write_bytes(DAMAGES[how]((run / name).read_bytes()))
    with pytest.raises(DeixisError, match=f"{name}: ") as refusal:
        Tiny().trainer(run).train(resume=True)
    assert "\n" not in str(refusal.value)


def test_a_network_of_another_shape_is_named_in_one_line(run: Path) -> None:
    other = Tiny()
    other.network.idle = torch.nn.Linear(2, 3)
    with pytest.raises(DeixisError, match=r"idle\.bias .*\(2,\).*\(3,\)"):
        other.trainer(run).train(resume=True)


def test_a_loss_that_is_not_finite_stops_training_and_is_not_saved(tmp_path: Path) -> None:
    made, batches = Tiny(), 0
    honest = made.loss

    def broken(network: tiny.Branches, batch: torch.Tensor) -> LossValue:
        nonlocal batches
        batches += 1
        value = honest(network, batch)
        return replace(value, total=value.total * (float("nan") if batches == 8 else 1))

    made.loss = broken
    with pytest.raises(DeixisError, match=r"step 9.*learning_rate"):
        made.trainer(tmp_path / "run", evaluate=None).train()
    assert all(tensor.isfinite().all() for tensor in tensors(tmp_path / "run" / "last.safetensors").values())


def test_a_score_that_is_not_a_number_stops_training(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="r1 .*nan"):
        trained(tmp_path / "run", evaluate=scores_in_turn(float("nan")))


def many_rows(network: torch.nn.Embedding, batch: torch.Tensor) -> LossValue:
    """A loss whose gradient several threads add up: rows taken again and again."""
    rows = torch.randint(len(network.weight), (4000,))
    return LossValue((network.weight[rows] * torch.randn(4000, 64)).sin().sum())


def test_gradients_on_several_threads_are_summed_in_the_same_order(tmp_path: Path) -> None:
    weights = []
    for out in ("a", "b"):
        torch.manual_seed(0)
        network = torch.nn.Embedding(10, 64)
        settings = replace(SETTINGS, threads=2, epochs=2)
        made = tiny.Trainer(
            network, tiny.Rows(32), many_rows, settings, tmp_path / out, about=ABOUT, keep=lambda folder: None
        )
        made.train()
        weights.append(network.weight)
    assert torch.equal(*weights)
