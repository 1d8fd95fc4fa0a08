"""The documentation's site: pages from all over the repository, and reference pages made anew."""

from __future__ import annotations

import posixpath

import pytest
import yaml

from provision.roles import ROLES, all_options
from scripts import docs_site


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "see [the README](../README.md#a-role-alone)",
            "see [the README](overview.md#a-role-alone)",
        ),
        ("[cuda](../roles/cuda/README.md)", "[cuda](roles/cuda.md)"),
        ("[run.md](run.md)", "[run.md](run.md)"),
        ("[the file](../Makefile)", "the file (`Makefile`)"),
        ("[gone](../nowhere.md)", "[gone](../nowhere.md)"),
        ("[out](https://example.org/a)", "[out](https://example.org/a)"),
        ("`[cuda](../roles/cuda/README.md)`", "`[cuda](../roles/cuda/README.md)`"),
        (
            "`sbatch\ntrain.sh`, [cuda](../roles/cuda/README.md), `squeue`",
            "`sbatch\ntrain.sh`, [cuda](roles/cuda.md), `squeue`",
        ),
        ("```\n[a](../Makefile)\n```", "```\n[a](../Makefile)\n```"),
    ],
)
def test_a_link_leads_to_the_sites_page_of_its_file(text: str, expected: str) -> None:
    assert docs_site.adapted(text, "docs/README.md", "README.md") == expected


def test_a_page_from_elsewhere_links_from_its_place_in_the_site() -> None:
    text = "[how](../../docs/run.md) and [cudnn](../cudnn/README.md)"
    made = docs_site.adapted(text, "roles/cuda/README.md", "roles/cuda.md")
    assert made == "[how](../run.md) and [cudnn](cudnn.md)"


def test_the_reference_has_every_command_option_role_and_module() -> None:
    pages = {name: write() for name, write in docs_site.REFERENCE.items()}
    for command in ("lock", "apply", "lab up"):
        assert f"## provision {command}\n" in pages["reference/commands.md"]
    assert "`--check`" in pages["reference/commands.md"]
    public = [name for name, option in all_options().items() if option.public]
    assert [name for name in public if name not in pages["reference/options.md"]] == []
    for role in ROLES:
        assert f"## provision.gpu.{role.name}\n" in pages["reference/roles.md"]
    assert "## provision.gpu.gpu_state\n" in pages["reference/modules.md"]
    assert "| `blockers` |" in pages["reference/modules.md"]


def test_the_navigation_has_every_page_of_docs() -> None:
    """mkdocs would refuse one that it lacks, and `make test` builds no site."""
    text = (docs_site.ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav = str(docs_site.expanded(yaml.safe_load(text)["nav"]))
    docs = docs_site.ROOT / "docs"
    pages = [path.relative_to(docs).as_posix() for path in docs.rglob("*.md")]
    pages += [*docs_site.outside_pages(), *docs_site.REFERENCE]
    assert [page for page in pages if f"'{page}'" not in nav] == []


def test_every_link_of_a_page_leads_to_a_page_of_the_site() -> None:
    """A link that `adapted` overlooks leads out of the site, which mkdocs would refuse."""
    docs = docs_site.ROOT / "docs"
    outside = docs_site.outside_pages()
    sources = {path.relative_to(docs).as_posix(): path for path in docs.rglob("*.md")}
    sources |= {page: docs_site.ROOT / file for page, file in outside.items()}
    lost = []
    for page, path in sources.items():
        file = path.relative_to(docs_site.ROOT).as_posix()
        text = docs_site.CODE.sub("", docs_site.adapted(path.read_text("utf-8"), file, page))
        for match in docs_site.LINK.finditer(text):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(page), match["target"]))
            if target not in outside and not (docs / target).is_file():
                lost.append(f"{file}: {match.group()}")
    assert lost == []
