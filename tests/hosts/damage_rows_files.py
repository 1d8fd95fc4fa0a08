"""Damage to files: of packages, of cuDNN, of wheels, of the roles, and what hides other damage."""

from __future__ import annotations

from damage_row import (
    CUDA_PINS,
    CUDNN_LOADER,
    CUDNN_TREE,
    DRIVER_PINS,
    LIB,
    MANAGER,
    PROFILE,
    SOURCES,
    UNITS,
    UPGRADES,
    VENV_TREE,
    Row,
    packages,
)

ROWS: tuple[Row, ...] = (
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
        "cuda-library-replaced", "cuda", "A library is replaced by other content of the same size",
        "f=$(readlink -f $LIB/libcudart.so.11.0); s=$(stat -c %s $f); "
        "head -c $s /dev/urandom > $f",
        ("libcudart.so.11.0",), "files", touches=packages("libcudart11.0"),
    ),
    Row(
        "cuda-link-moved", "cuda", "A soname link points to another library",
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
        "cuda-nvcc-closed", "cuda", "Only root may run nvcc",
        "chmod 700 /usr/bin/nvcc",
        ("/usr/bin/nvcc",), "files", touches=packages("nvidia-cuda-toolkit"),
    ),
    Row(
        "cuda-ptxas-deleted", "cuda", "ptxas is deleted",
        "rm /usr/bin/ptxas",
        ("ptxas",), "files", touches=packages("nvidia-cuda-toolkit"),
    ),
    Row(
        "cuda-libdevice-link", "cuda", "XLA's link to libdevice is broken",
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
        "driver-library-empty", "nvidia_driver", "The driver's NVML library is emptied",
        "truncate -s 0 $LIB/nvidia/current/libnvidia-ml.so.470.256.02",
        (f"{LIB}/nvidia/current/libnvidia-ml.so.470.256.02",), "files",
        touches=packages("libnvidia-ml1"),
    ),
    Row(
        "driver-alternative-moved", "nvidia_driver",
        "The nvidia alternative points to a missing directory",
        "ln -sfn /usr/lib/nowhere /etc/alternatives/nvidia",
        ("alternatives nvidia",), "files", touches=("/etc/alternatives/nvidia*",),
    ),
    Row(
        "driver-alternative-slave", "nvidia_driver", "A link of the GLX alternative is deleted",
        "rm /etc/alternatives/glx--libnvidia-cfg.so.1-x86_64-linux-gnu",
        ("alternatives glx",), "files", touches=("/etc/alternatives/glx*",),
    ),
    Row(
        "cudnn-link-moved", "cudnn", "cuDNN's soname link points to another library",
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
        "cudnn-header-closed", "cudnn", "cuDNN's header is not readable by users",
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
        "tensorflow-power-cut", "tensorflow", "A power cut emptied a wheel's Python files",
        "for f in $SITE/keras/engine/training.py $SITE/keras/layers/__init__.py; do "
        "keep $f truncate -s 0 $f; done; "
        """sed -i 's/"boot": "[^"]*"/"boot": "before"/' /var/cache/provision-compared""",
        ("keras/engine/training.py", "keras/layers/__init__.py"), "files", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-protobuf-twice", "tensorflow", "A second protobuf is installed in the venv",
        "$VENV/bin/pip install --quiet --no-deps --ignore-installed protobuf==4.21.12",
        ("protobuf",), "files", touches=VENV_TREE,
    ),
    # In another batch: files of more than five wheels are one change of the plan.
    Row(
        "tensorflow-record-deleted", "tensorflow", "A wheel's RECORD is deleted",
        "rm $SITE/gast-0.4.0.dist-info/RECORD",
        ("gast-0.4.0.dist-info/RECORD",), "written", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-record-edited", "tensorflow", "A wheel's RECORD is edited",
        "sed -i 1d $SITE/six-1.17.0.dist-info/RECORD",
        ("six-1.17.0.dist-info/RECORD",), "written", touches=VENV_TREE,
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
        "driver-pins-directory", "nvidia_driver",
        "The driver's pins are replaced by an empty directory",
        f"rm {DRIVER_PINS}; mkdir {DRIVER_PINS}",
        (DRIVER_PINS,), "written", touches=(DRIVER_PINS,),
    ),
    Row(
        "driver-upgrades-edited", "nvidia_driver",
        "The blacklist of unattended-upgrades is edited",
        f"sed -i '/nvidia-/d' {UPGRADES}",
        (UPGRADES,), "written", touches=(UPGRADES,),
    ),
    Row(
        "driver-program-link", "nvidia_driver",
        "The link /usr/bin/nvidia-smi is replaced by a file",
        "f=/usr/bin/nvidia-smi; rm $f; echo 'exit 1' > $f; chmod 755 $f",
        ("alternatives nvidia",), "written",
        touches=("/usr/bin/nvidia-smi", "/etc/alternatives/nvidia*"),
    ),
    Row(
        "env-profile-removed", "gpu_env", "The environment file for login shells is removed",
        f"rm {PROFILE}",
        (PROFILE,), "written", touches=(PROFILE,),
    ),
    Row(
        "env-units-directory", "gpu_env", "A bind mount left a directory in place of a file",
        f"rm {UNITS}; mkdir {UNITS}",
        (UNITS,), "written", touches=(UNITS,),
    ),
    Row(
        "env-directory-closed", "gpu_env",
        "The environment file's directory is not accessible to users",
        "chmod 700 /etc/provision",
        ("/etc/provision",), "written", touches=("/etc/provision",),
    ),
    Row(
        "env-manager-owned", "gpu_env", "systemd's environment settings belong to an ordinary user",
        f"chown lab: {MANAGER}",
        (MANAGER,), "written", touches=(MANAGER,),
    ),
    Row(
        "env-block-edited", "gpu_env", "Our lines in /etc/environment are edited",
        "sed -i '/BEGIN provision/,/END provision/s,/usr/lib/cuda,/usr/local,' /etc/environment",
        ("/etc/environment",), "written", touches=("/etc/environment", "/etc/environment.*~"),
    ),
    Row(
        "env-loader-unwished", "gpu_env", "An unwanted loader directory is configured",
        "echo /opt/x > /etc/ld.so.conf.d/01-provision-cuda.conf",
        ("/etc/ld.so.conf.d/01-provision-cuda.conf",), "written",
        touches=("/etc/ld.so.conf.d/01-provision-cuda.conf",),
    ),
    Row(
        "cudnn-loader-linked", "cudnn",
        "cuDNN's loader configuration is replaced by a link to a copy",
        f"mv {CUDNN_LOADER} /var/tmp/conf; ln -s /var/tmp/conf {CUDNN_LOADER}",
        (CUDNN_LOADER,), "written", touches=(CUDNN_LOADER,),
    ),
    Row(
        "cudnn-root-closed", "cudnn", "A parent directory of cuDNN is not accessible to users",
        "chmod 700 /opt/nvidia",
        ("/opt/nvidia",), "written", touches=("/opt/nvidia",),
    ),
    Row(
        "tensorflow-root-closed", "tensorflow", "The venvs' directory is not accessible to users",
        "chmod 700 /opt/tensorflow",
        ("/opt/tensorflow",), "written", touches=("/opt/tensorflow",),
    ),
    Row(
        "tensorflow-requirements-edited", "tensorflow", "The requirements in the venv are edited",
        "sed -i '/^numpy==/d' $VENV/requirements.txt",
        ("requirements.txt",), "written", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-current-directory", "tensorflow",
        "The link to the venv is replaced by a directory",
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
        "loader-stale", "cuda", "The loader's cache lacks a library",
        "mkdir /var/tmp/aside; mv $LIB/libcufft.so.10* /var/tmp/aside; ldconfig; "
        "mv /var/tmp/aside/* $LIB/; rmdir /var/tmp/aside",
        ("libcufft.so.10",), "second",
        touches=("/usr/lib/x86_64-linux-gnu/libcufft.so.10*",),
    ),
    Row(
        "cudnn-current-dangling", "cudnn", "The link to cuDNN is broken",
        "ln -sfn 8.1.0-cuda11.0 /opt/nvidia/cudnn/current",
        ("current", "libcudnn.so.8"), "second", touches=("/opt/nvidia/cudnn/current",),
    ),
    Row(
        "env-manager-stale", "gpu_env", "systemd has not loaded its settings",
        f"f={MANAGER}; mv $f /var/tmp/x; systemctl daemon-reexec; sleep 2; mv /var/tmp/x $f",
        ("systemd manager",), "second", touches=(MANAGER,),
    ),
    Row(
        "env-block-removed", "gpu_env", "Our lines in /etc/environment are removed",
        "sed -i '/BEGIN provision/,/END provision/d' /etc/environment",
        ("/etc/environment",), "second", touches=("/etc/environment", "/etc/environment.*~"),
    ),
    Row(
        "apt-sources-disabled", "cuda", "The package source is disabled",
        f"sed -i 's/^Types: deb/Enabled: no\\nTypes: deb/' {SOURCES}",
        ("apt component contrib", "apt component non-free"), "second", touches=(SOURCES,),
    ),
    Row(
        "driver-pins-edited", "nvidia_driver", "The driver's pins are edited",
        f"sed -i 's/1001/100/' {DRIVER_PINS}",
        (DRIVER_PINS,), "second", touches=(DRIVER_PINS,),
    ),
    Row(
        "driver-alternative-forgotten", "nvidia_driver",
        "update-alternatives' record of the driver is emptied",
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
        "tensorflow-marker-removed", "tensorflow", "The marker of a finished venv is removed",
        "rm $VENV/.provision.json",
        ("tensorflow",), "second", touches=VENV_TREE,
    ),
    Row(
        "receipt-directory", "receipt", "The receipt is replaced by a directory",
        "rm /var/lib/provision/receipt.json; mkdir /var/lib/provision/receipt.json",
        ("proof",), "second",
    ),
    Row(
        "loader-cache-removed", "cuda", "The loader's cache is removed",
        "rm /etc/ld.so.cache",
        ("/etc/ld.so.cache", "cudnn: /etc/ld.so.cache"), "third",
    ),
    Row(
        "cudnn-manifest-truncated", "cudnn", "cuDNN's file list is truncated",
        "truncate -s 100 $CUDNN/.provision-manifest.json",
        ("cudnn",), "fourth", touches=CUDNN_TREE,
    ),
    Row(
        "tensorflow-python-dangling", "tensorflow", "The venv's Python is a broken link",
        "ln -sfn /usr/bin/python3.99 $VENV/bin/python3.9",
        ("python",), "third", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-pyvenv-open", "tensorflow", "The venv includes the system's site-packages",
        "sed -i 's/site-packages = false/site-packages = true/' $VENV/pyvenv.cfg",
        ("pyvenv.cfg",), "third", touches=VENV_TREE,
    ),
    # --- what others may write, and everybody imports
    Row(
        "tensorflow-site-owned", "tensorflow", "A user owns site-packages",
        "chown nobody $SITE",
        ("lib/python3.9/site-packages",), "trust", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-bin-writable", "tensorflow", "The venv's bin directory is writable by everyone",
        "chmod o+w $VENV/bin",
        ("bin",), "trust", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-python3-elsewhere", "tensorflow", "The venv's python3 points elsewhere",
        "ln -sfn /usr/bin/perl $VENV/bin/python3",
        ("bin/python3",), "trust", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-path-added", "tensorflow", "A .pth file points to a user's directory",
        "mkdir /var/tmp/lib; chown nobody /var/tmp/lib; echo /var/tmp/lib > $SITE/mine.pth",
        ("lib/python3.9/site-packages/mine.pth",), "trust",
        touches=(*VENV_TREE, "/var/tmp/lib"),
    ),
    Row(
        "tensorflow-root-owned", "tensorflow", "A user owns the venvs' directory",
        "chown nobody /opt/tensorflow",
        ("/opt/tensorflow",), "trust", touches=("/opt/tensorflow",),
    ),
    Row(
        "tensorflow-current-owned", "tensorflow", "A user owns the link to the venv",
        "chown --no-dereference nobody /opt/tensorflow/current",
        ("/opt/tensorflow/current",), "trust", touches=VENV_TREE,
    ),
    Row(
        "tensorflow-building-left", "tensorflow", "An unfinished venv is left over",
        "mkdir -p /opt/tensorflow/.building-2.9.3-00000000/lib",
        (".building-2.9.3-00000000",), "trust", touches=("/opt/tensorflow", *VENV_TREE),
    ),
)  # fmt: skip
