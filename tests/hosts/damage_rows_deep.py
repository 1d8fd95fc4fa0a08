"""Damage that only a full reading finds, somebody's files in front of ours, the kernel, Slurm."""

from __future__ import annotations

from damage_row import (
    BLACKLIST,
    CUDNN_TREE,
    DROP_IN,
    LIB,
    MODULES,
    OWN_SLURM,
    SLURM,
    SLURM_NOTED,
    SLURM_PROGRAM,
    SLURMD_DROP_IN,
    VENV_TREE,
    Row,
    packages,
)

ROWS: tuple[Row, ...] = (
    # --- bytes that changed while time and size did not, and what only a full reading finds
    Row(
        "deep-cuda-library", "cuda", "A byte of a library changes; size and time do not",
        "f=$(readlink -f $LIB/libcudart.so.11.0); "
        "keep $f stomp $f 400000",
        (f"{LIB}/libcudart.so.11.2.152",), "deep", "deep", packages("libcudart11.0"),
    ),
    Row(
        "deep-cuda-header", "cuda", "A header's text changes; its time does not",
        "f=/usr/include/nvml.h; keep $f sed -i 's/NVML_API_VERSION/NVML_API_VERSIOM/' $f",
        ("/usr/include/nvml.h",), "deep", "deep", packages("libnvidia-ml-dev"),
    ),
    Row(
        "deep-cuda-document", "cuda", "A package's copyright file is changed",
        "echo >> /usr/share/doc/libnvtoolsext1/copyright",
        ("/usr/share/doc/libnvtoolsext1/copyright",), "deep", "deep", packages("libnvtoolsext1"),
    ),
    Row(
        "deep-cuda-conffile", "cuda", "nvcc's configuration file is edited",
        "echo '#' >> /etc/nvcc.profile",
        ("/etc/nvcc.profile",), "deep", "deep",
        (*packages("nvidia-cuda-toolkit"), "/etc/nvcc.profile.dpkg-old"),
    ),
    Row(
        "deep-cuda-checksums", "cuda", "dpkg's checksums for a package are missing",
        "rm /var/lib/dpkg/info/libnppif11:amd64.md5sums",
        ("libnppif11 checksums",), "deep", "deep", packages("libnppif11"),
    ),
    Row(
        "deep-apt-key", "cuda", "A package archive key is changed",
        "echo x >> /etc/apt/trusted.gpg.d/debian-archive-buster-stable.gpg",
        ("/etc/apt/trusted.gpg.d/debian-archive-buster-stable.gpg",), "deep", "deep",
        (
            *packages("debian-archive-keyring"),
            "/etc/apt/trusted.gpg.d/debian-archive-buster-stable.gpg.dpkg-old",
        ),
    ),
    Row(
        "deep-driver-library", "nvidia_driver", "A byte of libcuda changes; size and time do not",
        "f=$LIB/nvidia/current/libcuda.so.470.256.02; "
        "keep $f stomp $f 700000",
        (f"{LIB}/nvidia/current/libcuda.so.470.256.02",), "deep", "deep", packages("libcuda1"),
    ),
    Row(
        "deep-cudnn-library", "cudnn", "A byte of a cuDNN library changes; size and time do not",
        "f=$CUDNN/lib64/libcudnn_ops_train.so.8.5.0; "
        "keep $f stomp $f 700000",
        ("libcudnn_ops_train.so.8.5.0",), "deep", "deep", CUDNN_TREE,
    ),
    Row(
        "deep-wheel-source", "tensorflow", "A wheel's Python file is edited",
        "echo '# x' >> $SITE/keras/backend.py",
        ("keras/backend.py",), "deep", "deep", VENV_TREE,
    ),
    Row(
        "deep-wheel-source-deleted", "tensorflow", "A wheel's Python file is deleted",
        "rm $SITE/tensorboard/version.py",
        ("tensorboard/version.py",), "deep", "deep", VENV_TREE,
    ),
    Row(
        "deep-wheel-writable", "tensorflow", "A wheel's Python file is writable by everyone",
        "chmod o+w $SITE/flatbuffers/util.py",
        ("lib/python3.9/site-packages/flatbuffers/util.py",), "deep", "deep", VENV_TREE,
    ),
    Row(
        "deep-wheel-compiled", "tensorflow", "A compiled Python file is overwritten",
        "f=$(ls $SITE/keras/__pycache__/losses.*.pyc); "
        "stomp $f 200",
        ("keras/__pycache__/losses.cpython-39.pyc",), "deep", "deep", VENV_TREE,
    ),
    Row(
        "deep-wheel-library", "tensorflow",
        "A byte of a wheel's library changes; its time does not",
        "f=$SITE/wrapt/_wrappers.cpython-39-x86_64-linux-gnu.so; "
        "keep $f stomp $f 9000",
        ("wrapt/_wrappers.cpython-39-x86_64-linux-gnu.so",), "deep", "deep", VENV_TREE,
    ),
    # --- somebody else's files in front of ours: nobody deletes those but a person
    Row(
        "cuda-shadowed", "cuda", "The loader finds another copy of a CUDA library first",
        "cp $(readlink -f $LIB/libcusparse.so.11) /usr/local/lib/libcusparse.so.11; ldconfig",
        ("libcusparse.so.11",), "shadow",
        undo="rm /usr/local/lib/libcusparse.so.11; ldconfig",
    ),
    Row(
        "cudnn-shadowed", "cudnn", "The loader finds another cuDNN first",
        "mkdir /opt/other; cp $CUDNN/lib64/libcudnn.so.8.5.0 /opt/other/libcudnn.so.8; "
        "echo /opt/other > /etc/ld.so.conf.d/00-other.conf; ldconfig",
        ("libcudnn.so.8",), "shadow",
        undo="rm -r /opt/other /etc/ld.so.conf.d/00-other.conf; ldconfig",
    ),
    # --- the kernel's part, on a host with a kernel image and scope full; "KERNEL" is its version
    Row(
        "kernel-module-deleted", "nvidia_driver", "The built kernel module is deleted",
        "rm /lib/modules/$KERNEL/updates/dkms/nvidia-current.ko*",
        ("module for kernel KERNEL",), "kernel", touches=MODULES,
    ),
    Row(
        "kernel-blacklist-edited", "nvidia_driver", "nouveau's blacklist is edited",
        f"sed -i '/^blacklist/d' {BLACKLIST}; touch --date=2020-01-01 {BLACKLIST}",
        (BLACKLIST,), "kernel", touches=(BLACKLIST, *MODULES),
    ),
    Row(
        "kernel-initramfs-old", "nvidia_driver", "An old initramfs is put back",
        "touch --date=2019-01-01 /boot/initrd.img-$KERNEL",
        ("/boot/initrd.img-KERNEL",), "kernel", touches=MODULES,
    ),
    Row(
        "kernel-dkms-removed", "nvidia_driver", "DKMS is removed",
        "dpkg --remove --force-depends --force-hold dkms",
        ("dkms",), "kernel",
        touches=(*packages("dkms"), *MODULES, "/etc/kernel/*", "/etc/dkms/*", "/usr/lib/dkms/*"),
    ),
    Row(
        "kernel-modprobe-deleted", "nvidia_driver",
        "modprobe's configuration for nvidia is deleted",
        "rm /etc/nvidia/current/nvidia-modprobe.conf",
        ("/etc/nvidia/current/nvidia-modprobe.conf",), "kernel",
        touches=(*packages("nvidia-kernel-support"), *MODULES),
    ),
    Row(
        "kernel-source-edited", "nvidia_driver", "The module's source is edited",
        "echo >> /usr/src/nvidia-current-470.256.02/nvidia/nv.c",
        ("/usr/src/nvidia-current-470.256.02/nvidia/nv.c",), "kernel",
        touches=(*packages("nvidia-kernel-dkms"), *MODULES),
    ),
    Row(
        "kernel-daemon-masked", "nvidia_driver", "The persistence daemon is masked",
        "systemctl mask nvidia-persistenced.service",
        ("nvidia-persistenced.service",), "kernel",
        touches=(
            "/etc/systemd/system/*nvidia-persistenced.service", "/etc/rc?.d/*nvidia-persistenced",
        ),
    ),
    Row(
        "kernel-daemon-drop-in-edited", "nvidia_driver",
        "The drop-in that skips the persistence daemon without a GPU is edited",
        f"sed -i '/^ExecCondition/d' {DROP_IN}",
        (DROP_IN,), "kernel", touches=(DROP_IN,),
    ),
    # --- Slurm, on a host that is controller and node of its own cluster
    Row(
        "slurm-key-changed", "slurm", "munge's key is changed",
        "head -c 128 /dev/urandom | dd of=/etc/munge/munge.key conv=notrunc status=none",
        ("munge.key",), "slurm", touches=("/etc/munge/munge.key", *SLURM_NOTED),
    ),
    Row(
        "slurm-conf-edited", "slurm", "A setting of slurm.conf is edited",
        f"sed -i s/^SelectTypeParameters=.*/SelectTypeParameters=CR_Core/ {SLURM}/slurm.conf",
        (f"{SLURM}/slurm.conf",), "slurm", touches=(f"{SLURM}/slurm.conf",),
    ),
    Row(
        "slurm-gres-emptied", "slurm", "The list of the nodes' GPUs is emptied",
        f"truncate -s 0 {SLURM}/gres.conf",
        (f"{SLURM}/gres.conf",), "slurm", touches=(f"{SLURM}/gres.conf",),
    ),
    Row(
        "slurm-cgroup-edited", "slurm", "Jobs are no longer confined to their own GPUs",
        f"sed -i s/^ConstrainDevices=yes/ConstrainDevices=no/ {SLURM}/cgroup.conf",
        (f"{SLURM}/cgroup.conf",), "slurm", touches=(f"{SLURM}/cgroup.conf",),
    ),
    Row(
        "slurm-environment-deleted", "slurm", "slurmd's environment file is deleted",
        f"rm {OWN_SLURM}/slurmd.env",
        (f"{OWN_SLURM}/slurmd.env",), "slurm", touches=(f"{OWN_SLURM}/slurmd.env",),
    ),
    Row(
        "slurm-drop-in-edited", "slurm", "The drop-in of slurmd's unit is edited",
        f"sed -i /^EnvironmentFile=/d {SLURMD_DROP_IN}",
        (SLURMD_DROP_IN,), "slurm", touches=(SLURMD_DROP_IN,),
    ),
    Row(
        "slurm-prolog-closed", "slurm", "The job prolog is not executable",
        "chmod 644 /usr/local/sbin/gpu-slurm-prolog",
        ("/usr/local/sbin/gpu-slurm-prolog",), "slurm",
        touches=("/usr/local/sbin/gpu-slurm-prolog",),
    ),
    Row(
        "slurm-health-edited", "slurm", "The node health check does nothing",
        "printf '#!/bin/sh\n' > /usr/local/sbin/gpu-slurm-health",
        ("/usr/local/sbin/gpu-slurm-health",), "slurm",
        touches=("/usr/local/sbin/gpu-slurm-health",),
    ),
    Row(
        "slurm-module-deleted", "slurm", "A module of the prolog and epilog is deleted",
        f"rm {SLURM_PROGRAM}/gpus.py",
        (f"{SLURM_PROGRAM}/gpus.py",), "slurm", touches=(f"{SLURM_PROGRAM}/*",),
    ),
    Row(
        "slurm-module-given", "slurm", "A user owns a module of the prolog and epilog",
        f"chown 1000 {SLURM_PROGRAM}/job.py",
        (f"{SLURM_PROGRAM}/job.py",), "slurm", touches=(f"{SLURM_PROGRAM}/*",),
    ),
    Row(
        "slurm-node-edited", "slurm", "The health check's list of GPUs is edited",
        f"sed -i 's/\"gpus\": .*/\"gpus\": [],/' {OWN_SLURM}/node.json",
        (f"{OWN_SLURM}/node.json",), "slurm", touches=(f"{OWN_SLURM}/node.json",),
    ),
    Row(
        "slurm-node-disabled", "slurm", "slurmd is not enabled at boot",
        "systemctl disable slurmd",
        ("slurmd.service",), "slurm",
        touches=("/etc/systemd/system/*slurmd.service", "/etc/rc?.d/*slurmd"),
    ),
    Row(
        "slurm-munge-stopped", "slurm", "munge is stopped",
        "systemctl stop munge",
        ("munge.service",), "slurm",
    ),
    Row(
        "slurm-client-removed", "slurm", "A Slurm package is removed",
        "dpkg --remove --force-depends slurm-client",
        ("slurm-client",), "slurm", touches=packages("slurm-client"),
    ),
    Row(
        "slurm-controller-stopped", "slurm", "slurmctld is stopped",
        "systemctl stop slurmctld",
        ("slurmctld.service",), "slurm",
    ),
)  # fmt: skip
