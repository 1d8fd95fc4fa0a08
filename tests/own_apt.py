"""This machine's apt with directories of its own: nothing of the machine's is read or changed."""

from __future__ import annotations

import subprocess
from pathlib import Path


def run(
    folder: Path, address: str, key: str, *arguments: str, **options: object
) -> subprocess.CompletedProcess[str]:
    """apt-get, which knows one flat repository by this armored key.

    `options`: apt's, with __ in place of their ::.
    """
    for name in ("lists/partial", "archives/partial", "empty"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "key.asc").write_text(key)
    (folder / "status").touch()
    (folder / "sources.list").write_text(f"deb [signed-by={folder}/key.asc] {address} /\n")
    all_options = {
        "Dir__State__lists": folder / "lists",
        "Dir__State__status": folder / "status",
        "Dir__Cache": folder,
        "Dir__Etc__sourcelist": folder / "sources.list",
        "Dir__Etc__sourceparts": folder / "empty",
        "Dir__Etc__parts": folder / "empty",
        "APT__Architecture": "amd64",
        "APT__Sandbox__User": "root",
        "APT__Update__Error-Mode": "any",
        **options,
    }
    settings = [f"-o{name.replace('__', '::')}={value}" for name, value in all_options.items()]
    return subprocess.run(
        ["apt-get", *settings, *arguments],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
