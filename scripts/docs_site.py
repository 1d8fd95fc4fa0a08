"""Adds pages to the documentation's site besides docs/: a hook of mkdocs, for `make docs`.

Adds pages from elsewhere in the repository (README, CHANGELOG, the roles' READMEs) and adapts the
links to them; generates the reference pages from the program, the roles and the modules. So nothing
is written twice, and with --strict a broken link fails the build.
"""

from __future__ import annotations

import ast
import fnmatch
import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
# Fenced blocks, indented blocks and code spans, which may go on in the next line: their brackets
# are no links.
CODE = re.compile(r"^```.*?^```$|^ {4}.*?$|`(?:[^`\n]|\n(?!\n))*`", re.M | re.S)


def outside_pages() -> dict[str, str]:
    """{page of the site: file of the repository} of the pages outside of docs/."""
    pages = {
        "overview.md": "README.md",
        "contributing.md": "CONTRIBUTING.md",
        "changes.md": "CHANGELOG.md",
    }
    for page in sorted(ROOT.glob("roles/*/README.md")):
        pages[f"roles/{page.parent.name}.md"] = page.relative_to(ROOT).as_posix()
    return pages


def adapted(text: str, file: str, page: str) -> str:
    """The text of a file of the repository, with its relative links adapted to the site's page.

    A link to a file without a page becomes the file's name. A link to a missing file is kept, for
    mkdocs to refuse.
    """
    places = {source: target for target, source in outside_pages().items()}

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(file), match["target"]))
        anchor = match["anchor"] or ""
        if target in places:
            destination = places[target]
        elif target.startswith("docs/"):
            destination = target.removeprefix("docs/")
        elif (ROOT / target).exists():
            return f"{match['text']} (`{target}`)" if match["text"] != target else f"`{target}`"
        else:
            return match.group()
        return (
            f"[{match['text']}]({posixpath.relpath(destination, posixpath.dirname(page))}{anchor})"
        )

    parts, end = [], 0
    for code in CODE.finditer(text):
        parts += [LINK.sub(link, text[end : code.start()]), code.group()]
        end = code.end()
    return "".join([*parts, LINK.sub(link, text[end:])])


def commands() -> str:
    """A page of all commands of `provision`, with arguments and options, from the program."""
    import typer

    from provision import cli

    lines = ["# Commands", "", "What `provision COMMAND --help` says, of all commands.", ""]
    top = typer.main.get_command(cli.app)
    for name, command in _walk(top, "provision"):
        lines += [f"## {name}", "", _words(command.help), ""]
        rows = []
        for parameter in command.params:
            if parameter.name == "help" or getattr(parameter, "hidden", False):
                continue
            words = ", ".join((*parameter.opts, *parameter.secondary_opts))
            if parameter.param_type_name == "argument":
                words = parameter.metavar or (parameter.name or "").upper()
            help_text = _words(getattr(parameter, "help", "")).replace("|", "\\|")
            rows.append(f"| `{words}` | {help_text} |")
        lines += ["| | |", "|---|---|", *rows, ""] if rows else []
    return "\n".join(lines)


def _walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """(words that call it, command) of each visible command below `command`."""
    for word, below in getattr(command, "commands", {}).items():
        if below.hidden:
            continue
        if getattr(below, "commands", None):
            yield from _walk(below, f"{name} {word}")
        else:
            yield f"{name} {word}", below


def _words(text: Any) -> str:
    """Text of a docstring or of YAML as Markdown, each paragraph on one line."""
    if isinstance(text, list):
        return " ".join(_words(part) for part in text)
    text = re.sub(r"\[/?[a-z ]+\]|\f.*", "", str(text or ""), flags=re.S)
    text = re.sub(r"\b[CVOI]\(([^)]*)\)", r"`\1`", text)
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def options() -> str:
    """Every option of an inventory, from the typed options."""
    from provision.render import spec
    from provision.roles import ALL, SITE

    lines = [
        "# Options",
        "",
        "What an inventory can say beside `gpu_stack`, and what a run takes with `-e`.",
        "`provision explain NAME` says the same in a terminal.",
        "",
    ]
    for role in (*ALL, SITE):
        lines += [f"## {role.name}", "", spec.table(role).strip(), ""]
    return "\n".join(lines)


def roles() -> str:
    """Each role's entry points with what they take, from the argument specs."""
    lines = [
        "# Roles and their arguments",
        "",
        "From each role's `meta/argument_specs.yml`, as `ansible-doc -t role` shows them.",
        "",
    ]
    for path in sorted(ROOT.glob("roles/*/meta/argument_specs.yml")):
        role = path.parts[-3]
        lines += [f"## provision.gpu.{role}", "", f"See [{role}](../roles/{role}.md).", ""]
        specs = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]
        for entry, says in specs.items():
            lines += [f"**`{entry}`**: {_words(says.get('short_description'))}", ""]
            lines += _table(says.get("options") or {})
    return "\n".join(lines)


def modules() -> str:
    """Each module's documentation, options and return values, from its source."""
    from provision.collection import documented_options

    lines = ["# Modules", "", "As `ansible-doc -t module` shows them.", ""]
    for path in sorted(ROOT.glob("plugins/modules/*.py")):
        says = _documentation(path)
        about = says["DOCUMENTATION"]
        lines += [f"## provision.gpu.{path.stem}", "", _words(about["short_description"]) + ".", ""]
        lines += [*(f"- {_words(part)}" for part in about["description"]), ""]
        lines += _table(documented_options(about))
        if says.get("EXAMPLES"):
            lines += ["```yaml", str(says["EXAMPLES"]).strip(), "```", ""]
        returned = says.get("RETURN") or {}
        if returned:
            lines += ["| returns | |", "|---|---|"]
            lines += [f"| `{name}` | {_cell(value)} |" for name, value in returned.items()]
            lines += [""]
    return "\n".join(lines)


def _documentation(path: Path) -> dict[str, Any]:
    """DOCUMENTATION and RETURN as data, EXAMPLES as text."""
    says: dict[str, Any] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            (target,) = node.targets
            says[getattr(target, "id", "")] = node.value.value
    return {
        name: text if name == "EXAMPLES" else yaml.safe_load(text)
        for name, text in says.items()
        if name in ("DOCUMENTATION", "EXAMPLES", "RETURN")
    }


def _cell(value: Mapping[str, Any]) -> str:
    return " ".join(_words(value.get("description")).split()).replace("|", "\\|")


def _table(entries: Mapping[str, Any]) -> list[str]:
    """Options as Ansible documents them, as the lines of a table."""
    if not entries:
        return []
    lines = ["| option | type | default | |", "|---|---|---|---|"]
    for name, value in entries.items():
        kind = value.get("type", "str")
        kind += f" of {value['elements']}" if value.get("elements") else ""
        default = "required" if value.get("required") else ""
        if value.get("default") not in (None, ""):
            default = f"`{yaml.safe_dump(value['default'], default_flow_style=True, width=1000)}`"
            default = default.replace("\n...\n", "").replace("\n", "").replace("|", "\\|")
        choices = ", ".join(f"`{choice}`" for choice in value.get("choices") or ())
        text = _cell(value) + (f" One of {choices}." if choices else "")
        lines.append(f"| `{name}` | {kind} | {default} | {text} |")
    return [*lines, ""]


REFERENCE = {
    "reference/commands.md": commands,
    "reference/options.md": options,
    "reference/roles.md": roles,
    "reference/modules.md": modules,
}


def expanded(nav: Any) -> Any:
    """The navigation with patterns (`decisions/*.md`) replaced by the pages that match."""
    if isinstance(nav, list):
        return [expanded(entry) for entry in nav]
    if isinstance(nav, dict):
        return {title: expanded(entry) for title, entry in nav.items()}
    if "*" not in nav:
        return nav
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    return sorted(page for page in [*pages, *outside_pages()] if fnmatch.fnmatch(page, nav))


def on_config(config: Any) -> Any:
    """Hook of mkdocs: expands patterns in the navigation."""
    config.nav = expanded(config.nav)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Hook of mkdocs: adds the pages outside of docs/, and the generated ones."""
    from mkdocs.structure.files import File

    for page, source in outside_pages().items():
        text = adapted((ROOT / source).read_text(encoding="utf-8"), source, page)
        files.append(File.generated(config, page, content=text))
    for page, write in REFERENCE.items():
        files.append(File.generated(config, page, content=write()))
    return files


def on_page_markdown(markdown: str, page: Any, **_more: Any) -> str:
    """Hook of mkdocs: adapts the links of a page in docs/ that lead out of it."""
    path = page.file.src_path.replace(os.sep, "/")
    if path in REFERENCE or path in outside_pages():
        return markdown
    return adapted(markdown, f"docs/{path}", path)
