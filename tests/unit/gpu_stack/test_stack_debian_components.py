"""Components of the platform's archive are enabled as the host's own sources name it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.provision.gpu.plugins.modules import debian_components as module
from gpu_stack.host import debian_components

from plugins.modules import debian_components as described
from tests.unit.gpu_stack import apt_host
from tests.unit.gpu_stack.apt_host import AptHost

OWN = "http://ada:s%40cret@mirror.example.org/debian"
BARE = "http://mirror.example.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
CUDA = {
    "component": "cuda", "title": "CUDA", "suites": ["bookworm", "oldstable"],
    "uri": "http://deb.debian.org/debian", "keyring": KEYRING,
}  # fmt: skip
DRIVER = {"component": "nvidia_driver", "title": "The driver", "suites": ["bookworm"]}
NEEDS_APT = pytest.mark.skipif(not shutil.which("apt-get"), reason="no apt here to ask")


class Sources:
    """A host's apt sources; `apt` reads them alone."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "etc/apt/sources.list.d"
        self.folder.mkdir(parents=True)
        self.path = self.folder / "provision-debian-nonfree.sources"

    def write(self, name: str, text: str) -> Path:
        path = self.root / "etc/apt" / name
        path.write_text(text, "utf-8")
        return path

    def settle(self, *, check_mode: bool = False, **options: Any) -> dict[str, Any]:
        options = {"components": ["contrib"], "path": str(self.path), **options}
        parameters = apt_host.parameters(described, **options)
        result: dict[str, Any] = debian_components.settle(parameters, check_mode)
        return result

    def refused(self, **options: Any) -> str:
        with pytest.raises(debian_components.RefusalError) as error:
            self.settle(**options)
        return str(error.value)

    @property
    def stanzas(self) -> list[str]:
        """What was written, without its head."""
        return self.path.read_text().split("\n\n")[1:]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sources:
    sources = Sources(tmp_path / "root")
    conf = tmp_path / "apt.conf"
    conf.write_text(
        f'Dir "{sources.root}";\nAPT::Architecture "amd64";\nAPT::Architectures {{ "amd64"; }};\n'
        'Acquire::Languages "none";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(conf))
    lists = tuple(str(sources.folder / name) for name in ("*.list", "*.sources"))
    monkeypatch.setattr(debian_components, "LISTS", lists)
    return sources


pytestmark = NEEDS_APT


@pytest.mark.parametrize("role", [CUDA, DRIVER], ids=["cuda", "driver"])
def test_they_come_from_where_main_comes_from(host: Sources, role: dict[str, Any]) -> None:
    host.write(
        "sources.list",
        f"deb {BARE}/ bookworm main contrib\ndeb {BARE} bookworm-updates main\n"
        f"deb [signed-by=/k.gpg trusted=yes] {BARE}-security bookworm-security main # x\n"
        f"deb {BARE} bookworm-backports main\ndeb http://x.example.org/y stable main\n",
    )
    result = host.settle(components=["contrib", "non-free"], **role)
    assert result == {"changed": True, "wanting": ["non-free"], "uris": [BARE]}
    assert host.path.read_text().startswith("# Written by provision: components of Debian's ")
    assert host.stanzas == [
        f"Types: deb\nURIs: {BARE}\nSuites: bookworm\nComponents: non-free",
        f"Types: deb\nURIs: {BARE}\nSuites: bookworm-updates\nComponents: contrib non-free",
        f"Types: deb\nURIs: {BARE}-security\nSuites: bookworm-security\n"
        "Components: contrib non-free\nSigned-By: /k.gpg\nTrusted: yes\n",
    ]
    assert host.path.stat().st_mode & 0o777 == 0o644
    again = host.settle(components=["contrib", "non-free"], **role)
    assert again == {"changed": False, "wanting": [], "uris": [BARE]}


def test_files_of_a_former_mirror_go_first_and_what_they_enabled_is_enabled_anew(
    host: Sources,
) -> None:
    host.write("sources.list", f"deb {BARE} bookworm main\n")
    mirror = host.write(
        "sources.list.d/provision-cuda-mirror.sources",
        "Types: deb\nURIs: http://gone.example.org/debian\nSuites: bookworm\n"
        "Components: contrib\nTrusted: yes\n",
    )
    former = [str(mirror), str(host.root / "etc/apt/auth.conf.d/provision-cuda-mirror.conf")]
    assert host.settle(**CUDA)["wanting"] == []
    assert host.settle(check_mode=True, former=former, **CUDA)["changed"] is True
    assert mirror.exists()
    result = host.settle(former=former, **CUDA)
    assert result == {"changed": True, "wanting": ["contrib"], "uris": [BARE]}
    assert not mirror.exists()
    assert host.settle(former=former, **CUDA)["changed"] is False


def test_a_component_more_keeps_those_that_were_enabled_here(host: Sources) -> None:
    host.write("sources.list", f"deb {BARE} bookworm main\n")
    host.settle(**CUDA)
    assert host.settle(components=["contrib", "non-free"], **DRIVER)["wanting"] == ["non-free"]
    assert "Components: contrib non-free" in host.stanzas[0]


def test_one_that_was_switched_off_is_enabled_again(host: Sources) -> None:
    host.write("sources.list", f"deb {BARE} bookworm main\n")
    host.settle(**CUDA)
    text = host.path.read_text()
    host.path.write_text(text.replace("Types: deb", "Enabled: no\nTypes: deb"))
    assert host.settle(**CUDA)["changed"] is True
    assert host.path.read_text() == text


def test_the_key_is_the_one_that_the_hosts_own_entry_names(host: Sources) -> None:
    """Debian 13 calls the archive's keyring .pgp and keeps .gpg as a link: apt compares names."""
    pgp = "/usr/share/keyrings/debian-archive-keyring.pgp"
    inline = "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQGN\n"
    host.write(
        "sources.list.d/debian.sources",
        f"# one\n\nTypes: deb\nURIs: {BARE}\nSuites: bookworm\nComponents: main\nSigned-By: {pgp}\n"
        f"\n# two\nTypes: deb deb-src\nURIs: {BARE}-b\nSuites: bookworm\nComponents: main\n{inline}"
        f"\nTypes: deb\nURIs: {BARE}-c\nSuites: bookworm\nComponents: main\nTrusted: yes\n",
    )
    host.settle(**CUDA)
    first, second, third = host.stanzas
    assert first.splitlines()[4:] == [f"Signed-By: {pgp}"]
    assert second.splitlines()[4:] == [
        "Signed-By: ", " -----BEGIN PGP PUBLIC KEY BLOCK-----", " .", " mQGN",
    ]  # fmt: skip
    assert third.splitlines()[4:] == ["Trusted: yes"]
    assert debian_components.targets()


def test_without_a_source_of_the_release_the_archives_own_is_named(host: Sources) -> None:
    host.write("sources.list", f"deb {BARE} bookworm-updates main\n")
    host.settle(**CUDA)
    assert host.stanzas == [
        "Types: deb\nURIs: http://deb.debian.org/debian\nSuites: bookworm\nComponents: contrib\n"
        f"Signed-By: {KEYRING}\n"
    ]


def test_a_mirror_is_named_without_its_password(host: Sources) -> None:
    host.write("sources.list", "deb http://deb.example.org/debian bookworm main contrib\n")
    result = host.settle(mirror=OWN, **CUDA)
    assert (result["changed"], result["wanting"]) == (True, ["contrib"])
    assert host.path.read_text() == (
        "# Written by provision: the mirror that cuda_mirror names.\n"
        f"Types: deb\nURIs: {BARE}\nSuites: bookworm\nComponents: contrib\nSigned-By: {KEYRING}\n"
    )
    assert host.settle(mirror=OWN, **CUDA)["changed"] is False


def test_the_drivers_mirror_is_named_whole(host: Sources) -> None:
    host.write("sources.list", f"deb [signed-by=/k.gpg] {BARE} bookworm main contrib\n")
    options = {"mirror": OWN + "/", "always": True, "components": ["main", "contrib"], **DRIVER}
    assert host.settle(**options)["changed"] is True
    assert host.path.read_text() == (
        "# Written by provision: the mirror that nvidia_driver_mirror names.\n"
        f"Types: deb\nURIs: {BARE}/\nSuites: bookworm\nComponents: main contrib\n"
        "Signed-By: /k.gpg\n"
    )
    assert host.settle(**options)["changed"] is False
    host.path.chmod(0o600)
    assert host.settle(**options)["changed"] is True
    assert host.path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("role", [CUDA, DRIVER], ids=["cuda", "driver"])
@pytest.mark.parametrize(
    "name", ["sources.list", "sources.list.d/a.list", "sources.list.d/zz.list"]
)
def test_a_password_of_the_hosts_own_source_is_not_repeated(
    host: Sources, role: dict[str, Any], name: str
) -> None:
    """It was copied into a file that everybody can read.

    apt takes the login of whoever names a repository first; behind ours it would find none, so such
    a source is refused, with where its password belongs.
    """
    path = host.write(name, f"deb {OWN} bookworm main\n")
    host.write("sources.list.d/zz-of-another.list", f"# {OWN}\ndeb {OWN}-x stable main\n")
    if "zz" not in name:
        assert host.settle(**role)["changed"] is True
        assert f"URIs: {BARE}\n" in host.path.read_text()
        assert "Components: contrib" in host.path.read_text()
        assert "cret" not in host.path.read_text()
        return
    text = host.refused(**role)
    assert text == (
        f"{path}: an address with a password in it, which {host.path} would have to repeat, and"
        " everybody on this host may read that. Write `machine ADDRESS login USER password"
        " PASSWORD` into a file of /etc/apt/auth.conf.d (mode 0600) and take both out of the"
        f" address, or set {role['component']}_mirror. {role['title']} was not touched."
    )
    assert not host.path.exists()
    assert host.settle(mirror=BARE, **role)["changed"] is True
    path.write_text(f"deb {OWN} bookworm main contrib\n")
    host.path.unlink()
    assert host.settle(**role) == {"changed": False, "wanting": [], "uris": [BARE]}


def test_what_apt_cannot_read_is_said(host: Sources) -> None:
    host.write("sources.list.d/a.sources", f"Types: deb\nURIs: {BARE}\n")
    assert host.refused(**CUDA).startswith("apt cannot read its sources: E: ")


CONFLICT = "E: Conflicting values set for option Signed-By regarding source"


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (KEYRING, "/k.pgp", ["Signed-By: /k.pgp"]),
        ("/k.pgp", KEYRING, ["Signed-By: /k.pgp"]),
        (KEYRING, "", []),
    ],
)
def test_where_apt_names_another_key_it_is_taken(
    host: Sources, monkeypatch: pytest.MonkeyPatch, left: str, right: str, expected: list[str]
) -> None:
    apt: AptHost = apt_host.install(monkeypatch)
    uri = str(CUDA["uri"])
    words = f"{CONFLICT} {uri}/ bookworm: {left} != {right}\n"
    apt.says("apt-get indextargets", (100, "", words), (0, "", ""))
    apt.says("--no-release-info", (0, "", ""))
    assert host.settle(**CUDA)["changed"] is True
    assert host.stanzas[0].splitlines()[4:] == expected
    assert len(apt.ran("apt-get indextargets")) == 2


def test_a_conflict_of_others_is_said(host: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    apt = apt_host.install(monkeypatch)
    apt.says("apt-get indextargets", (100, "", f"{CONFLICT} http://x/ y: a != b\n"))
    apt.says("--no-release-info", (0, "", ""))
    assert host.refused(**CUDA) == (f"apt cannot read its sources: {CONFLICT} http://x/ y: a != b")


def test_the_module_says_no_password_and_writes_nothing_in_check_mode(
    host: Sources, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    host.write("sources.list", f"deb {OWN} bookworm main\n")
    options = {**CUDA, "components": ["contrib"], "path": str(host.path), "mirror": OWN + "-x"}
    for check_mode in (True, False):
        with (
            patch_module_args(
                {**options, "_ansible_check_mode": check_mode, "_ansible_diff": True}
            ),
            pytest.raises(SystemExit) as ended,
        ):
            module.main()
        result = json.loads(capsys.readouterr().out)
        assert (ended.value.code, result["changed"]) == (0, True)
        assert "cret" not in json.dumps(result)
        assert "diff" not in result
        assert host.path.exists() is not check_mode
