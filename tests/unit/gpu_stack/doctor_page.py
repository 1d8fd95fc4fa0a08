"""The table of docs/doctor.md, written from the cases themselves."""

from __future__ import annotations

from gpu_stack.doctor import findings

BEGIN = "<!-- the cases, written by a test -->\n"
END = "<!-- the end of the cases -->\n"


def _thread(name: str) -> str:
    repository, _, number = name.partition("#")
    return f"[{name}](https://github.com/{repository}/issues/{number})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def table() -> str:
    """One row per case, in the order in which findings are told."""
    lines = ["| case | what is wrong | told by | `--fix` | known from |", "|---|---|---|---|---|"]
    for case in findings.CASES:
        by = ["the host"] if case.id in findings.CHECKS else []
        by += ["logs"] if case.says else []
        threads = ", ".join(map(_thread, case.threads))
        cells = [f"`{case.id}`", _cell(case.title), " and ".join(by), _cell(case.fix), threads]
        lines.append("| " + " | ".join(cells).replace("|  |", "| |") + " |")
    return "\n".join(lines) + "\n"


def page(old: str) -> str:
    """The page with its table as it should be."""
    head, _, rest = old.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return head + BEGIN + "\n" + table() + "\n" + END + tail
