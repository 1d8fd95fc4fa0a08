#!/usr/bin/python
"""One HTTPS door for the workspaces of a host, by nginx: a thin shim."""

DOCUMENTATION = r"""
module: front_door
short_description: Configure nginx with TLS in front of a host's workspaces and models
description:
  - Writes one site of nginx, one page that lists the workspaces, and, if the host is its own
    authority, a certificate. Other sites are not changed.
  - nginx is reloaded, never restarted, so open kernels keep their connections. If nginx rejects the
    site, it is restored with everything that belongs to it.
  - With ACME the distribution's certbot requests a certificate once, and its own timer renews it.
  - The packages, the program that renews the certificate and files from the controller are
    installed by the role C(gpu_front_door).
extends_documentation_fragment: [provision.gpu.common]
options:
  state:
    description:
      - C(present) makes the front door as given. C(absent) removes it, with the program that renews
        its certificate.
      - C(looked) changes nothing, fails where a run would refuse, and returns the variables of the
        templates of the site and the page.
      - C(proven) changes nothing, and requests the page and each person's path without a token.
    type: str
    choices: [present, absent, looked, proven]
    default: present
  door:
    description: The front door, with C(state=present) and C(state=looked).
    type: dict
    suboptions:
      name:
        description: The DNS name. Empty for no front door, with C(state=looked).
        type: str
        required: true
      port:
        description: The port.
        type: int
        required: true
      address:
        description: The address on which it listens. C(::) is all.
        type: str
        required: true
      tls:
        description: Where the certificate comes from, C(local_ca), C(given), C(host) or C(acme).
        type: str
        required: true
      certificate:
        description: With C(given) and C(host) the file of the certificate.
        type: str
        default: ""
      key:
        description: With C(given) and C(host) the file of its key.
        type: str
        default: ""
      redirect:
        description: Listen on port 80 and redirect from there.
        type: bool
        default: false
      hsts:
        description: Tell browsers to use only HTTPS with this name.
        type: bool
        default: false
      serving:
        description: Serve models as well, see M(provision.gpu.servings).
        type: bool
        default: false
      people:
        description: The people whose workspaces are reached through it.
        type: list
        elements: dict
        default: []
      acme:
        description: The ACME server, with C(tls=acme).
        type: dict
        suboptions:
          agree:
            description: You agree to its terms of service.
            type: bool
            default: false
          email:
            description: The address that the account is registered with. Empty for none.
            type: str
            default: ""
          directory:
            description: URL of its directory.
            type: str
            required: true
      given:
        description: SHA-256 of each file from the controller.
        type: dict
        default: {}
  site:
    description: The text of nginx's site, with C(state=present).
    type: str
    default: ""
  page:
    description: The text of the page, with C(state=present).
    type: str
    default: ""
  waiting:
    description: With ACME, the text of the site while the server validates on port 80.
    type: str
    default: ""
  patience:
    description: Seconds that each Jupyter has to answer through it, with C(state=proven).
    type: int
    default: 60
"""

EXAMPLES = r"""
- name: Check that nobody gets in without a token
  provision.gpu.front_door:
    state: proven
"""

RETURN = r"""
changes:
  description: What differs, in a few words each.
  type: list
  elements: str
  returned: with C(state=looked) and C(state=present)
here:
  description: Whether a front door exists.
  type: bool
  returned: with C(state=looked)
gone:
  description: Whether a front door must be removed.
  type: bool
  returned: with C(state=looked)
nginx:
  description: Whether nginx is installed or not needed.
  type: bool
  returned: with C(state=looked)
openssl:
  description: Whether openssl is installed.
  type: bool
  returned: with C(state=looked) and a name
certbot:
  description: Whether certbot is installed.
  type: bool
  returned: with C(state=looked) and ACME
site:
  description: Variables of the template of the site.
  type: dict
  returned: with C(state=looked) and a name
waiting:
  description: Variables of the template of the site while an ACME server validates.
  type: dict
  returned: with C(state=looked) and a name
page:
  description: Variables of the template of the page.
  type: dict
  returned: with C(state=looked) and a name
fingerprint:
  description: SHA-256 of the certificate of the host's own authority, if it has one.
  type: str
  returned: with C(state=present)
packages:
  description: Packages of nginx that nothing else uses.
  type: list
  elements: str
  returned: with C(state=absent)
proven:
  description: The name of the front door that was checked.
  type: str
  returned: with C(state=proven)
would:
  description: What would be done, in a sentence.
  type: str
  returned: if there is something to do
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    FLAG,
    MAPPING,
    REQUIRED_TEXT,
    TEXT,
    one_of,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.gpu_front_door import (  # noqa: E501
    answer,
)

ACME = {
    "agree": FLAG,
    "email": TEXT,
    "directory": REQUIRED_TEXT,
}
DOOR = {
    "name": REQUIRED_TEXT,
    "port": {"type": "int", "required": True},
    "address": REQUIRED_TEXT,
    "tls": REQUIRED_TEXT,
    "certificate": TEXT,
    # A path.
    "key": {"type": "str", "default": "", "no_log": False},
    "redirect": FLAG,
    "hsts": FLAG,
    "people": {"type": "list", "elements": "dict", "default": []},
    "serving": FLAG,
    "acme": {"type": "dict", "options": ACME},
    "given": MAPPING,
}

ARGUMENTS = {
    "state": one_of("present", "absent", "looked", "proven", default="present"),
    "door": {
        "type": "dict",
        "options": DOOR,
        "required_if": [("tls", "acme", ["acme"])],
    },
    "site": TEXT,
    "page": TEXT,
    "waiting": TEXT,
    "patience": {"type": "int", "default": 60},
}


def main() -> None:
    run(
        ARGUMENTS,
        answer.settle,
        required_if=[("state", "present", ["door"]), ("state", "looked", ["door"])],
    )


if __name__ == "__main__":
    main()
