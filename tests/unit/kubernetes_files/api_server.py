"""An API server of Kubernetes and its etcd on this machine, from programs that are given.

KUBEBUILDER_ASSETS names the folder that has them, as for controller-runtime's envtest: `etcd`,
`kube-apiserver`, and, where Jobs are to get pods, `kube-controller-manager`. Debian has etcd and
kubectl, and no API server. There is no kubelet and no scheduler: no container is started.
"""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import trustme

from provision.locallab.vm.guest import free_port
from tests.ports import free_ports

ASSETS = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nowhere"))
PATIENCE = 300
TOKEN = "of-this-test-alone"  # noqa: S105 of a server on 127.0.0.1 that ends with the test


def has(program: str) -> bool:
    return os.access(ASSETS / program, os.X_OK)


def until(what: str, ask: Callable[[], Any]) -> Any:
    """The first true answer; AssertionError after some minutes."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.5)
    raise AssertionError(f"after {PATIENCE} s: {what}")


class Cluster:
    """The API as JSON over HTTPS."""

    def __init__(self, port: int, certificate: Path) -> None:
        self.address = f"https://127.0.0.1:{port}"
        self.certificate = certificate

    def ask(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[int, Any]:
        """(status, answer); 0 where there is none."""
        request = urllib.request.Request(  # noqa: S310 an address of this test's
            self.address + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": kind},
        )
        try:
            context = ssl.create_default_context(cafile=str(self.certificate))
            with urllib.request.urlopen(request, timeout=60, context=context) as answer:  # noqa: S310
                text, status = answer.read(), answer.status
        except urllib.error.HTTPError as error:
            text, status = error.read(), error.code
        except OSError as error:
            return 0, str(error)
        with contextlib.suppress(ValueError):
            return status, json.loads(text)
        return status, text.decode()

    def apply(self, path: str, manifest: dict[str, Any], *, dry: bool = False) -> tuple[int, Any]:
        """Server-side, as `kubectl apply --server-side --validate=strict` does it."""
        query = "?fieldManager=test&fieldValidation=Strict" + ("&dryRun=All" if dry else "")
        name = manifest["metadata"]["name"]
        return self.ask("PATCH", f"{path}/{name}{query}", manifest, "application/apply-patch+yaml")


@contextlib.contextmanager
def _program(folder: Path, name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(ASSETS / name), *arguments], stdout=log, stderr=log, cwd=folder
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Cluster]:
    """A cluster that answers, with controllers where their program is given."""
    client, peer, port = free_ports(3)
    authority = trustme.CA()
    serving = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    serving.cert_chain_pems[0].write_to_path(str(folder / "tls.pem"))
    serving.private_key_pem.write_to_path(str(folder / "tls.key"))
    (folder / "tokens").write_text(f'{TOKEN},admin,1,"system:masters"\n', encoding="utf-8")
    etcd = f"http://127.0.0.1:{client}"
    of_etcd = [
        *("--data-dir", str(folder / "etcd"), "--unsafe-no-fsync"),
        *("--listen-client-urls", etcd, "--advertise-client-urls", etcd),
        *("--listen-peer-urls", f"http://127.0.0.1:{peer}"),
        *("--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"),
        *("--initial-cluster", f"default=http://127.0.0.1:{peer}"),
    ]
    of_server = [
        *("--etcd-servers", etcd, "--bind-address", "127.0.0.1", "--secure-port", str(port)),
        *("--tls-cert-file", "tls.pem", "--tls-private-key-file", "tls.key"),
        *("--token-auth-file", "tokens", "--authorization-mode", "RBAC"),
        *("--service-cluster-ip-range", "10.0.0.0/24", "--cert-dir", str(folder / "certs")),
        *("--service-account-issuer", "https://127.0.0.1"),
        *("--service-account-key-file", "tls.key", "--service-account-signing-key-file", "tls.key"),
    ]
    with contextlib.ExitStack() as stack:
        stack.enter_context(_program(folder, "etcd", *of_etcd))
        stack.enter_context(_program(folder, "kube-apiserver", *of_server))
        cluster = Cluster(port, folder / "ca.pem")
        until("the API server does not answer", lambda: cluster.ask("GET", "/readyz")[0] == 200)
        if has("kube-controller-manager"):
            stack.enter_context(_controllers(folder, cluster))
        yield cluster


def _controllers(folder: Path, cluster: Cluster) -> Any:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "users": [{"name": "test", "user": {"token": TOKEN}}],
        "clusters": [
            {
                "name": "test",
                "cluster": {
                    "server": cluster.address,
                    "certificate-authority": str(cluster.certificate),
                },
            }
        ],
    }
    (folder / "kubeconfig").write_text(json.dumps(config), encoding="utf-8")
    controllers = "job-controller,daemonset-controller,serviceaccount-controller"
    return _program(
        folder,
        "kube-controller-manager",
        *("--kubeconfig", "kubeconfig", "--leader-elect=false", "--controllers", controllers),
        *("--bind-address", "127.0.0.1", "--secure-port", str(free_port())),
        *("--cert-dir", str(folder / "certs"), "--service-account-private-key-file", "tls.key"),
    )
