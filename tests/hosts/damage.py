"""The damage catalogue: everything the stack consists of, damaged once. Data and nothing else.

Each row is one kind of harm to one thing. `test_damage.py` does it to a proven host and asks what
the look, the plan and one run make of it; docs/damage.md is written from these rows.

Shell text runs as root with these set: $CUDNN, $VENV and $SITE (this stack's own directories),
$LIB (the platform's library directory); `keep FILE COMMAND...`, which runs the command and gives
the file its old time back, as a failing disk would leave it; `stomp FILE OFFSET`, which overwrites
some bytes; `fetch PACKAGE`, which downloads it to
an empty directory; and `other PACKAGE VERSION`, which installs it as of another version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ALWAYS = (
    "/etc/ld.so.cache",
    "/var/lib/dpkg/status*",
    "/var/lib/dpkg/available*",
    "/var/lib/dpkg/lock*",
    "/var/lib/dpkg/triggers/*",
    "/var/lib/dpkg/updates*",
    "/var/lib/dpkg/*-old",
    "/var/lib/provision/*",
    "/usr/lib/python3*/__pycache__/*",
)


# Rows whose repair has not been run to its end on a host yet; docs/damage.md says so.
UNTRIED_BATCHES: frozenset[str] = frozenset()
UNTRIED_ROWS: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Row:
    """One damage. `names` are the plan's items for it, exactly; `touches` what a repair may touch.

    `touches`: globs of paths, or `package:NAME` for the files of a package and dpkg's record of it.
    `undo` is what a person does where no run may: a run then refuses or says what is left.
    """

    id: str
    component: str
    title: str
    damage: str
    names: tuple[str, ...]
    batch: str
    seen_by: Literal["look", "deep"] = "look"
    touches: tuple[str, ...] = ()
    undo: str = ""

    @property
    def tried(self) -> bool:
        """Whether the catalogue's test of this row has passed on a host."""
        return self.batch not in UNTRIED_BATCHES and self.id not in UNTRIED_ROWS

    @property
    def items(self) -> set[tuple[str, str]]:
        """(component, item) of every change that the plan must show, and no other."""
        return {
            (component, item)
            for component, _, item in (
                name.partition(": ") if ": " in name else (self.component, "", name)
                for name in self.names
            )
        }


LIB = "/usr/lib/x86_64-linux-gnu"
PROFILE = "/etc/profile.d/provision-gpu.sh"
UNITS = "/etc/provision/gpu.env"
MANAGER = "/etc/systemd/system.conf.d/50-provision-gpu.conf"
CUDNN_LOADER = "/etc/ld.so.conf.d/00-provision-cudnn.conf"
CUDA_PINS = "/etc/apt/preferences.d/provision-cuda"
DRIVER_PINS = "/etc/apt/preferences.d/provision-nvidia-driver"
UPGRADES = "/etc/apt/apt.conf.d/51provision-gpu-stack"
SOURCES = "/etc/apt/sources.list.d/provision-debian-nonfree.sources"
BLACKLIST = "/etc/modprobe.d/provision-nouveau.conf"
DROP_IN = "/etc/systemd/system/nvidia-persistenced.service.d/provision-gpu.conf"
# What building the module anew writes; /boot is not compared.
MODULES = ("/lib/modules/*", "/usr/lib/modules/*", "/var/lib/dkms/*", "/etc/alternatives/*")
CUDNN_TREE = ("/opt/nvidia/cudnn/*",)
VENV_TREE = ("/opt/tensorflow/*",)
SLURM, OWN_SLURM = "/etc/slurm", "/etc/provision-slurm"
SLURMD_DROP_IN = "/etc/systemd/system/slurmd.service.d/provision.conf"
SLURM_PROGRAM = "/usr/local/lib/gpu-slurm/program"
# What a run notes of the cluster, and what it keeps of another's edits.
SLURM_NOTED = (f"{OWN_SLURM}/slurm.json", f"{OWN_SLURM}/lock", f"{SLURM}/*.conf.save")


def packages(*names: str) -> tuple[str, ...]:
    return tuple(f"package:{name}" for name in names)


ROWS: tuple[Row, ...] = (
    # --- what matters most: runs with `make test` too
    Row(
        "cuda-library-deleted", "cuda", "A library that TensorFlow opens is deleted",
        "rm $(readlink -f $LIB/libcusolver.so.11)",
        ("libcusolver.so.11",), "first", touches=packages("libcusolver11"),
    ),
    Row(
        "cuda-package-removed", "cuda", "A package of the toolkit is removed",
        "dpkg --remove --force-depends --force-hold libnvjpeg11",
        ("libnvjpeg11",), "first", touches=packages("libnvjpeg11"),
    ),
    Row(
        "cuda-hold-released", "cuda", "The hold of a package is released",
        "apt-mark unhold libcufft10",
        ("libcufft10 hold",), "first",
    ),
    Row(
        "cuda-half-configured", "cuda", "dpkg was killed while it configured a package",
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
        "env-profile-edited", "gpu_env", "The environment of login shells is edited",
        f"echo 'export XLA_FLAGS=' >> {PROFILE}",
        (PROFILE,), "first", touches=(PROFILE,),
    ),
    Row(
        "env-units-closed", "gpu_env", "The environment file of units is closed to others",
        f"chmod 600 {UNITS}",
        (UNITS,), "first", touches=(UNITS,),
    ),
    Row(
        "driver-program-truncated", "nvidia_driver", "nvidia-smi is truncated",
        "truncate -s 1000 /usr/lib/nvidia/current/nvidia-smi",
        ("/usr/lib/nvidia/current/nvidia-smi",), "first", touches=packages("nvidia-smi"),
    ),
    Row(
        "driver-upgrades-removed", "nvidia_driver", "Unattended upgrades are let at the driver",
        f"rm {UPGRADES}",
        (UPGRADES,), "first", touches=(UPGRADES,),
    ),
    Row(
        "tensorflow-numpy-2", "tensorflow", "A user installs numpy 2",
        "$VENV/bin/pip install --quiet --no-deps numpy==2.0.2",
        ("numpy",), "first", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-current-moved", "tensorflow", "The link to the venv leads elsewhere",
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
        "driver-program-not-executable", "nvidia_driver", "nvidia-smi is not executable any more",
        "chmod a-x /usr/lib/nvidia/current/nvidia-smi",
        ("/usr/lib/nvidia/current/nvidia-smi",), "modes", touches=packages("nvidia-smi"),
    ),
    Row(
        "driver-library-writable", "nvidia_driver", "Everybody may write the driver's libcuda",
        "chmod 666 $LIB/nvidia/current/libcuda.so.470.256.02",
        (f"{LIB}/nvidia/current/libcuda.so.470.256.02",), "modes", touches=packages("libcuda1"),
    ),
    Row(
        "cuda-nvcc-not-executable", "cuda", "nvcc is not executable any more",
        "chmod a-x /usr/bin/nvcc",
        ("/usr/bin/nvcc",), "modes", touches=packages("nvidia-cuda-toolkit"),
    ),
    Row(
        "cuda-ptxas-not-executable", "cuda", "ptxas is not executable for users",
        "chmod 754 /usr/bin/ptxas",
        ("/usr/bin/ptxas",), "modes", touches=packages("nvidia-cuda-toolkit"),
    ),
    Row(
        "cuda-program-setuid", "cuda", "A program of CUDA runs as root for everybody",
        "chmod u+s /usr/bin/cuobjdump",
        ("/usr/bin/cuobjdump",), "modes", touches=packages("nvidia-cuda-toolkit"),
    ),
    Row(
        "cuda-conffile-closed", "cuda", "nvcc's configuration file is closed to users",
        "chmod 600 /etc/nvcc.profile",
        ("/etc/nvcc.profile",), "modes", touches=("/etc/nvcc.profile",),
    ),
    Row(
        "cuda-directory-closed", "cuda", "A directory of headers can't be entered",
        "chmod a-x /usr/include/crt",
        ("/usr/include/crt",), "modes", touches=("/usr/include/crt",),
    ),
    Row(
        "cuda-directory-owned", "cuda", "A user owns the directory of nvcc's own programs",
        "chown lab /usr/lib/nvidia-cuda-toolkit/bin",
        ("/usr/lib/nvidia-cuda-toolkit/bin",), "modes",
        touches=("/usr/lib/nvidia-cuda-toolkit/bin",),
    ),
    Row(
        "cudnn-directory-writable", "cudnn", "Everybody may write where cuDNN's libraries lie",
        "chmod 777 $CUDNN/lib64",
        ("/opt/nvidia/cudnn/8.5.0.96-cuda11.2/lib64",), "modes", touches=CUDNN_TREE,
    ),
    Row(
        "env-profiles-closed", "gpu_env", "The directory of login shells' profiles is closed",
        "chmod 700 /etc/profile.d",
        ("/etc/profile.d",), "modes", touches=("/etc/profile.d",),
    ),
    Row(
        "env-cache-closed", "gpu_env", "The loader's cache is closed to users",
        "chmod 600 /etc/ld.so.cache",
        ("/etc/ld.so.cache",), "modes",
    ),
    Row(
        "receipt-closed", "receipt", "The receipt is closed to users",
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
        "driver-package-purged", "nvidia_driver", "A package of the driver is purged",
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
        "driver-hold-released", "nvidia_driver", "The hold of libcuda1 is released",
        "apt-mark unhold libcuda1",
        ("libcuda1 hold",), "packages",
    ),
    Row(
        "cuda-downgraded", "cuda", "A package of CUDA is downgraded",
        "other libnvtoolsext1 10.2.89-9",
        ("libnvtoolsext1", "libnvtoolsext1 hold"), "packages", touches=packages("libnvtoolsext1"),
    ),
    Row(
        "cuda-purged", "cuda", "A package of CUDA is purged",
        "dpkg --purge --force-depends --force-hold libnppitc11",
        ("libnppitc11",), "packages", touches=packages("libnppitc11"),
    ),
    Row(
        "cuda-half-installed", "cuda", "dpkg was killed while it unpacked a package",
        "sed -i '/^Package: libnvblas11$/,/^$/s/^Status: .*/Status: hold reinstreq half-installed/'"
        " "
        "/var/lib/dpkg/status",
        ("libnvblas11",), "packages", touches=packages("libnvblas11"),
    ),
    Row(
        "cuda-unpacking-cut", "cuda", "dpkg was killed at the end of a package's unpacking",
        "sed -i '/^Package: libnvvm4$/,/^$/s/^Status: .*/Status: hold reinstreq unpacked/'"
        " /var/lib/dpkg/status",
        ("libnvvm4",), "third", touches=packages("libnvvm4"),
    ),
    Row(
        "cuda-dependency-cut", "cuda", "dpkg ran out of space before it unpacked a dependency",
        "dpkg --purge --force-depends nvidia-cuda-dev; "
        "sed -i '/^Package: nvidia-cuda-toolkit$/,/^$/s/^Status: .*/Status: hold ok unpacked/'"
        " /var/lib/dpkg/status",
        ("nvidia-cuda-dev", "nvidia-cuda-toolkit"), "fifth",
        touches=packages("nvidia-cuda-dev", "nvidia-cuda-toolkit"),
    ),
    Row(
        "driver-unpacking-cut", "nvidia_driver",
        "dpkg was killed at the end of a package's unpacking",
        "sed -i '/^Package: nvidia-smi$/,/^$/s/^Status: .*/Status: hold reinstreq unpacked/'"
        " /var/lib/dpkg/status",
        ("nvidia-smi",), "fifth", touches=packages("nvidia-smi"),
    ),
    Row(
        "cuda-unpacked", "cuda", "A package is unpacked and was never configured",
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
        "cuda-file-list-gone", "cuda", "dpkg's list of a package's files is gone",
        "rm /var/lib/dpkg/info/libnppim11:amd64.list",
        ("libnppim11 file list",), "packages", touches=packages("libnppim11"),
    ),
    Row(
        "cuda-checksums-edited", "cuda", "dpkg's checksums of a package are edited",
        "sed -i 's/^./0/' /var/lib/dpkg/info/libnvrtc11.2:amd64.md5sums",
        ("libnvrtc11.2 checksums",), "packages", touches=packages("libnvrtc11.2"),
    ),
    Row(
        "apt-key-removed", "cuda", "A key of the package archive is removed",
        "rm /etc/apt/trusted.gpg.d/debian-archive-bullseye-stable.gpg",
        ("/etc/apt/trusted.gpg.d/debian-archive-bullseye-stable.gpg",), "packages",
        touches=packages("debian-archive-keyring"),
    ),
    Row(
        "tensorflow-dist-info-removed", "tensorflow", "pip's record of a wheel is removed",
        "rm -r $SITE/wrapt-*.dist-info",
        ("wrapt",), "packages", touches=VENV_TREE,
    ),
    Row(
        "receipt-unfinished", "receipt", "A run was killed before it wrote its receipt",
        "echo '{' > /var/lib/provision/unfinished.json",
        ("proof",), "packages",
    ),
    # --- files of packages, of cuDNN and of wheels
    Row(
        "cuda-header-deleted", "cuda", "A header is deleted",
        "rm /usr/include/nvml.h",
        ("/usr/include/nvml.h",), "files", touches=packages("libnvidia-ml-dev"),
    ),
    Row(
        "cuda-headers-deleted", "cuda", "Many headers of one package are deleted",
        "rm /usr/include/cupti*.h",
        ("libcupti-dev files",), "files", touches=packages("libcupti-dev"),
    ),
    Row(
        "cuda-library-truncated", "cuda", "A library that TensorFlow opens is truncated",
        "truncate -s 1M $LIB/libcupti.so.2020.3.1",
        ("libcupti.so.11.2",), "files", touches=packages("libcupti11.2"),
    ),
    Row(
        "cuda-library-replaced", "cuda", "A library is replaced by other content of its size",
        "f=$(readlink -f $LIB/libcudart.so.11.0); s=$(stat -c %s $f); "
        "head -c $s /dev/urandom > $f",
        ("libcudart.so.11.0",), "files", touches=packages("libcudart11.0"),
    ),
    Row(
        "cuda-link-moved", "cuda", "The link of a soname leads to another library",
        "ln -sfn libnvToolsExt.so.1.0.0 $LIB/libcurand.so.10",
        ("libcurand.so.10",), "files", touches=packages("libcurand10"),
    ),
    Row(
        "cuda-library-directory", "cuda", "A library is replaced by a directory",
        "rm $LIB/libnvToolsExt.so.1.0.0; mkdir $LIB/libnvToolsExt.so.1.0.0",
        (f"{LIB}/libnvToolsExt.so.1.0.0",), "files", touches=packages("libnvtoolsext1"),
    ),
    Row(
        "cuda-library-linked", "cuda", "A library is replaced by a link to a copy elsewhere",
        "f=$LIB/libnppc.so.11.3.2.152; mv $f /var/tmp/copy.so; ln -s /var/tmp/copy.so $f",
        (f"{LIB}/libnppc.so.11.3.2.152",), "files", touches=packages("libnppc11"),
    ),
    Row(
        "cuda-library-owned", "cuda", "A library belongs to an ordinary user",
        "chown lab $LIB/libnvvm.so.4.0.0",
        (f"{LIB}/libnvvm.so.4.0.0",), "files", touches=packages("libnvvm4"),
    ),
    Row(
        "cuda-nvcc-closed", "cuda", "nvcc is closed to users",
        "chmod 700 /usr/bin/nvcc",
        ("/usr/bin/nvcc",), "files", touches=packages("nvidia-cuda-toolkit"),
    ),
    Row(
        "cuda-ptxas-deleted", "cuda", "ptxas is deleted",
        "rm /usr/bin/ptxas",
        ("ptxas",), "files", touches=packages("nvidia-cuda-toolkit"),
    ),
    Row(
        "cuda-libdevice-link", "cuda", "XLA's link to libdevice dangles",
        "ln -sfn /nowhere /usr/lib/cuda/nvvm/libdevice",
        ("libdevice for XLA",), "files", touches=packages("nvidia-cuda-toolkit"),
    ),
    Row(
        "cuda-conffile-deleted", "cuda", "nvcc's configuration file is deleted",
        "rm /etc/nvcc.profile",
        ("/etc/nvcc.profile",), "files", touches=packages("nvidia-cuda-toolkit"),
    ),
    Row(
        "driver-library-deleted", "nvidia_driver", "The driver's libcuda is deleted",
        "rm $LIB/nvidia/current/libcuda.so.470.256.02",
        (f"{LIB}/nvidia/current/libcuda.so.470.256.02",), "files", touches=packages("libcuda1"),
    ),
    Row(
        "driver-library-empty", "nvidia_driver", "The driver's NVML is emptied",
        "truncate -s 0 $LIB/nvidia/current/libnvidia-ml.so.470.256.02",
        (f"{LIB}/nvidia/current/libnvidia-ml.so.470.256.02",), "files",
        touches=packages("libnvidia-ml1"),
    ),
    Row(
        "driver-alternative-moved", "nvidia_driver", "The alternative leads to no driver",
        "ln -sfn /usr/lib/nowhere /etc/alternatives/nvidia",
        ("alternatives nvidia",), "files", touches=("/etc/alternatives/nvidia*",),
    ),
    Row(
        "driver-alternative-slave", "nvidia_driver", "A link of the GLX alternative is deleted",
        "rm /etc/alternatives/glx--libnvidia-cfg.so.1-x86_64-linux-gnu",
        ("alternatives glx",), "files", touches=("/etc/alternatives/glx*",),
    ),
    Row(
        "cudnn-link-moved", "cudnn", "cuDNN's soname leads to another library",
        "ln -sfn libcudnn_ops_infer.so.8.5.0 $CUDNN/lib64/libcudnn.so.8",
        ("libcudnn.so.8",), "files", touches=CUDNN_TREE,
    ),
    Row(
        "cudnn-library-truncated", "cudnn", "A cuDNN library is truncated",
        "truncate -s 4096 $CUDNN/lib64/libcudnn_cnn_train.so.8.5.0",
        ("libcudnn_cnn_train.so.8.5.0",), "files", touches=CUDNN_TREE,
    ),
    Row(
        "cudnn-library-deleted", "cudnn", "A cuDNN library is deleted",
        "rm $CUDNN/lib64/libcudnn_cnn_infer.so.8.5.0",
        ("libcudnn_cnn_infer.so.8.5.0",), "files", touches=CUDNN_TREE,
    ),
    Row(
        "cudnn-library-directory", "cudnn", "A cuDNN library is replaced by a directory",
        "f=$CUDNN/lib64/libcudnn_adv_train.so.8.5.0; rm $f; mkdir $f",
        ("libcudnn_adv_train.so.8.5.0",), "files", touches=CUDNN_TREE,
    ),
    Row(
        "cudnn-header-edited", "cudnn", "cuDNN's header is edited",
        "sed -i 's/CUDNN_MINOR 5/CUDNN_MINOR 9/' $CUDNN/include/cudnn_version.h",
        ("cudnn_version.h",), "files", touches=CUDNN_TREE,
    ),
    Row(
        "cudnn-header-closed", "cudnn", "cuDNN's header is closed to users",
        "chmod 600 $CUDNN/include/cudnn.h",
        ("cudnn.h",), "files", touches=CUDNN_TREE,
    ),
    Row(
        "cudnn-header-owned", "cudnn", "cuDNN's header belongs to an ordinary user",
        "chown lab $CUDNN/include/cudnn_v8.h",
        ("cudnn_v8.h",), "files", touches=CUDNN_TREE,
    ),
    Row(
        "tensorflow-library-deleted", "tensorflow", "A wheel's library is deleted",
        "rm $SITE/h5py/h5f.cpython-39-x86_64-linux-gnu.so",
        ("h5py/h5f.cpython-39-x86_64-linux-gnu.so",), "files", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-library-truncated", "tensorflow", "TensorFlow's own library is truncated",
        "truncate -s 100M $SITE/tensorflow/python/_pywrap_tensorflow_internal.so",
        ("tensorflow/python/_pywrap_tensorflow_internal.so",), "files", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-library-same-size", "tensorflow", "A wheel's library is overwritten in place",
        "stomp $SITE/grpc/_cython/cygrpc.cpython-39-x86_64-linux-gnu.so 64000",
        ("grpc/_cython/cygrpc.cpython-39-x86_64-linux-gnu.so",), "files", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-libraries-deleted", "tensorflow", "Many of a wheel's libraries are deleted",
        "rm $SITE/numpy/random/*.so",
        ("numpy files",), "files", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-power-cut", "tensorflow", "A power cut emptied Python files of a wheel",
        "for f in $SITE/keras/engine/training.py $SITE/keras/layers/__init__.py; do "
        "keep $f truncate -s 0 $f; done; "
        """sed -i 's/"boot": "[^"]*"/"boot": "before"/' /var/cache/provision-compared""",
        ("keras/engine/training.py", "keras/layers/__init__.py"), "files", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-protobuf-twice", "tensorflow", "A second protobuf is installed beside ours",
        "$VENV/bin/pip install --quiet --no-deps --ignore-installed protobuf==4.21.12",
        ("protobuf",), "files", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-record-deleted", "tensorflow", "A wheel's RECORD is deleted",
        "rm $SITE/gast-0.4.0.dist-info/RECORD",
        ("gast-0.4.0.dist-info/RECORD",), "files", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-record-edited", "tensorflow", "A wheel's RECORD is edited",
        "sed -i 1d $SITE/six-1.17.0.dist-info/RECORD",
        ("six-1.17.0.dist-info/RECORD",), "files", touches=VENV_TREE,
    ),
    # --- files that the roles write, and links
    Row(
        "apt-sources-removed", "cuda", "The package source is removed",
        f"rm {SOURCES}",
        ("apt component contrib", "apt component non-free"), "written", touches=(SOURCES,),
    ),
    Row(
        "cuda-pins-linked", "cuda", "The pins are replaced by a link to a copy",
        f"mv {CUDA_PINS} /var/tmp/pins; ln -s /var/tmp/pins {CUDA_PINS}",
        (CUDA_PINS,), "written", touches=(CUDA_PINS,),
    ),
    Row(
        "driver-pins-directory", "nvidia_driver", "An empty directory is in the place of the pins",
        f"rm {DRIVER_PINS}; mkdir {DRIVER_PINS}",
        (DRIVER_PINS,), "written", touches=(DRIVER_PINS,),
    ),
    Row(
        "driver-upgrades-edited", "nvidia_driver", "What unattended upgrades may touch is edited",
        f"sed -i '/nvidia-/d' {UPGRADES}",
        (UPGRADES,), "written", touches=(UPGRADES,),
    ),
    Row(
        "driver-program-link", "nvidia_driver", "The link /usr/bin/nvidia-smi is a file",
        "f=/usr/bin/nvidia-smi; rm $f; echo 'exit 1' > $f; chmod 755 $f",
        ("alternatives nvidia",), "written",
        touches=("/usr/bin/nvidia-smi", "/etc/alternatives/nvidia*"),
    ),
    Row(
        "env-profile-removed", "gpu_env", "The environment of login shells is removed",
        f"rm {PROFILE}",
        (PROFILE,), "written", touches=(PROFILE,),
    ),
    Row(
        "env-units-directory", "gpu_env", "A bind mount left a directory in a file's place",
        f"rm {UNITS}; mkdir {UNITS}",
        (UNITS,), "written", touches=(UNITS,),
    ),
    Row(
        "env-directory-closed", "gpu_env", "The directory of the environment file is closed",
        "chmod 700 /etc/provision",
        ("/etc/provision",), "written", touches=("/etc/provision",),
    ),
    Row(
        "env-manager-owned", "gpu_env", "The environment of units belongs to an ordinary user",
        f"chown lab: {MANAGER}",
        (MANAGER,), "written", touches=(MANAGER,),
    ),
    Row(
        "env-block-edited", "gpu_env", "Our lines in /etc/environment are edited",
        "sed -i '/BEGIN provision/,/END provision/s,/usr/lib/cuda,/usr/local,' /etc/environment",
        ("/etc/environment",), "written", touches=("/etc/environment", "/etc/environment.*~"),
    ),
    Row(
        "env-loader-unwished", "gpu_env", "A loader directory that is not wished is named",
        "echo /opt/x > /etc/ld.so.conf.d/01-provision-cuda.conf",
        ("/etc/ld.so.conf.d/01-provision-cuda.conf",), "written",
        touches=("/etc/ld.so.conf.d/01-provision-cuda.conf",),
    ),
    Row(
        "cudnn-loader-linked", "cudnn", "cuDNN's loader file is a link to a copy",
        f"mv {CUDNN_LOADER} /var/tmp/conf; ln -s /var/tmp/conf {CUDNN_LOADER}",
        (CUDNN_LOADER,), "written", touches=(CUDNN_LOADER,),
    ),
    Row(
        "cudnn-root-closed", "cudnn", "A directory on the way to cuDNN is closed",
        "chmod 700 /opt/nvidia",
        ("/opt/nvidia",), "written", touches=("/opt/nvidia",),
    ),
    Row(
        "tensorflow-root-closed", "tensorflow", "The directory of the venvs is closed",
        "chmod 700 /opt/tensorflow",
        ("/opt/tensorflow",), "written", touches=("/opt/tensorflow",),
    ),
    Row(
        "tensorflow-requirements-edited", "tensorflow", "The requirements in the venv are edited",
        "sed -i '/^numpy==/d' $VENV/requirements.txt",
        ("requirements.txt",), "written", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-current-directory", "tensorflow", "A directory is in the place of the link",
        "rm /opt/tensorflow/current; mkdir /opt/tensorflow/current",
        ("current",), "written", touches=VENV_TREE,
    ),
    Row(
        "receipt-removed", "receipt", "The receipt is removed",
        "rm /var/lib/provision/receipt.json",
        ("proof",), "written",
    ),
    # --- what hides other damage, and second kinds of what was damaged before
    Row(
        "loader-stale", "cuda", "The loader's cache does not know a library",
        "mkdir /var/tmp/aside; mv $LIB/libcufft.so.10* /var/tmp/aside; ldconfig; "
        "mv /var/tmp/aside/* $LIB/; rmdir /var/tmp/aside",
        ("libcufft.so.10",), "second",
        touches=("/usr/lib/x86_64-linux-gnu/libcufft.so.10*",),
    ),
    Row(
        "cudnn-current-dangling", "cudnn", "The link to cuDNN dangles",
        "ln -sfn 8.1.0-cuda11.0 /opt/nvidia/cudnn/current",
        ("current", "libcudnn.so.8"), "second", touches=("/opt/nvidia/cudnn/current",),
    ),
    Row(
        "env-manager-stale", "gpu_env", "systemd has not read its settings",
        f"f={MANAGER}; mv $f /var/tmp/x; systemctl daemon-reexec; sleep 2; mv /var/tmp/x $f",
        ("systemd manager",), "second", touches=(MANAGER,),
    ),
    Row(
        "env-block-removed", "gpu_env", "Our lines in /etc/environment are removed",
        "sed -i '/BEGIN provision/,/END provision/d' /etc/environment",
        ("/etc/environment",), "second", touches=("/etc/environment", "/etc/environment.*~"),
    ),
    Row(
        "apt-sources-disabled", "cuda", "The package source is switched off",
        f"sed -i 's/^Types: deb/Enabled: no\\nTypes: deb/' {SOURCES}",
        ("apt component contrib", "apt component non-free"), "second", touches=(SOURCES,),
    ),
    Row(
        "driver-pins-edited", "nvidia_driver", "The driver's pins are edited",
        f"sed -i 's/1001/100/' {DRIVER_PINS}",
        (DRIVER_PINS,), "second", touches=(DRIVER_PINS,),
    ),
    Row(
        "driver-alternative-forgotten", "nvidia_driver", "update-alternatives forgets the driver",
        "truncate -s 0 /var/lib/dpkg/alternatives/nvidia",
        ("alternatives nvidia",), "second",
        touches=(
            *packages("nvidia-alternative"), "/var/lib/dpkg/alternatives/nvidia",
            "/etc/alternatives/nvidia*", "/usr/lib/nvidia/nvidia", "/usr/lib/nvidia/*/nvidia*",
            "/usr/lib/x86_64-linux-gnu/libcuda*", "/usr/lib/x86_64-linux-gnu/libnvidia*",
            "/usr/lib/x86_64-linux-gnu/nvidia/lib*", "/usr/bin/nvidia-smi",
            "/usr/share/man/man1/nvidia-smi.1.gz",
        ),
    ),
    Row(
        "tensorflow-marker-removed", "tensorflow", "The mark of a finished venv is removed",
        "rm $VENV/.provision.json",
        ("tensorflow",), "second", touches=VENV_TREE,
    ),
    Row(
        "receipt-directory", "receipt", "A directory is in the place of the receipt",
        "rm /var/lib/provision/receipt.json; mkdir /var/lib/provision/receipt.json",
        ("proof",), "second",
    ),
    Row(
        "loader-cache-removed", "cuda", "The loader's cache is removed",
        "rm /etc/ld.so.cache",
        ("/etc/ld.so.cache", "cudnn: /etc/ld.so.cache"), "third",
    ),
    Row(
        "cudnn-manifest-truncated", "cudnn", "The list of cuDNN's files is truncated",
        "truncate -s 100 $CUDNN/.provision-manifest.json",
        ("cudnn",), "fourth", touches=CUDNN_TREE,
    ),
    Row(
        "tensorflow-python-dangling", "tensorflow", "The venv's Python dangles",
        "ln -sfn /usr/bin/python3.99 $VENV/bin/python3.9",
        ("python",), "third", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-pyvenv-open", "tensorflow", "The venv lets the system's packages in",
        "sed -i 's/site-packages = false/site-packages = true/' $VENV/pyvenv.cfg",
        ("pyvenv.cfg",), "third", touches=VENV_TREE,
    ),
    # --- what others may write, and everybody imports
    Row(
        "tensorflow-site-owned", "tensorflow", "site-packages is given to a user",
        "chown nobody $SITE",
        ("lib/python3.9/site-packages",), "trust", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-bin-writable", "tensorflow", "The venv's programs are writable for all",
        "chmod o+w $VENV/bin",
        ("bin",), "trust", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-python3-elsewhere", "tensorflow", "The venv's python3 leads elsewhere",
        "ln -sfn /usr/bin/perl $VENV/bin/python3",
        ("bin/python3",), "trust", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-path-added", "tensorflow", "A .pth file leads into a user's directory",
        "mkdir /var/tmp/lib; chown nobody /var/tmp/lib; echo /var/tmp/lib > $SITE/mine.pth",
        ("lib/python3.9/site-packages/mine.pth",), "trust",
        touches=(*VENV_TREE, "/var/tmp/lib"),
    ),
    Row(
        "tensorflow-root-owned", "tensorflow", "The directory of the venvs is given to a user",
        "chown nobody /opt/tensorflow",
        ("/opt/tensorflow",), "trust", touches=("/opt/tensorflow",),
    ),
    Row(
        "tensorflow-current-owned", "tensorflow", "The link to the venv is given to a user",
        "chown --no-dereference nobody /opt/tensorflow/current",
        ("/opt/tensorflow/current",), "trust", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-building-left", "tensorflow", "A venv that was never finished lies about",
        "mkdir -p /opt/tensorflow/.building-2.9.3-00000000/lib",
        (".building-2.9.3-00000000",), "trust", touches=("/opt/tensorflow", *VENV_TREE),
    ),
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
        "deep-cuda-checksums", "cuda", "dpkg's checksums of a package are gone",
        "rm /var/lib/dpkg/info/libnppif11:amd64.md5sums",
        ("libnppif11 checksums",), "deep", "deep", packages("libnppif11"),
    ),
    Row(
        "deep-apt-key", "cuda", "A key of the package archive is changed",
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
        "deep-wheel-writable", "tensorflow", "A wheel's Python file is writable for all",
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
        "cuda-shadowed", "cuda", "Another copy of a CUDA library comes first",
        "cp $(readlink -f $LIB/libcusparse.so.11) /usr/local/lib/libcusparse.so.11; ldconfig",
        ("libcusparse.so.11",), "shadow",
        undo="rm /usr/local/lib/libcusparse.so.11; ldconfig",
    ),
    Row(
        "cudnn-shadowed", "cudnn", "Another cuDNN comes first",
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
        "kernel-blacklist-edited", "nvidia_driver", "The blacklist of nouveau is edited",
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
        "kernel-modprobe-deleted", "nvidia_driver", "What modprobe loads as nvidia is deleted",
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
        "What skips the persistence daemon without a GPU is edited",
        f"sed -i '/^ExecCondition/d' {DROP_IN}",
        (DROP_IN,), "kernel", touches=(DROP_IN,),
    ),
    # --- Slurm, on a host that is controller and node of its own cluster
    Row(
        "slurm-key-changed", "slurm", "munge has another key",
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
        "slurm-cgroup-edited", "slurm", "Jobs are no longer kept to their own GPUs",
        f"sed -i s/^ConstrainDevices=yes/ConstrainDevices=no/ {SLURM}/cgroup.conf",
        (f"{SLURM}/cgroup.conf",), "slurm", touches=(f"{SLURM}/cgroup.conf",),
    ),
    Row(
        "slurm-environment-deleted", "slurm", "What slurmd is started with is deleted",
        f"rm {OWN_SLURM}/slurmd.env",
        (f"{OWN_SLURM}/slurmd.env",), "slurm", touches=(f"{OWN_SLURM}/slurmd.env",),
    ),
    Row(
        "slurm-drop-in-edited", "slurm", "What slurmd's unit lacks without us is edited",
        f"sed -i /^EnvironmentFile=/d {SLURMD_DROP_IN}",
        (SLURMD_DROP_IN,), "slurm", touches=(SLURMD_DROP_IN,),
    ),
    Row(
        "slurm-prolog-closed", "slurm", "The prolog of jobs is not executable any more",
        "chmod 644 /usr/local/sbin/gpu-slurm-prolog",
        ("/usr/local/sbin/gpu-slurm-prolog",), "slurm",
        touches=("/usr/local/sbin/gpu-slurm-prolog",),
    ),
    Row(
        "slurm-health-edited", "slurm", "The health check of nodes does nothing any more",
        "printf '#!/bin/sh\n' > /usr/local/sbin/gpu-slurm-health",
        ("/usr/local/sbin/gpu-slurm-health",), "slurm",
        touches=("/usr/local/sbin/gpu-slurm-health",),
    ),
    Row(
        "slurm-module-deleted", "slurm", "A module of prolog and epilog is deleted",
        f"rm {SLURM_PROGRAM}/gpus.py",
        (f"{SLURM_PROGRAM}/gpus.py",), "slurm", touches=(f"{SLURM_PROGRAM}/*",),
    ),
    Row(
        "slurm-module-given", "slurm", "A module of prolog and epilog is given to a user",
        f"chown 1000 {SLURM_PROGRAM}/job.py",
        (f"{SLURM_PROGRAM}/job.py",), "slurm", touches=(f"{SLURM_PROGRAM}/*",),
    ),
    Row(
        "slurm-node-edited", "slurm", "Which GPUs the health check knows is edited",
        f"sed -i 's/\"gpus\": .*/\"gpus\": [],/' {OWN_SLURM}/node.json",
        (f"{OWN_SLURM}/node.json",), "slurm", touches=(f"{OWN_SLURM}/node.json",),
    ),
    Row(
        "slurm-node-disabled", "slurm", "slurmd would not come back after a reboot",
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
        "slurm-client-removed", "slurm", "A package of Slurm is removed",
        "dpkg --remove --force-depends slurm-client",
        ("slurm-client",), "slurm", touches=packages("slurm-client"),
    ),
    Row(
        "slurm-controller-stopped", "slurm", "slurmctld is stopped",
        "systemctl stop slurmctld",
        ("slurmctld.service",), "slurm",
    ),
)  # fmt: skip


def batches() -> dict[str, list[Row]]:
    """{batch: rows}, in the catalogue's order."""
    found: dict[str, list[Row]] = {}
    for row in ROWS:
        found.setdefault(row.batch, []).append(row)
    return found
