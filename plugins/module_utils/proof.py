"""The proof at the end of a run: what the programs say that people will start.

The second look has compared files, links and versions with the lock. Here the driver, CUDA's
compiler and TensorFlow are started and asked: a stack can be complete and still not work, with a
kernel module of another version or a library of somebody else's before ours.

A question is a pure pair: what to run, and what its answer must say.
"""

from __future__ import annotations

import json
import os

# mypy reads gpu_stack as a package of its own.
from .gpu_stack.host.context import Result, run_program  # type: ignore[import-not-found]
from .gpu_stack.host.refusal import RefusalError  # type: ignore[import-not-found]

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any, Callable

# Seconds. A sick GPU driver holds whoever asks it; work on eight large GPUs may take long.
PATIENCE = 600
COMPUTE_PATIENCE = 3600

SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")

DEVICES = """\
import json
import tensorflow as tf
build = tf.sysconfig.get_build_info()
print(json.dumps({
    "version": tf.__version__,
    "cuda": tf.test.is_built_with_cuda(),
    "built_with": {k: str(build.get(k)) for k in ("cuda_version", "cudnn_version")},
    "gpus": len(tf.config.list_physical_devices("GPU")),
}))
"""

# Whole numbers: the CPU's answer is the right one on every GPU.
COMPUTE = """\
import numpy as np
import tensorflow as tf
x = (np.arange(4096) % 7).astype("float32").reshape(64, 64)
image, kernel = x.reshape(1, 64, 64, 1), np.ones((3, 3, 1, 1), dtype="float32")
for device in tf.config.list_logical_devices("GPU"):
    with tf.device(device.name):
        product = tf.linalg.matmul(x, x) + 1.0
        blurred = tf.nn.conv2d(image, kernel, 1, "VALID")
    assert "GPU" in product.device, "it ran on %s" % product.device
    assert abs(product.numpy() - (x @ x + 1)).max() < 0.5, "a wrong product on %s" % device.name
    assert abs(blurred.numpy()[0, 0, 0, 0] - x[:3, :3].sum()) < 0.5, "wrong on %s" % device.name
"""

FIT = """\
import numpy as np
import tensorflow as tf
x = np.linspace(0, 1, 64, dtype="float32").reshape(-1, 1)
model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
model.compile(optimizer="sgd", loss="mse")
loss = model.fit(x, 2 * x + 1, epochs=5, verbose=0).history["loss"]
assert loss[-1] < loss[0], "the loss did not fall: %r" % loss
"""

# What TensorFlow says where others use the GPU's memory.
MEMORY_IN_USE = ("OUT_OF_MEMORY", "ResourceExhausted", "out of memory")


class Proof:
    """What is asked of one host, and its answers.

    stack:           its stack's row of the lock.
    left_out:        components that the run's tags leave out, or that are set to absent.
    gpus:            how many usable GPUs the look has seen.
    simulated_gpu:   a simulated GPU computes nothing, and is not asked to.
    options:         cuda_profile, tensorflow_root and gpu_env_xla_cuda_data_dir of the host.
    """

    def __init__(
        self,
        stack: dict[str, Any],
        left_out: list[str],
        gpus: int,
        simulated_gpu: bool,
        options: dict[str, Any],
        runner: Callable[..., Result] = run_program,
    ) -> None:
        self.stack = stack
        self.left_out = set(left_out)
        self.gpus = gpus
        self.simulated_gpu = simulated_gpu
        self.options = options
        self.runner = runner
        self.asked: list[str] = []

    def fault(self) -> str | None:
        """The first wrong answer as a message; None where all are right."""
        questions = (self._driver, self._compiler, self._devices, self._compute, self._fit)
        for question in questions:
            message = question()
            if message:
                return message
        return None

    def _selected(self, *components: str) -> bool:
        return not self.left_out & set(components)

    def _run(self, argv: list[str], patience: float = PATIENCE, **variables: str) -> Result:
        path = os.pathsep.join([*self.stack["gpu_env"]["path"], *SYSTEM_PATH])
        environment = dict(os.environ, PATH=path, **variables)
        self.asked.append(os.path.basename(argv[0]))
        return self.runner(argv, patience=patience, environment=environment)

    def _tensorflow(self, program: str, patience: float = PATIENCE, **variables: str) -> Result:
        # -I: without it Python imports from the directory it was started in.
        python = self.options["tensorflow_root"] + "/current/bin/python"
        return self._run([python, "-I", "-c", program], patience, **variables)

    def _xla(self) -> dict[str, str]:
        """Where XLA finds libdevice; of CUDA in wheels it knows by itself."""
        directory = (
            self.options["gpu_env_xla_cuda_data_dir"] or self.stack["gpu_env"]["xla_cuda_data_dir"]
        )
        return {"XLA_FLAGS": "--xla_gpu_cuda_data_dir=" + directory} if directory else {}

    def _driver(self) -> str | None:
        if not self.gpus or not self._selected("nvidia_driver"):
            return None
        query = ["nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader"]
        answer = self._run(query)
        wanted = self.stack["nvidia_driver"]["version"]
        versions = {line.split(",")[0] for line in answer.out.splitlines()}
        if answer.rc == 0 and versions == {wanted}:
            return None
        return f"nvidia-smi should name driver {wanted} for {self.gpus} GPUs. {said(answer)}"

    def _compiler(self) -> str | None:
        wished = "cuda" in self.stack and self.options["cuda_profile"] == "toolkit"
        if not wished or not self._selected("cuda"):
            return None
        answer = self._run(["nvcc", "--version"])
        release = self.stack["cuda"]["release"]
        if answer.rc == 0 and f"release {release}," in answer.out:
            return None
        return f"nvcc --version should say release {release}. {said(answer)}"

    def _devices(self) -> str | None:
        if not self._selected("nvidia_driver", "cuda", "cudnn", "tensorflow"):
            return None
        answer = self._tensorflow(DEVICES, PATIENCE, **self._xla())
        wanted = {"version": self.stack["tensorflow"]["version"], "cuda": True}
        seen = devices(answer)
        if seen == dict(wanted, gpus=self.gpus):
            return None
        mig = self._mig()
        if mig and seen and seen["gpus"] and seen == dict(wanted, gpus=seen["gpus"]):
            return None
        number = "at least one GPU (MIG is on)" if mig else f"{self.gpus} GPUs"
        name = f"TensorFlow {wanted['version']}, built with CUDA,"
        return f"{name} should list {number}. {said(answer, 12)}"

    def _mig(self) -> bool:
        """Whether a GPU is in MIG mode: then CUDA counts other devices than there are GPUs.

        "CUDA can only enumerate a single compute instance", from R570 on one of each GPU instance:
        https://docs.nvidia.com/datacenter/tesla/mig-user-guide/mig-device-names.html
        """
        if not self.gpus:
            return False
        query = ["nvidia-smi", "--query-gpu=mig.mode.current", "--format=csv,noheader"]
        answer = self._run(query)
        return answer.rc == 0 and "Enabled" in answer.out.split()

    def _compute(self) -> str | None:
        asked = self.gpus and not self.simulated_gpu
        if not asked or not self._selected("nvidia_driver", "cuda", "cudnn", "tensorflow"):
            return None
        answer = self._tensorflow(COMPUTE, COMPUTE_PATIENCE, **self._xla())
        # Others use the GPU's memory: that shows nothing, and `verify` says so.
        if answer.rc == 0 or any(words in answer.err for words in MEMORY_IN_USE):
            return None
        return (
            "TensorFlow lists the GPUs, and a matrix product and a convolution on each failed. "
            + said(answer, 12)
        )

    def _fit(self) -> str | None:
        if not self._selected("tensorflow"):
            return None
        answer = self._tensorflow(FIT, CUDA_VISIBLE_DEVICES="-1")
        if answer.rc == 0:
            return None
        return "A five-epoch Keras fit on the CPU failed. " + said(answer, 8)


def devices(answer: Result) -> dict[str, Any] | None:
    """Version, CUDA and number of GPUs that TensorFlow has printed; None where it has not."""
    lines = answer.out.splitlines()
    if answer.rc != 0 or not lines:
        return None
    try:
        facts = json.loads(lines[-1])
        return {name: facts[name] for name in ("version", "cuda", "gpus")}
    except (ValueError, KeyError, TypeError):  # something else was printed last
        return None


def said(answer: Result, lines: int | None = None) -> str:
    """The exit code and what the program wrote, of its errors the last lines only."""
    errors = answer.err.splitlines()
    words = [answer.out.strip(), " / ".join(errors[-lines:] if lines else errors)]
    return f"It said (exit {answer.rc}): {' '.join(word for word in words if word)}"


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:  # noqa: ARG001
    """The result of the module `gpu_proof`; RefusalError for the first wrong answer."""
    proof = Proof(**params)
    fault = proof.fault()
    if fault:
        raise RefusalError(fault, asked=proof.asked)
    return {"changed": False, "asked": proof.asked}
