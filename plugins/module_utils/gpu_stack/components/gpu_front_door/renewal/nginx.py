"""nginx runs, and has read what is on the disk; it is reloaded, and never restarted."""

from __future__ import annotations

from . import files, paths, programs
from .state import nginx_runs

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    pass


def takes() -> tuple[bool, str]:
    """(whether nginx takes its configuration, what it says of it)."""
    code, _out, error = programs.call([paths.NGINX, "-t"])
    return code == 0, error


def check(prefix: str = "nginx -t") -> None:
    """RefusedError, as "prefix: nginx's words", where nginx refuses its configuration."""
    programs.must(programs.call([paths.NGINX, "-t"]), prefix)


def reload() -> tuple[int, str, str]:
    """(exit code, output, errors)."""
    return programs.call(["systemctl", "reload", "nginx"], timeout=120)


def serve() -> None:
    """nginx runs, and has read what is on the disk. Who is connected stays so."""
    programs.must(programs.call(["systemctl", "enable", "nginx"]), "systemctl enable nginx")
    word = "reload" if nginx_runs(files) else "start"
    programs.must(
        programs.call(["systemctl", word, "nginx"], timeout=120), f"systemctl {word} nginx"
    )
