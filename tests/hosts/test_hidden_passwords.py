"""The password of a mirror is seen by nobody on the host, and in no log, while a run uses it.

An ordinary user's process reads every command line and every environment that it may.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conftest import Project, make_project

pytestmark = [pytest.mark.slow]

HOST = "hidden1"
SECRET = "s3cr3t-of-the-mirror"  # noqa: S105  of a mirror that lives for this test
LOGIN = f"http://ada:{SECRET.replace('-', '%2D', 1)}@127.0.0.1:8099"
# Asks for the password, then hands over what the lab's own cache of Debian's archive gives.
SERVER = """
import base64, http.server, urllib.request
WANT = "Basic " + base64.b64encode(b"ada:SECRET").decode()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.headers.get("Authorization") != WANT:
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Basic realm=mirror")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        try:
            there = urllib.request.urlopen("http://deb.debian.org" + self.path, timeout=60)
        except urllib.error.HTTPError as error:
            self.send_response(error.code)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        data = there.read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def log_message(self, *words):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8099), Handler).serve_forever()
""".replace("SECRET", SECRET)
SPY = """
import glob, sys, time
end = time.time() + float(sys.argv[1])
while time.time() < end:
    for path in glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ"):
        try:
            data = open(path, "rb").read()
        except OSError:
            continue
        if b"s3cr3t" in data and b"spy.py" not in data:
            print(path, data.replace(b"\\0", b" ")[:300], flush=True)
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    path = tmp_path_factory.mktemp("hidden") / "project"
    for made in make_project(path, "test-hidden", [HOST]):
        serve(made)
        yield made


def serve(host: Project) -> None:
    """The mirror and the spy lie on the host; the spy runs as the user who logs in."""
    for name, text in (("mirror.py", SERVER), ("spy.py", SPY)):
        host.ssh(HOST, f"cat > /tmp/{name} <<'END'\n{text}\nEND")
    host.ssh(
        HOST,
        "proxy=$(apt-config dump | sed -n 's/^Acquire::http::Proxy \"\\(.*\\)\";/\\1/p');"
        " echo 'Acquire::http::Proxy::127.0.0.1 \"DIRECT\";'"
        " | sudo tee /etc/apt/apt.conf.d/99direct"
        " && sudo chmod 600 /tmp/mirror.py && (sudo http_proxy=$proxy setsid python3 /tmp/mirror.py"
        " >/dev/null 2>&1 </dev/null &)",
    )


def watched(host: Project, *arguments: str) -> tuple[int, str]:
    """A plain run at -vvv under the spy's eyes: (exit code, all that it printed and logged).

    The reports of earlier runs are kept, and are looked at for passwords alone.
    """
    host.ssh(HOST, "(setsid python3 /tmp/spy.py 280 >/tmp/spied 2>&1 </dev/null &)")
    done = host.playbook("-vvv", "--diff", *arguments)
    host.ssh(HOST, "pkill -x -f 'python3 /tmp/spy.py 280' || true")
    spied = host.ssh(HOST, "cat /tmp/spied")
    assert spied == "", spied[:2000]
    output = done.stdout + done.stderr
    reports = {
        path: path.read_text("utf-8", "replace")
        for path in (host.path / "report").rglob("*")
        if path.is_file()
    }
    for line in (output + "\n".join(reports.values())).splitlines():
        assert "s3cr3t" not in line, line[:600]
    latest = (host.path / "report" / "latest").resolve()
    output += "".join(reports[path] for path in sorted(reports) if latest in path.parents)
    return done.returncode, output


def test_apt_has_the_password_of_a_mirror_and_nobody_else(host: Project) -> None:
    before = host.ssh(HOST, "sudo touch /var/cache/apt/archives/mine_1_all.deb; sleep 1; date")
    options = host.path / "lab" / "host_vars" / f"{HOST}.yml"
    options.parent.mkdir(exist_ok=True)
    options.write_text(f"nvidia_driver_mirror: '{LOGIN}/debian/'\n", "utf-8")
    code, output = watched(host, "--tags", "nvidia_driver", "-e", "gpu_verify=never")
    assert code == 0, output[-3000:]
    files = host.ssh(HOST, "sudo stat -c '%a %U %n' /etc/apt/auth.conf.d/provision-*")
    assert files.split() == ["600", "root", "/etc/apt/auth.conf.d/provision-nvidia-driver.conf"]
    assert "URIs: http://127.0.0.1:8099/debian/" in host.ssh(
        HOST, "cat /etc/apt/sources.list.d/provision-nvidia-driver.sources"
    )
    # It was used: the driver came from there.
    assert "127.0.0.1:8099" in host.ssh(HOST, "apt-cache policy libcuda1"), before
    assert host.ssh(HOST, "! grep -rs s3cr3t /etc /run /var/lib/provision /var/log /opt && echo no")

    # What the run downloaded is gone, what was there is not.
    archives = host.ssh(HOST, "ls /var/cache/apt/archives")
    assert "mine_1_all.deb" in archives
    assert "libcuda1" not in archives, archives


def test_a_deleted_password_file_is_drift_that_one_run_cures(host: Project) -> None:
    """The plan said converged, and the next update of apt's ended with 401."""
    path = "/etc/apt/auth.conf.d/provision-nvidia-driver.conf"
    scope = ("--tags", "nvidia_driver", "-e", "gpu_verify=never")
    for damage in (f"rm {path}", f"chmod 644 {path}"):
        host.ssh(HOST, f"sudo {damage}")
        code, output = watched(host, "--check", *scope)
        assert (code, path in output) == (0, True), output[-3000:]
        code, output = watched(host, *scope)
        assert code == 0, output[-3000:]
        assert host.ssh(HOST, f"sudo stat -c '%a %U' {path}").split() == ["600", "root"]
        host.ssh(HOST, "sudo apt-get -qq -oAPT::Update::Error-Mode=any update")
        code, output = watched(host, "--check", *scope)
        assert (code, path in output) == (0, False), output[-3000:]


def test_a_password_of_the_hosts_own_source_is_not_copied(host: Project) -> None:
    """It went into provision-debian-nonfree.sources, which everybody reads."""
    (host.path / "lab" / "host_vars" / f"{HOST}.yml").unlink()
    host.ssh(
        HOST,
        "cd /etc/apt; sudo rm sources.list.d/provision-nvidia-driver.sources"
        " auth.conf.d/provision-nvidia-driver.conf preferences.d/provision-nvidia-driver;"
        " sudo cp -p sources.list /root/sources.list;"
        f" echo 'deb {LOGIN}/debian bullseye main' | sudo tee sources.list >/dev/null;"
        " sudo chmod 600 sources.list",
    )
    code, output = watched(host, "--tags", "nvidia_driver", "-e", "gpu_verify=never")
    assert code == 0, output[-3000:]
    text = host.ssh(HOST, "cat /etc/apt/sources.list.d/provision-debian-nonfree.sources")
    assert "URIs: http://127.0.0.1:8099/debian\n" in text
    # apt goes there with the login that the host's own entry has.
    host.ssh(HOST, "sudo apt-get -qq -oAPT::Update::Error-Mode=any update")
    assert "127.0.0.1:8099/debian bullseye/non-free" in host.ssh(HOST, "apt-cache policy libcuda1")
    host.ssh(HOST, "sudo mv /root/sources.list /etc/apt/sources.list")


def test_downloads_of_cudnn_and_wheels_show_none(host: Project) -> None:
    """The mirror has neither: both say so, and what they tried stands in no command line."""
    options = host.path / "lab" / "host_vars" / f"{HOST}.yml"
    options.write_text(
        f"cudnn_controller_file: ''\ncudnn_urls: ['{LOGIN}/cudnn.tgz']\n"
        f"tensorflow_index_url: '{LOGIN}/simple'\n",
        "utf-8",
    )
    code, output = watched(host, "--tags", "cudnn")
    assert code != 0
    # 403 or 404, as the archive behind the mirror says it.
    assert "127.0.0.1:8099/cudnn.tgz: HTTP Error 40" in output, output[-3000:]
    code, output = watched(host, "--tags", "tensorflow")
    assert code != 0
    assert "TensorFlow 2.9.3 was not installed" in output, output[-3000:]
    assert "401" not in output.rpartition("was not installed")[2][:400]
