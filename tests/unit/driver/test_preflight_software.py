"""What the look sees of software on odd hosts: conda, another CUDA, apt and dpkg."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_stack import host_rules, preflight
from gpu_stack.components.cuda import rules as cuda_rules
from gpu_stack.components.tensorflow import rules as tensorflow_rules
from gpu_stack.host import surroundings

from .odd_hosts import CUDA_LIST, USERS, process
from .trees import context, status, tree

# conda, another CUDA


@pytest.fixture
def ssh_user(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SUDO_USER", "ada")
    return "ada"


def test_the_home_is_that_of_who_came_by_ssh(
    tmp_path: Path, ssh_user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, {"/etc/passwd": USERS + "ada:x:9:9:again:/elsewhere:/bin/sh\nada\n"})
    alice = {"/home/alice": ("ada", 1001, 100)}
    assert tensorflow_rules.callers_home(context(tmp_path)) == alice
    monkeypatch.setenv("SUDO_USER", "eve")
    assert tensorflow_rules.callers_home(context(tmp_path)) == {}
    monkeypatch.delenv("SUDO_USER")
    assert tensorflow_rules.callers_home(context(tmp_path)) == {}
    assert tensorflow_rules.callers_home(context(tmp_path / "none")) == {}
    # A line that is cut off, has a field too many or an id that is none is no user's.
    monkeypatch.setenv("SUDO_USER", "eve")
    broken = "eve:x:5:5:Eve:/home/alice\neve:x:5:5:Eve:/b:/c:/d\neve:x:5x:5:::\neve:x:5:5x:::\n"
    tree(tmp_path, {"/etc/passwd": broken})
    assert tensorflow_rules.callers_home(context(tmp_path)) == {}


@pytest.mark.parametrize(
    "path",
    [
        "/etc/profile.d/conda.sh",
        "/root/.bashrc",
        "/root/.bash_profile",
        "/root/.profile",
        "/home/alice/.bashrc",
        "/home/alice/.bash_profile",
        "/home/alice/.profile",
    ],
)
def test_conda_is_seen_in_every_file_of_a_login(tmp_path: Path, ssh_user: str, path: str) -> None:
    """Also where so many people have a home that not all of theirs are read."""
    crowd = "".join(
        f"a{number}:x:{2000 + number}:100::/home/a{number}:/bin/bash\n"
        for number in range(surroundings.PEOPLE)
    )
    tree(tmp_path, {"/etc/passwd": crowd + USERS, path: "x\n# >>> conda initialize >>>\n"})
    assert tensorflow_rules.conda(context(tmp_path)) == [path]


def test_conda_of_others_than_who_came_by_ssh_is_seen(tmp_path: Path) -> None:
    tree(tmp_path, {"/etc/passwd": USERS, "/home/alice/.zshrc": "# >>> conda initialize >>>\n"})
    assert tensorflow_rules.conda(context(tmp_path)) == ["/home/alice/.zshrc"]


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("# !! Contents within this block are managed by 'conda init'\n", False),
        ("conda initialize\n", True),
        ("export PATH=/opt/anaconda3/bin:$PATH\n", True),
        ("export PATH=/opt/miniconda3/bin:$PATH\n", True),
        ("export PATH=/opt/mambaforge/bin:$PATH\n", True),
        ("export PATH=/opt/miniforge3/bin:$PATH\n", True),
        ("x\n  PATH=$HOME/anaconda3/bin:$PATH\n", True),
        ("# export PATH=/opt/anaconda3/bin:$PATH\n", False),
        ("export PATH=/opt/conda-tools/bin:$PATH\n", False),
        ("export PATH=/usr/bin:$PATH\n", False),
        ("", False),
    ],
)
def test_lines_that_put_conda_first(tmp_path: Path, line: str, seen: bool) -> None:
    tree(tmp_path, {"/root/.profile": line, "/etc/profile.d/conda.sh": ""})
    assert tensorflow_rules.conda(context(tmp_path)) == (["/root/.profile"] if seen else [])


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("export PATH=/opt/anaconda3/bin # mine\n", True),
        ("a=1 # PATH=/opt/anaconda3/bin\n", False),
        ("export PATH=/a#b/anaconda3/bin\n", True),
        ("export PATH=/usr/bin:/opt/miniconda3/bin/bin\n", True),
        ("export PATH=/usr/bin; PATH=/opt/mambaforge/bin\n", True),
        ("export PATH=/usr#bin; PATH=/opt/mambaforge/bin\n", False),
        ("export PATH=/opt/anaconda-3/bin\n", False),
        ("export PATH=/opt/anaconda3/lib\n", False),
        ("export PATH=/anaconda3 /usr/bin\n", False),
        ("MYPATH=PATH=/opt/anaconda3/bin\n", True),
    ],
)
def test_parts_of_a_line_that_put_conda_first(tmp_path: Path, line: str, seen: bool) -> None:
    tree(tmp_path, {"/root/.profile": line})
    assert tensorflow_rules.conda(context(tmp_path)) == (["/root/.profile"] if seen else [])


def test_a_line_that_many_patterns_nearly_match_is_read_to_its_end(tmp_path: Path) -> None:
    """A regular expression took seconds for so short a line, and minutes for twice as long a one.

    The next login file is still seen: the look has not given up on this home.
    """
    files = {
        "/root/.bashrc": ("PATH=" * 300 + "ana" * 800 + "\n") * 2,
        "/root/.profile": "# conda initialize\n",
    }
    tree(tmp_path, files)
    assert tensorflow_rules.conda(context(tmp_path)) == ["/root/.profile"]


@pytest.mark.parametrize(("longer", "seen"), [(0, True), (1, False)])
def test_a_line_of_more_than_4096_characters_is_left_out(
    tmp_path: Path, longer: int, seen: bool
) -> None:
    line = "conda initialize".ljust(4096 + longer)
    tree(tmp_path, {"/root/.profile": line + "\n"})
    assert tensorflow_rules.conda(context(tmp_path)) == (["/root/.profile"] if seen else [])


def test_a_line_without_condas_path_is_false_and_not_none() -> None:
    """A login file's name is written as often as its text matches."""
    comments = ("# PATH=/opt/anaconda3/bin", "PATH=/usr/bin#mine", "PATH=/usr/bin # mine")
    for line in ("", "PATH=/usr/bin", *comments):
        assert tensorflow_rules._has_condas_path(line) is False, line


def test_roots_login_files_are_read_as_root_where_no_passwd_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(surroundings, "login_files", lambda *given: asked.append(given[1]) or [])
    assert tensorflow_rules.conda(context(tmp_path)) == []
    assert asked == [{"/root": ("root", 0, 0)}]


def test_condas_own_script_counts_whatever_is_in_it(tmp_path: Path) -> None:
    tree(tmp_path, {"/etc/profile.d/conda.sh": "true\n"})
    assert tensorflow_rules.conda(context(tmp_path)) == ["/etc/profile.d/conda.sh"]


@pytest.mark.parametrize(
    "file",
    [
        "/etc/environment",
        "/etc/profile",
        "/etc/bash.bashrc",
        "/root/.bashrc",
        "/etc/profile.d/cuda.sh",
        "/etc/ld.so.conf.d/cuda.conf",
    ],
)
def test_a_cuda_of_nobody_is_named_by_every_such_file(tmp_path: Path, file: str) -> None:
    text = "x=/usr/local/cuda/bin\n"
    others = {"/etc/profile.d/other.sh": "true\n", "/etc/profile.d/cuda.txt": text}
    tree(tmp_path, {"/usr/local/cuda/bin/nvcc": "", file: text, **others})
    expected = {"path": "/usr/local/cuda", "named_in": [file]}
    assert cuda_rules.usr_local_cuda(context(tmp_path)) == expected


def test_no_cuda_there_is_none(tmp_path: Path) -> None:
    tree(tmp_path, {"/etc/environment": "PATH=/usr/local/cuda/bin\n"})
    assert cuda_rules.usr_local_cuda(context(tmp_path)) is None


@pytest.mark.parametrize(
    ("package", "path", "owned"),
    [
        ("cuda-toolkit-10-1-config-common", "/usr/local/cuda", True),
        ("cuda-toolkit-10-1", "/usr/local/cuda-10.1", True),
        ("cuda-toolkit-10-1", "/usr/local/cuda-11.0", False),
        # Anybody's package may have a file there; CUDA's own have the directory.
        ("my-cuda-tools", "/usr/local/cuda-10.1", False),
    ],
)
def test_a_cuda_of_a_package_is_nothing_to_tell(
    tmp_path: Path, package: str, path: str, owned: bool
) -> None:
    info = f"/var/lib/dpkg/info/{package}.list"
    files = {
        "/usr/local/cuda-10.1/bin/nvcc": "",
        "/var/lib/dpkg/status": status(("apt", "2.2"), (package, "1"), ("zlib1g", "1")),
        info: f"/.\n/usr\n{path}\n",
    }
    tree(tmp_path, files, {"/usr/local/cuda": "cuda-10.1"})
    assert (cuda_rules.usr_local_cuda(context(tmp_path)) is None) is owned


# apt and dpkg


@pytest.mark.parametrize(
    ("keys", "refused"),
    [
        ([], False),
        ([""], False),
        (["a"], False),
        (["", ""], False),
        (["a", "a"], False),
        (["", "a"], False),
        (["", "", "a", "a"], False),
        (["a", ""], True),
        (["a", "b"], True),
        (["", "a", ""], True),
        (["a", "a", "b"], True),
        (["", "a", "a", "b"], True),
    ],
)
def test_apt_refuses_a_key_that_is_followed_by_another_or_by_none(
    keys: list[str], refused: bool
) -> None:
    assert host_rules._contradicts(keys) is refused


def test_all_files_of_a_conflict_are_reported_in_order(tmp_path: Path) -> None:
    folder = "/etc/apt/sources.list.d/"
    files = {f"{folder}{name}.list": CUDA_LIST.replace("cuda", name) for name in "ebdacfg"}
    tree(tmp_path, files)
    (conflict,) = host_rules.signed_by_conflicts(context(tmp_path))
    assert conflict[2] == sorted(files)


def test_repositories_are_compared_by_address_and_suite(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "/etc/apt/sources.list": "deb https://b.example/debian stable main\n",
            "/etc/apt/sources.list.d/a.list": CUDA_LIST,
            "/etc/apt/sources.list.d/b.sources": "Types: deb\nURIs: https://nvidia.example/x86_64\n"
            "Suites: / other\nSigned-By: /usr/share/keyrings/old.gpg\n",
            "/etc/apt/sources.list.d/c.list": "deb [Signed-By=/k] https://a.example/x y main\n"
            "deb https://a.example/x/ y main\ndeb [arch=amd64] https://a.example/x z main\n",
        },
    )
    folder = "/etc/apt/sources.list.d/"
    assert host_rules.signed_by_conflicts(context(tmp_path)) == [
        ["https://a.example/x", "y", [folder + "c.list"]],
        ["https://nvidia.example/x86_64", "/", [folder + "a.list", folder + "b.sources"]],
    ]


@pytest.mark.parametrize(
    ("state", "listed"),
    [
        ("installed", False),
        ("triggers-pending", False),
        ("triggers-awaited", False),
        ("config-files", False),
        ("not-installed", False),
        ("half-installed", True),
        ("half-configured", True),
        ("unpacked", True),
    ],
)
def test_what_dpkg_has_not_finished(tmp_path: Path, state: str, listed: bool) -> None:
    """Triggers that are pending run with the next package; nobody needs to do anything."""
    whole = status(("apt", "2.2", "install", "installed"))
    journal = f"Package: slow\nStatus: install ok {state}\n"
    tree(tmp_path, {"/var/lib/dpkg/status": whole, "/var/lib/dpkg/updates/0001": journal})
    expected = [["slow", state]] if listed else []
    assert host_rules.unfinished(context(tmp_path)) == expected
    files = {
        "/var/lib/dpkg/status": status(("slow", "1", "install", state)),
        "/var/lib/dpkg/updates/0001": "",
        "/var/lib/dpkg/updates/tmp.i": journal,
    }
    tree(tmp_path, files)
    assert host_rules.unfinished(context(tmp_path)) == expected


def test_a_journal_that_is_cut_off_is_left_out(tmp_path: Path) -> None:
    for text in ("Package: slow\n", "Status: install ok unpacked\n"):
        tree(tmp_path, {"/var/lib/dpkg/updates/0001": text, "/var/lib/dpkg/updates/0002/x": ""})
        assert host_rules.unfinished(context(tmp_path)) == []


def test_unfinished_packages_are_reported_in_order(tmp_path: Path) -> None:
    names = ["e", "b", "d", "a", "c"]
    rows = [(name, "1", "install", "unpacked") for name in names]
    tree(tmp_path, {"/var/lib/dpkg/status": status(*rows)})
    packages = host_rules.unfinished(context(tmp_path))
    assert [name for name, _state in packages] == sorted(names)


def test_a_dpkg_at_work_is_a_process_of_roots_of_that_name(tmp_path: Path) -> None:
    """Anybody could keep a half-installed package out of the plan by a process named dpkg."""
    tree(tmp_path, process(7, "dpkg-query") | process(8, "bash") | {"/proc/5/comm/x": ""})
    tree(tmp_path, process(6, "dpkg") | {"/proc/6/status": "Uid:\t1000\t0\t0\t0\n"})
    assert host_rules.dpkg_at_work(context(tmp_path)) is False
    tree(tmp_path, process(9, "dpkg") | {"/proc/9/status": "Uid:\t0\t0\t0\t0\n"})
    assert host_rules.dpkg_at_work(context(tmp_path)) is True


@pytest.mark.parametrize(
    "name",
    [
        "cuda-drivers",
        "cuda-drivers-535",
        "nvidia-open",
        "nvidia-open-570",
        "nvidia-driver-535",
        "nvidia-driver-535-server",
        "nvidia-driver-535-open",
        "nvidia-driver-535-server-open",
        "libnvidia-compute-535",
        "libnvidia-compute-535-server",
        "nvidia-tesla-470-driver",
        "nvidia-legacy-390xx-driver",
    ],
)
def test_drivers_from_elsewhere(tmp_path: Path, name: str) -> None:
    names = ("nvidia-driver", "nvidia-smi", "libcuda1", "cuda-toolkit-12-4", "xnvidia-open", name)
    tree(tmp_path, {"/var/lib/dpkg/status": status(*[(name, "1") for name in names])})
    assert preflight.look(context(tmp_path))["foreign"] == [name]


def test_cudas_library_for_older_drivers_is_no_driver(tmp_path: Path) -> None:
    """As on a real host, beside a driver of no package: it stopped the run there."""
    tree(tmp_path, {"/var/lib/dpkg/status": status(("cuda-compat-13-0", "580.95.05-0ubuntu1"))})
    assert preflight.look(context(tmp_path))["foreign"] == []
