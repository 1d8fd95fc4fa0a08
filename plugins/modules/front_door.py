#!/usr/bin/python
"""One HTTPS door for the workspaces of a host, by nginx: a thin shim."""

DOCUMENTATION = r"""
module: front_door
short_description: Bring nginx's site, page and certificate for the workspaces of a host
description:
  - Makes one site of nginx's, one page that lists who has what, and, where the host is its own
    authority, a certificate. No other site is touched.
  - nginx is reloaded, never restarted, so that who has a kernel open keeps the connection. A site
    that nginx does not take is put back to what it was, with all that belongs to it.
  - With ACME the distribution's certbot asks once for a certificate and renews it by its own timer.
  - The packages, the program that renews the certificate and what comes from the controller are
    brought by the role C(gpu_front_door).
extends_documentation_fragment: [provision.gpu.common]
options:
  state:
    description:
      - C(present) brings the door to what is wished. C(absent) takes it away, with the program that
        renews its certificate.
      - C(looked) changes nothing, refuses what a run would refuse, and returns the words that the
        templates of the site and the page are filled with.
      - C(proven) changes nothing and asks the door for its page and everybody's path, without a
        token.
    type: str
    choices: [present, absent, looked, proven]
    default: present
  door:
    description: What is wished, with C(state=present) and C(state=looked).
    type: dict
    suboptions:
      name:
        description: The DNS name. Empty for no door, with C(state=looked).
        type: str
        required: true
      port:
        description: The door's port.
        type: int
        required: true
      address:
        description: The address that it is opened on. C(::) is every one.
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
        description: Open port 80, which sends people to the door.
        type: bool
        default: false
      hsts:
        description: Tell browsers to speak HTTPS alone with this name.
        type: bool
        default: false
      serving:
        description: Lead to served models as well, see M(provision.gpu.servings).
        type: bool
        default: false
      people:
        description: Those whom the door leads to.
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
            description: Its directory.
            type: str
            required: true
      given:
        description: SHA-256 of each file that comes from the controller.
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
    description: With ACME, the text of the site while the server asks at port 80.
    type: str
    default: ""
  patience:
    description: Seconds in which the door must lead to each Jupyter, with C(state=proven).
    type: int
    default: 60
"""

EXAMPLES = r"""
- name: Prove that the door leads nobody in without a token
  provision.gpu.front_door:
    state: proven
"""

RETURN = r"""
changes:
  description: What is not as wished, in a few words each.
  type: list
  elements: str
  returned: with C(state=looked) and C(state=present)
here:
  description: Whether a door was made before.
  type: bool
  returned: with C(state=looked)
gone:
  description: Whether a door has to be taken away.
  type: bool
  returned: with C(state=looked)
nginx:
  description: Whether nginx is installed, or is not asked for.
  type: bool
  returned: with C(state=looked)
openssl:
  description: Whether openssl is installed.
  type: bool
  returned: with C(state=looked), where a door is wished
certbot:
  description: Whether certbot is installed.
  type: bool
  returned: with C(state=looked) and ACME
site:
  description: Words for the template of the site.
  type: dict
  returned: with C(state=looked), where a door is wished
waiting:
  description: Words for the template of the site while an ACME server asks.
  type: dict
  returned: with C(state=looked), where a door is wished
page:
  description: Words for the template of the page.
  type: dict
  returned: with C(state=looked), where a door is wished
fingerprint:
  description: SHA-256 of the certificate of the host's own authority, where it has one.
  type: str
  returned: with C(state=present)
packages:
  description: Packages of nginx that nobody else uses.
  type: list
  elements: str
  returned: with C(state=absent)
proven:
  description: The name of the door that was asked.
  type: str
  returned: with C(state=proven)
would:
  description: What would be done, in a sentence.
  type: str
  returned: where there is something to do
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
