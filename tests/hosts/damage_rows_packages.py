"""Damage to packages, their modes and dpkg's own records; first what `make test` runs too."""

from __future__ import annotations

from damage_row import (
    CUDA_PINS,
    CUDNN_TREE,
    LIB,
    PROFILE,
    UNITS,
    UPGRADES,
    VENV_TREE,
    Row,
    packages,
)

ROWS: tuple[Row, ...] = (
    # --- what matters most: runs with `make test` too
    Row(
        "cuda-library-deleted", "cuda", "A library that TensorFlow opens is deleted",
        "rm $(readlink -f $LIB/libcusolver.so.11)",
        ("libcusolver.so.11",), "first", touches=packages("libcusolver11"),
    ),
    Row(
        "cuda-package-removed", "cuda", "A toolkit package is removed",
        "dpkg --remove --force-depends --force-hold libnvjpeg11",
        ("libnvjpeg11",), "first", touches=packages("libnvjpeg11"),
    ),
    Row(
        "cuda-hold-released", "cuda", "A package's hold is removed",
        "apt-mark unhold libcufft10",
        ("libcufft10 hold",), "first",
    ),
    Row(
        "cuda-half-configured", "cuda", "dpkg was killed while configuring a package",
        "sed -i '/^Package: libcurand10$/,/^$/s/^Status: .*/Status: hold ok half-configured/' "
        "/var/lib/dpkg/status",
        ("libcurand10",), "first", touches=packages("libcurand10"),
    ),
    Row(
        "cuda-pins-edited", "cuda", "A pin is edited",
        f"sed -i '0,/^Pin: version .*/s//Pin: version 1.2.3/' {CUDA_PINS}",
        (CUDA_PINS,), "first", touches=(CUDA_PINS,),
    ),
    Row(
        "cudnn-library-same-size", "cudnn", "Bytes of a cuDNN library are overwritten",
        "stomp $CUDNN/lib64/libcudnn_ops_infer.so.8.5.0 4096",
        ("libcudnn_ops_infer.so.8.5.0",), "first", touches=CUDNN_TREE,
    ),
    Row(
        "env-profile-edited", "gpu_env", "The environment file for login shells is edited",
        f"echo 'export XLA_FLAGS=' >> {PROFILE}",
        (PROFILE,), "first", touches=(PROFILE,),
    ),
    Row(
        "env-units-closed", "gpu_env", "The environment file for units is not readable by users",
        f"chmod 600 {UNITS}",
        (UNITS,), "first", touches=(UNITS,),
    ),
    Row(
        "driver-program-truncated", "nvidia_driver", "nvidia-smi is truncated",
        "truncate -s 1000 /usr/lib/nvidia/current/nvidia-smi",
        ("/usr/lib/nvidia/current/nvidia-smi",), "first", touches=packages("nvidia-smi"),
    ),
    Row(
        "driver-upgrades-removed", "nvidia_driver", "Unattended upgrades may upgrade the driver",
        f"rm {UPGRADES}",
        (UPGRADES,), "first", touches=(UPGRADES,),
    ),
    Row(
        "tensorflow-numpy-2", "tensorflow", "A user installs numpy 2",
        "$VENV/bin/pip install --quiet --no-deps numpy==2.0.2",
        ("numpy",), "first", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-current-moved", "tensorflow", "The link to the venv points elsewhere",
        "ln -sfn /opt/tensorflow/2.8.0-00000000 /opt/tensorflow/current",
        ("current",), "first", touches=VENV_TREE,
    ),
    Row(
        "receipt-truncated", "receipt", "The receipt is truncated",
        "truncate -s 20 /var/lib/provision/receipt.json",
        ("proof",), "first",
    ),
    # --- modes and owners, which dpkg records nowhere
    Row(
        "driver-program-not-executable", "nvidia_driver", "nvidia-smi is not executable",
        "chmod a-x /usr/lib/nvidia/current/nvidia-smi",
        ("/usr/lib/nvidia/current/nvidia-smi",), "modes", touches=packages("nvidia-smi"),
    ),
    Row(
        "driver-library-writable", "nvidia_driver", "The driver's libcuda is writable by everyone",
        "chmod 666 $LIB/nvidia/current/libcuda.so.470.256.02",
        (f"{LIB}/nvidia/current/libcuda.so.470.256.02",), "modes", touches=packages("libcuda1"),
    ),
    Row(
        "cuda-nvcc-not-executable", "cuda", "nvcc is not executable",
        "chmod a-x /usr/bin/nvcc",
        ("/usr/bin/nvcc",), "modes", touches=packages("nvidia-cuda-toolkit"),
    ),
    Row(
        "cuda-ptxas-not-executable", "cuda", "ptxas is not executable for users",
        "chmod 754 /usr/bin/ptxas",
        ("/usr/bin/ptxas",), "modes", touches=packages("nvidia-cuda-toolkit"),
    ),
    Row(
        "cuda-program-setuid", "cuda", "A CUDA program is setuid root",
        "chmod u+s /usr/bin/cuobjdump",
        ("/usr/bin/cuobjdump",), "modes", touches=packages("nvidia-cuda-toolkit"),
    ),
    Row(
        "cuda-conffile-closed", "cuda", "nvcc's configuration file is not readable by users",
        "chmod 600 /etc/nvcc.profile",
        ("/etc/nvcc.profile",), "modes", touches=("/etc/nvcc.profile",),
    ),
    Row(
        "cuda-directory-closed", "cuda", "A header directory can't be entered",
        "chmod a-x /usr/include/crt",
        ("/usr/include/crt",), "modes", touches=("/usr/include/crt",),
    ),
    Row(
        "cuda-directory-owned", "cuda", "A user owns the directory of nvcc's internal programs",
        "chown lab /usr/lib/nvidia-cuda-toolkit/bin",
        ("/usr/lib/nvidia-cuda-toolkit/bin",), "modes",
        touches=("/usr/lib/nvidia-cuda-toolkit/bin",),
    ),
    Row(
        "cudnn-directory-writable", "cudnn", "cuDNN's library directory is writable by everyone",
        "chmod 777 $CUDNN/lib64",
        ("/opt/nvidia/cudnn/8.5.0.96-cuda11.2/lib64",), "modes", touches=CUDNN_TREE,
    ),
    Row(
        "env-profiles-closed", "gpu_env", "/etc/profile.d is not accessible to users",
        "chmod 700 /etc/profile.d",
        ("/etc/profile.d",), "modes", touches=("/etc/profile.d",),
    ),
    Row(
        "env-cache-closed", "gpu_env", "The loader's cache is not readable by users",
        "chmod 600 /etc/ld.so.cache",
        ("/etc/ld.so.cache",), "modes",
    ),
    Row(
        "receipt-closed", "receipt", "The receipt is not readable by users",
        "chmod 600 /var/lib/provision/receipt.json",
        ("/var/lib/provision/receipt.json",), "modes",
    ),
    # --- dpkg's states, and dpkg's own records
    Row(
        "driver-package-removed", "nvidia_driver", "nvidia-smi's package is removed",
        "dpkg --remove --force-depends --force-hold nvidia-smi",
        ("nvidia-smi",), "packages", touches=packages("nvidia-smi"),
    ),
    Row(
        "driver-package-purged", "nvidia_driver", "A driver package is purged",
        "dpkg --purge --force-depends --force-hold nvidia-persistenced",
        ("nvidia-persistenced",), "packages",
        touches=(
            *packages("nvidia-persistenced"),
            "/etc/rc?.d/*nvidia-persistenced",
            "/etc/systemd/system/*nvidia-persistenced.service",
        ),
    ),
    Row(
        "driver-other-version",
        "nvidia_driver",
        "A driver library of another version is installed",
        "other libnvidia-cfg1 535.1-1",
        ("libnvidia-cfg1", "libnvidia-cfg1 hold"), "packages", touches=packages("libnvidia-cfg1"),
    ),
    Row(
        "driver-hold-released", "nvidia_driver", "The hold on libcuda1 is removed",
        "apt-mark unhold libcuda1",
        ("libcuda1 hold",), "packages",
    ),
    Row(
        "cuda-downgraded", "cuda", "A CUDA package is downgraded",
        "other libnvtoolsext1 10.2.89-9",
        ("libnvtoolsext1", "libnvtoolsext1 hold"), "packages", touches=packages("libnvtoolsext1"),
    ),
    Row(
        "cuda-purged", "cuda", "A CUDA package is purged",
        "dpkg --purge --force-depends --force-hold libnppitc11",
        ("libnppitc11",), "packages", touches=packages("libnppitc11"),
    ),
    Row(
        "cuda-half-installed", "cuda", "dpkg was killed while unpacking a package",
        "sed -i '/^Package: libnvblas11$/,/^$/s/^Status: .*/Status: hold reinstreq half-installed/'"
        " "
        "/var/lib/dpkg/status",
        ("libnvblas11",), "packages", touches=packages("libnvblas11"),
    ),
    Row(
        "cuda-unpacking-cut", "cuda", "dpkg was killed at the end of unpacking a package",
        "sed -i '/^Package: libnvvm4$/,/^$/s/^Status: .*/Status: hold reinstreq unpacked/'"
        " /var/lib/dpkg/status",
        ("libnvvm4",), "third", touches=packages("libnvvm4"),
    ),
    Row(
        "cuda-dependency-cut", "cuda", "dpkg ran out of space before unpacking a dependency",
        "dpkg --purge --force-depends nvidia-cuda-dev; "
        "sed -i '/^Package: nvidia-cuda-toolkit$/,/^$/s/^Status: .*/Status: hold ok unpacked/'"
        " /var/lib/dpkg/status",
        ("nvidia-cuda-dev", "nvidia-cuda-toolkit"), "fifth",
        touches=packages("nvidia-cuda-dev", "nvidia-cuda-toolkit"),
    ),
    Row(
        "driver-unpacking-cut", "nvidia_driver",
        "dpkg was killed at the end of unpacking a package",
        "sed -i '/^Package: nvidia-smi$/,/^$/s/^Status: .*/Status: hold reinstreq unpacked/'"
        " /var/lib/dpkg/status",
        ("nvidia-smi",), "fifth", touches=packages("nvidia-smi"),
    ),
    Row(
        "cuda-unpacked", "cuda", "A package is unpacked but was never configured",
        "fetch libnvvm4; dpkg --unpack --force-hold *.deb",
        ("libnvvm4", "libnvvm4 hold"), "packages", touches=packages("libnvvm4"),
    ),
    Row(
        "cuda-journal", "cuda", "A killed dpkg left its last step in its journal",
        "sed -n '/^Package: libnppc11$/,/^$/p' /var/lib/dpkg/status "
        "| sed 's/^Status: .*/Status: hold ok half-configured/' > /var/lib/dpkg/updates/0001",
        ("libnppc11",), "packages", touches=packages("libnppc11"),
    ),
    Row(
        "cuda-file-list-gone", "cuda", "dpkg's file list for a package is missing",
        "rm /var/lib/dpkg/info/libnppim11:amd64.list",
        ("libnppim11 file list",), "packages", touches=packages("libnppim11"),
    ),
    Row(
        "cuda-checksums-edited", "cuda", "dpkg's checksums for a package are edited",
        "sed -i 's/^./0/' /var/lib/dpkg/info/libnvrtc11.2:amd64.md5sums",
        ("libnvrtc11.2 checksums",), "packages", touches=packages("libnvrtc11.2"),
    ),
    Row(
        "apt-key-removed", "cuda", "A package archive key is removed",
        "rm /etc/apt/trusted.gpg.d/debian-archive-bullseye-stable.gpg",
        ("/etc/apt/trusted.gpg.d/debian-archive-bullseye-stable.gpg",), "packages",
        touches=packages("debian-archive-keyring"),
    ),
    Row(
        "tensorflow-dist-info-removed", "tensorflow", "A wheel's dist-info directory is removed",
        "rm -r $SITE/wrapt-*.dist-info",
        ("wrapt",), "packages", touches=VENV_TREE,
    ),
    Row(
        "receipt-unfinished", "receipt", "A run was killed before it wrote its receipt",
        "echo '{' > /var/lib/provision/unfinished.json",
        ("proof",), "packages",
    ),
)  # fmt: skip
