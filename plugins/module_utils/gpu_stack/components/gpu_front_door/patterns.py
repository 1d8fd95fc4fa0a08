"""The allowed form of values that become part of nginx's configuration, a certificate or certbot's.

The generator loads this file as well, so it imports nothing of ours.
"""

import re

NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
                  r"(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")  # fmt: skip
# The door's own address may be IPv6.
DOOR_ADDRESS = re.compile(r"[0-9.]+|[0-9a-f]*:[0-9a-f:.]+")
PERSON_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
PATH = re.compile(r"(/[A-Za-z0-9._+-]+)+")
EMAIL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._%+-]*@[A-Za-z0-9][A-Za-z0-9.-]*")
DIRECTORY = re.compile(r"https://[A-Za-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9._~%/+-]*)?")
