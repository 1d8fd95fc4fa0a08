"""Where Slurm's files are on a host: the distribution's, and this program's own records."""

from __future__ import annotations

# This program's own; root's alone, for the cluster's key is in it.
PLACE = "/etc/provision-slurm"
# What a run made: {cluster, controller, settings, part, key, brought, unread, ...}.
NOTED = PLACE + "/slurm.json"
# The key that munge had here before, where munge was somebody's.
FORMER_KEY = PLACE + "/munge.key.former"
# On the controller: the cluster's key, and each host's part of the configuration.
KEPT_KEY = PLACE + "/munge.key"
PARTS = PLACE + "/nodes.d"

FOLDER = "/etc/slurm"
SLURM_CONF = FOLDER + "/slurm.conf"
GRES_CONF = FOLDER + "/gres.conf"
CGROUP_CONF = FOLDER + "/cgroup.conf"
DBD_CONF = FOLDER + "/slurmdbd.conf"
# What slurmctld reads, and hands to the nodes.
HANDED_OUT = (SLURM_CONF, GRES_CONF, CGROUP_CONF)
MUNGE_KEY = "/etc/munge/munge.key"

SLURMD_ENVIRONMENT = PLACE + "/slurmd.env"
SLURMD_DROP_IN = "/etc/systemd/system/slurmd.service.d/provision.conf"

# The programs by which packages are known to be there.
PROGRAMS = {
    "munge": "/usr/sbin/munged",
    "slurm-client": "/usr/bin/scontrol",
    "slurmd": "/usr/sbin/slurmd",
    "slurmctld": "/usr/sbin/slurmctld",
    "slurmdbd": "/usr/sbin/slurmdbd",
    "mariadb-server": "/usr/sbin/mariadbd",
    "openssl": "/usr/bin/openssl",
}

CONTROLLER_PORT = 6817
NODE_PORT = 6818
ACCOUNTING_PORT = 6819

# Half-made answers of a node to its controller lie here, in memory.
RUN = "/run/provision-slurm"
