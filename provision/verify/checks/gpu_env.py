"""The environment: every kind of process has its variables."""

from __future__ import annotations

from ..cures import CURES, SHELLS, Cure
from .check import AGAIN, Seen, Verdict, check, failed, not_applicable, passed
from .places import NO_PAM, PLACES, without_pam

CURES["gpu_env.variables"] = Cure(("gpu_env",), SHELLS)


@check("gpu_env.variables", "Shells, ssh commands, cron jobs and units have the environment")
def environment_is_everywhere(seen: Seen) -> Verdict:
    row, options = seen.row["gpu_env"], seen.options
    directory = options.get("gpu_env_xla_cuda_data_dir") or row.get("xla_cuda_data_dir")
    variables = {"XLA_FLAGS": f"--xla_gpu_cuda_data_dir={directory}"} if directory else {}
    variables.update(options.get("gpu_env_variables") or {})
    paths = [*row["path"], *(options.get("gpu_env_path") or [])]
    if not variables and not paths:
        return not_applicable("nothing is set for all: TensorFlow finds its CUDA by itself")
    wrong, judged = [], []
    for place, title in PLACES.items():
        environment = seen.probe["environment"].get(place)
        if environment is None or (place == "ssh" and without_pam(seen)):
            continue
        judged.append(title)
        lacking = [name for name in variables if environment.get(name) is None]
        different = [
            name for name in variables if environment.get(name) not in (None, str(variables[name]))
        ]
        # A login shell may put its own directories in front, so only presence counts.
        directories = str(environment.get("PATH")).split(":")
        lacking += [f"{path} in PATH" for path in paths if path not in directories]
        if lacking:
            wrong.append(f"{title} lacks {', '.join(lacking)}")
        if different:
            wrong.append(f"{title} differs in {', '.join(different)}")
    if wrong:
        cure = "a login or a unit that already runs keeps the environment it began with"
        return failed("; ".join(wrong), f"{AGAIN}; {cure}")
    left = f"; not in a command over ssh: {NO_PAM}" if without_pam(seen) else ""
    return passed(f"{', '.join([*variables, *paths])} in {', '.join(judged)}{left}")
