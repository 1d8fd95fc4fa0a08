"""What the scripts' helper asks of TensorFlow: over a stand-in for it, which is not here."""

from __future__ import annotations

import importlib.util
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from ansible_collections.provision.gpu.plugins.plugin_utils import training


@pytest.fixture
def helper() -> ModuleType:
    spec = importlib.util.spec_from_file_location("provision_train", training.HELPER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Keras2:
    def __init__(self, folder: str, delete_checkpoint: bool = True) -> None:
        self.folder, self.said = folder, (delete_checkpoint,)


class Keras3:
    def __init__(
        self, folder: str, double_checkpoint: bool = False, delete_checkpoint: bool = True
    ) -> None:
        self.folder, self.said = folder, (delete_checkpoint, double_checkpoint)


@pytest.mark.parametrize(("base", "said"), [(Keras2, (False,)), (Keras3, (False, True))])
def test_the_backup_stays_and_where_it_is_written_in_place_the_one_before_too(
    helper: ModuleType, base: Any, said: tuple[bool, ...]
) -> None:
    """Keras 3 writes over its only file: who is killed meanwhile could not go on."""
    callbacks = SimpleNamespace(BackupAndRestore=base)
    made = helper._backup(SimpleNamespace(keras=SimpleNamespace(callbacks=callbacks)))
    assert made.said == said
