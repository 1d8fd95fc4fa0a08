"""site.yml: one look, one plan, only the difference, then proof.

The order of the tasks is the design (see docs): a converged host ends after one round trip, check
mode ends with the plan, all blockers stand in one message before anything is touched.
"""

from __future__ import annotations

from typing import Any

from provision.registry import run_steps
from provision.render.stacks import DIRECTORY, NAME
from provision.render.yaml_text import dump
from provision.roles import ROLES
from provision.roles.base import Role

HEADER = """\
Brings every host that has a gpu_stack to its row in lock.yml, and proves it. Made by
`provision render`; run it with: ansible-playbook site.yml -i lab"""

PLAYBOOK_HEADER = """\
Brings every host that has a gpu_stack to its row in its project's lock, and proves it: the project
lies where the playbook is that imports this one, as provision.gpu.site. Rendered from
provision/render/site.py by `provision roles sync`; edit that."""

COLLECTION = "provision.gpu"
# The checks are the project's, beside its site.yml.
CHECKS = "{{ playbook_dir }}/verify/tasks.yml"

# Hosts without a wish may be in the same inventory; they are never connected to.
HOSTS = "all"

# A play's keywords know no host's variables: these come with -e or not at all. Reboots are one at a
# time whatever they say (`throttle` in the driver's role).
_CANARY = "gpu_canary | default('') | string"
_COUNTED = f"({_CANARY}) is match('[0-9]+$')"
_NAMED = f"({_CANARY}) is match('[A-Za-z0-9_][A-Za-z0-9_.-]*$') and not {_COUNTED}"

# A canary that is named comes first; what comes twice in a pattern is one host.
IN_ORDER = f"{{{{ [gpu_canary, '{HOSTS}'] if {_NAMED} else '{HOSTS}' }}}}"

# The verify play comes after the receipt, and is left out by these: a run ends with its proof.
PROOF_FOLLOWS = (
    "{{ gpu_verify | default('auto') != 'never' and 'verify' not in ansible_skip_tags"
    " and ansible_run_tags | intersect(['all', 'verify']) | length > 0 }}"
)

# The canary is a batch of its own, before those of gpu_serial.
_BATCHES = "gpu_serial | default('100%', true)"
SERIAL = (
    f"{{{{ {_BATCHES} if not {_CANARY} else"
    f" [gpu_canary | int if {_COUNTED} else 1] + [{_BATCHES}] | flatten }}}}"
)

# Hosts are taken in batches: each is proven before the next one begins.
ROLLING = f"gpu_serial is defined or {_CANARY} | length > 0"

# A host of an earlier batch has failed, was blocked, or could not be reached.
_EARLIER_FAILED = "ansible_play_hosts_all | difference(ansible_play_hosts) | length > 0"

_WISHES = (
    "ansible_play_batch | map('extract', hostvars) | selectattr('gpu_stack', 'defined')"
    " | map(attribute='inventory_hostname') | list"
)

DEVICES_SCRIPT = """\
import json
import tensorflow as tf
build = tf.sysconfig.get_build_info()
print(json.dumps({
    "version": tf.__version__,
    "cuda": tf.test.is_built_with_cuda(),
    "built_with": {k: str(build.get(k)) for k in ("cuda_version", "cudnn_version")},
    "gpus": len(tf.config.list_physical_devices("GPU")),
}))
"""

# Whole numbers: the CPU's answer is the right one on every GPU.
COMPUTE_SCRIPT = """\
import numpy as np
import tensorflow as tf
x = (np.arange(4096) % 7).astype("float32").reshape(64, 64)
image, kernel = x.reshape(1, 64, 64, 1), np.ones((3, 3, 1, 1), dtype="float32")
for device in tf.config.list_logical_devices("GPU"):
    with tf.device(device.name):
        product = tf.linalg.matmul(x, x) + 1.0
        blurred = tf.nn.conv2d(image, kernel, 1, "VALID")
    assert "GPU" in product.device, "it ran on %s" % product.device
    assert abs(product.numpy() - (x @ x + 1)).max() < 0.5, "a wrong product on %s" % device.name
    assert abs(blurred.numpy()[0, 0, 0, 0] - x[:3, :3].sum()) < 0.5, "wrong on %s" % device.name
"""

FIT_SCRIPT = """\
import numpy as np
import tensorflow as tf
x = np.linspace(0, 1, 64, dtype="float32").reshape(-1, 1)
model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
model.compile(optimizer="sgd", loss="mse")
loss = model.fit(x, 2 * x + 1, epochs=5, verbose=0).history["loss"]
assert loss[-1] < loss[0], "the loss did not fall: %r" % loss
"""

# A sick driver holds whoever asks it: ended by timeout(1), and given up by Ansible where the kernel
# does not let it die.
_PATIENT = ("timeout", "--kill-after=10", "600")
_ABANDONED = 660

# -I: without it Python imports from the directory it was started in, a home that is not root's.
_TENSORFLOW_PYTHON = "{{ tensorflow_root | default('/opt/tensorflow') }}/current/bin/python"


def plans(key: str) -> str:
    """The expression that lists what is not empty under `key` in the plans of the play's hosts."""
    return (
        "ansible_play_hosts | map('extract', hostvars) | selectattr('gpu_plan', 'defined')"
        f" | map(attribute='gpu_plan.{key}') | select | list"
    )


def _end(name: str, when: Any) -> dict[str, Any]:
    return {
        "name": f"End | {name}",
        "ansible.builtin.meta": "end_host",
        "when": when,
        "tags": ["always"],
    }


def _gpu_state(name: str, tasks_from: str, when: Any = None) -> dict[str, Any]:
    task: dict[str, Any] = {
        "name": name,
        "ansible.builtin.import_role": {
            "name": f"{COLLECTION}.gpu_state",
            "tasks_from": tasks_from,
            # Validating a spec costs 70 ms per host; the look is all a converged host pays.
            "rolespec_validate": False,
        },
    }
    if when is not None:
        task["when"] = when
    return task | {"tags": ["always"]}


def _applied() -> list[dict[str, Any]]:
    """The roles in their order; where one may reboot, the host is held again after it.

    What is wished away goes before that, in the opposite order: the plan says it.
    """
    found = [_removed()]
    roles = {role.name: role for role in ROLES}
    for step in run_steps():
        role = roles[step["component"]]
        if step["tasks_from"] == "begin":
            found.append(_begin(role, step["behind"]))
        elif step["tasks_from"] == "hold":
            (allowed,) = [one for one in role.options if one.name == f"{role.name}_reboot"]
            when = [
                f"{allowed.name} | default({allowed.default!r}) | bool",
                *_wanted(role),
            ]
            found.append(_gpu_state("Apply | Hold the host again after a reboot", "hold", when))
        else:
            found.append(_apply(role))
        if step["role"] == "tensorflow" and step["tasks_from"] == "main":
            found.append(_beside(role))
    return found


def _removed() -> dict[str, Any]:
    return {
        "name": "Apply | Take away what is wished away",
        "ansible.builtin.include_role": {
            "name": COLLECTION + ".{{ __gpu_removal }}",
            "apply": {"tags": ["always"]},
        },
        # Chosen by tags in the plan: a loop has no tag of its own for each role.
        "loop": "{{ gpu_plan.removals }}",
        "loop_control": {"loop_var": "__gpu_removal"},
        "tags": ["always"],
    }


def _wanted(role: Role) -> list[str]:
    """When a role brings its component to its lock."""
    return [
        f"'{role.name}' in gpu_plan.components",
        f"'{role.name}' not in gpu_plan.absent",
    ]


def _beside(role: Role) -> dict[str, Any]:
    """TensorFlow's environments beside the current one, by the same role."""
    part = "gpu_lock.stacks[__gpu_beside.stack].tensorflow"
    return {
        "name": "Apply | Bring the environments beside it to their lock",
        "ansible.builtin.include_role": _include(role),
        "loop": "{{ gpu_plan.beside }}",
        "loop_control": {"loop_var": "__gpu_beside"},
        "when": _wanted(role),
        "vars": {
            "tensorflow_version": f"{{{{ {part}.version }}}}",
            "tensorflow_python": f"{{{{ {part}.python }}}}",
            "tensorflow_requirements": DIRECTORY + "/{{ __gpu_beside.stack }}.requirements.txt",
            "tensorflow_requirements_sha256": f"{{{{ {part}.requirements_sha256 }}}}",
            "tensorflow_cuda_prefix": "",
            "tensorflow_switch": False,
            "tensorflow_reinstall": "{{ __gpu_beside.directory in (gpu_plan.repairs.tensorflow"
            " | default({})).tensorflow_reinstall_beside | default([]) }}",
        },
        "tags": [role.name],
    }


def _include(role: Role) -> dict[str, Any]:
    """The collection's role, with its tag on its tasks."""
    return {"name": f"{COLLECTION}.{role.name}", "apply": {"tags": [role.name]}}


def _begin(role: Role, behind: list[str]) -> dict[str, Any]:
    """Starts what a role does long and alone, before roles that do something else meanwhile.

    Only where the host is held for the run: who holds it ends what a run that failed has left.
    """
    include = _include(role) | {"tasks_from": "begin"}
    task: dict[str, Any] = {
        "name": f"Apply | Begin {role.name} behind the others",
        "ansible.builtin.include_role": include | {"rolespec_validate": False},
        "when": [
            *_wanted(role),
            f"{behind} | intersect(gpu_plan.components) | length > 0",
            "__gpu_state_held.held | default(false)",
        ],
        "tags": [role.name],
    }
    repairs = _repairs(role)
    return task | ({"vars": repairs} if repairs else {})


def _apply(role: Role) -> dict[str, Any]:
    task: dict[str, Any] = {
        "name": f"Apply | Bring {role.name} to its lock",
        "ansible.builtin.include_role": _include(role),
        "when": _wanted(role),
        "tags": [role.name],
    }
    repairs = _repairs(role)
    if role.name == "tensorflow":
        # Not to be removed as former ones.
        repairs["tensorflow_beside"] = "{{ gpu_plan.beside | map(attribute='directory') | list }}"
    if role.name == "gpu_front_door":
        repairs["gpu_front_door_people"] = "{{ gpu_workspaces | default([]) }}"
    return task | ({"vars": repairs} if repairs else {})


def _repairs(role: Role) -> dict[str, Any]:
    """What the plan fills for one run."""
    return {
        option.name: "{{ (gpu_plan.repairs."
        + f"{role.name} | default({{}})).{option.name} | default({option.default!r})"
        + " }}"
        for option in role.options
        if option.repair
    }


def _selected(*components: str) -> list[str]:
    """Proof of a component makes sense where it is wished, and was not left out by tags."""
    return [f"'{name}' not in gpu_plan.not_selected + gpu_plan.absent" for name in components]


def _rolling() -> list[dict[str, Any]]:
    """What stands between two batches, and before the first.

    Not `max_fail_percentage: 0`: it counts no host that can't be reached, and it would stop the
    other hosts of a batch wherever they are, a good one before its receipt. A batch that has begun
    is brought to its end, and the next one is not begun.
    """
    return [
        {
            "name": "End | Stop where a host of an earlier batch is not proven",
            "ansible.builtin.meta": "end_batch",
            "when": [ROLLING, "not ansible_check_mode", _EARLIER_FAILED],
            "tags": ["always"],
        },
        {
            "name": "Preflight | Refuse a canary that would prove nothing",
            "ansible.builtin.fail": {
                "msg": "gpu_canary is {{ gpu_canary | to_json }}: it must name one host of this run"
                " that has a gpu_stack, or say how many hosts are tried first (1 or more, one with"
                " a gpu_stack among them). No host was touched."
            },
            "run_once": True,
            "when": [
                f"{_CANARY} | length > 0",
                "ansible_play_batch | first == ansible_play_hosts_all | first",
                f"gpu_canary | int < 1 or not ({_WISHES}) if {_COUNTED}"
                f" else [gpu_canary] != {_WISHES}",
            ],
            "tags": ["always"],
        },
    ]


def _proofs() -> list[dict[str, Any]]:
    gpus = "gpu_left.gpus | selectattr('usable') | list"
    path = (
        "{{ (gpu_lock.stacks[gpu_plan.stack].gpu_env.path + "
        "['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'])"
        " | join(':') }}"
    )
    # Where CUDA comes as wheels there is no such directory, and XLA looks beside TensorFlow.
    xla = "{{ {'XLA_FLAGS': '--xla_gpu_cuda_data_dir=' ~ __gpu_xla} if __gpu_xla else {} }}"
    xla_directory = (
        "{{ gpu_env_xla_cuda_data_dir | default('', true)"
        " or gpu_lock.stacks[gpu_plan.stack].gpu_env.xla_cuda_data_dir }}"
    )
    always = {"tags": ["always"]}
    return [
        {
            "name": "Proof | Ask the driver for its GPUs",
            "ansible.builtin.command": {
                "argv": [
                    *_PATIENT,
                    "nvidia-smi",
                    "--query-gpu=driver_version,name",
                    "--format=csv,noheader",
                ]
            },
            "timeout": _ABANDONED,
            "register": "__gpu_smi",
            "changed_when": False,
            "failed_when": False,
            "when": [f"{gpus} | length > 0", *_selected("nvidia_driver")],
            **always,
        },
        {
            "name": "Proof | Refuse a driver that does not answer as locked",
            "ansible.builtin.fail": {
                "msg": "nvidia-smi should name driver {{ gpu_lock.stacks[gpu_plan.stack]"
                ".nvidia_driver.version }} for {{ "
                + gpus
                + " | length }} GPUs. It said (exit {{ __gpu_smi.rc }}): "
                "{{ __gpu_smi.stdout | default('') }} {{ __gpu_smi.stderr | default('') }} "
                "{{ __gpu_smi.msg | default('') }}"
            },
            "when": [
                "__gpu_smi is not skipped",
                "__gpu_smi.rc != 0 or __gpu_smi.stdout_lines | map('split', ',') | map('first')"
                " | unique | list != [gpu_lock.stacks[gpu_plan.stack].nvidia_driver.version]",
            ],
            **always,
        },
        {
            "name": "Proof | Ask nvcc for its release",
            "ansible.builtin.command": {"argv": ["nvcc", "--version"]},
            "environment": {"PATH": path},
            "timeout": _ABANDONED,
            "register": "__gpu_nvcc",
            "changed_when": False,
            "failed_when": False,
            "when": [
                "'cuda' in gpu_lock.stacks[gpu_plan.stack]",
                "cuda_profile | default('toolkit') == 'toolkit'",
                *_selected("cuda"),
            ],
            **always,
        },
        {
            "name": "Proof | Refuse an nvcc of another release",
            "ansible.builtin.fail": {
                "msg": "nvcc --version should say release "
                "{{ gpu_lock.stacks[gpu_plan.stack].cuda.release }}. It said (exit "
                "{{ __gpu_nvcc.rc }}): {{ __gpu_nvcc.stdout | default('') }} "
                "{{ __gpu_nvcc.stderr | default('') }} {{ __gpu_nvcc.msg | default('') }}"
            },
            "when": [
                "__gpu_nvcc is not skipped",
                "__gpu_nvcc.rc != 0 or ('release ' ~ gpu_lock.stacks[gpu_plan.stack].cuda.release"
                " ~ ',') not in __gpu_nvcc.stdout",
            ],
            **always,
        },
        {
            "name": "Proof | Ask TensorFlow for its GPUs",
            "ansible.builtin.command": {
                "argv": [*_PATIENT, _TENSORFLOW_PYTHON, "-I", "-c", DEVICES_SCRIPT]
            },
            "environment": xla,
            "timeout": _ABANDONED,
            "register": "__gpu_tensorflow",
            "changed_when": False,
            "failed_when": False,
            "when": _selected("nvidia_driver", "cuda", "cudnn", "tensorflow"),
            "vars": {"__gpu_xla": xla_directory},
            **always,
        },
        {
            "name": "Proof | Refuse a TensorFlow that does not see them",
            "ansible.builtin.fail": {
                "msg": "TensorFlow {{ gpu_lock.stacks[gpu_plan.stack].tensorflow.version }}, "
                "built with CUDA, should list {{ "
                + gpus
                + " | length }} GPUs. It said (exit {{ __gpu_tensorflow.rc }}): "
                "{{ __gpu_tensorflow.stdout | default('') }} "
                "{{ (__gpu_tensorflow.stderr_lines | default([]))[-12:] | join(' / ') }} "
                "{{ __gpu_tensorflow.msg | default('') }}"
            },
            "when": [
                "__gpu_tensorflow is not skipped",
                "__gpu_tensorflow.rc != 0 or not (__gpu_seen.cuda and __gpu_seen.version =="
                " gpu_lock.stacks[gpu_plan.stack].tensorflow.version and __gpu_seen.gpus =="
                f" ({gpus} | length))",
            ],
            "vars": {"__gpu_seen": "{{ __gpu_tensorflow.stdout_lines | last | from_json }}"},
            **always,
        },
        {
            # A simulated GPU computes nothing: there this is skipped, and never counted as proven.
            "name": "Proof | Compute on every GPU",
            "ansible.builtin.command": {
                "argv": [*_PATIENT[:2], "3600", _TENSORFLOW_PYTHON, "-I", "-c", COMPUTE_SCRIPT]
            },
            "timeout": 3660,
            "environment": xla,
            "register": "__gpu_compute",
            "changed_when": False,
            "failed_when": False,
            "when": [
                "not gpu_left.simulated_gpu",
                f"{gpus} | length > 0",
                *_selected("nvidia_driver", "cuda", "cudnn", "tensorflow"),
            ],
            "vars": {"__gpu_xla": xla_directory},
            **always,
        },
        {
            "name": "Proof | Refuse a TensorFlow that cannot compute on them",
            "ansible.builtin.fail": {
                "msg": "TensorFlow lists the GPUs, and a matrix product and a convolution on each "
                "failed (exit {{ __gpu_compute.rc }}): "
                "{{ (__gpu_compute.stderr_lines | default([]))[-12:] | join(' / ') }} "
                "{{ __gpu_compute.msg | default('') }}"
            },
            "when": [
                "__gpu_compute is not skipped",
                "__gpu_compute.rc != 0",
                # Others use the GPU's memory: nothing was shown, and `verify` says so.
                "__gpu_compute.stderr | default('')"
                " is not search('OUT_OF_MEMORY|ResourceExhausted|out of memory')",
            ],
            **always,
        },
        {
            "name": "Proof | Fit a small Keras model on the CPU",
            "ansible.builtin.command": {
                "argv": [*_PATIENT, _TENSORFLOW_PYTHON, "-I", "-c", FIT_SCRIPT]
            },
            "environment": {"CUDA_VISIBLE_DEVICES": "-1"},
            "timeout": _ABANDONED,
            "register": "__gpu_fit",
            "changed_when": False,
            "failed_when": False,
            "when": _selected("tensorflow"),
            **always,
        },
        {
            "name": "Proof | Refuse a TensorFlow that cannot fit",
            "ansible.builtin.fail": {
                "msg": "A five-epoch Keras fit on the CPU failed (exit {{ __gpu_fit.rc }}): "
                "{{ (__gpu_fit.stderr_lines | default([]))[-8:] | join(' / ') }} "
                "{{ __gpu_fit.msg | default('') }}"
            },
            "when": ["__gpu_fit is not skipped", "__gpu_fit.rc != 0"],
            **always,
        },
    ]


def site() -> list[dict[str, Any]]:
    """The two plays as data."""
    preflight = {
        "name": "Preflight | Stop before anything is touched",
        "ansible.builtin.fail": {
            "msg": "Nothing was changed on this host. In the way:\n"
            "{% for blocker in gpu_plan.blockers %}\n"
            "- {{ blocker.message }}{{ '. To do: ' ~ blocker.hint if blocker.hint else '' }}\n"
            "{% endfor %}\n"
        },
        "when": "gpu_plan.blockers | length > 0",
        "tags": ["always"],
    }
    tasks: list[dict[str, Any]] = [
        *_rolling(),
        _end("Leave a host without a wish alone", "gpu_stack is not defined"),
        # Once for all hosts: a play's vars_files are read again for every task of every host.
        {
            "name": "Look | Load the lock",
            "ansible.builtin.include_vars": {"file": f"{DIRECTORY}/{NAME}"},
            "run_once": True,
            "tags": ["always"],
        },
        _gpu_state("Look | Compare the host with the lock", "main"),
        # Said once where it is true of all; each host by itself has its price and its lines.
        {
            "name": "End | Stop where every host is as locked",
            "ansible.builtin.meta": "end_batch",
            "when": [
                f"{plans('components')} == []",
                f"{plans('blockers')} == []",
            ],
            "tags": ["always"],
        },
        _end(
            "Leave a host that is as locked",
            ["gpu_plan.components | length == 0", "gpu_plan.blockers | length == 0"],
        ),
        _end("Stop at the plan in check mode", "ansible_check_mode"),
        preflight,
        {
            "name": "Apply | Load the stack's exact versions",
            "ansible.builtin.include_vars": {"file": DIRECTORY + "/{{ gpu_plan.stack }}.yml"},
            "tags": ["always"],
        },
        _gpu_state("Apply | Note that a run has begun", "begin"),
        *_applied(),
        {
            "name": "Apply | Restart what asked for it",
            "ansible.builtin.meta": "flush_handlers",
            "tags": ["always"],
        },
        _gpu_state("Proof | Compare the host with the lock again", "again"),
        {
            "name": "Proof | Refuse to leave anything undone",
            "ansible.builtin.fail": {
                "msg": "The run is over and this is left: {{ __gpu_left_over"
                " | map(attribute='component') | zip(__gpu_left_over | map(attribute='item'),"
                " __gpu_left_over | map(attribute='reason')) | map('join', ', ') | join('; ') }}"
                "{{ '. Reboot this host, then run again' if gpu_left.reboot.needed else '' }}"
            },
            "when": "__gpu_left_over | length > 0",
            "vars": {"__gpu_left_over": "{{ gpu_left.changes | selectattr('selected') | list }}"},
            "tags": ["always"],
        },
        *_proofs(),
        _gpu_state("Receipt | Write what was changed", "receipt"),
        # Whoever comes next rests on these; without batches the play below proves all at once.
        {
            "name": "Verify | Prove this batch before the next one begins",
            "ansible.builtin.include_tasks": {
                "file": CHECKS,
                "apply": {"become": False, "tags": ["verify"]},
            },
            "when": ROLLING,
            "tags": ["verify"],
        },
    ]
    stack: dict[str, Any] = {
        "name": "GPU stack",
        "hosts": IN_ORDER,
        "strategy": "ansible.builtin.linear",
        "serial": SERIAL,
        "gather_facts": False,
        "become": True,
        # What a run that is cut off leaves at work on a host is found by it, and ended.
        "environment": {"PROVISION_RUN": "{{ lookup('ansible.builtin.env', 'PROVISION_RUN_ID') }}"},
        "vars": {"__gpu_proof_follows": PROOF_FOLLOWS},
        "tasks": tasks,
    }
    verify: dict[str, Any] = {
        "name": "Verify",
        "hosts": HOSTS,
        "strategy": "ansible.builtin.linear",
        "gather_facts": False,
        "tags": ["verify"],
        "tasks": [
            {
                "name": "End | Stop where no host has anything to prove",
                "ansible.builtin.meta": "end_play",
                "when": [
                    f"{plans('components')} == []",
                    "'always' not in (ansible_play_hosts | map('extract', hostvars)"
                    " | selectattr('gpu_verify', 'defined') | map(attribute='gpu_verify'))",
                ],
            },
            {
                # Said here, where it costs no process per host.
                "name": "End | Leave a host alone that has nothing to prove",
                "ansible.builtin.meta": "end_host",
                "when": "gpu_plan is not defined or __verify_seen is defined"
                " or (gpu_plan.components | length == 0"
                " and gpu_verify | default('auto') != 'always')",
            },
            {
                "name": "Verify | Check the stack with testinfra",
                "ansible.builtin.include_tasks": {"file": CHECKS, "apply": {"tags": ["verify"]}},
                # An include is a result of its own in the report; a check ends with the plan.
                "when": "not ansible_check_mode",
            },
        ],
    }
    return [stack, verify]


def render() -> dict[str, bytes]:
    """site.yml of a project, which imports the collection's."""
    play = {"name": "GPU stack", "ansible.builtin.import_playbook": f"{COLLECTION}.site"}
    return {"site.yml": dump([play], header=HEADER)}


def playbook() -> dict[str, bytes]:
    """playbooks/site.yml of the collection, by its path there."""
    return {"playbooks/site.yml": dump(site(), header=PLAYBOOK_HEADER)}
