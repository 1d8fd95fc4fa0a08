"""Names what is wrong with a GPU host, why that is believed, and what cures it.

A plan says what differs from the lock; people ask why nothing works. The cases are data
(`doctor_cases`), and here is one small pure function for each that can be seen on a host. A log
alone, from wherever, is judged by the same rows. What a component's look or the preflight knows
already is asked there and not decided a second time.
"""

import re

from . import doctor_keys, doctor_look, host_rules, transaction
from .components import cuda, nvidia_container_toolkit, tensorflow
from .components.nvidia_container_toolkit import cdi
from .components.nvidia_driver import driver_packages, method_rules
from .components.tensorflow import rules as tensorflow_rules
from .doctor_cases import BY_ID, CASES
from .host import debian_versions, gpu_models, running, surroundings

# A person reads it: of many alike the first few tell.
LINES = 5
WIDTH = 300
CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")
# More packages on hold than this, none of them of the stack, are a policy of nothing moving.
MANY_HELD = 20
# Bounds that the wheels of a TensorFlow before this one need, and its wheels' own metadata only
# later say: (before TensorFlow, package, first version that breaks it).
BREAKERS = (
    ((2, 18), "numpy", (2,)),
    ((2, 12), "protobuf", (3, 20)),
    ((2, 18), "protobuf", (5,)),
    ((2, 20), "protobuf", (6,)),
)
# Why the driver may not answer; its silence is told where none of them is.
REASONS = {
    *("driver-mismatch", "nouveau-loaded", "nouveau-initramfs", "headers-missing"),
    *("driver-gone-after-kernel", "dkms-gpl-symbol", "dkms-compiler", "dkms-failed"),
    *("secure-boot", "fabric-manager"),
}
# NVIDIA's keyring package by platform, and its SHA-256.
KEYRINGS = {
    "ubuntu2004": "cf5ca9853118b9fb2b78dd2708786e1eb5ab14e39d8738539281429428eb4efe",
    "ubuntu2204": "d93190d50b98ad4699ff40f4f7af50f16a76dac3bb8da1eaaf366d47898ff8df",
    "debian11": "dfc6e5cdbfc9b4cd1ca8bf6b6eda5d8582ca50d51b7e64ba049b935d52325d58",
    "debian12": "e7f219eab6fe4819cdb5c15b98233dc3420302d9c00883219cd3d896857cf48d",
}


class Words(dict):
    """What fills in a cure; what was not found stays as <word>."""

    def __missing__(self, key):
        return "<{0}>".format(key)


def clue(evidence, **words):
    """Why a case is believed, and what was found for its cure."""
    return {"evidence": evidence, "words": words}


def keyring(platform):
    """The command that installs NVIDIA's keyring package, checked by its hash where it is known."""
    file = "cuda-keyring_1.1-1_all.deb"
    url = "https://developer.download.nvidia.com/compute/cuda/repos/{0}/x86_64/{1}".format(
        platform or "<platform>", file
    )
    return "curl -fLO {0} && echo '{1}  {2}' | sha256sum -c && sudo dpkg -i {2}".format(
        url, KEYRINGS.get(platform, "<sha256>"), file
    )


# the cases: facts -> [clue]


def driver_mismatch(facts):
    if facts["loaded"] is None or facts["library"] in (None, facts["loaded"]):
        return []
    evidence = "the loaded module is {0}, the installed libraries are {1}"
    clues = [clue(evidence.format(facts["loaded"], facts["library"]))]
    for one in facts["moved"]:
        if doctor_look.upstream(one["new"]) == facts["library"]:
            clues.append(clue(_moved(one)))
    return clues


def _moved(one):
    return "unattended-upgrades moved {package} from {old} to {new} on {when}".format(**one)


def unattended_upgrades(facts):
    return [] if facts["spared"] else [clue(_moved(one)) for one in facts["moved"]]


def nouveau_loaded(facts):
    state = facts["found"]["state"].get("nvidia_driver") or {}
    if not state.get("nouveau_loaded") or facts["found"]["container"]:
        return []
    if not facts["found"]["gpus"]:
        return []
    lists = facts["blacklists"]
    why = "though {0} says not to".format(lists[0]) if lists else "and nothing blacklists it"
    return [clue("/sys/module/nouveau is there, " + why)]


def nouveau_initramfs(facts):
    evidence = "{0} is older than {1}"
    return [clue(evidence.format(path, facts["blacklists"][0])) for path in facts["initramfs"]]


def headers_missing(facts):
    if not facts["dkms"] and not _builds(facts):
        return []
    seen = (facts["found"].get("preflight") or {}).get("headers") or {}
    words = {
        "absent": "/lib/modules/{0}/build is missing, and the archive has no linux-headers-{0}",
        "offered": "/lib/modules/{0}/build is missing; the archive has linux-headers-{0}",
        "unknown": "/lib/modules/{0}/build is missing",
    }
    return [
        clue(words[state].format(kernel), kernel=kernel)
        for kernel, state in sorted(seen.items())
        if state in words
    ]


def _builds(facts):
    """True where the lock wishes for a module that is built on this host."""
    state = facts["found"]["state"].get("nvidia_driver") or {}
    return facts["row"] is not None and state.get("scope") == "full" and state.get("packages")


def headers_metapackage(facts):
    if not facts["dkms"]:
        return []
    return [
        clue(
            "linux-image-{0} brings new kernels, and linux-headers-{0} is not installed".format(n),
            headers="linux-headers-" + n,
        )
        for n in facts["metapackages"]
    ]


def driver_gone_after_kernel(facts):
    kernel = facts["found"]["platform"].get("kernel")
    if facts["found"]["container"] or not facts["found"]["gpus"] or facts["loaded"]:
        return []
    others = sorted(name for name, there in facts["modules"].items() if there and name != kernel)
    if facts["modules"].get(kernel) is not False or not others:
        return []
    evidence = "/lib/modules/{0} has no NVIDIA module, /lib/modules/{1} has one"
    return [clue(evidence.format(kernel, others[-1]), kernel=kernel)]


def _failed_builds(facts, case):
    """Clues of a case from the logs of builds that no module came of."""
    clues = []
    for one in facts["builds"]:
        if facts["modules"].get(one["kernel"]) is not False:
            continue  # it was built since, or that kernel is gone
        for found in heard(case, one["text"], one["path"]):
            found["words"].setdefault("kernel", one["kernel"])
            clues.append(found)
    return clues


def dkms_gpl_symbol(facts):
    return _failed_builds(facts, BY_ID["dkms-gpl-symbol"])


def dkms_compiler(facts):
    return _failed_builds(facts, BY_ID["dkms-compiler"])


def dkms_failed(facts):
    return _failed_builds(facts, BY_ID["dkms-failed"])


def secure_boot(facts):
    seen = facts["found"].get("preflight") or {}
    if seen.get("secure_boot") is not True or seen.get("module_key") or facts["loaded"]:
        return []
    if facts["found"]["container"] or not (facts["dkms"] or any(facts["modules"].values())):
        return []
    evidence = "the firmware says SecureBoot=1, and no key of DKMS's is among those it trusts"
    return [clue(evidence, certificate=facts["certificate"] or "/var/lib/dkms/mok.pub")]


def transitional_branch(facts):
    clues = []
    for name, version in sorted(facts["driver_packages"].items()):
        branch = doctor_look.BRANCH.match(name)
        real = doctor_look.upstream(version).split(".")[0]
        if branch is not None and real.isdigit() and len(real) == 3 and real != branch.group(1):
            clues.append(clue("{0} is {1}".format(name, version), package=name))
    return clues


def _driver(facts):
    """The driver's version: the module's, the libraries', or the packages' alone; None without."""
    packages = sorted(facts["driver_packages"].items())
    names = ("libcuda1", "libnvidia-compute")
    installed = [version for name, version in packages if name.startswith(names)]
    return (
        facts["loaded"]
        or facts["library"]
        or (doctor_look.upstream(installed[0]) if installed else None)
    )


def fabric_manager(facts):
    driver = _driver(facts)
    return [
        clue("{0} is {1}, the driver is {2}".format(name, version, driver),
             package=name, driver=driver)
        for name, version in sorted(facts["fabric"].items())
        if driver is not None and version != driver
    ]  # fmt: skip


def _unknown_key(facts, rotated):
    """NVIDIA's entries whose signer apt doesn't know: with the former key, or with none."""
    clues = []
    # An entry beside one with the key is a contradiction, which is a case of its own.
    known = {
        (one["uri"], one["suite"]) for one in facts["keys"] if one["signer"] in (one["keys"] or {})
    }
    for one in facts["keys"]:
        if one["signer"] is None or one["keys"] is None or (one["uri"], one["suite"]) in known:
            continue
        old = one["signer"] == doctor_keys.CUDA and doctor_keys.CUDA_OLD in one["keys"]
        if old is rotated:
            where = one["missing"] if one["named"] and one["missing"] else one["files"]
            there = "is not there" if one["named"] and one["missing"] else "has it not"
            evidence = "{0} is signed by {1}; {2} ({3}) {4}".format(
                one["uri"], one["signer"][-16:], " ".join(where[:3]) or "no keyring",
                "named by " + one["file"] if one["named"] else "named by no entry", there,
            )  # fmt: skip
            clues.append(clue(evidence, keyring=keyring(facts["distribution"]), file=one["file"]))
    return clues


def key_missing(facts):
    return _unknown_key(facts, False)


def key_rotated(facts):
    return _unknown_key(facts, True)


def key_sha1(facts):
    if not facts["sqv"]:
        return []
    return [
        clue(
            "{0} is signed by {1}, whose own signature is SHA-1, and apt asks sqv here".format(
                one["uri"], _refused(one)
            ),
            file=one["file"],
        )
        for one in facts["keys"]
        if _refused(one) is not None
    ]


def _refused(one):
    """The key of a repository whose own signatures are SHA-1, by its last 16 digits; else None.

    Where the signer is not known, as of a local repository, no other key may be there.
    """
    found = one["keys"] or {}
    if one["signer"] is None and found and all(found.values()):
        return sorted(found)[0][-16:]
    return one["signer"][-16:] if found.get(one["signer"]) else None


def apt_key_gone(facts):
    if facts["apt_key"]:
        return []
    return [
        clue(
            "{0} names no key, and its key is in /etc/apt/trusted.gpg, which only apt-key "
            "writes".format(one["file"]),
            file=one["file"],
        )
        for one in facts["keys"]
        if not one["named"] and "/etc/apt/trusted.gpg" not in one["missing"]
    ]


def signed_by_conflict(facts):
    found = dict(facts["found"], preflight=facts["found"].get("preflight") or {})
    conflicts = found["preflight"].get("signed_by") or []
    reasons = host_rules.signed_by_conflict(found, [], {}, facts["row"])
    return [
        clue(message, file=conflicts[index][2][-1])
        for index, (message, _hint) in enumerate(reasons)
    ]


def held_broken(facts):
    # A driver of NVIDIA's .run file has no packages.
    if not ((facts["row"] or {}).get("nvidia_driver") or {}).get("packages"):
        return []
    reasons = method_rules.held_elsewhere(facts["found"], [], facts["options"], facts["row"])
    return [clue(message, package=hint.rpartition("unhold ")[2]) for message, hint in reasons]


def dpkg_interrupted(facts):
    seen = facts["found"].get("preflight") or {}
    if seen.get("dpkg_at_work"):
        return []
    return [
        clue("{0} is {1}".format(name, status)) for name, status in seen.get("unfinished") or []
    ]


def cuda_repo_pin(facts):
    row = (facts["row"] or {}).get("nvidia_driver")
    state = facts["found"]["state"].get("nvidia_driver") or {}
    if not row or row.get("source", "distribution") != "distribution" or state.get("pins"):
        return []
    if not any(one["signer"] == doctor_keys.CUDA for one in facts["keys"]):
        return []
    return [
        clue("{file} gives `{pin}` priority {priority}".format(**one))
        for one in facts["preferences"]
        if one["priority"] > 500
    ]


def local_repo_gone(facts):
    return [
        clue("{file} names {path}, which is not there".format(**one), package=one["package"])
        for one in facts["gone_repositories"]
    ]


def everything_held(facts):
    ours = transaction.locked(facts["row"] or {})
    names = [name for name in facts["held"] if name not in ours]
    if len(names) < MANY_HELD:
        return []
    some = " ".join(names[:LINES])
    return [clue("{0} packages are held, {1} among them".format(len(names), some), package=some)]


def cuda_libraries(facts):
    row = facts["row"] or {}
    sonames = set((row.get("cuda") or {}).get("sonames") or {})
    sonames.add((row.get("cudnn") or {}).get("soname"))
    return [
        clue("{0}: {1} ({2})".format(one["item"], one["from"], one["reason"]), library=one["item"])
        for one in facts["changes"]
        if one["component"] in ("cuda", "cudnn", "tensorflow")
        and one["item"].rpartition("/")[2] in sonames
    ]


def hand_made_link(facts):
    return [clue("{path} is {real}".format(**one), path=one["path"]) for one in facts["disguised"]]


def cudnn_older(facts):
    wanted = ((facts["row"] or {}).get("cudnn") or {}).get("minimum")
    seen = facts["cudnn"]
    if not wanted or seen is None or debian_versions.compare(seen["version"], wanted) >= 0:
        return []
    evidence = "the loader finds {0} at {1}; TensorFlow was built with {2}"
    return [clue(evidence.format(seen["version"], seen["path"], wanted))]


def login_wall(facts):
    return [clue("{0} begins with <html".format(path), path=path) for path in facts["pages"]]


def _numbers(version):
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _environments(facts):
    """{where: {wheel: [versions]}} of the environments of this stack that have a TensorFlow."""
    state = facts["found"]["state"].get("tensorflow") or {}
    found = {"the current environment": state.get("wheels") or {}}
    for name, one in (state.get("beside") or {}).items():
        found[name] = one.get("wheels") or {}
    return {name: wheels for name, wheels in found.items() if wheels.get("tensorflow")}


def _broken_wheels(facts, package):
    clues = []
    for where, wheels in sorted(_environments(facts).items()):
        release = _numbers(wheels["tensorflow"][0])
        bounds = [first for before, name, first in BREAKERS if name == package and release < before]
        for version in wheels.get(package) or []:
            if bounds and _numbers(version) >= bounds[0]:
                evidence = "{0} has TensorFlow {1} and {2} {3}".format(
                    where, wheels["tensorflow"][0], package, version
                )
                bound = "<" + ".".join(map(str, bounds[0]))
                clues.append(clue(evidence, bound=bound))
    return clues


def numpy_2(facts):
    return _broken_wheels(facts, "numpy")


def protobuf(facts):
    return _broken_wheels(facts, "protobuf")


def ptx_jit(facts):
    return _code_clues(facts, tensorflow_rules.gpu_translated, tensorflow_rules.TRANSLATED)


def no_code_for_gpu(facts):
    return _code_clues(facts, tensorflow_rules.gpu_without_code, tensorflow_rules.WITHOUT_CODE)


def _code_clues(facts, rule, generations):
    """What a rule of preflight says of the TensorFlow that is locked, or there."""
    state = facts["found"]["state"].get("tensorflow") or {}
    row = facts["row"] or {}
    if not row.get("cuda") and state.get("version"):
        row = {tensorflow.NAME: {"version": state["version"]}, "cuda": {"release": "11.2"}}
    if not row.get(tensorflow.NAME) or not row.get("cuda"):
        return []
    reasons = rule(facts["found"], [], facts["options"], row)
    devices = [gpu.get("device") for gpu in facts["found"]["gpus"]]
    concerned = [one for one in devices if gpu_models.generation(one) in generations]
    # As `provision catalog --gpu` takes it: "10de:2330" of "0x2330".
    gpu = "10de:" + concerned[0][2:] if concerned else None
    return [clue(message, gpu=gpu) for message, _hint in reasons]


def containers_lose_gpus(facts):
    # 1.18.1 names devices by their path; under cgroupfs systemd has no say.
    version = facts["toolkit"]
    if version is None or facts["cgroupfs"] or debian_versions.compare(version, "1.18.1") >= 0:
        return []
    return [
        clue("{path} has no {link}, and the container toolkit is {0}".format(version, **one))
        for one in facts["unlinked"]
    ]


def container_runtime(facts):
    """Of a host that has the toolkit or should have it, where docker is not left alone.

    `--gpus` needs no entry in daemon.json, so only a lock tells that one is missed.
    """
    row = (facts["row"] or {}).get(nvidia_container_toolkit.NAME)
    version, docker, options = facts["toolkit"], facts["docker"], facts["options"]
    gone = options.get(nvidia_container_toolkit.NAME + "_state") == "absent"
    left = nvidia_container_toolkit.docker_wish(options) == "none"
    if not docker["installed"] or left or gone or not (row or version):
        return []
    if version is None:
        return [clue("docker is installed, and the lock's container toolkit is not")]
    config, clues = nvidia_container_toolkit.CONFIG, []
    if docker["fault"] is not None:
        clues.append(clue("{0} is {1}".format(config, docker["fault"])))
    elif row and docker["runtime"] is None:
        clues.append(
            clue("{0} names no runtime nvidia, and container toolkit {1} is there".format(
                config, version
            ))
        )  # fmt: skip
    if docker["owed"]:
        clues.append(clue("docker was started before the container toolkit, and not since then"))
    return clues


def cdi_specification(facts):
    """Of a host that has the toolkit and a podman that reads CDI.

    That there is no specification is missed only where a lock has the toolkit.
    """
    row, seen = (facts["row"] or {}).get(nvidia_container_toolkit.NAME), facts["cdi"]
    options = facts["options"]
    gone = options.get(nvidia_container_toolkit.NAME + "_state") == "absent"
    if seen is None or gone or seen["fault"] is None or not cdi.concerned(seen, options):
        return []
    if seen["fault"] == "absent" and not row:
        return []
    return [clue("{path}: {fault}".format(**seen))]


def cri_runtime(facts):
    """Of a host that has the toolkit or should have it, where it is to serve pods.

    That the runtime is not named is missed only where a lock has the toolkit: it may be NVIDIA's
    GPU Operator's to bring.
    """
    row = (facts["row"] or {}).get(nvidia_container_toolkit.NAME)
    if facts["options"].get(nvidia_container_toolkit.NAME + "_state") == "absent":
        return []
    clues = []
    for unit in sorted(facts["cri"]):
        seen = facts["cri"][unit]
        if not seen["wanted"]:
            continue
        if seen["fault"] is not None:
            clues.append(clue("{0}: {1}".format(unit, seen["fault"]), runtime=unit))
        elif seen["runtime"] is None and row:
            clues.append(clue("{0} names no runtime nvidia".format(unit), runtime=unit))
        elif seen["owed"]:
            said = "{0} was started before it was told of the runtime, and not since then"
            clues.append(clue(said.format(unit), runtime=unit))
    return clues


# What a host can be seen to have, by the case's id. A case that is not here is told by a log alone.
CHECKS = {
    "driver-mismatch": driver_mismatch,
    "unattended-upgrades": unattended_upgrades,
    "nouveau-loaded": nouveau_loaded,
    "nouveau-initramfs": nouveau_initramfs,
    "headers-missing": headers_missing,
    "headers-metapackage": headers_metapackage,
    "driver-gone-after-kernel": driver_gone_after_kernel,
    "dkms-gpl-symbol": dkms_gpl_symbol,
    "dkms-compiler": dkms_compiler,
    "dkms-failed": dkms_failed,
    "secure-boot": secure_boot,
    "transitional-branch": transitional_branch,
    "fabric-manager": fabric_manager,
    "key-missing": key_missing,
    "key-rotated": key_rotated,
    "key-sha1": key_sha1,
    "apt-key-gone": apt_key_gone,
    "signed-by-conflict": signed_by_conflict,
    "held-broken": held_broken,
    "dpkg-interrupted": dpkg_interrupted,
    "cuda-repo-pin": cuda_repo_pin,
    "local-repo-gone": local_repo_gone,
    "everything-held": everything_held,
    "cuda-libraries": cuda_libraries,
    "hand-made-link": hand_made_link,
    "cudnn-older": cudnn_older,
    "login-wall": login_wall,
    "numpy-2": numpy_2,
    "protobuf": protobuf,
    "ptx-jit": ptx_jit,
    "no-code-for-gpu": no_code_for_gpu,
    "containers-lose-gpus": containers_lose_gpus,
    "container-runtime": container_runtime,
    "cdi-specification": cdi_specification,
    "cri-runtime": cri_runtime,
}


# the safe fixes: (facts, clues) -> {"components": [...]} for a run, or a step of the tasks


def _run(*components):
    """A fix that is a run of those of the components that the host's lock has."""

    def fix(facts, _clues):
        row = facts["row"] or {}
        names = [name for name in components if row.get(name)]
        return {"components": names} if names else {}

    return fix


def _headers(facts, _clues):
    seen = (facts["found"].get("preflight") or {}).get("headers") or {}
    return {} if "absent" in seen.values() else _run("nvidia_driver")(facts, [])


def _from_nvidia(facts, clues):
    """A run of what the lock takes from NVIDIA's repository, whose key stands in the lock."""
    row = facts["row"] or {}
    names = [n for n in ("nvidia_driver", "cuda") if (row.get(n) or {}).get("source") == "network"]
    return _run(*names)(facts, clues)


def _libraries(facts, clues):
    """The libraries go back to a module that is the locked one; forward goes only a reboot."""
    row = (facts["row"] or {}).get("nvidia_driver") or {}
    back = facts["loaded"] is not None and facts["loaded"] == row.get("version")
    return _run("nvidia_driver")(facts, clues) if back else {}


def _finish_dpkg(facts, _clues):
    """dpkg can't finish a package that lacks what it depends on; a run brings that for ours."""
    row = facts["row"] or {}
    left = {name for name, _status in facts["found"]["preflight"].get("unfinished") or []}
    ours = {
        "nvidia_driver": set(driver_packages.all_packages(row.get("nvidia_driver") or {})),
        "cuda": set(cuda.wanted(row.get("cuda") or {}, facts["options"])),
    }
    broken = [name for name in sorted(ours, reverse=True) if ours[name] & left]
    return {"dpkg": True, "components": broken} if broken else {"dpkg": True}


FIXES = {
    "driver-mismatch": _libraries,
    "unattended-upgrades": _run("nvidia_driver"),
    "nouveau-initramfs": lambda facts, _clues: {
        "initramfs": [path.partition("initrd.img-")[2] for path in facts["initramfs"]]
    },
    "headers-missing": _headers,
    "driver-gone-after-kernel": _run("nvidia_driver"),
    "key-missing": _from_nvidia,
    "key-rotated": _from_nvidia,
    "signed-by-conflict": lambda facts, _clues: (
        {"files": facts["settled"]} if facts["settled"] else {}
    ),
    "dpkg-interrupted": _finish_dpkg,
    "cuda-repo-pin": _run("nvidia_driver"),
    "cuda-libraries": _run("cuda", "cudnn", "gpu_env", "tensorflow"),
    "hand-made-link": lambda facts, _clues: {"aside": [one["path"] for one in facts["disguised"]]},
    "cudnn-older": _run("cudnn", "gpu_env"),
    "numpy-2": _run("tensorflow"),
    "protobuf": _run("tensorflow"),
    "containers-lose-gpus": lambda facts, _clues: {"links": facts["unlinked"]},
    "container-runtime": _run("nvidia_container_toolkit"),
    "cdi-specification": _run("nvidia_container_toolkit"),
    "cri-runtime": _run("nvidia_container_toolkit"),
}


# the whole


def heard(case, text, who):
    """Clues of a case in what a program said. Pure."""
    clues = []
    for pattern in case.says:
        # One line of a kind tells; a log repeats itself.
        match = re.search(pattern, text, re.I if "<!DOCTYPE" in pattern else 0)
        if match is None:
            continue
        start = text.rfind("\n", 0, match.end()) + 1
        end = text.find("\n", match.end())
        end = len(text) if end < 0 else end
        if end - start > WIDTH:
            start = max(start, match.end() - WIDTH // 2)
        line = text[start:end][:WIDTH].strip()
        words = {key: value for key, value in match.groupdict().items() if value}
        clues.append(clue("{0}: {1}".format(who, line), **words))
    return clues


def finding(case, clues, host=None, fix=None):
    """What a person is told of a case, as data."""
    words = Words(host=host or "<host>", keyring=keyring(None))
    for one in reversed(clues):
        words.update(one["words"])
    evidence = list(dict.fromkeys(CREDENTIALS.sub("***@", one["evidence"]) for one in clues))
    more = len(evidence) - LINES
    return {
        "id": case.id,
        "title": case.title,
        "evidence": evidence[:LINES] + (["and {0} more".format(more)] if more > 0 else []),
        "cure": case.cure.format_map(words),
        "commands": [command.format_map(words) for command in case.commands],
        "threads": list(case.threads),
        "fix": fix or {},
    }


def told(case_id, named, gpus=True):
    """False for a symptom whose reason is named already, or that is none without a GPU."""
    if case_id == "driver-silent":
        return gpus and not named & REASONS
    return case_id != "dkms-failed" or not named & {"dkms-gpl-symbol", "dkms-compiler"}


def diagnose(facts, host=None):
    """The findings of a host, in the order of the cases. Pure: `facts` holds all that was read."""
    found = []
    gpus = bool(facts["found"]["gpus"])
    for case in CASES:
        if not told(case.id, {one["id"] for one in found}, gpus):
            continue
        clues = CHECKS[case.id](facts) if case.id in CHECKS else []
        for who in sorted(facts["said"]):
            clues = clues + heard(case, facts["said"][who], who)
        if clues:
            fix = FIXES[case.id](facts, clues) if case.id in FIXES else {}
            found.append(finding(case, clues, host, fix))
    return found


def read_log(text, who="the log"):
    """The findings of a log alone. Pure."""
    found = []
    for case in CASES:
        clues = heard(case, text, who)
        if clues and told(case.id, {one["id"] for one in found}):
            found.append(finding(case, clues))
    return found


def fixes(findings):
    """What all findings' fixes come to: one value for each step of the tasks."""
    whole = {
        "components": [],
        "files": [],
        "initramfs": [],
        "aside": [],
        "links": [],
        "dpkg": False,
    }
    for one in findings:
        for step, value in one["fix"].items():
            if value is True:
                whole[step] = True
            else:
                whole[step] += [item for item in value if item not in whole[step]]
    return whole


def notes(found):
    """What is somebody's, no trouble by itself, and can hide the stack: sentences."""
    rules = (
        *(surroundings.no_pam, surroundings.trusted_for_all, surroundings.hidden_tensorflow),
        tensorflow_rules.conda_first,
    )
    return [
        "{0}. To do: {1}".format(message, hint)
        for rule in rules
        for message, hint in rule(found, [], {}, {})
    ]


def answer(parameters, found, context, changes):
    """What the task returns: the findings, what would fix them, and how far the plan is off."""
    facts = dict(
        doctor_look.look(context, found, parameters.get("logs")),
        found=found,
        row=context.row,
        changes=changes,
        options=context.options,
    )
    findings = diagnose(facts, parameters.get("host"))
    whole = fixes(findings)
    for one in findings:
        # What a step writes stands in `fixes` alone: a report may be shown to others.
        components = one["fix"].pop("components", [])
        one["fix"] = {"components": components, "steps": sorted(one["fix"])}
    other = found["preflight"].get("running")
    return {
        "findings": findings,
        "fixes": whole,
        # Components are for a run to bring; the rest is what tasks/doctor_fix.yml can do.
        "fixable": any(whole[step] for step in whole if step != "components"),
        "busy": running.who(other) if other is not None else "",
        "locked": context.row is not None,
        "differences": len(changes),
        "notes": notes(found),
        "platform": found["platform"],
        "simulated_gpu": found["simulated_gpu"],
        "changed": False,
    }
