"""What Slurm 22.05.8 of Debian 12 said of a node with two simulated GPUs, word for word."""

from __future__ import annotations

IDLE = """\
NodeName=gpu01 Arch=x86_64 CoresPerSocket=1 
   CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=12.35
   AvailableFeatures=(null)
   ActiveFeatures=(null)
   Gres=gpu:t4:2
   NodeAddr=gpu01 NodeHostName=gpu01 Version=22.05.8
   OS=Linux 6.18.44-fc-v669 #1 SMP PREEMPT_DYNAMIC @0 
   RealMemory=4000 AllocMem=0 FreeMem=354 Sockets=2 Boards=1
   State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=gpu 
   BootTime=2026-11-26T16:41:54 SlurmdStartTime=2026-11-26T20:23:50
   LastBusyTime=2026-11-26T20:23:57
   CfgTRES=cpu=2,mem=4000M,billing=2
   AllocTRES=
   CapWatts=n/a
   CurrentWatts=0 AveWatts=0
   ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s

"""  # noqa: W291  as it was printed
_DRAINED = IDLE.replace("State=IDLE", "State=MIXED+DRAIN").rstrip("\n")
OURS = (
    _DRAINED + "\n   Reason=provision: acceptance: GPU 1 has Xid 79 [root@2026-11-26T20:23:29]\n\n"
)
ADMINS = (
    _DRAINED.replace("MIXED+DRAIN", "MIXED+DRAIN+NOT_RESPONDING")
    + "\n   Reason=disk (admin)=x y [root@2026-11-26T20:23:29]\n\n"
)
OF_PROLOG = (
    _DRAINED.replace("MIXED", "IDLE")
    + "\n   Reason=provision: prolog: in use outside of job 9: pid 5441 of root (sleep 25) on GPU 0"
    + " [root@2026-11-26T20:53:27]\n\n"
)
NO_SUCH = "Node nosuch not found\n"
# Both after nine seconds.
SILENT = "slurm_load_node error: Unable to contact slurm controller (connect failure)\n"
# A person's scontrol update.
NOT_ALLOWED = "slurm_update error: Invalid user id\n"

# squeue --format words.JOBS; the second job's name has the mark in it that parts the columns.
JOBS = """\
1|ada|2026-11-26T20:53:28|RUNNING|train
3|bob|N/A|COMPLETING|my job|x
"""
LISTPIDS = """\
PID      JOBID    STEPID   LOCALID GLOBALID
714      1        batch    0       0       
715      1        batch    -       -       
"""  # noqa: W291  as it was printed
CGROUPS = {
    # Of a job on a local host with cgroups of version 1.
    "5:devices:/libpod_parent/libpod-a9c7/slurm_gpu01/uid_1001/job_4/step_batch/task_0\n"
    "0::/libpod_parent/libpod-a9c7/system.slice/slurmd.service\n": "4",
    # Of versions 1 and 2, as Slurm 22.05's source makes them; of a host without them.
    "4:memory:/slurm/uid_1001/job_12/step_0/task_0\n1:name=systemd:/init.scope\n": "12",
    "0::/system.slice/slurmstepd.scope/job_7/step_batch/user/task_0\n": "7",
    "0::/system.slice/gpu01_slurmstepd.scope/job_8/step_0/user/task_0\n": "8",
    "12:hugetlb:/\n11:perf_event:/\n0::/user.slice/user-1001.slice\n": None,
    "0::/user.slice/job_9/x\n": None,
    # Made by a person, who may name units of their own as they like.
    "0::/user.slice/user-1.slice/user@1.service/system.slice/slurmstepd.scope/job_9/x\n": None,
    "0::/docker/4f5e/system.slice/slurmstepd.scope/job_9/x\n": None,
    "0::/app.slice/slurmstepd.scope/job_9/x\n": None,
}
# Of a prolog, without what does not matter here.
PROLOG = {
    "CUDA_VISIBLE_DEVICES": "1",
    "SLURM_JOB_GPUS": "1",
    "SLURM_JOB_ID": "4",
    "SLURM_JOB_UID": "1001",
    "SLURM_JOB_USER": "ada",
    "SLURM_SCRIPT_CONTEXT": "prolog_slurmd",
}
LISTED = """\
0, GPU-67237f91-1555-bc98-a9d6-d4121c283e38
1, GPU-f913752e-7829-980e-e8ef-5ccef0f5621e
"""
