"""What the fleet's cache serves: what the lock names, in a bundle's layout, and nothing else."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from provision.roles.artifact_cache import ROLE
from tests.collection import IMPORTABLE, ROOT
from tests.roles.test_platforms import templated

FILES = ROOT / "roles" / "artifact_cache"
CUDNN = "b" * 64
CONTENTS: dict[str, Any] = {
    "lock": "sha256:x",
    "platforms": ["debian12"],
    "archives": [
        "http://deb.debian.org/debian",
        "http://deb.debian.org/debian-security/",
        "https://developer.example.org/compute/cuda/repos/debian12/x86_64",
        "https://mirror.example.org:8443",
    ],
    "files": {CUDNN: ["https://developer.example.org/compute/redist/cudnn/a%2Bb.tgz", "https://x"]},
    "projects": ["numpy", "tensorflow"],
}
INDEX, WHEELS = "https://pypi.org/simple", ["https://files.pythonhosted.org/packages/"]


@pytest.fixture(scope="module")
def cache_site() -> Any:
    sys.path.append(str(IMPORTABLE))
    from ansible_collections.provision.gpu.plugins.filter import artifact_cache

    return artifact_cache.cache_site


def configuration(site: dict[str, Any], **options: Any) -> str:
    """nginx's configuration, as the role's template has it."""
    environment = Environment(
        loader=FileSystemLoader(FILES / "templates"),
        trim_blocks=True,
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701  no page
    )
    environment.filters["regex_escape"] = re.escape
    values = {option.name: option.default for option in ROLE.options}
    template = environment.get_template("etc/gpu-artifact-cache/nginx.conf.j2")
    return template.render(__artifact_cache_site=site, **{**values, **options})


@pytest.fixture(scope="module")
def text(cache_site: Any) -> str:
    return configuration(cache_site(CONTENTS, INDEX, WHEELS))


def test_folders_are_those_that_the_lock_names(cache_site: Any) -> None:
    site = cache_site(CONTENTS, INDEX, WHEELS)
    assert [f"{place['upstream']['root']}{place['folder']}" for place in site["folders"]] == [
        "/archives/deb.debian.org/debian-security/",
        "/archives/deb.debian.org/debian/",
        "/archives/developer.example.org/compute/",
        "/archives/files.pythonhosted.org/packages/",
        # An archive at the top of its server.
        "/archives/mirror.example.org_8443/",
    ]
    assert site["files"] == [
        {"sha256": CUDNN, "path": "/archives/developer.example.org/compute/redist/cudnn/a+b.tgz"}
    ]
    assert [server["server"] for server in site["upstreams"]] == [
        "deb.debian.org:80",
        "developer.example.org:443",
        "mirror.example.org:8443",
        "files.pythonhosted.org:443",
        "pypi.org:443",
    ]


def test_a_host_reads_the_manifest_as_a_bundles(cache_site: Any) -> None:
    manifest = cache_site(CONTENTS, INDEX, WHEELS)["manifest"]
    assert manifest == {
        "format": 1,
        "lock": "sha256:x",
        "platforms": ["debian12"],
        "files": {f"files/{CUDNN}/a+b.tgz": {"sha256": CUDNN, "size": 0}},
    }


def test_a_server_of_both_kinds_is_asked_by_https(cache_site: Any) -> None:
    both = ["http://a.example.org/debian", "https://a.example.org/ubuntu"]
    site = cache_site({**CONTENTS, "archives": both, "files": {}}, INDEX, [])
    assert {place["upstream"]["scheme"] for place in site["folders"]} == {"https"}


def test_an_archive_at_the_top_of_a_server_has_all_of_it(cache_site: Any) -> None:
    both = ["https://a.example.org/debian", "https://a.example.org"]
    site = cache_site({**CONTENTS, "archives": both, "files": {}}, INDEX, [])
    assert [place["folder"] for place in site["folders"]] == ["/"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"archives": ["ftp://x.example.org/debian"]}, "from https:// or http://"),
        ({"archives": ["http://ada:secret@x.example.org/debian"]}, "from https:// or http://"),
        ({"archives": ["http://x.example.org/a;b"]}, "plain names"),
        ({"archives": ["http://x.example.org/%24uri"]}, "plain names"),
        ({"archives": ["http://x.example.org/a/../b"]}, "plain names"),
        ({"archives": ['http://x"y/debian']}, "from https:// or http://"),
        ({"files": {"xyz": ["https://x.example.org/a"]}}, "no SHA-256"),
        ({"projects": ["a|.*"]}, "no project"),
    ],
)
def test_what_could_not_stand_in_nginxs_file_is_refused(
    cache_site: Any, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(AnsibleFilterError, match=words):
        cache_site({**CONTENTS, **change}, INDEX, WHEELS)


def test_it_is_no_way_out_for_others(text: str) -> None:
    """No address of a request chooses a server: each is named in the file."""
    targets = re.findall(r"proxy_pass (\S+);", text)
    assert targets
    assert all(re.fullmatch(r"https?://artifacts\d+(/[a-z-]*/?)?", target) for target in targets)
    (everything,) = re.findall(r"location / \{\s*(.*?)\s*\}", text)
    assert everything == "return 404;"
    assert "if ($request_method !~ ^(GET|HEAD)$) {\n            return 405;" in text


def test_a_question_behind_an_address_is_not_asked(text: str) -> None:
    """What is kept has no question in its key: the answer to one would be everybody's file."""
    server = text.partition("    server {\n        listen")[2]
    assert 'set $args "";' in server.partition("location")[0]
    assert "$args" not in "".join(re.findall(r"proxy_cache_key .*", text))


def test_what_changes_is_asked_for_each_time_and_what_does_not_is_kept(text: str) -> None:
    (pattern,) = set(re.findall(r'location ~ "(\(/by-hash.*)" \{', text))
    kept = [
        f"/archives/d/debian/dists/bookworm/main/binary-amd64/by-hash/SHA256/{CUDNN}",
        "/archives/d/debian/pool/main/h/hello/hello_2.10-3_amd64.deb",
        "/archives/f/packages/aa/numpy-1.0-py3-none-any.whl",
        "/archives/n/compute/cudnn/x.tar.xz",
        "/archives/n/XFree86/NVIDIA-Linux-x86_64-470.run",
    ]
    asked = [
        "/archives/d/debian/dists/bookworm/InRelease",
        "/archives/d/debian/dists/bookworm/Release.gpg",
        "/archives/n/compute/cuda/repos/debian12/x86_64/Packages.gz",
    ]
    assert [path for path in kept if not re.search(pattern, path)] == []
    assert [path for path in asked if re.search(pattern, path)] == []
    assert "proxy_cache_revalidate on;" in text
    assert "proxy_cache_use_stale" not in text


def test_a_new_lock_asks_the_index_of_wheels_anew(text: str) -> None:
    """What it names may be younger than the page that is kept."""
    assert f'pypi.org $uri {CONTENTS["lock"]}";' in text


def test_one_fetches_what_several_ask_for(text: str) -> None:
    assert "proxy_cache_lock on;" in text
    # Else who waits for gigabytes hears nothing, and apt gives up after 30 seconds.
    assert text.count("slice 8m;") == 5
    assert text.count("$slice_range;\n") == text.count("slice 8m;")


def test_servers_are_judged_by_the_ca(text: str, cache_site: Any) -> None:
    assert "proxy_ssl_verify on;" in text
    own = configuration(cache_site(CONTENTS, INDEX, WHEELS), artifact_cache_ca_bundle="/srv/ca.pem")
    assert "proxy_ssl_trusted_certificate /srv/ca.pem;" in own


def test_the_options_are_in_the_file(cache_site: Any) -> None:
    site = cache_site(CONTENTS, "https://mirror.example.org:8443/pypi", [])
    text = configuration(
        site,
        artifact_cache_address="::",
        artifact_cache_port=99,
        artifact_cache_allow=["10.1.2.0/24"],
        artifact_cache_certificate="/srv/tls/x.pem",
        artifact_cache_directory="/srv/cache",
        artifact_cache_size_gb=7,
        artifact_cache_timeout=11,
    )
    assert re.findall("listen .*", text) == ["listen 0.0.0.0:99 ssl;", "listen [::]:99 ssl;"]
    assert "ssl_certificate_key /etc/gpu-artifact-cache/key.pem;" in text
    assert "allow 10.1.2.0/24;\n        deny all;" in text
    assert "proxy_cache_path /srv/cache/files " in text
    assert "max_size=7g" in text
    assert "proxy_read_timeout 11s;" in text
    assert 'location ~ "^/archives/mirror\\.example\\.org_8443/pypi/(numpy|tensorflow)/$"' in text


def test_without_limits_and_a_certificate_there_are_none(text: str) -> None:
    assert "listen 0.0.0.0:8088;" in text
    assert "deny all" not in text
    assert "ssl_certificate" not in text


def test_the_service_may_write_where_the_cache_is() -> None:
    unit = FILES / "templates/etc/systemd/system/gpu-artifact-cache.service.j2"
    (line,) = [li for li in unit.read_text().splitlines() if li.startswith("ReadWritePaths=")]
    assert "{{ artifact_cache_directory }}" in line


@pytest.mark.parametrize(
    ("name", "value", "fit"),
    [
        ("artifact_cache_port", 0, False),
        ("artifact_cache_port", 8088, True),
        ("artifact_cache_address", "cache01", False),
        ("artifact_cache_allow", ["10.1.2.3/24"], False),
        ("artifact_cache_allow", ["10.1.2.0/24", "fd00::/8"], True),
        ("artifact_cache_directory", "/srv/../etc", False),
        ("artifact_cache_directory", "/var", False),
        ("artifact_cache_directory", "/srv/cache", True),
        ("artifact_cache_size_gb", 0, False),
        ("artifact_cache_timeout", 0, False),
        ("artifact_cache_ca_bundle", "/etc/ssl/x;y", False),
        ("artifact_cache_index_url", "pypi.org", False),
        ("artifact_cache_index_url", "https://a:b@pypi.org/simple", False),
        ("artifact_cache_wheel_urls", ["file:///x"], False),
    ],
)
def test_bad_input_is_refused(name: str, value: Any, fit: bool) -> None:
    (option,) = [option for option in ROLE.options if option.name == name]
    assert (option.fault(value) is None) is fit


def test_what_is_wrong_is_said_before_anything_is_touched() -> None:
    main = yaml.safe_load((FILES / "tasks/main.yml").read_text())
    assert main[0]["ansible.builtin.import_tasks"] == "looked.yml"
    looked = yaml.safe_load((FILES / "tasks/looked.yml").read_text())
    touching = [
        task for task in looked if {"ansible.builtin.copy", "ansible.builtin.file"} & {*task}
    ]
    assert touching == []
    # For both states: what goes is no more somebody else's than what comes.
    (judged,) = [task for task in looked if "provision.gpu.cache_directory" in task]
    assert "when" not in judged
    refused = [task["name"] for task in looked if "ansible.builtin.fail" in task]
    assert refused == [
        "looked | Refuse a cache of nothing",
        "looked | Refuse a certificate without its key",
        "looked | Stop where the host could not be reached",
    ]


def test_a_lock_is_named_only_once_nginx_serves_it() -> None:
    """Else a run that is cut off leaves the former lock's folders under the new lock's name."""
    tasks = yaml.safe_load((FILES / "tasks/present.yml").read_text())
    named = [
        place for place, task in enumerate(tasks)
        if "manifest.json" in str(task.get("ansible.builtin.copy"))
    ]  # fmt: skip
    serving = [
        place for place, task in enumerate(tasks)
        if "gpu-artifact-cache.service" in str(task.get("ansible.builtin.systemd_service"))
    ]  # fmt: skip
    assert len(named) == 1
    assert max(serving) < named[0]


@pytest.mark.parametrize(
    ("written", "unread", "state"),
    [(False, "no", "started"), (False, "yes", "restarted"), (True, "no", "restarted")],
)
def test_a_service_that_systemd_has_not_read_is_restarted(
    written: bool, unread: str, state: str
) -> None:
    """A run that was cut off has written it; the next one finds the file as it should be."""
    tasks = yaml.safe_load((FILES / "tasks/present.yml").read_text())
    (start,) = [
        task["ansible.builtin.systemd_service"] for task in tasks
        if "Start it, and" in task["name"]
    ]  # fmt: skip
    assert start["daemon_reload"] is True
    variables = {
        **yaml.safe_load((FILES / "vars/main.yml").read_text()),
        "__artifact_cache_files": {"changed": written},
        "__artifact_cache_unread": {"stdout": unread},
    }
    assert templated(start["state"], **variables) == state


@pytest.mark.parametrize("file", ["looked.yml", "present.yml"])
def test_who_was_lost_in_the_middle_is_taken_no_further(file: str) -> None:
    """The collection's playbook goes on after tasks that could not reach the host."""
    tasks = yaml.safe_load((FILES / "tasks" / file).read_text())
    (place,) = [
        place for place, task in enumerate(tasks)
        if task["name"].endswith("Stop where the host could not be reached")
    ]  # fmt: skip
    assert not any("register" in task for task in tasks[place:])
    lost = tasks[place]["vars"]["__artifact_cache_lost"]
    registered = {task["register"] for task in tasks if "register" in task}
    assert set(re.findall("__artifact_cache_[a-z_]+", lost)) == registered
    for name in registered:
        results: dict[str, Any] = {key: {"changed": False} for key in registered}
        assert templated(lost, **results) == []
        results[name] = {"unreachable": True, "msg": "gone"}
        assert templated(lost, **results) == [results[name]]
