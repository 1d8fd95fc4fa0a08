"""A report names each host's groups, by which the page of a fleet is filtered."""

from __future__ import annotations

import json
import sys
from typing import Any

from ansible_collections.provision.gpu.plugins.plugin_utils.hosts import groups_of
from stub_tree import Tree, plan

from provision.run import run_playbook


def test_the_groups_of_an_inventory_are_in_the_report(tree: Tree) -> None:
    tree.hosts("gpu01", gpu_verify="never")
    inventory = json.loads((tree.path / "lab" / "hosts.yml").read_text())
    inventory["all"] = {"vars": {"ansible_python_interpreter": sys.executable}}
    inventory["site"] = {"children": {"rack07": {"hosts": {"gpu01": {}}}}}
    (tree.path / "lab" / "hosts.yml").write_text(json.dumps(inventory))
    tree.answers("gpu01", plan())
    assert run_playbook(tree.path).exit_code == 0
    assert tree.report()["hosts"]["gpu01"]["groups"] == ["gpu", "rack07", "site"]


def test_a_host_of_an_ansible_that_differs_has_none() -> None:
    class Strange:
        def get_groups(self) -> Any:
            raise AttributeError

    assert groups_of(Strange()) == []
