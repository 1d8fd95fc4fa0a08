"""Settings of apt's that keep a run's sources from being read, or that a run does not read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_stack import apt_rules
from gpu_stack.host.context import Context, Result

OWN = "SourceList='/etc/apt/sources.list'\nSourceParts='/etc/apt/sources.list.d/'\n"


def host(root: Path, out: str, rc: int = 0) -> Context:
    def run(argv: list[str]) -> Result:
        assert argv == [
            *("apt-config", "shell", "SourceList", "Dir::Etc::SourceList/f"),
            *("SourceParts", "Dir::Etc::SourceParts/d"),
        ]
        return Result(rc, out, "")

    return Context(root=str(root), runner=run)


def test_apts_own_places_are_none_to_speak_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Context, "glob", None)  # no file of apt's is read then
    assert apt_rules.elsewhere(host(tmp_path, OWN)) == []
    assert apt_rules.elsewhere(host(tmp_path, f"{OWN}more\n")) == []
    assert apt_rules.elsewhere(host(tmp_path, "", 127)) == []


def test_what_is_looked_at_is_what_the_rules_judge(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/environment").write_text("APT_CONFIG=/etc/lab.conf\n")
    context = host(tmp_path, OWN.replace("sources.list.d", "lab.d"))
    seen: Any = {"preflight": {name: look(context) for name, look in apt_rules.FACTS.items()}}
    for rule in apt_rules.RULES:
        assert rule.check(seen, [], {}, None), rule.id
        assert rule.check({"preflight": {}}, [], {}, None) == [], rule.id


@pytest.mark.parametrize(
    ("out", "seen"),
    [
        (OWN.replace("sources.list.d", "lab.d"), [("Dir::Etc::SourceParts", "/etc/apt/lab.d")]),
        (OWN.replace("sources.list'", "lab'"), [("Dir::Etc::SourceList", "/etc/apt/lab")]),
        (
            "SourceList='/srv/a b'\nSourceParts=''\n",
            [("Dir::Etc::SourceList", "/srv/a b"), ("Dir::Etc::SourceParts", "")],
        ),
        (OWN.replace("sources.list.d", "a=b"), [("Dir::Etc::SourceParts", "/etc/apt/a=b")]),
        (OWN.partition("SourceParts")[0], [("Dir::Etc::SourceParts", "")]),
    ],
)
def test_sources_elsewhere_are_named_with_the_files_that_say_so(
    tmp_path: Path, out: str, seen: list[tuple[str, str]]
) -> None:
    folder = tmp_path / "etc/apt/apt.conf.d"
    folder.mkdir(parents=True)
    (folder / "99own").write_text('Dir::Etc::sourceparts "/etc/apt/lab.d";\n')
    (folder / "50nothing").write_text('APT::Install-Recommends "no";\n')
    (tmp_path / "etc/apt/apt.conf").write_text('Dir { Etc "x"; };\n')
    files = "/etc/apt/apt.conf, /etc/apt/apt.conf.d/99own"
    assert apt_rules.elsewhere(host(tmp_path, out)) == [[*each, files] for each in seen]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", None),
        ("PATH=/bin\n#APT_CONFIG=/x\nMY_APT_CONFIG=/y\n", None),
        ("APT_CONFIG=\n", None),
        ('PATH=/bin\nAPT_CONFIG="/etc/lab.conf"\n', "/etc/lab.conf"),
        ("export APT_CONFIG = /etc/lab.conf # ours\n", "/etc/lab.conf"),
    ],
)
def test_the_variable_of_logins_is_seen(tmp_path: Path, text: str, named: str | None) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/environment").write_text(text)
    assert apt_rules.of_environment(host(tmp_path, OWN)) == named
