"""What the fleet's cache serves: the words of nginx's configuration for what the lock names.

A cache has the layout of a bundle, so that hosts take one as the other. Each address that nothing
in the lock names is refused: a cache is no way out for whoever reaches it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from ansible.errors import AnsibleFilterError
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import bundle_layout

_HOST = re.compile(r"[A-Za-z0-9.-]+")
_PLAIN = re.compile(r"[A-Za-z0-9._~+/@:,=-]*")
_PROJECT = re.compile(r"[a-z0-9-]+")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def cache_site(contents: Mapping[str, Any], index: str, wheels: Sequence[str]) -> dict[str, Any]:
    """{upstreams, folders, files, index} for the template of nginx's configuration, and manifest,
    by which a host knows the cache as it knows a bundle.

    contents: of stacks/gpu_cache.yml. index: the index of wheels; wheels: where it has them.
    AnsibleFilterError for what can't stand in that file.
    """
    servers = _Servers()
    for url in [*contents["archives"], *wheels]:
        servers.add_folder(url)
    files = [
        {"sha256": _checked(_SHA256, sha256, "SHA-256"), "path": servers.add_file(urls[0])}
        for sha256, urls in sorted(contents["files"].items())
    ]
    projects = [_checked(_PROJECT, name, "project") for name in sorted(contents["projects"])]
    upstream = servers.server(index)
    path = _path(index).strip("/")
    return {
        "manifest": {
            "format": bundle_layout.FORMAT,
            "lock": contents["lock"],
            "platforms": list(contents["platforms"]),
            # How long they are is known where they are.
            "files": {
                bundle_layout.file(sha256, urls[0]): {"sha256": sha256, "size": 0}
                for sha256, urls in sorted(contents["files"].items())
            },
        },
        "files": files,
        "index": {
            "upstream": upstream,
            "place": f"{upstream['root']}/{path}/" if path else f"{upstream['root']}/",
            "projects": projects,
        },
        "folders": servers.folders,
        "upstreams": servers.servers,
    }


def _checked(shape: re.Pattern[str], value: object, kind: str) -> str:
    if not isinstance(value, str) or shape.fullmatch(value) is None:
        raise AnsibleFilterError(f"{value!r} is no {kind}, and a cache can't serve it")
    return value


def _path(url: str) -> str:
    """The path of an address, decoded, as nginx has it."""
    path = unquote(urlsplit(url).path)
    if _PLAIN.fullmatch(path) is None or ".." in path.split("/"):
        raise AnsibleFilterError(f"{url}: a cache serves paths of plain names")
    return path


class _Servers:
    """The servers of some addresses, and the first folder of each address there.

    The first folder and not the whole path: a server may lead from one place to another in it, as
    snapshot.debian.org does from a time to the archive's state of that time.
    """

    def __init__(self) -> None:
        self._servers: dict[str, dict[str, Any]] = {}
        self._folders: dict[tuple[str, str], dict[str, Any]] = {}

    def add_folder(self, url: str) -> None:
        """Adds what is below an address."""
        self._add(url, _path(url).strip("/"))

    def add_file(self, url: str) -> str:
        """Adds a file; returns its path in the cache."""
        path = _path(url).strip("/")
        self._add(url, path.rpartition("/")[0])
        return f"{self.server(url)['root']}/{path}"

    def _add(self, url: str, folder: str) -> None:
        server = self.server(url)
        top = f"/{folder.partition('/')[0]}/" if folder else "/"
        self._folders.setdefault((server["root"], top), {"upstream": server, "folder": top})

    def server(self, url: str) -> dict[str, Any]:
        """{name, scheme, host, authority, server, root} of an address's server, by HTTPS if any
        address names that.
        """
        parts = urlsplit(url)
        host = parts.hostname or ""
        if (
            parts.scheme not in ("http", "https")
            or not _HOST.fullmatch(host)
            or "@" in parts.netloc
        ):
            raise AnsibleFilterError(f"{url}: a cache fetches from https:// or http:// and a name")
        number = len(self._servers)
        server = self._servers.setdefault(parts.netloc, {"name": f"artifacts{number}"})
        if server.get("scheme") != "https":
            port = parts.port or (443 if parts.scheme == "https" else 80)
            server.update(
                scheme=parts.scheme,
                host=host,
                authority=parts.netloc,
                server=f"{host}:{port}",
                root="/" + bundle_layout.archive(f"{parts.scheme}://{parts.netloc}"),
            )
        return server

    @property
    def servers(self) -> list[dict[str, Any]]:
        return list(self._servers.values())

    @property
    def folders(self) -> list[dict[str, Any]]:
        # An archive at the top of a server has all of it.
        whole = {root for root, folder in self._folders if folder == "/"}
        return [
            self._folders[root, folder]
            for root, folder in sorted(self._folders)
            if folder == "/" or root not in whole
        ]


class FilterModule:
    """Ansible's way to find it."""

    def filters(self) -> dict[str, Any]:
        return {"cache_site": cache_site}
