"""tensorflow: TensorFlow in a virtual environment of its own, from hash-locked wheels."""

from __future__ import annotations

from typing import Any

from provision.roles.base import Options, Role, Row, State, option, state

REQUIREMENTS = "requirements-2.9.3-py3.9.txt"
REQUIREMENTS_SHA256 = "a0c523bea07a14381b7318379e409ba269d1e2bec56a8b924114ae22da25ab2b"


class TensorflowOptions(Options):
    """Public variables of the role."""

    tensorflow_state: State = state()
    """absent: remove all environments that this role made, and leave what was there before."""
    tensorflow_version: str = option("2.9.3", identity=True, wish='gpu_stack: {tensorflow: "2.9"}')
    """Exact version."""
    tensorflow_python: str = option("3.9", identity=True, wish='gpu_stack: {python: "3.9"}')
    """The Python of the virtual environment."""
    tensorflow_requirements: str = option(REQUIREMENTS, identity=True)
    """Hash-locked requirements file on the machine that runs Ansible; a bare file name is one of
    the role's own.
    """
    tensorflow_requirements_sha256: str = option(REQUIREMENTS_SHA256, identity=True)
    """SHA-256 of that file; names the environment."""
    tensorflow_cuda_prefix: str = option("", identity=True, path=True)
    """CUDA directory whose programs and libraries `bin/activate` of the environment puts first, and
    which it sets for XLA. Empty: activating the environment changes nothing about CUDA.
    """
    tensorflow_root: str = option("/opt/tensorflow", looked_at=True, path=True)
    """Directory of all environments; `current` in it points to the one in use."""
    tensorflow_index_url: str = option("", example="https://pypi.example.org/simple")
    """Package index. Empty: pip's own configuration, else pypi.org."""
    tensorflow_extra_index_urls: list[str] = option([])
    """Additional package indices."""
    tensorflow_proxy: str = option("", example="http://proxy.example.org:3128")
    """Proxy for pip."""
    tensorflow_ca_bundle: str = option("")
    """CA bundle on the host, for pip. Empty: the host's own."""
    tensorflow_cache_dir: str = option("", path=True)
    """Directory on the host for pip's downloads; hosts may share it. Hashes are still checked.
    Empty: nothing is kept.
    """
    tensorflow_keep_old: bool = option(True, looked_at=True)
    """Keep the environments that are no longer in use. False: the plan lists their removal, and one
    in which somebody installed more is moved to NAME.save.
    """
    tensorflow_beside: list[str] = option(
        [],
        internal=True,
        planned="gpu_plan.beside | default([]) | map(attribute='directory') | list",
    )
    """Names of environments under the root that are in use too, though not current; they stay even
    if tensorflow_keep_old is false.
    """
    tensorflow_switch: bool = option(True, internal=True)
    """Make this environment the current one."""
    tensorflow_reinstall: bool = option(False, repair=True)
    """Build the environment again even if it is complete; the plan sets it if files are damaged."""


def variables(stack: str, row: Row) -> dict[str, Any]:
    """Identity of TensorFlow in one stack."""
    tensorflow = row["tensorflow"]
    return {
        "tensorflow_version": tensorflow["version"],
        "tensorflow_python": tensorflow["python"],
        "tensorflow_requirements": "{{ gpu_stacks | default(playbook_dir ~ '/stacks') }}/"
        + stack
        + ".requirements.txt",
        "tensorflow_requirements_sha256": tensorflow["requirements_sha256"],
        # A host may have several trees of NVIDIA's; any other CUDA is on the default paths.
        "tensorflow_cuda_prefix": row.get("cuda", {}).get("prefix", ""),
    }


ROLE = Role("tensorflow", TensorflowOptions, variables)
