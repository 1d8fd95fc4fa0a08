"""What of an inventory may get into Slurm's configuration; read by the generator too."""

from __future__ import annotations

import re

NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
CLUSTER = re.compile(r"[a-z][a-z0-9_]{0,39}")
PARTITION = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
# Names, and addresses of IPv4 and IPv6.
ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]{0,252}")
# slurm.conf(5): minutes, or [days-]hours:minutes:seconds.
TIME = re.compile(r"\d{1,6}|(\d{1,3}-)?\d{1,3}:\d\d:\d\d|UNLIMITED")
EXTRA = re.compile(r"([A-Za-z][A-Za-z0-9]*)=[ -~]+")

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
    *("enforcepartlimits", "preptplugins", "prolog", "epilog", "prologflags", "healthcheckprogram"),
    "prologepilogtimeout",
    *("healthcheckinterval", "healthchecknodestate", "slurmctldprolog", "slurmctldepilog"),
    *("prologslurmctld", "epilogslurmctld", "taskprolog", "taskepilog", "srunprolog", "srunepilog"),
    *("defmempercpu", "defmempergpu", "defmempernode", "unkillablestepprogram", "rebootprogram"),
    *("resumeprogram", "suspendprogram", "mailprog"),
)
