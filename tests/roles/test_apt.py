"""The role `apt`, whose entries other roles include."""

from __future__ import annotations

import yaml

from tests.collection import ROOT


def test_each_entry_is_described_and_its_variables_are_those_it_reads() -> None:
    entries = yaml.safe_load((ROOT / "roles/apt/meta/argument_specs.yml").read_text("utf-8"))
    specs = entries["argument_specs"]
    assert set(specs) == {path.stem for path in (ROOT / "roles/apt/tasks").glob("*.yml")}
    readme = (ROOT / "roles/apt/README.md").read_text("utf-8")
    for name, spec in specs.items():
        assert f"| `{name}` |" in readme
        text = (ROOT / f"roles/apt/tasks/{name}.yml").read_text("utf-8")
        assert [option for option in spec["options"] if option not in text] == []
        assert [option for option in spec["options"] if f"`{option}`" not in readme] == []
