#!/usr/bin/python3
"""One HTTPS door for the workspaces of a host: nginx in front of everybody's Jupyter.

What is wished stands in /etc/gpu-front-door/door.json, and of it this program makes one site of
nginx's, one page that lists who has what, and, where the host is its own authority, a certificate.
No other site is touched, and nginx is reloaded, never restarted: whoever has a kernel open keeps
the connection. A site that nginx does not take is put back to what it was.

Jupyter's tokens may stand in an address (`?token=`), so no log of the door has a query, a referrer
or a whole request in it: the access log is of our own format, and of nginx's error log, whose lines
have the request, only what keeps nginx from running is kept.

With ACME the certificate is certbot's: this program opens port 80 for the challenges, has certbot
ask once for a certificate (a lineage of the door's own), and leaves its renewal to certbot's timer,
whose deploy hook calls renew. A server that says no is not asked again before the next run.

The role pipes it to the host's Python before it is installed (look), and then calls it: apply,
prove, remove. A timer of systemd's calls renew.

Standard library, Python 3.7.
"""

import hashlib
import html
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

ROOT = "/"
PLACE = "/etc/gpu-front-door"
DOOR = PLACE + "/door.json"
# Written before nginx is installed: what is here because of us can go with us.
BROUGHT = PLACE + "/brought"
CA, CA_KEY = PLACE + "/ca.crt", PLACE + "/ca.key"
# What nginx reads where certbot has it not, and where the role puts what it was given until that is
# known to be good.
CHAIN, KEY = PLACE + "/chain.pem", PLACE + "/key.pem"
GIVEN, GIVEN_KEY = PLACE + "/given-chain.pem", PLACE + "/given-key.pem"
GIVEN_ACME_CA = PLACE + "/given-acme-ca.pem"
PAGE = "/var/lib/gpu-front-door/index.html"
# What certbot has, and what makes it and nginx know of each other.
CERTBOT, LETSENCRYPT = "/usr/bin/certbot", "/etc/letsencrypt"
CHALLENGES = "/var/lib/gpu-front-door/acme"
HOOK = LETSENCRYPT + "/renewal-hooks/deploy/gpu-front-door"
# The CA of the ACME server's own HTTPS, as the role brings it, and it with those of the host.
ACME_CA, ACME_TRUST = PLACE + "/acme-ca.pem", PLACE + "/acme-trust.pem"
SYSTEM_TRUST = "/etc/ssl/certs/ca-certificates.crt"
CERTBOT_ENVIRONMENT = "/etc/systemd/system/certbot.service.d/gpu-front-door.conf"
OF_ACME = (HOOK, ACME_CA, ACME_TRUST, CERTBOT_ENVIRONMENT)
# After the names of others: who comes first answers where no site has the name that is asked for.
SITE = "/etc/nginx/sites-enabled/zz-gpu-front-door"
DEFAULT = "/etc/nginx/sites-enabled/default"
NGINX = "/usr/sbin/nginx"
# Where systemd leads to everybody's Jupyter and TensorBoard, whether they run or not. Only root and
# the group of nginx can open what is there, and only root can put something there.
PORTS, GROUP = "/run/gpu-workspace-ports", "www-data"
TIMERS = ("gpu-front-door.timer",)
# What systemd has for each unit that a boot starts.
ENABLED = (
    "/etc/systemd/system/multi-user.target.wants/nginx.service",
    "/etc/systemd/system/timers.target.wants/gpu-front-door.timer",
)
# With ACME.
RENEWS = "/etc/systemd/system/timers.target.wants/certbot.timer"
TIMEOUT = 60
# A CA asks from several places, and may let wait.
ACME_TIMEOUT = 300

WAYS = ("local_ca", "given", "host", "acme")
# What the page and the paths need to know of a person.
SHOWN = ("name", "kind", "gpus", "cpus", "memory", "port", "ssh_port", "tensorboard_port")
# Browsers take no certificate that is good for longer than 398 days; an authority of one name may.
DAYS, CA_DAYS, EARLY = 365, 3650, 30
# certbot renews when 30 days, or a third of a shorter life, are left; when no more than this is
# left of it, nobody did.
LATE_DAYS, LATE_PART = 20, 2 / 9
NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
                  r"(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")  # fmt: skip

# What of a wish becomes words of nginx's configuration.
# The door's own may be of IPv6.
DOOR_ADDRESS = re.compile(r"[0-9.]+|[0-9a-f]*:[0-9a-f:.]+")
PERSON_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
PATH = re.compile(r"(/[A-Za-z0-9._+-]+)+")
# What becomes words of certbot's.
EMAIL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._%+-]*@[A-Za-z0-9][A-Za-z0-9.-]*")
DIRECTORY = re.compile(r"https://[A-Za-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9._~%/+-]*)?")
LETS_ENCRYPT = "https://acme-v02.api.letsencrypt.org/directory"


class RefusedError(Exception):
    """Nothing was lost and nobody's connection was cut; the text says why."""


# what is wished


def settings(wish):
    """What stands in door.json: the wish, of each person no more than the door needs."""
    found = {
        key: wish[key]
        for key in ("name", "port", "address", "tls", "certificate", "key", "redirect", "hsts")
    }
    if wish["tls"] != "host":
        # Of files on the controller what is in them counts, and not where they lie.
        found["certificate"] = found["key"] = ""
    found["given"] = wish.get("given") or {}
    if wish["tls"] == "acme":
        found["acme"] = {key: wish["acme"][key] for key in ("email", "directory")}
    found["upstream"] = PORTS
    found["people"] = [{key: one[key] for key in SHOWN if key in one} for one in wish["people"]]
    return found


def check(wish):
    """RefusedError for a wish that no host could fulfil."""
    if NAME.fullmatch(str(wish["name"])) is None or str(wish["name"]).replace(".", "").isdigit():
        raise RefusedError("gpu_front_door_name is {0!r}, and no DNS name".format(wish["name"]))
    if wish["tls"] not in WAYS:
        raise RefusedError("gpu_front_door_tls is one of {0}".format(", ".join(WAYS)))
    if (wish["tls"] in ("given", "host")) != bool(wish["certificate"] and wish["key"]):
        raise RefusedError(
            "gpu_front_door_certificate and gpu_front_door_key are needed with gpu_front_door_tls: "
            "given and host, and with these alone"
        )
    if not wish["people"]:
        raise RefusedError(
            "a front door needs workspaces behind it (gpu_workspaces, which this role has as "
            "gpu_front_door_people)"
        )
    if wish["tls"] == "acme" and wish["acme"]["agree"] is not True:
        raise RefusedError(
            "gpu_front_door_tls: acme needs gpu_front_door_acme_agree: true, your word that you "
            "agree to the terms of service of {0}".format(wish["acme"]["directory"])
        )
    _check_words(wish)
    if wish["tls"] == "acme" and wish["port"] == 80:
        raise RefusedError("port 80 is where an ACME server asks; the door needs another")
    for one in wish["people"]:
        for key in ("port", "ssh_port", "tensorboard_port"):
            if one.get(key) in ports_of(wish):
                raise RefusedError(
                    "port {0} is {1}'s, and the front door's".format(one[key], one["name"])
                )


def ports_of(wish):
    """Those that the door is opened on; an ACME server asks at port 80 and nowhere else."""
    plain = wish["redirect"] or wish["tls"] == "acme"
    return [wish["port"]] + ([80] if plain else [])


def _check_words(wish):
    """Nothing else than a name, a number, an address or a path gets into nginx's configuration."""
    told = [("gpu_front_door_address", DOOR_ADDRESS, wish["address"])]
    if wish["tls"] == "host":
        # Those of given are the controller's, and nginx never hears of them.
        told += [("gpu_front_door_" + key, PATH, wish[key]) for key in ("certificate", "key")]
    if wish["tls"] == "acme":
        told.append(("gpu_front_door_acme_directory", DIRECTORY, wish["acme"]["directory"]))
        if wish["acme"]["email"]:
            told.append(("gpu_front_door_acme_email", EMAIL, wish["acme"]["email"]))
    told += [("a person's name", PERSON_NAME, one["name"]) for one in wish["people"]]
    for what, shape, value in told:
        if not isinstance(value, str) or shape.fullmatch(value) is None:
            raise RefusedError("{0} is {1!r}, and not {2}".format(what, value, shape.pattern))
    ports = [("gpu_front_door_port", wish["port"])]
    for one in wish["people"]:
        words = [key for key in ("port", "ssh_port", "tensorboard_port") if key in one]
        ports += [("{0}'s {1}".format(one["name"], key), one[key]) for key in words]
    for what, value in ports:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 65536:
            raise RefusedError("{0} is {1!r}, and no number from 1 to 65535".format(what, value))


# the host


def inside(path):
    """A path of the host."""
    return os.path.join(ROOT, path.lstrip("/"))


def text(path):
    """A file's text, whatever bytes it has; None where there is none."""
    try:
        with open(inside(path), encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def data(path):
    """A file's JSON; None where there is none, or it is something else."""
    try:
        found = json.loads(text(path) or "null")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def put(path, content, mode=0o644):
    """The whole file or the old one; directories that are not there are made."""
    real = inside(path)
    os.makedirs(os.path.dirname(real), mode=0o755, exist_ok=True)
    if os.path.isdir(real) and not os.path.islink(real):
        os.rmdir(real)  # a bind mount leaves an empty one; with something in it this says so
    handle, new = tempfile.mkstemp(dir=os.path.dirname(real), prefix=".new-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(new, mode)
        os.replace(new, real)
    except BaseException:
        os.unlink(new)
        raise


def forget(path):
    if os.path.lexists(inside(path)):
        os.unlink(inside(path))


def _only_if_empty(folder):
    if os.path.isdir(inside(folder)) and not os.listdir(inside(folder)):
        os.rmdir(inside(folder))


def digest(content):
    if content is None:
        return None
    return hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest()


def call(command, timeout=TIMEOUT, **environment):
    """(exit code, output, errors) of a program; 127 where there is none, 124 where it hangs."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=timeout,
            check=False,
            env=dict(os.environ, **environment),
        )
    except FileNotFoundError:
        return 127, "", "{0} is not here".format(command[0])
    except subprocess.TimeoutExpired:
        return 124, "", "{0} did not answer within {1} s".format(command[0], timeout)
    return (
        done.returncode,
        done.stdout.decode("utf-8", "replace"),
        done.stderr.decode("utf-8", "replace"),
    )


def must(answer, what):
    """The output of a call that has to succeed."""
    code, out, error = answer
    if code:
        raise RefusedError("{0}: {1}".format(what, (error or out).strip()[-800:]))
    return out


def holders(port):
    """Names of the programs that listen on this TCP port of the host, as the kernel tells."""
    sockets = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (text(path) or "").splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and int(words[1].rpartition(":")[2], 16) == port:
                sockets.add("socket:[{0}]".format(words[9]))
    found = set()
    for number in os.listdir(inside("/proc")) if sockets else ():
        handles = inside("/proc/{0}/fd".format(number))
        try:
            links = {os.readlink(os.path.join(handles, one)) for one in os.listdir(handles)}
        except OSError:
            continue
        if links & sockets:
            found.add((text("/proc/{0}/comm".format(number)) or "?").strip())
    return sorted(found) or (["a program that is not to be seen"] if sockets else [])


def configuration():
    """nginx's whole configuration as [(file, text)]; RefusedError where it is not one."""
    code, out, error = call([NGINX, "-T"])
    if code:
        raise RefusedError(
            "nginx does not take its own configuration: {0}".format(error.strip()[-400:])
        )
    parts = re.split(r"^# configuration file (\S+):\n", out, flags=re.M)
    return [(parts[at], parts[at + 1]) for at in range(1, len(parts) - 1, 2)]


def in_the_way(wish, files):
    """Why the other sites of this nginx leave no place for the door; None where they do."""
    known = "".join(content for _path, content in files)
    if not re.search(r"^\s*include\s+\S*sites-enabled/", known, re.M):
        return "nginx reads no /etc/nginx/sites-enabled here; the distribution's nginx does"
    user = re.search(r"^\s*user\s+(\S+?)(?:\s+(\S+?))?\s*;", known, re.M)
    if user and (user.group(2) or user.group(1)) not in (GROUP, "root"):
        return "nginx works as {0} here; the ways to the workspaces are opened to {1}".format(
            user.group(1), GROUP
        )
    for path, content in files:
        if path == SITE:
            continue
        plain = re.sub(r"#.*", "", content)
        for words in re.findall(r"\bserver_name\s+([^;]+);", plain):
            if wish["name"] in words.split():
                return "{0} of nginx has the name {1} already".format(path, wish["name"])
        for listen in re.findall(r"\blisten\s+([^;]+);", plain):
            place, _, rest = listen.partition(" ")
            port = place.rpartition(":")[2]
            if port == str(wish["port"]) and "ssl" not in rest.split():
                return "{0} of nginx speaks plain HTTP at port {1}".format(path, wish["port"])
            if port in map(str, ports_of(wish)) and "ipv6only=off" in rest.split():
                return "{0} of nginx has port {1} of IPv4 and IPv6 in one".format(path, port)
    return None


def look(wish):
    """What differs from the wish; RefusedError for what this host can't do. Changes nothing."""
    noted = data(DOOR)
    if not wish["name"]:
        here = noted is not None or os.path.isdir(inside(PLACE))
        return {"here": here, "nginx": True, "changes": [], "gone": here}
    check(wish)
    found = {"here": noted is not None, "gone": False, "nginx": os.path.exists(inside(NGINX))}
    found["openssl"] = call(["openssl", "version"])[0] == 0
    for port in ports_of(wish):
        others = [one for one in holders(port) if one != "nginx"]
        if others:
            raise RefusedError(
                "port {0} of the front door is in use by {1}".format(port, ", ".join(others))
            )
    if found["nginx"]:
        built = call([NGINX, "-V"])[2]
        for module in ("http_ssl_module", "http_auth_request_module"):
            if module not in built:
                raise RefusedError("nginx here was built without {0}".format(module))
        # Damage of our own site is ours to repair; of the others nginx tells nothing then.
        wrong = None if _ours_is_broken() else in_the_way(wish, configuration())
        if wrong is not None:
            raise RefusedError(wrong)
    if wish["tls"] == "host":
        certified(wish, wish["certificate"], wish["key"])
    if wish["tls"] == "acme":
        found["certbot"] = os.path.exists(inside(CERTBOT))
        if os.path.realpath(inside(CERTBOT)).startswith(inside("/snap") + "/"):
            raise RefusedError(
                "certbot is here from snap, whose timer has another name; remove that, or take its "
                "files by gpu_front_door_tls: host"
            )
    found["changes"] = differences(wish, noted)
    return found


def _ours_is_broken():
    """Is it a file of ours, damaged or gone, that nginx does not take? Then it is ours to repair.

    A site that we wrote may also name a certificate of the host's that is there no longer.
    """
    noted = data(DOOR) or {}
    files, known = noted.get("files") or {}, noted.get("settings") or {}
    wrong = any(digest(text(one)) != files[one] for one in files)
    if known.get("tls") in ("host", "acme"):
        theirs = [inside(one or "") for one in files_of(known)]
        wrong = wrong or not all(os.path.isfile(one) for one in theirs)
    return wrong and call([NGINX, "-t"])[0] != 0


def differences(wish, noted):
    """Why the door is not as wished, in a few words each."""
    if noted is None:
        return ["absent"]
    found = []
    if noted.get("settings") != settings(wish):
        found.append("other settings")
    files = noted.get("files") or {}
    found += [one for one in sorted(files) if digest(text(one)) != files[one]]
    if not files:
        found.append("unfinished")
    if wish["tls"] == "local_ca" and (noted.get("until") or 0) < time.time() + EARLY * 86400:
        found.append("certificate")
    if wish["tls"] == "acme" and (
        lacking(wish) is not None
        or noted.get("loaded") != digest(text(acme_files(wish["name"])[0]))
    ):
        found.append("certificate")
    if not running():
        found.append("nginx does not run")
    for path in ENABLED + ((RENEWS,) if wish["tls"] == "acme" else ()):
        if not os.path.lexists(inside(path)):
            found.append("{0} is not enabled".format(os.path.basename(path)))
    return found


def running():
    """Does nginx run, as its own file tells?"""
    pid = (text("/run/nginx.pid") or "").strip()
    return pid.isdigit() and os.path.exists(inside("/proc/" + pid))


# certificates


def openssl(*arguments):
    return must(call(["openssl", *arguments]), "openssl " + arguments[0])


def certified(wish, chain, key):
    """Refuses a certificate that is not for this name, has ended, or has another key."""
    for path in (chain, key):
        if not os.path.isfile(inside(path)):
            raise RefusedError("there is no {0} on this host".format(path))
    if call(["openssl", "version"])[0]:
        return  # the role brings it, and looks again
    chain, key = inside(chain), inside(key)
    names = call(["openssl", "x509", "-in", chain, "-noout", "-checkhost", wish["name"]])[1]
    if "does match" not in names:
        raise RefusedError("the certificate {0} is not for {1}".format(chain, wish["name"]))
    if call(["openssl", "x509", "-in", chain, "-noout", "-checkend", "0"])[0]:
        raise RefusedError("the certificate {0} has ended".format(chain))
    mine = openssl("x509", "-in", chain, "-noout", "-pubkey")
    if openssl("pkey", "-in", key, "-pubout", "-passin", "pass:").strip() != mine.strip():
        raise RefusedError("the key {0} is not that of the certificate".format(key))


def ends(chain):
    """When a certificate ends, in seconds of Unix time."""
    said = openssl("x509", "-in", inside(chain), "-noout", "-enddate").strip().partition("=")[2]
    return ssl.cert_time_to_seconds(said)


def authority(name):
    """This host's own authority for one name, and for no other."""
    if data(DOOR + ".ca") == {"name": name} and _whole():
        return
    for path in (CA, CA_KEY):
        if os.path.lexists(inside(path)):
            os.replace(inside(path), inside(path) + ".save")
    with tempfile.TemporaryDirectory() as folder:
        _new_key(folder + "/key")
        # Whoever trusts it trusts it for this name alone, whatever becomes of its key (RFC 5280,
        # 4.2.1.10).
        _write(
            folder + "/conf",
            "[req]\ndistinguished_name=dn\nx509_extensions=v3\nprompt=no\n"
            "[dn]\nCN=GPU front door of {0}\n[v3]\nbasicConstraints=critical,CA:TRUE,pathlen:0\n"
            "keyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n"
            # An address or an e-mail name is none of it: of a kind that nothing is said of all
            # is permitted. Who is trusted by it are servers, and nobody else.
            "extendedKeyUsage=serverAuth\n"
            "nameConstraints=critical,permitted;DNS:{0},permitted;email:invalid,"
            "excluded;IP:0.0.0.0/0.0.0.0,excluded;IP:::/::\n".format(name),
        )
        openssl(
            *("req", "-x509", "-new", "-sha256", "-days", str(CA_DAYS), "-key", folder + "/key"),
            *("-config", folder + "/conf", "-out", folder + "/crt"),
        )
        put(CA_KEY, _read(folder + "/key"), 0o600)
        put(CA, _read(folder + "/crt"))
    put(DOOR + ".ca", json.dumps({"name": name}) + "\n")


def _whole():
    """Can what is here as the authority sign? Its key has to be that of its certificate."""
    mine = call(["openssl", "x509", "-in", inside(CA), "-noout", "-pubkey"])
    key = call(["openssl", "pkey", "-in", inside(CA_KEY), "-pubout", "-passin", "pass:"])
    return mine[0] == key[0] == 0 and mine[1].strip() == key[1].strip()


def certificate(name):
    """A certificate of this host's own authority, with a new key."""
    authority(name)
    with tempfile.TemporaryDirectory() as folder:
        _new_key(folder + "/key")
        _write(
            folder + "/conf",
            "[req]\ndistinguished_name=dn\nprompt=no\n[dn]\nCN={1}\n[v3]\n"
            "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
            "extendedKeyUsage=serverAuth\nsubjectAltName=DNS:{0}\n"
            "authorityKeyIdentifier=keyid\n".format(name, name[:64]),
        )
        openssl(
            *("req", "-new", "-sha256", "-key", folder + "/key", "-config", folder + "/conf"),
            *("-out", folder + "/csr"),
        )
        openssl(
            *("x509", "-req", "-sha256", "-in", folder + "/csr", "-CA", inside(CA)),
            *("-CAkey", inside(CA_KEY), "-set_serial", "0x" + os.urandom(16).hex()),
            *("-days", str(DAYS), "-extfile", folder + "/conf", "-extensions", "v3"),
            *("-out", folder + "/crt"),
        )
        put(KEY, _read(folder + "/key"), 0o600)
        put(CHAIN, _read(folder + "/crt"))


def _new_key(path):
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path)


def _read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def _write(path, content):
    with open(path, "w", encoding="ascii") as file:
        file.write(content)


# a certificate by ACME


def lineage(name):
    """What certbot calls the door's certificate; one that somebody has for the name is another."""
    return "gpu-front-door-" + name


def acme_files(name):
    """(chain, key) as certbot keeps them, through its links to the newest."""
    folder = "{0}/live/{1}/".format(LETSENCRYPT, lineage(name))
    return folder + "fullchain.pem", folder + "privkey.pem"


def acme_server(name):
    """The directory that the lineage's certificate is of; None where there is no lineage."""
    known = text("{0}/renewal/{1}.conf".format(LETSENCRYPT, lineage(name))) or ""
    found = re.search(r"^server\s*=\s*(\S+)\s*$", known, re.M)
    return found.group(1) if found else None


def lacking(wish):
    """Why a certificate has to be asked for; None where the one that is there will do."""
    if not all(os.path.isfile(inside(one)) for one in acme_files(wish["name"])):
        return "absent"
    if acme_server(wish["name"]) != wish["acme"]["directory"]:
        return "of another directory"
    try:
        certified(wish, *acme_files(wish["name"]))
    except RefusedError as error:
        return str(error)
    return "it ends soon" if late_from(acme_files(wish["name"])[0]) < time.time() else None


def late_from(chain):
    """From when on a certificate should long have been renewed, in seconds of Unix time."""
    said = openssl("x509", "-in", inside(chain), "-noout", "-startdate").strip()
    end = ends(chain)
    life = end - ssl.cert_time_to_seconds(said.partition("=")[2])
    return end - int(min(LATE_DAYS * 86400, life * LATE_PART))


def obtain(wish, noted):
    """Has certbot ask for the certificate that is lacking, once.

    Port 80 is open meanwhile, beside the door that was there. Who fails puts that back.
    """
    why = lacking(wish)
    if why is not None:
        if why == "absent":
            _set_aside(lineage(wish["name"]))
        _take(SITE, waiting(wish, noted))
        serve()
        # To certbot one of another directory is as good as any.
        how = "--force-renewal" if why == "of another directory" else "--keep-until-expiring"
        certbot(
            wish, "certonly", "--webroot", "--webroot-path", inside(CHALLENGES),
            *("--cert-name", lineage(wish["name"]), "--domain", wish["name"]), "--agree-tos", how,
        )  # fmt: skip
    former, now = (noted.get("settings") or {}).get("acme") or wish["acme"], wish["acme"]
    if former["directory"] == now["directory"] and former["email"] != now["email"]:
        certbot(wish, "update_account")


def _set_aside(name):
    """What is left of a lineage that has lost its files; certbot would begin another beside it."""
    for path in ("renewal/{0}.conf", "live/{0}", "archive/{0}"):
        old = inside("{0}/{1}".format(LETSENCRYPT, path.format(name)))
        if os.path.lexists(old):
            os.rename(old, "{0}.save-{1}".format(old, int(time.time())))


def certbot(wish, word, *words):
    """One command of certbot's; RefusedError with what the server says, and what can be done."""
    told = [CERTBOT, word, "--non-interactive", "--server", wish["acme"]["directory"]]
    if wish["acme"]["email"]:
        told += ["--email", wish["acme"]["email"], "--no-eff-email"]
    else:
        told.append("--register-unsafely-without-email")
    # requests, which certbot asks with, takes whom to trust from there.
    trusted = {"REQUESTS_CA_BUNDLE": inside(ACME_TRUST)} if _ca_is_given(wish) else {}
    code, out, error = call(told + list(words), ACME_TIMEOUT, LC_ALL="C", **trusted)
    if code:
        raise RefusedError(refusal(wish, out + "\n" + error))


HINTS = (
    (
        r"rateLimited|too many|rate limit",
        "that is the server's limit: wait as long as it says; nothing asks again by itself",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|certificate verify failed",
        "the HTTPS of the ACME server is of a CA that this host does not know: "
        "gpu_front_door_acme_ca",
    ),
    (
        r"Type:\s+\w+|challenges? (have )?failed",
        "the name has to lead to this host in the DNS that the ACME server asks, and port 80 of it "
        "to be open to that server",
    ),
    (
        r"ConnectionError|Max retries|NameResolution|timed out|did not answer",
        "does this host reach the ACME server?",
    ),
)


def refusal(wish, said):
    """certbot's reason in one line, and a hint."""
    known = re.findall(r"^\s*Type:\s+(\S+)\s+Detail:\s+(.+?)\s*(?:\n\s*\n|\Z)", said, re.M | re.S)
    if known:
        reason = "; ".join("{0}: {1}".format(*one) for one in sorted(set(known)))
    else:
        noise = r"Saving debug log|Ask for help|See the logfile|IMPORTANT NOTES|Plugins selected"
        noise += r"|^\s*- - -|^(Account registered|Requesting a|Renewing|Performing)"
        lines = [one.strip() for one in said.splitlines() if one.strip()]
        reason = " ".join(one for one in lines if not re.search(noise, one)) or "no reason"
    hint = next((hint for shape, hint in HINTS if re.search(shape, said, re.I)), None)
    return "certbot gets no certificate for {0} from {1}: {2}{3}".format(
        wish["name"],
        wish["acme"]["directory"],
        " ".join(reason.split())[-500:].rstrip("."),
        ". Hint: " + hint if hint else "",
    )


def _shown(wish):
    """Is it of a CA that this host may not know? Checks that are not root's compare a copy then."""
    return wish["tls"] == "acme" and wish["acme"]["directory"] != LETS_ENCRYPT


def _ca_is_given(wish):
    return bool((wish.get("given") or {}).get("acme_ca"))


def waiting(wish, noted):
    """The door as it was, and port 80 for the challenges of the one that is wished for."""
    former = noted.get("settings") or {}
    there = text(SITE) is not None and former
    if not there or not all(os.path.isfile(inside(one)) for one in files_of(former)):
        return HEAD + plain(dict(wish, redirect=False))
    content, same = site(former, port_80=False), former["name"] == wish["name"]
    if not same and 80 in ports_of(former):
        content += plain(former)
    redirect = former["redirect"] and same
    return content + plain(dict(wish, redirect=redirect, port=former["port"]))


def trust_of_acme(wish):
    """Whom certbot trusts: the CA that was brought, and those whom the host trusts."""
    if os.path.exists(inside(GIVEN_ACME_CA)):
        os.replace(inside(GIVEN_ACME_CA), inside(ACME_CA))
    if not _ca_is_given(wish):
        for path in (ACME_CA, ACME_TRUST, CERTBOT_ENVIRONMENT):
            forget(path)
        return
    put(ACME_TRUST, trusted_by_certbot())
    put(CERTBOT_ENVIRONMENT, ENVIRONMENT.format(ACME_TRUST))


def trusted_by_certbot():
    return (text(SYSTEM_TRUST) or "").rstrip("\n") + "\n" + (text(ACME_CA) or "")


ENVIRONMENT = """\
# Written by the Ansible role gpu_front_door; changes made here are lost.
[Service]
Environment=REQUESTS_CA_BUNDLE={0}
"""
DEPLOY = """\
#!/bin/sh
# Written by the Ansible role gpu_front_door; changes made here are lost.
# certbot calls it after each renewal; of another's certificate it does nothing.
[ "$RENEWED_LINEAGE" = "{0}" ] || exit 0
exec /usr/local/sbin/gpu-front-door renew
"""


# the site and the page

HEAD = """\
# Written by the Ansible role gpu_front_door; changes made here are lost.
map $http_upgrade $gpu_front_door_connection {
    default upgrade;
    '' close;
}
# Without the query, which may hold a token.
log_format gpu_front_door '$remote_addr [$time_local] $request_method $uri $status '
    '$body_bytes_sent $request_time $upstream_status';
"""
LOGS = """\
    access_log /var/log/nginx/gpu-front-door.log gpu_front_door;
    # Its lines have the whole request.
    error_log /var/log/nginx/gpu-front-door.error.log emerg;
"""
SERVER = """
server {
@listen@    server_name @name@;
@logs@    server_tokens off;
    absolute_redirect off;
    ssl_certificate @chain@;
    ssl_certificate_key @key@;
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_session_cache shared:gpu_front_door:1m;
    ssl_session_tickets off;
@hsts@    # As much as Jupyter itself takes.
    client_max_body_size 512m;
    proxy_http_version 1.1;
    proxy_set_header Host $http_host;
    proxy_set_header X-Real-IP $remote_addr;
    proxy_set_header X-Forwarded-For $remote_addr;
    proxy_set_header X-Forwarded-Proto https;
    proxy_set_header X-Scheme https;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection $gpu_front_door_connection;
    proxy_buffering off;
    proxy_request_buffering off;
    # Jupyter pings an idle kernel's connection each 30 seconds; a cell may be silent for longer.
    proxy_read_timeout 1d;
    proxy_send_timeout 1d;

    # Where no other site has this port every name comes here.
    if ($host != @name@) {
        return 404;
    }
    location = / {
        charset utf-8;
@hsts_again@        add_header Content-Security-Policy
            "default-src 'none'; style-src 'unsafe-inline'" always;
        add_header X-Content-Type-Options nosniff always;
        add_header X-Frame-Options DENY always;
        add_header Referrer-Policy no-referrer always;
        add_header Cache-Control no-cache always;
        root @folder@;
        try_files /index.html =404;
    }
@ca@    location / {
        return 404;
    }
@people@}
"""
AUTHORITY = """\
    location = /ca.crt {
        default_type application/x-x509-ca-cert;
        alias @ca_file@;
    }
"""
PERSON = """\
    location = /@name@ {
        return 301 /@name@/;
    }
    location /@name@/ {
        proxy_pass http://unix:@ports@/@name@.jupyter;
    }
"""
# TensorBoard knows no password: who may see it is asked of the person's own Jupyter, each time.
TENSORBOARD = """\
    location /@name@/tensorboard/ {
        auth_request /@name@/tensorboard-asks;
        error_page 401 403 = @login_@name@;
        proxy_pass http://unix:@ports@/@name@.tensorboard;
    }
    location = /@name@/tensorboard {
        return 301 /@name@/tensorboard/;
    }
    location = /@name@/tensorboard-asks {
        internal;
        proxy_pass http://unix:@ports@/@name@.jupyter:/@name@/api/status;
        proxy_method GET;
        proxy_pass_request_body off;
        proxy_set_header Host $http_host;
        proxy_set_header X-Forwarded-Proto https;
        proxy_set_header X-Scheme https;
        proxy_set_header Content-Length "";
        proxy_read_timeout 20s;
    }
    location @login_@name@ {
        return 302 /@name@/login?next=/@name@/tensorboard/;
    }
"""
PLAIN = """
server {
@listen@    server_name @name@;
@logs@    server_tokens off;
    if ($host != @name@) {
        return 404;
    }
@challenges@    location / {
        return @answer@;
    }
}
"""
CHALLENGED = """\
    location ^~ /.well-known/acme-challenge/ {
        root @folder@;
        default_type text/plain;
    }
"""


def filled(template, **told):
    """The template with each @word@ that is told."""
    for word in told:
        template = template.replace("@{0}@".format(word), str(told[word]))
    return template


def files_of(wish):
    """(chain, key) that nginx reads."""
    if wish["tls"] == "acme":
        return acme_files(wish["name"])
    return (wish["certificate"], wish["key"]) if wish["tls"] == "host" else (CHAIN, KEY)


def site(wish, port_80=True):
    """nginx's configuration of the door."""
    people = []
    for one in wish["people"]:
        if "port" not in one:
            continue
        told = {"name": one["name"], "ports": PORTS}
        people.append(filled(PERSON, **told))
        if one.get("tensorboard_port"):
            board = TENSORBOARD.replace("@login_@name@", "@login_" + one["name"])
            people.append(filled(board, **told))
    chain, key = files_of(wish)
    hsts = 'add_header Strict-Transport-Security "max-age=31536000" always;\n'
    content = filled(
        SERVER,
        listen=listens(wish, wish["port"], " ssl"),
        chain=chain,
        key=key,
        folder=os.path.dirname(PAGE),
        hsts="    " + hsts if wish["hsts"] else "",
        hsts_again="        " + hsts if wish["hsts"] else "",
        ca=filled(AUTHORITY, ca_file=CA) if wish["tls"] == "local_ca" else "",
        **_shared(wish),
    )
    content = HEAD + content.replace("@people@", "".join(people))
    return content + (plain(wish) if port_80 and 80 in ports_of(wish) else "")


def _shared(wish):
    return {"name": wish["name"], "logs": LOGS}


def listens(wish, port, words=""):
    """nginx's lines of a port; `::` is all of IPv6 and of IPv4, each by a socket of its own."""
    address = wish["address"]
    both = ["0.0.0.0", "::"] if address == "::" else [address]  # noqa: S104 as wished
    places = ["[{0}]".format(one) if ":" in one else one for one in both]
    return "".join("    listen {0}:{1}{2};\n".format(one, port, words) for one in places)


def near(address):
    """Where this host itself asks what listens at an address."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104 compared


def plain(wish):
    """What answers at port 80: an ACME server's questions, and the way to the door."""
    where = "301 https://{0}{1}$request_uri".format(wish["name"], _shown_port(wish))
    asked = filled(CHALLENGED, folder=CHALLENGES) if wish["tls"] == "acme" else ""
    answer = where if wish["redirect"] else "404"
    return filled(PLAIN, listen=listens(wish, 80), challenges=asked, answer=answer, **_shared(wish))


def _shown_port(wish):
    return "" if wish["port"] == 443 else ":{0}".format(wish["port"])


STYLE = """\
:root{color-scheme:light dark;--line:#d7dce1;--soft:#5b6670;--link:#0b57d0;--back:#fff;
--text:#1c2126}
@media(prefers-color-scheme:dark){:root{--line:#3a4148;--soft:#9aa5af;--link:#8ab4f8;
--back:#15191d;--text:#e6e9ec}}
body{margin:0;background:var(--back);color:var(--text);font:16px/1.5 system-ui,sans-serif}
main{max-width:60rem;margin:0 auto;padding:2.5rem 1.25rem}
h1{font-size:1.5rem;margin:0 0 .25rem}p{margin:.25rem 0 1.5rem;color:var(--soft)}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.6rem .9rem .6rem 0;border-bottom:1px solid var(--line);
vertical-align:top}tbody th{font-size:1rem;color:var(--text)}
th{font-weight:600;color:var(--soft);font-size:.85rem}a{color:var(--link)}
code{font:.9em ui-monospace,monospace;white-space:nowrap}td a+a{margin-left:.9rem}"""


def page(wish):
    """The page that lists who has what: no script, nothing from elsewhere, no secret."""
    rows = "".join(_row(wish, one) for one in sorted(wish["people"], key=lambda one: one["name"]))
    title = html.escape("Workspaces of {0}".format(wish["name"]))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<title>{0}</title><style>\n{1}\n</style></head><body><main>\n<h1>{0}</h1>\n"
        "<p>Jupyter asks for your token. Who looks after this host can tell you yours.</p>\n"
        '<div class="wide"><table><thead><tr><th scope="col">Person</th>'
        '<th scope="col">Opens</th><th scope="col">GPUs</th><th scope="col">Limits</th>'
        '<th scope="col">SSH</th></tr></thead><tbody>\n{2}</tbody></table></div>\n'
        "</main></body></html>\n"
    ).format(title, STYLE, rows)


def _row(wish, one):
    name, links = html.escape(one["name"]), []
    if "port" in one:
        links.append('<a href="/{0}/">Jupyter</a>'.format(name))
        if one.get("tensorboard_port"):
            links.append('<a href="/{0}/tensorboard/">TensorBoard</a>'.format(name))
    said = ""
    if "ssh_port" in one:
        command = "ssh -p {0} {1}@{2}".format(one["ssh_port"], one["name"], wish["name"])
        said = "<code>{0}</code>".format(html.escape(command))
    cells = [" ".join(links), html.escape(_gpus(one.get("gpus"))), html.escape(_limits(one)), said]
    return '<tr><th scope="row">{0}</th>{1}</tr>\n'.format(
        name, "".join("<td>{0}</td>".format(cell or "&ndash;") for cell in cells)
    )


def _gpus(gpus):
    if isinstance(gpus, list):
        return ", ".join("GPU {0}".format(one) if isinstance(one, int) else one for one in gpus)
    if isinstance(gpus, int):
        return "{0} GPU{1}".format(gpus, "" if gpus == 1 else "s")
    return gpus or "none"


def _limits(one):
    words = []
    if one.get("cpus"):
        words.append("{0} CPUs".format(one["cpus"]))
    if one.get("memory"):
        words.append("{0} memory".format(str(one["memory"]).upper()))
    return ", ".join(words)


# what the role and the timer call


def apply(wish):
    """Brings the door to what is wished. nginx takes all of it, or has what it had before."""
    check(wish)
    wanted, noted = settings(wish), data(DOOR) or {}
    paths = (PAGE, CHAIN, KEY, CA, CA_KEY, DOOR + ".ca", SITE)
    before = {one: text(one) for one in paths + OF_ACME}
    ran = running()
    try:
        _make(wish, noted)
    except (RefusedError, OSError):
        for path in before:
            if text(path) != before[path]:
                _put_back(path, before[path])
        if wish["tls"] == "acme":
            _as_before(ran)
        raise
    serve()
    if wish["tls"] != "acme":
        for path in OF_ACME:
            forget(path)
        _only_if_empty(os.path.dirname(CERTBOT_ENVIRONMENT))
        shutil.rmtree(inside(CHALLENGES), ignore_errors=True)
    if wish["tls"] in ("host", "acme"):
        # Of another way, before; nobody reads them any more.
        forget(KEY)
        if not _shown(wish):
            forget(CHAIN)
    if not _own(wish):
        for path in (CA, CA_KEY, DOOR + ".ca", CA + ".save", CA_KEY + ".save"):
            forget(path)
    _note(wanted)
    must(call(["systemctl", "daemon-reload"]), "systemctl daemon-reload")
    timers = TIMERS + ((os.path.basename(RENEWS),) if wish["tls"] == "acme" else ())
    must(call(["systemctl", "enable", "--now", *timers]), "systemctl enable")
    return {"name": wish["name"], "fingerprint": fingerprint() if _own(wish) else None}


def _make(wish, noted):
    """The certificate, the page and the site, which nginx takes."""
    chain, key = files_of(wish)
    if wish["tls"] == "local_ca":
        former = noted.get("settings") or {}
        same = [former.get(word) for word in ("tls", "name")] == [wish["tls"], wish["name"]]
        damaged = any(
            digest(text(one)) != (noted.get("files") or {}).get(one) for one in (CA, CHAIN, KEY)
        )
        late = (noted.get("until") or 0) < time.time() + EARLY * 86400
        if not same or damaged or late:
            certificate(wish["name"])
    if wish["tls"] == "acme":
        os.makedirs(inside(CHALLENGES), mode=0o755, exist_ok=True)
        trust_of_acme(wish)
        obtain(wish, noted)
        put(HOOK, DEPLOY.format(os.path.dirname(chain)), 0o755)
        if _shown(wish):
            put(CHAIN, text(chain))
    if wish["tls"] == "given":
        certified(wish, GIVEN, GIVEN_KEY)
        os.replace(inside(GIVEN_KEY), inside(KEY))
        os.replace(inside(GIVEN), inside(CHAIN))
    certified(wish, chain, key)
    put(PAGE, page(wish))
    _take(SITE, site(wish))


def _put_back(path, former):
    if former is None:
        forget(path)
    else:
        modes = {KEY: 0o600, CA_KEY: 0o600, HOOK: 0o755}
        put(path, former, modes.get(path, 0o644))


def _as_before(ran):
    """nginx has read what was put back; one that did not run does not run."""
    if ran:
        if call([NGINX, "-t"])[0] == 0:
            call(["systemctl", "reload", "nginx"], timeout=120)
    elif os.path.exists(inside(BROUGHT)) and data(DOOR) is None:
        call(["systemctl", "disable", "--now", "nginx"], timeout=120)
    else:
        call(["systemctl", "stop", "nginx"], timeout=120)


def _own(wish):
    return wish["tls"] == "local_ca"


def fingerprint():
    """SHA-256 of the authority's certificate, to compare before somebody trusts it."""
    return openssl("x509", "-in", inside(CA), "-noout", "-fingerprint", "-sha256").strip()


def _note(wanted):
    """What is there now: what is read of it must not be changed by others unseen."""
    paths = [SITE, PAGE] + ([CHAIN, KEY] if wanted["tls"] in ("local_ca", "given") else [])
    paths += [CA] if wanted["tls"] == "local_ca" else []
    if wanted["tls"] == "acme":
        paths += OF_ACME if _ca_is_given(wanted) else [HOOK]
        paths += [CHAIN] if _shown(wanted) else []
    _keep(wanted, {one: digest(text(one)) for one in paths})


def _keep(wanted, files):
    chain, _key = files_of(wanted)
    noted = {"settings": wanted, "files": files}
    noted["until"], noted["loaded"] = ends(chain), digest(text(chain))
    if wanted["tls"] == "acme":
        noted["late"] = late_from(chain)
    put(DOOR, json.dumps(noted, indent=2, sort_keys=True) + "\n")


def _take(path, content):
    """Puts a site; one that nginx does not take is put back."""
    former = text(path)
    if os.path.exists(inside(BROUGHT)) and data(DOOR) is None and os.path.islink(inside(DEFAULT)):
        os.unlink(inside(DEFAULT))  # it came with our nginx, and would open port 80
    put(path, content)
    code, _out, error = call([NGINX, "-t"])
    if code:
        _put_back(path, former)
        raise RefusedError(
            "nginx does not take the door's site, and has what it had before: {0}".format(
                error.strip()[-600:]
            )
        )


def serve():
    """nginx runs, and has read what is on the disk. Who is connected stays so."""
    must(call(["systemctl", "enable", "nginx"]), "systemctl enable nginx")
    word = "reload" if running() else "start"
    must(call(["systemctl", word, "nginx"], timeout=120), "systemctl {0} nginx".format(word))


def renew():
    """Once a day: a certificate that ends soon is made anew, one that others renewed is read.

    No more is noted than what was made here: what somebody else changed is to be seen still.
    """
    noted = data(DOOR)
    if noted is None:
        return {"renewed": False}
    wanted, files = noted["settings"], dict(noted.get("files") or {})
    if _ca_is_given(wanted) and text(ACME_TRUST) != trusted_by_certbot():
        # The host's own list is another by now.
        put(ACME_TRUST, trusted_by_certbot())
        files[ACME_TRUST] = digest(text(ACME_TRUST))
        put(DOOR, json.dumps(dict(noted, files=files), indent=2, sort_keys=True) + "\n")
    if _own(wanted):
        if noted["until"] >= time.time() + EARLY * 86400:
            return {"renewed": False}
        before = digest(text(CA))
        certificate(wanted["name"])
        files.update((one, digest(text(one))) for one in (CHAIN, KEY))
        if digest(text(CA)) != before:
            files[CA] = digest(text(CA))
    elif wanted["tls"] == "given" or noted.get("loaded") == digest(text(files_of(wanted)[0])):
        return {"renewed": False}
    must(call([NGINX, "-t"]), "nginx -t")
    serve()
    if _shown(wanted):
        put(CHAIN, text(files_of(wanted)[0]))
        files[CHAIN] = digest(text(CHAIN))
    _keep(wanted, files)
    return {"renewed": True}


def remove():
    """The door goes, with its authority; nginx stays where others use it.

    certbot stays as well, with the account and the certificates: they are the user's.

    RefusedError where a running nginx would go on to serve it: the next run tries again.
    """
    for path in (SITE, HOOK, CERTBOT_ENVIRONMENT):
        forget(path)
    _only_if_empty(os.path.dirname(CERTBOT_ENVIRONMENT))
    folders = [inside(one) for one in ("/etc/nginx/sites-enabled", "/etc/nginx/conf.d")]
    others = [one for folder in folders if os.path.isdir(folder) for one in os.listdir(folder)]
    brought = os.path.exists(inside(BROUGHT))
    packages = _going() if brought and not others else []
    alone = bool(packages)
    if os.path.exists(inside(NGINX)):
        if alone:
            call(["systemctl", "disable", "--now", "nginx"], timeout=120)
        elif running():
            must(call([NGINX, "-t"]), "nginx still has the door in memory, and reads no more")
            must(call(["systemctl", "reload", "nginx"], timeout=120), "systemctl reload nginx")
    call(["systemctl", "disable", "--now", *TIMERS])
    shutil.rmtree(inside(os.path.dirname(PAGE)), ignore_errors=True)
    return {"packages": sorted(packages), "alone": alone}


def _going():
    """nginx's packages; none where something else would go with them, or apt does not tell."""
    shape = "${Package} ${db:Status-Abbrev}\n"
    said = call(["dpkg-query", "-W", "-f", shape, "nginx*", "libnginx-mod-*"])[1]
    ours = {line.split()[0] for line in said.splitlines() if line.split()[1:] == ["ii"]}
    if not ours:
        return []
    code, out, _error = call(["apt-get", "--simulate", "remove", *sorted(ours)])
    gone = {one.partition(":")[0] for one in re.findall(r"^(?:Remv|Purg) (\S+)", out, re.M)}
    return sorted(ours) if code == 0 and gone <= ours else []


# the proof


def get(wish, path, host=None, tls=True, headers=None):
    """(status, text, TLS version) through the door as somebody with another machine would."""
    connection = socket.create_connection((near(wish["address"]), wish["port"]), timeout=15)
    # What is behind a path is a person's: the whole answer has that time, and not each piece of it.
    end = threading.Timer(15, lambda: connection.shutdown(socket.SHUT_RDWR))
    end.daemon = True
    end.start()
    try:
        version = None
        if tls:
            connection = trust(wish).wrap_socket(connection, server_hostname=wish["name"])
            version = connection.version()
        client = http.client.HTTPConnection(wish["name"], wish["port"], timeout=15)
        client.sock = connection
        client.request("GET", path, headers=dict({"Host": host or wish["name"]}, **(headers or {})))
        answer = client.getresponse()
        return answer.status, answer.read(1 << 20).decode("utf-8", "replace"), version
    finally:
        end.cancel()
        connection.close()


def trust(wish):
    """Whom the door's certificate is compared with: the host's list, and what was brought."""
    context = ssl.create_default_context()
    # What Let's Encrypt signs has to be what everybody knows.
    if wish["tls"] in ("local_ca", "given") or _shown(wish):
        context.load_verify_locations(cafile=inside(CA if _own(wish) else CHAIN))
        # What was given may be of an authority that this host has never heard of; its name, its
        # days and its key are compared all the same.
        context.verify_flags |= 0x80000  # X509_V_FLAG_PARTIAL_CHAIN
    return context


def prove(seconds):
    """RefusedError with what is wrong with the door; waits for a Jupyter that is slow."""
    noted = data(DOOR)
    if noted is None:
        raise RefusedError("there is no door here")
    must(call([NGINX, "-t"]), "nginx -t")
    until = time.time() + float(seconds)
    while True:
        wrong = faults(noted["settings"])
        if not wrong or time.time() > until:
            break
        time.sleep(0.5)
    if wrong:
        raise RefusedError("; ".join(wrong))
    return {"proven": noted["settings"]["name"]}


def faults(wish):
    """All that is wrong with what the door answers."""
    try:
        status, body, _version = get(wish, "/")
    except (OSError, http.client.HTTPException) as error:
        return ["the door does not answer: {0}".format(error)]
    wrong = []
    missing = [one["name"] for one in wish["people"] if ">{0}<".format(one["name"]) not in body]
    if status != 200 or missing:
        wrong.append("its page has status {0} and lacks {1}".format(status, missing or "nobody"))
    for one in wish["people"]:
        paths = {"api/status": (401, 403)} if "port" in one else {"": (404,)}
        if "port" in one and one.get("tensorboard_port"):
            paths["tensorboard/"] = (302,)
        for path in sorted(paths):
            whole = "/{0}/{1}".format(one["name"], path)
            try:
                status = get(wish, whole)[0]
            except (OSError, http.client.HTTPException):
                status = None
            if status not in paths[path]:
                wrong.append(
                    "{0} has status {1} for somebody without a token".format(whole, status)
                )
    try:
        if get(wish, "/", tls=False)[0] == 200:
            wrong.append("it answers in plain HTTP")
    except (OSError, http.client.HTTPException):
        pass  # nor does it have to
    return wrong


USAGE = """\
gpu-front-door fingerprint  of the certificate of this host's own authority
gpu-front-door renew        what its timer does each day
(look, apply, prove and remove are for Ansible)"""


def main(argv):
    """The program."""
    name, rest = (argv[0], argv[1:]) if argv else ("", [])
    os.umask(0o022)
    try:
        if name in ("look", "apply"):
            found = {"look": look, "apply": apply}[name](json.loads(rest[0]))
        elif name == "fingerprint":
            sys.stdout.write(fingerprint() + "\n")
            return 0
        elif name in ("renew", "remove", "prove"):
            found = {"renew": renew, "remove": remove, "prove": prove}[name](*rest)
        else:
            sys.stderr.write(USAGE + "\n")
            return 2
        sys.stdout.write(json.dumps(found) + "\n")
    except (RefusedError, OSError) as error:
        sys.stderr.write("{0}\n".format(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
