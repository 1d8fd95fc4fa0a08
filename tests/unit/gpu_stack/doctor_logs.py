"""What programs said in the cases that the doctor knows, as people pasted it.

Of each case every sentence that it is known by, in the lines around it. Hosts' names are not kept.
"""

from __future__ import annotations

import re

DKMS_HEAD = (
    "DKMS make.log for nvidia-{driver} for kernel {kernel} (x86_64)\n"
    "Sun Jun 30 08:38:08 PM +06 2024\n"
    "make[1]: Entering directory '/usr/src/linux-headers-{kernel}'\n"
)


def of_debian_13(log: str) -> str:
    """The same log as dkms 3.2 begins it."""
    return re.sub(r"^DKMS make\.log for nvidia-", "DKMS (dkms-3.2.2) make.log for nvidia/", log)


GPL = (
    DKMS_HEAD.format(driver="525.125.06", kernel="6.1.0-18-amd64")
    + "  scripts/mod/modpost -M -m -a -o /var/lib/dkms/nvidia/525.125.06/build/Module.symvers\n"
    "ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol '__rcu_read_lock'\n"
    "ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol '__rcu_read_unlock'\n"
    "make[3]: *** [scripts/Makefile.modpost:145: Module.symvers] Error 1\n"
    "make: *** [Makefile:82: modules] Error 2\n"
)
COMPILER = (
    DKMS_HEAD.format(driver="535.98", kernel="6.5.0-14-generic")
    + "warning: the compiler differs from the one used to build the kernel\n"
    "  The kernel was built by: x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0\n"
    "  You are using:           cc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0\n"
    "cc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'\n"
    "make[2]: *** [scripts/Makefile.build:243: nvidia/nv.o] Error 1\n"
)
UNDECLARED = (
    DKMS_HEAD.format(driver="470.82.01", kernel="6.8.0-31-generic")
    + "  CC [M]  /var/lib/dkms/nvidia/470.82.01/build/nvidia-drm/nvidia-drm-drv.o\n"
    "/var/lib/dkms/nvidia/470.82.01/build/nvidia-drm/nvidia-drm-drv.c:1513:40: error: "
    "'DRM_UNLOCKED' undeclared here (not in a function); did you mean 'VM_LOCKED'?\n"
    "make[3]: *** [scripts/Makefile.build:244: nvidia-drm-drv.o] Error 1\n"
)
SAME_COMPILER = (
    DKMS_HEAD.format(driver="470.256.02", kernel="5.15.0-1070-aws")
    + "warning: the compiler differs from the one used to build the kernel\n"
    "  The kernel was built by: gcc (Ubuntu 9.4.0-1ubuntu1~20.04.2) 9.4.0\n"
    "  You are using: cc (Ubuntu 9.4.0-1ubuntu1~20.04.2) 9.4.0\n"
    "  LD [M]  nvidia.ko\n"
)

# {the case: texts that tell it}
LOGS: dict[str, tuple[str, ...]] = {
    "driver-mismatch": (
        "Failed to initialize NVML: Driver/library version mismatch\n",
        "[  100.1] NVRM: API mismatch: the client has the version 460.80, but\n"
        "NVRM: this kernel module has the version 460.73.01.  Please\n",
        "E tensorflow/stream_executor/cuda/cuda_diagnostics.cc:313] kernel version 460.73.1 does "
        "not match DSO version 460.80.0 -- cannot find working devices in this configuration\n",
        "failed call to cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: system has unsupported display "
        "driver / cuda driver combination\n",
    ),
    "nouveau-loaded": (
        "ERROR: The Nouveau kernel driver is currently in use by your system.  This driver is "
        "incompatible with the NVIDIA driver, and must be disabled before proceeding.\n",
        "[    7.205812] NVRM: The NVIDIA probe routine was not called for 1 device(s).\n"
        "[    7.206258] NVRM: This can occur when a driver such as: \n"
        "               NVRM: nouveau, rivafb, nvidiafb or rivatv \n"
        "               NVRM: was loaded and obtained ownership of the NVIDIA device(s).\n"
        "[    7.206259] NVRM: Try unloading the conflicting kernel module (and/or\n",
    ),
    "headers-missing": (
        "Error! Your kernel headers for kernel 5.15.0-88-generic cannot be found at "
        "/lib/modules/5.15.0-88-generic/build\n",
        "Module build for kernel 5.10.0-9-amd64 was skipped since the kernel headers for this "
        "kernel does not seem to be installed.\n",
        "ERROR: Unable to find the kernel source tree for the currently running kernel. Please "
        "make sure you have installed the kernel source files for your kernel\n",
        "E: Unable to locate package linux-headers-4.19.0-17-amd64\n",
    ),
    "driver-gone-after-kernel": (
        "modprobe: FATAL: Module nvidia not found in directory /lib/modules/5.15.0-1040-gcp\n",
    ),
    "dkms-gpl-symbol": (GPL,),
    "dkms-compiler": (
        COMPILER,
        "gcc: error: unrecognized command-line option '-mharden-sls=all'\n",
    ),
    "dkms-failed": (
        "Error! Bad return status for module build on kernel: 5.4.0-42-generic (x86_64)\n"
        "Consult /var/lib/dkms/nvidia/460.73.01/build/make.log for more information.\n",
        UNDECLARED,
        "Building module(s)...(bad exit status: 2)\n",
        "Building module: make -j8 KERNELRELEASE=5.4.0-42-generic all...(bad exit status: 2)\n",
        "ERROR: Unable to load the kernel module 'nvidia.ko'.  This happens most frequently when "
        "this kernel module was built against the wrong or improperly configured kernel sources\n",
    ),
    "secure-boot": (
        "[   12.3] Loading of unsigned module is rejected\n",
        "modprobe: ERROR: could not insert 'nvidia': Required key not available\n",
        "modprobe: ERROR: could not insert 'nvidia_current': Key was rejected by service\n",
        "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7\n",
        "PKCS#7 signature not signed with a trusted key\n",
    ),
    "driver-silent": (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure "
        "that the latest NVIDIA driver is installed and running.\n",
        "W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic "
        "library 'libcuda.so.1'; dlerror: libcuda.so.1: cannot open shared object file\n",
        "E tensorflow/stream_executor/cuda/cuda_driver.cc:271] failed call to cuInit: "
        "CUDA_ERROR_UNKNOWN: unknown error\n",
        "nvidia-smi did not answer within 90 s\n",
    ),
    "gpu-silent": (
        "No devices were found\n",
        "Unable to determine the device handle for GPU 0000:41:00.0: GPU is lost.  Reboot the "
        "system to recover this GPU\n",
        "Unable to determine the device handle for gpu 0000:41:00.0: Unknown Error\n",
    ),
    "transitional-branch": (
        "Setting up nvidia-driver-570 (580.95.05-0ubuntu0.24.04.2) ...\n",
        # dpkg -l, apt-cache search, apt search
        "ii  nvidia-driver-455          460.56-0ubuntu0.20.04.1    amd64        Transitional "
        "package for nvidia-driver-460\n",
        "nvidia-driver-570-server - Transitional package for nvidia-driver-580-server\n",
        "nvidia-driver-418/bionic-updates 430.50-0ubuntu0.18.04.2 amd64\n"
        "  Transitional package for nvidia-driver-430\n",
    ),
    "fabric-manager": (
        "nv-fabricmanager[3228]: fabric manager NVIDIA GPU driver interface version 530.30.02 "
        "don't match with driver version 530.41.03. Please update with matching NVIDIA driver "
        "package.\n",
    ),
    "key-missing": (
        "W: GPG error: https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2004/x86_64 "
        " InRelease: The following signatures couldn't be verified because the public key is not "
        "available: NO_PUBKEY A4B469963BF863CC\n",
        "  Missing key EB693B3035CD5710E231E123A4B469963BF863CC, which is needed to verify "
        "signature.\n",
    ),
    "key-rotated": (
        "The following signatures couldn't be verified because the public key is not available: "
        "NO_PUBKEY F60F4B3D7FA2AF80\n",
        "+ apt-key adv --fetch-keys https://developer.download.nvidia.com/compute/cuda/repos/"
        "ubuntu1804/x86_64/7fa2af80.pub\n",
    ),
    "key-sha1": (
        "W: OpenPGP signature verification failed: https://developer.download.nvidia.com/compute/"
        "cuda/repos/debian12/x86_64  InRelease: Sub-process /usr/bin/sqv returned an error code "
        "(1), error message is: Signing key on EB693B3035CD5710E231E123A4B469963BF863CC is not "
        "bound:            No binding signature at time 2026-02-03T08:02:11Z   because: Policy "
        "rejected non-revocation signature (PositiveCertification) requiring second pre-image "
        "resistance   because: SHA1 is not considered secure since 2026-02-01T00:00:00Z\n",
        "W: https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/InRelease: "
        "Policy will reject signature within a year, see --audit for details\n",
    ),
    "apt-key-gone": (
        "bash: line 1: apt-key: command not found\n",
        'fatal: [gpu01]: FAILED! => {"msg": "Failed to find required executable \\"apt-key\\" in '
        'paths: /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"}\n',
        "[Errno 2] No such file or directory: b'apt-key'\n",
    ),
    "signed-by-conflict": (
        "E: Conflicting values set for option Signed-By regarding source "
        "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2004/x86_64/ /: "
        "/usr/share/keyrings/cuda-archive-keyring.gpg != \n"
        "E: The list of sources could not be read.\n",
    ),
    "held-broken": (
        "E: Unable to correct problems, you have held broken packages.\n",
        "E: Held packages were changed and -y was used without --allow-change-held-packages.\n",
        "E: Error, pkgProblemResolver::Resolve generated breaks, this may be caused by held "
        "packages.\n",
    ),
    "unmet-dependencies": (
        "E: Unmet dependencies. Try 'apt --fix-broken install' with no packages (or specify a "
        "solution).\n",
    ),
    "dpkg-interrupted": (
        "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the "
        "problem.\n",
    ),
    "local-repo-gone": (
        "Err:4 file:/var/cuda-repo-10-0-local-10.0.130-410.48  Release\n"
        "  File not found - /var/cuda-repo-10-0-local-10.0.130-410.48/Release (2: No such file or "
        "directory)\n"
        "E: The repository 'file:/var/cuda-repo-10-0-local-10.0.130-410.48  Release' no longer has "
        "a Release file.\n",
    ),
    "package-not-offered": (
        "E: Unable to locate package cuda-11-4\n",
        "E: Package 'libcudnn8' has no installation candidate\n",
    ),
    "cuda-libraries": (
        "W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic "
        "library 'libcusolver.so.11'; dlerror: libcusolver.so.11: cannot open shared object file: "
        "No such file or directory; LD_LIBRARY_PATH: /usr/local/cuda/lib64\n",
        "W tensorflow/core/common_runtime/gpu/gpu_device.cc:1850] Cannot dlopen some GPU "
        "libraries. Please make sure the missing libraries mentioned above are installed\n",
    ),
    "hand-made-link": (
        "$ sudo ln -s /usr/local/cuda/lib64/libcudart.so.12 /usr/lib/libcudart.so.11.0\n",
        "python: /usr/lib/libcudart.so.11.0: version `libcudart.so.11.0' not found (required by "
        "/usr/lib/python3/_pywrap.so)\n",
    ),
    "cudnn-older": (
        "E tensorflow/stream_executor/cuda/cuda_dnn.cc:336] Loaded runtime CuDNN library: 8.0.5 "
        "but source was compiled with: 8.1.0.  CuDNN library needs to have matching major version "
        "and equal or higher minor version.\n",
    ),
    "login-wall": (
        "gzip: stdin: not in gzip format\ntar: Child returned status 1\n",
        "tar: This does not look like a tar archive\n",
        "xz: (stdin): File format not recognized\n",
        "$ head -1 cudnn-11.2-linux-x64-v8.1.0.77.tgz\n<!doctype html>\n",
    ),
    "numpy-2": (
        "RuntimeError: module compiled against ABI version 0x1000009\n"
        "AttributeError: _ARRAY_API not found\n",
        "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.0.2 as it may crash.",
        "TypeError: Unable to convert function return value to a Python type! The signature was\n",
        "ImportError: numpy.core.multiarray failed to import\n",
    ),
    "protobuf": (
        "TypeError: Descriptors cannot not be created directly.\nIf this call came from a _pb2.py "
        "file, your generated code is out of date and must be regenerated with protoc >= 3.19.0.\n",
        "ImportError: cannot import name 'builder' from 'google.protobuf.internal'\n",
    ),
    "ptx-jit": (
        "W tensorflow/core/common_runtime/gpu/gpu_device.cc:2211] TensorFlow was not built with "
        "CUDA kernel binaries compatible with compute capability 9.0. CUDA kernels will be "
        "jit-compiled from PTX, which could take 30 minutes or longer.\n",
        "TensorFlow was not built with CUDA kernel binaries compatible with compute capability "
        "9.0.\n",
        "CUDA kernels will be jit-compiled from PTX, which could take 30 minutes or longer.\n",
    ),
    "no-code-for-gpu": (
        "W tensorflow/compiler/mlir/tools/kernel_gen/tf_gpu_runtime_wrappers.cc:40] "
        "'cuModuleLoadData(&module, data)' failed with 'CUDA_ERROR_INVALID_PTX'\n",
        "LLVM ERROR: PTX version 8.5 does not support target 'sm_120' (or 'sm_120a'). Minimum "
        "required PTX version is 8.7\n",
    ),
    "containers-lose-gpus": ("Failed to initialize NVML: Unknown Error\n",),
    "container-runtime": (
        'docker: Error response from daemon: could not select device driver "" with '
        "capabilities: [[gpu]].\n",
        "docker: Error response from daemon: unknown or invalid runtime name: nvidia.\n",
    ),
    "cdi-specification": (
        "Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all\n",
        'failed to load CDI Spec failed to parse CDI Spec "/var/run/cdi/nvidia.yaml": failed to '
        "unmarshal CDI Spec: error unmarshaling JSON: while decoding JSON: json: unknown field "
        '"additionalGids"\n',
        "Error: stat nvidia.com/gpu=0: no such file or directory\n",
    ),
    "cri-runtime": (
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox "
        'runtime: no runtime for "nvidia" is configured\n',
        'level=error msg="RunPodSandbox for &PodSandboxMetadata{Name:x,} failed, error" '
        'error="failed to get sandbox runtime: no runtime for \\"nvidia\\" is configured"\n',
        "rpc error: code = Unknown desc = failed to find runtime handler nvidia from runtime list "
        "map[crun:0xdf5a0256000 runc:0xdf5a0256540]\n",
    ),
    "crio-monitor": (
        'level=fatal msg="validating runtime config: monitor fields translation: failed to '
        'translate monitor fields for runtime nvidia: exec: \\"conmon\\": executable file not '
        'found in $PATH"\n',
    ),
    "munge-silent": (
        "sbatch: error: If munged is up, restart with --num-threads=10\n"
        'sbatch: error: Munge encode failed: Failed to access "/run/munge/munge.socket.2": No such '
        "file or directory\n",
    ),
    "munge-key": (
        "slurmctld[15918]: error: Munge decode failed: Invalid credential\n"
        "slurmctld[15918]: error: slurm_receive_msg: Protocol authentication error\n",
        "unmunge: error: invalid credential\n",
    ),
    "clocks-apart": (
        "[2021-09-22T14:11:30.278] error: Munge decode failed: Expired credential\n"
        "[2021-09-22T14:11:30.279] auth/munge: _print_cred: ENCODED: Wed Sep 22 01:11:11 2021\n",
        "[2015-12-28T12:31:16.969] error: Check for out of sync clocks\n"
        "[2015-12-28T12:31:16.969] error: authentication: Rewound credential \n",
    ),
    "slurm-releases": ("slurmd: error: Incompatible versions of client and server code\n",),
    "slurmctld-silent": (
        "slurm_load_partitions: Unable to contact slurm controller (connect failure)\n",
    ),
    "slurm-gpus": (
        "slurmd[12912]: slurmd: fatal: can't stat gres.conf file /dev/nvidia0: No such file or "
        "directory\n",
        "slurmd[5421]: fatal: can't stat gres.conf file /dev//nvidia0: No such file or directory\n",
        "   Reason=gres/gpu count reported lower than configured (0 < 8) [slurm@2024-12-19]\n",
    ),
    "slurm-memory": (
        "error: Node ip-10-2-1-120 has low real_memory size (63622 < 64000)\n",
        "Low RealMemory                          compute[001-003]\n",
    ),
    "serving-unavailable": (
        "E tensorflow_serving/util/retrier.cc:37] Loading servable: {name: half_plus_two version: "
        "1} failed: Not found: Could not find SavedModel .pb or .pbtxt at supplied export "
        "directory path: /models/half_plus_two/1\n",
        "W tensorflow_serving/sources/storage_path/file_system_storage_path_source.cc:267] No "
        "versions of servable ssd found under base path /models/ssd\n",
    ),
    "serving-other-tensorflow": (
        "E tensorflow_serving/util/retrier.cc:37] Loading servable: {name: deeplab version: 1} "
        "failed: Not found: Op type not registered 'PyFunc' in binary running on iva. Make sure "
        "the Op and Kernel are registered in the binary running in this process.\n",
        "grpc_message: NodeDef mentions attr 'dilations' not in Op<name=Conv2D; signature=input:T, "
        "filter:T -> output:T>\n",
    ),
    "serving-gpu-memory": (
        "2022-10-06 19:36:02.112233: I external/org_tensorflow/tensorflow/stream_executor/cuda/"
        "cuda_driver.cc:802] failed to allocate 9.39G (10084155392 bytes) from device: "
        "CUDA_ERROR_OUT_OF_MEMORY: out of memory\n",
    ),
    "serving-door": (
        "192.0.2.7 [27/Nov/2026:00:02:05 +0000] POST /serving/mnist/v1/models/mnist:predict 502 "
        "150 0.001 502\n",
    ),
}
# What programs say where nothing is wrong.
HARMLESS = (
    SAME_COMPILER,
    "I tensorflow/stream_executor/platform/default/dso_loader.cc:53] Successfully opened dynamic "
    "library libcudart.so.11.0\nGPUs: 1\n",
    "W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic "
    "library 'libnvinfer.so.7'; dlerror: libnvinfer.so.7: cannot open shared object file\n",
    "Setting up nvidia-driver-470 (470.256.02-0ubuntu0.20.04.1) ...\n",
    "nvidia-driver-390/bionic-updates,bionic-security 390.138-0ubuntu0.18.04.1 amd64\n"
    "  NVIDIA driver metapackage\n",
    # of before there were branches in the names, and no lie
    "nvidia-384 - Transitional package for nvidia-driver-390\n",
    "Setting up nvidia-driver-470-server (470.256.02-0ubuntu0.20.04.1) over (470.239.06) ...\n",
    "Reading package lists...\nBuilding dependency tree...\nReading state information...\n",
    "$ sudo ln -s libcudart.so.11.2.152 /usr/local/lib/libcudart.so.11.0\n",
    "Hit:1 https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2004/x86_64 InRelease\n",
)
