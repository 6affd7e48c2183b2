"""The registry of models, and settings by preset, file and assignment."""

from __future__ import annotations

from pathlib import Path

import pytest

from deixis.errors import DeixisError
from deixis.models.cca.spec import CCATrainSettings
from deixis.models.registry import get_spec, model_names
from deixis.models.training.data import MatchingDataSettings
from deixis.models.training.settings import Settings, describe_settings, format_value
from tests.test_architecture import HEAVY, modules_after


@pytest.mark.parametrize("model", model_names())
def test_every_setting_has_one_owner_a_default_and_a_description(model: str) -> None:
    found = describe_settings(get_spec(model).defaults)
    assert len({setting.name for setting in found}) == len(found)
    assert [setting.name for setting in found if not setting.meaning] == []


@pytest.mark.parametrize("model", model_names())
def test_every_preset_can_be_written_as_assignments(model: str) -> None:
    spec = get_spec(model)
    for name in spec.preset_values:
        chosen = spec.choose_settings(name)
        by_hand = [f"{key}={format_value(value)}" for key, value in chosen.to_json().items()]
        assert spec.choose_settings(None, by_hand) == chosen


def test_a_file_changes_the_defaults_and_assignments_change_the_file(tmp_path: Path) -> None:
    (tmp_path / "few.json").write_text('{"embedding_dim": 3, "correlation_power": 2, "train_on": "phrases"}')
    chosen = get_spec("cca").choose_settings(tmp_path / "few.json", ["embedding_dim=4"])
    model = CCATrainSettings(embedding_dim=4, correlation_power=2.0)
    assert chosen == Settings((MatchingDataSettings(train_on="phrases"), model))


@pytest.mark.parametrize(
    ("model", "settings", "names"),
    [
        ("cca", "papers/cca-chunk", "papers/cca-chunk.*'papers/cca-chunks'"),
        ("similarity", "deixis/x", "deixis/x.*papers/similarity-phrases"),
        ("cca", "nowhere.json", "nowhere.json"),
    ],
)
def test_unknown_presets_and_files_are_named(model: str, settings: str, names: str) -> None:
    with pytest.raises(DeixisError, match=names):
        get_spec(model).choose_settings(settings)


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("two-branch", "epochs=0"),
        ("two-branch", "max_grad_norm=-1.0"),
        ("two-branch", "learning_rate=0.0"),
        ("two-branch", "ema_decay=1.0"),
        ("two-branch", "betas=0.9,1.0"),
        ("two-branch", "crops=5"),
        ("two-branch", "location_weight=nan"),
        ("two-branch", "max_regions_per_phrase=-1"),
        ("two-branch", "hidden_size=0"),
        ("two-branch", "dropout=1.0"),
        ("two-branch", "temperature=0.0"),
        ("two-branch", "neighbour_sampling=false text_neighbour_weight=0.1"),
        ("two-branch", "text_to_visual_weight=0 visual_to_text_weight=0"),
        ("two-branch", "text_branch_size=4 linear=true"),
        ("similarity", "hidden_size=0"),
        ("similarity", "dropout=1.0"),
        ("similarity", "fusion_layers=0"),
        ("similarity", "fusion_layers=4"),
        ("cca", "embedding_dim=0"),
        ("cca", "regularization=-1.0"),
        ("cca", "correlation_power=inf"),
        ("cca", "auxiliary_weight=0.0"),
        ("grounder", "max_proposals=0"),
        ("grounder", "embedding_dim=0"),
        ("grounder", "num_layers=-1"),
        ("grounder", "dropout=1.0"),
        ("grounder", "presence_weight=nan"),
        ("grounder", "use_feature_map=true"),
        ("hm-lstm", "hidden_size=0"),
        ("hm-lstm", "margin=-1.0"),
        ("hm-lstm", "dropout=1.0"),
        ("hm-lstm", "round_lr_factor=0.0"),
    ],
)
def test_invalid_settings_are_named(model: str, settings: str) -> None:
    first, *others = settings.split()
    with pytest.raises(DeixisError, match=first.partition("=")[0]):
        get_spec(model).choose_settings(None, [first, *others])


def test_an_unknown_model_is_named_with_the_nearest() -> None:
    with pytest.raises(DeixisError, match="two-brunch.*'two-branch'"):
        get_spec("two-brunch")
    with pytest.raises(DeixisError, match="xyz.*cca"):
        get_spec("xyz")


def test_a_similarity_network_has_no_text_encoder() -> None:
    with pytest.raises(DeixisError, match="text_encoder"):
        get_spec("similarity").choose_settings(None, ["text_encoder=lstm"])


def test_listing_names_imports_no_model() -> None:
    assert not modules_after("from deixis.models.registry import model_names; model_names()") & set(HEAVY)


def test_a_preset_or_setting_of_another_model_names_that_model() -> None:
    spec = get_spec("m-rnn")
    with pytest.raises(DeixisError, match="deixis train captioner --settings deixis/captioner"):
        spec.choose_settings("deixis/captioner")
    with pytest.raises(DeixisError, match="--set cell_layers=2: a setting of captioner, not of m-rnn"):
        spec.choose_settings(None, ["cell_layers=2"])
