"""The parts of a lock's row that an image built on a host is made of.

The generator passes it to the role as a variable; the look computes it on the host.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any

    from ...shapes import Row


def locked(row: Row | None) -> dict[str, Any]:
    """The parts of this row that such an image is made of."""
    row = row or {}
    stack: dict[str, Any] = {}
    if "tensorflow" in row:
        names = ("version", "python", "requirements_sha256")
        stack["tensorflow"] = {name: row["tensorflow"][name] for name in names}
    if "cuda" in row:
        stack["cuda"] = {
            "packages": row["cuda"]["packages"]["runtime"],
            "files": {name: file["path"] for name, file in row["cuda"].get("files", {}).items()},
            "sonames": sorted(row["cuda"].get("sonames", {})),
        }
    if "cudnn" in row:
        stack["cudnn"] = {
            name: row["cudnn"][name] for name in ("version", "cuda", "sha256", "soname")
        }
    env = row.get("gpu_env", {})
    stack["env"] = {"path": env.get("path", []), "xla": env.get("xla_cuda_data_dir", "")}
    return stack
