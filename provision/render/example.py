"""The inventory that `provision init` writes once, with every option explained in comments.

After that the directory is the user's, and we never write into it again. Variables are in the
group's own file, never in group_vars/all.yml, which a group_vars/all/ directory would hide.
"""

from __future__ import annotations

import textwrap

from provision.inventory.own import OWN
from provision.roles import ALL, SITE
from provision.roles.base import Option
from provision.yaml_text import dump

GROUP = "gpu_hosts"

HOSTS = f"""\
# Your inventory: ordinary Ansible, yours to change. Anything that Ansible can read works as well:
# several files, an INI file, a dynamic inventory.
{GROUP}:
  hosts:
    gpu01:
      ansible_host: 192.0.2.11
    gpu02:
      ansible_host: 192.0.2.12
  vars:
    # The account to log in with; it needs sudo (ask for its password with -K).
    ansible_user: admin
"""

_WISH = """\
# What the hosts of this group should become, and how. Yours to change; `provision lock` reads it.
#
# The wish. Versions are quoted: an unquoted 2.10 is the number 2.1. "2.9" means its newest patch.
gpu_stack:
  tensorflow: "2.9"
  # Left out, the rest follows from it. To say more:
  # python: "3.9"
  # cuda: "11.2"
  # driver_branch: "470"
  # cudnn: "8.1.0.77"
  # An archive of cuDNN of your own; where it lies is cudnn_controller_file, cudnn_host_file or
  # cudnn_urls below:
  # cudnn: {version: "8.5.0.96", cuda: "11.2", sha256: "<64 hex digits, from sha256sum>"}
  # CUDA and cuDNN as TensorFlow's own wheels, from 2.14 on, instead of the distribution's packages:
  # cuda_source: wheels
  # Or from NVIDIA itself: cuda_source network or local, driver_source network or runfile:
  # driver_source: runfile
  # Ubuntu's own driver with a module that each host builds (DKMS), not with Canonical's:
  # driver_modules: dkms
{own}  # What else the environment holds, of the package index, locked with TensorFlow:
  # packages: [jupyterlab, "pandas<2.1", matplotlib]
  # Further TensorFlows on the same hosts, each in an environment of its own:
  # beside: [{tensorflow: "2.14"}]

# Everything below is optional; what stands there is the default. Which versions are installed is
# not set here: that is the lock's.
"""

_README = """\
# {name}

`lab/` is yours: an ordinary Ansible inventory. Write your hosts into `lab/hosts.yml` and what they
should become into `lab/group_vars/{group}.yml`; everything that can be set is explained there.
Then, in this directory:

    provision discover    # asks the hosts what they are -> discovered.yml, for the lock
    provision lock        # lab/ -> lock.yml: exact versions and hashes
    provision render      # lock.yml -> site.yml, ansible.cfg, collections/, verify/
    ansible-playbook site.yml -i lab

After that:

    provision plan        # what differs from the lock; exit code 5 if anything does
    provision apply       # the same run as ansible-playbook, with a live view
    provision verify      # prove again that everything works
    provision doctor      # what is wrong, why, and how to fix it
    provision accept      # whether every GPU is well, and what to do about one that is not

Keep all of it in git but `report/`, to which every run adds. A colleague then needs nothing
but ansible-core, and `pip install -r requirements.txt` for the proof at the end.
"""


def _block(option: Option) -> str:
    lines = textwrap.fill(option.description, 98, initial_indent="# ", subsequent_indent="# ")
    if option.choices:
        lines += f"\n# One of: {', '.join(option.choices)}."
    if option.example:
        lines += f"\n# For example: {option.name}: {option.example}"
    body = dump({option.name: option.default}).decode().removeprefix("---\n")
    commented = "".join(f"# {line}\n" for line in body.splitlines())
    return f"{lines}\n{commented}"


def _wish() -> str:
    components = "".join(
        f"  # {own.COMMENT}\n  # {own.WORD}: {own.EXAMPLE}\n" for own in OWN.values()
    )
    return _WISH.replace("{own}", components)


def group_vars() -> str:
    """The group's file: the wish, then every option of the inventory's, commented out."""
    parts = [_wish()]
    for role in (*ALL, SITE):
        parts.append(f"# --- {role.title} ---\n")
        parts += [_block(option) for option in role.options if option.public]
    return "\n".join(parts)


def render(name: str) -> dict[str, bytes]:
    """The files of a new project, by path."""
    return {
        ".gitignore": b"/report/\n",
        "README.md": _README.format(name=name, group=GROUP).encode(),
        "lab/hosts.yml": HOSTS.encode(),
        f"lab/group_vars/{GROUP}.yml": group_vars().encode(),
    }
