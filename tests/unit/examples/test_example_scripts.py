"""The examples as text: readable by every Python of the catalog, and the same as notebooks.

That they do what they say is shown on a host: tests/hosts/test_examples.py.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from provision import examples
from provision.errors import InputError, MachineError
from tests import called

EVERY = {example.name: example for example in examples.every()}


def provision(*arguments: str | Path) -> str:
    """What `provision examples ...` prints; raises its error."""
    code, out = called.provision("examples", *arguments)
    assert code == 0
    return out


def code_of(notebook: str) -> str:
    """The code cells of a notebook, one after the other."""
    cells = json.loads(notebook)["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def test_every_script_is_named_and_every_name_has_one() -> None:
    assert {path.stem for path in examples.SCRIPTS.glob("*")} - {"__pycache__"} == set(
        examples.NAMES
    )


@pytest.mark.parametrize("example", EVERY.values(), ids=list(EVERY))
def test_python_3_6_can_read_it(example: examples.Example) -> None:
    """TensorFlow 2.4 is for Python 3.6 to 3.8."""
    ast.parse(example.text, feature_version=(3, 6))
    assert "annotations" not in example.text
    # From Python 3.8 and 3.9 on; ast.parse lets them pass.
    assert not re.search(r"\{[^{}]*=\}|removeprefix|removesuffix| \|= |math\.prod", example.text)


def test_sbatch_reads_what_the_job_wishes() -> None:
    """It takes lines that begin with #SBATCH, without a space, before the first command."""
    lines = EVERY["train_slurm"].text.splitlines()
    head = lines[: lines.index(next(line for line in lines if not line.startswith("#")))]
    wishes = [line.partition(" ")[2] for line in head if line.startswith("#SBATCH ")]
    assert {"--nodes=2", "--gpus-per-node=1", "--requeue"} <= set(wishes)


@pytest.mark.parametrize("example", EVERY.values(), ids=list(EVERY))
def test_it_has_a_title_and_says_what_happens_without_a_gpu(example: examples.Example) -> None:
    title, empty, *about = example.words.splitlines()
    assert re.fullmatch(r"[A-Z].{10,80}[^.]", title)
    assert (empty, bool(about)) == ("", True)
    assert re.search(r"[Ww]ithout (a GPU|two GPUs|one)", " ".join(about))
    assert re.search(r"no GPU|not two GPUs", example.text.partition('"""\n')[2])


@pytest.mark.parametrize("example", EVERY.values(), ids=list(EVERY))
def test_it_takes_no_more_of_a_card_than_it_needs(example: examples.Example) -> None:
    """TensorFlow's default is all of every card's memory, on hosts where others work."""
    assert "set_memory_growth(gpu, True)" in example.text


@pytest.mark.parametrize("example", EVERY.values(), ids=list(EVERY))
def test_it_loads_nothing_from_a_network(example: examples.Example) -> None:
    imported = {
        name.name.split(".")[0]
        for node in ast.walk(ast.parse(example.text))
        if isinstance(node, ast.Import)
        for name in node.names
    }
    # What `provision train` puts beside a script.
    brought = {"provision_train"} if example.name == "multi_worker" else set()
    common = {"importlib", "os", "shutil", "sys", "time", "numpy", "tensorflow"}
    assert imported - brought <= common
    assert not re.search(r"keras\.datasets|get_file|https?://", example.text)


@pytest.mark.parametrize("example", EVERY.values(), ids=list(EVERY))
def test_the_notebook_has_the_scripts_code_and_no_more(example: examples.Example) -> None:
    code = ast.dump(ast.parse(code_of(example.notebook())))
    script = ast.parse(example.text)
    del script.body[0]  # the docstring is the first cell
    assert code == ast.dump(script)


@pytest.mark.parametrize("example", EVERY.values(), ids=list(EVERY))
def test_the_notebook_is_one(example: examples.Example) -> None:
    """As nbformat's schema of 4.4 asks; the module itself is not needed for it."""
    notebook = json.loads(example.notebook())
    assert set(notebook) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 4)
    assert set(notebook["metadata"]["kernelspec"]) == {"display_name", "language", "name"}
    for cell in notebook["cells"]:
        more = {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        assert set(cell) == {"cell_type", "metadata", "source"} | more
        assert cell["source"]
        assert all(line.endswith("\n") for line in cell["source"][:-1])
        assert not cell["source"][-1].endswith("\n")
    first = "".join(notebook["cells"][0]["source"])
    assert first.startswith(f"# {example.title}\n\n")
    texts = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "markdown"]
    assert not [text for text in texts[1:] if not text.startswith("## ")]


def test_they_are_listed_with_their_titles() -> None:
    listed = provision().splitlines()
    assert [line.split()[0] for line in listed] == list(examples.NAMES)
    assert listed[0].endswith(EVERY["check_gpus"].title)
    assert [example["name"] for example in json.loads(provision("--json"))["examples"]] == list(
        EVERY
    )


def test_one_is_printed_as_it_is() -> None:
    assert provision("one_gpu") == EVERY["one_gpu"].text
    assert provision("one_gpu", "--notebook") == EVERY["one_gpu"].notebook()


def test_all_are_written_and_again(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    written = provision("--output", folder).splitlines()
    assert written == [str(folder / f"{name}.py") for name in examples.NAMES]
    assert (folder / "export.py").read_text("utf-8") == EVERY["export"].text
    assert provision("--output", folder).splitlines() == written
    provision("export", "--notebook", "--output", folder)
    assert (folder / "export.ipynb").read_text("utf-8") == EVERY["export"].notebook()
    assert len(list(folder.iterdir())) == len(EVERY) + 1


def test_somebodys_work_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "export.py").write_text("# mine\n")
    with pytest.raises(InputError, match=r"export\.py: the file is there already, and differs"):
        provision("--output", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["export.py"]
    assert (tmp_path / "export.py").read_text() == "# mine\n"


def test_bad_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such example") as caught:
        provision("two_gpus")
    assert "one_gpu" in caught.value.expected
    with pytest.raises(InputError, match="--notebook needs NAME"):
        provision("--notebook")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="a file is where a folder should be"):
        provision("--output", tmp_path / "file")


def test_a_disk_that_refuses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("provision.tree.write_file", refuse)
    with pytest.raises(MachineError, match="it cannot be written"):
        provision("--output", tmp_path)
