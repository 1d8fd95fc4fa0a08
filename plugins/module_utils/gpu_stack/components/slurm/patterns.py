"""What of an inventory may get into Slurm's configuration; read by the generator too."""

from __future__ import annotations

import re

NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
# To Slurm these are all nodes, and what holds for all.
NO_NODES = ("all", "default")
CLUSTER = re.compile(r"[a-z][a-z0-9_]{0,39}")
PARTITION = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
# Names, and addresses of IPv4: without EnableIPv6 Slurm knows no others, and --conf-server takes
# what follows the first colon for a port (fetch_config.c of 20.11 to 23.11).
ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
# slurm.conf(5): minutes, or [days-]hours:minutes:seconds.
TIME = re.compile(r"\d{1,6}|(\d{1,3}-)?\d{1,3}:\d\d:\d\d|UNLIMITED")
# One setting: a line of slurm.conf may have several, and a backslash goes on with the next line.
EXTRA = re.compile(r"([A-Za-z][A-Za-z0-9]*)=(?:\"[ !$-\[\]-~]*\"|[!$-\[\]-~]+)")
# What a host says of itself.
GPU_TYPE = re.compile(r"[a-z0-9_]{1,80}")
GPU_FILE = re.compile(r"/dev/nvidia[0-9]{1,4}")

PARTITION_WORDS = ("name", "nodes", "default", "default_time", "max_time", "max_nodes", "priority",
                   "groups")  # fmt: skip

# What this program decides: a line of slurm_extra can't say it again. In small letters.
DECIDED = (
    *("clustername", "slurmctldhost", "controlmachine", "backupcontroller", "controladdr"),
    *("slurmctldparameters", "slurmuser", "slurmduser", "authtype", "authinfo", "credtype"),
    *("authalttypes", "authaltparameters", "cryptotype", "statesavelocation", "slurmdspooldir"),
    *("slurmctldport", "slurmdport", "slurmctldpidfile", "slurmdpidfile", "slurmctldlogfile"),
    *("slurmdlogfile", "proctracktype", "taskplugin", "taskpluginparam", "selecttype"),
    *("selecttypeparameters", "grestypes", "jobacctgathertype", "accountingstoragetype"),
    *("accountingstoragehost", "accountingstorageport", "accountingstoragepass"),
    *("accountingstorageuser", "accountingstoragetres", "accountingstorageenforce"),
    *("nodename", "partitionname", "nodeset", "include", "downnodes", "slurmdparameters"),
    *("slurmdtimeout", "returntoservice", "launchparameters", "plugindir", "plugstackconfig"),
    *("slurmctldaddr", "backupaddr", "frontendname", "prepparameters"),
    *("enforcepartlimits", "prepplugins", "prolog", "epilog", "prologflags", "healthcheckprogram"),
    "prologepilogtimeout",
    *("healthcheckinterval", "healthchecknodestate", "slurmctldprolog", "slurmctldepilog"),
    *("prologslurmctld", "epilogslurmctld", "taskprolog", "taskepilog", "srunprolog", "srunepilog"),
    *("defmempercpu", "defmempergpu", "defmempernode", "unkillablestepprogram", "rebootprogram"),
    *("resumeprogram", "suspendprogram", "mailprog"),
)
