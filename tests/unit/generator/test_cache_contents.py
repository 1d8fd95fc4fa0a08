"""stacks/gpu_cache.yml: what the fleet's cache may fetch is what the lock names."""

from __future__ import annotations

import yaml

from provision.catalog import load
from provision.lock import Lock
from provision.render import cache, stacks
from tests.unit.generator import recorded


def test_it_is_of_the_locks_archives_files_and_projects() -> None:
    lock = recorded.lock()
    contents = cache.contents(lock, load())
    assert contents["lock"] == lock.digest
    assert contents["platforms"] == ["debian11"]
    assert contents["archives"] == ["http://deb.debian.org/debian"]
    (stack,) = lock.stacks.values()
    (urls,) = (contents["files"][stack["cudnn"]["sha256"]],)
    assert urls[0].startswith("https://developer.download.nvidia.com/")
    assert "tensorflow" in contents["projects"]


def test_nvidias_repositories_and_installers_are_in_it() -> None:
    lock = recorded.lock()
    ((name, stack),) = lock.stacks.items()
    part = {
        **stack["cuda"],
        "repository": {"url": "https://nvidia.example.org/repos/debian12"},
        "installer": {"sha256": "c" * 64, "url": "https://nvidia.example.org/cuda.deb"},
    }
    driver = {**stack["nvidia_driver"], "runfile": {"sha256": "d" * 64, "url": "/srv/x.run"}}
    slim = {**lock.slim, "stacks": {name: {**stack, "cuda": part, "nvidia_driver": driver}}}
    contents = cache.contents(Lock(slim, lock.details), load())
    assert "https://nvidia.example.org/repos/debian12" in contents["archives"]
    assert contents["files"]["c" * 64] == ["https://nvidia.example.org/cuda.deb"]
    # A file of the controller is no web server's.
    assert "d" * 64 not in contents["files"]


def test_a_server_with_a_login_is_none_that_a_cache_asks() -> None:
    lock = recorded.lock()
    ((name, (source, *_)),) = lock.details["sources"].items()
    own = {**source, "url": "https://ada:secret@mirror.example.org/debian"}
    details = {**lock.details, "sources": {name: [own]}}
    assert "secret" not in cache.render(Lock(lock.slim, details), load()).decode()


def test_it_lies_beside_the_slim_lock() -> None:
    lock = recorded.lock()
    files = stacks.render(lock)
    assert yaml.safe_load(files["stacks/gpu_cache.yml"]) == {
        cache.VARIABLE: cache.contents(lock, load())
    }
