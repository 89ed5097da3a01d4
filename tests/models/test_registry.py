import subprocess
import sys

import pytest

import labelfable
from labelfable.errors import MissingExtraError, ModelError
from labelfable.models import registry
from labelfable.models.protocol import BaseLabelModel
from labelfable.models.registry import DEFAULT_MODEL, MODELS, Entry, available_models, model_named


def test_every_entry_is_a_model_of_that_name():
    for name in available_models():
        found = model_named(name)
        assert found.__name__ == name
        assert issubclass(found, BaseLabelModel)


def test_every_public_model_has_an_entry():
    public = {name for name in labelfable.__all__ if isinstance(getattr(labelfable, name), type)}
    models = {name for name in public if issubclass(getattr(labelfable, name), BaseLabelModel)}
    assert models == set(MODELS)


@pytest.mark.parametrize("name", ["DawidSkene", "dawid-skene", "DAWID_SKENE", "dawid skene", "ds", "Ds"])
def test_any_spelling_will_do(name):
    assert model_named(name).__name__ == "DawidSkene"


def test_no_two_models_share_a_name():
    words = [registry._plain(word) for name, entry in MODELS.items() for word in (name, *entry.aliases)]
    assert len(words) == len(set(words))
    assert DEFAULT_MODEL in MODELS


def test_an_unknown_name_lists_the_models_and_guesses():
    with pytest.raises(ModelError, match=r"no model 'dawidskeen'.*Did you mean DawidSkene\?.*MajorityVote, FABLE"):
        model_named("dawidskeen")
    with pytest.raises(ModelError, match=r"there is no model ''.*The models are MajorityVote"):
        model_named("")


def test_a_model_whose_extra_is_missing_says_so_and_is_not_listed(monkeypatch):
    monkeypatch.setitem(MODELS, "Dreamt", Entry("labelfable.models.dreamt", extra="dream"))
    monkeypatch.setitem(registry.PACKAGES_OF_EXTRA, "dream", "no_such_package_at_all")
    assert "Dreamt" not in available_models()
    assert "MajorityVote" in available_models()
    with pytest.raises(MissingExtraError, match=r"Dreamt needs no_such_package.*pip install 'labelfable\[dream\]'"):
        model_named("dreamt")


def test_the_list_of_models_loads_no_heavy_package():
    code = (
        "import sys; from labelfable.models.registry import available_models; available_models();"
        "print(sorted({'torch', 'typer', 'rich'} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
