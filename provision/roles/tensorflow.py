"""tensorflow: TensorFlow in a virtual environment of its own, from hash-locked wheels."""

from __future__ import annotations

from typing import Any, Literal

from provision.roles.base import Options, Role, Row, option

REQUIREMENTS = "requirements-2.9.3-py3.9.txt"
REQUIREMENTS_SHA256 = "a0c523bea07a14381b7318379e409ba269d1e2bec56a8b924114ae22da25ab2b"


class TensorflowOptions(Options):
    """Public variables of the role."""

    tensorflow_state: Literal["present", "absent"] = option(
        "present",
        "absent: remove all environments that this role made, and leave what was there before.",
        looked_at=True,
    )
    tensorflow_version: str = option(
        "2.9.3", "Exact version.", identity=True, wish='gpu_stack: {tensorflow: "2.9"}'
    )
    tensorflow_python: str = option(
        "3.9",
        "The Python of the virtual environment.",
        identity=True,
        wish='gpu_stack: {python: "3.9"}',
    )
    tensorflow_requirements: str = option(
        REQUIREMENTS,
        "Hash-locked requirements file, on the machine that runs Ansible; a bare name is "
        "one of the role's own.",
        identity=True,
    )
    tensorflow_requirements_sha256: str = option(
        REQUIREMENTS_SHA256, "SHA-256 of that file; names the environment.", identity=True
    )
    tensorflow_cuda_prefix: str = option(
        "",
        "Directory of the CUDA that `bin/activate` of the environment puts first, with its "
        "libraries and for XLA. Empty: activating it changes nothing of CUDA's.",
        identity=True,
        path=True,
    )
    tensorflow_root: str = option(
        "/opt/tensorflow",
        "Directory of all environments; `current` in it points to the one in use.",
        looked_at=True,
        path=True,
    )
    tensorflow_index_url: str = option(
        "",
        "Package index. Empty: pip's own configuration, else pypi.org.",
        example="https://pypi.example.org/simple",
    )
    tensorflow_extra_index_urls: list[str] = option([], "Further package indices.")
    tensorflow_proxy: str = option("", "Proxy for pip.", example="http://proxy.example.org:3128")
    tensorflow_ca_bundle: str = option("", "CA bundle on the host, for pip. Empty: the host's own.")
    tensorflow_cache_dir: str = option(
        "",
        "Directory on the host where pip keeps its downloads, such as one that hosts share. Hashes "
        "are checked all the same. Empty: nothing is kept.",
        path=True,
    )
    tensorflow_keep_old: bool = option(
        True,
        "Keep the environments that are no longer in use. False: the plan names them, and one in "
        "which somebody has installed more is moved to NAME.save.",
        looked_at=True,
    )
    tensorflow_beside: list[str] = option(
        [],
        "Names of environments under the root that are in use too, though not current: they stay "
        "where tensorflow_keep_old is false.",
        internal=True,
        planned="gpu_plan.beside | default([]) | map(attribute='directory') | list",
    )
    tensorflow_switch: bool = option(True, "Make this environment the current one.", internal=True)
    tensorflow_reinstall: bool = option(
        False,
        "Build the environment again though it is complete; the plan sets it where files are "
        "damaged.",
        repair=True,
    )


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
