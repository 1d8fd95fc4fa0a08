"""The memory and the work of one GPU by the driver's NVML, which sees what TensorFlow does not say.

NVML's names are those of nvml.h: https://docs.nvidia.com/deploy/nvml-api/
"""

from __future__ import annotations

import ctypes
import threading
import time


class Card:
    """A GPU by its UUID. Raises OSError without NVML, RuntimeError where it does not answer."""

    def __init__(self, uuid: str) -> None:
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.handle = ctypes.c_void_p()
        self._call("nvmlInit_v2")
        self._call("nvmlDeviceGetHandleByUUID", uuid.encode("ascii"), ctypes.byref(self.handle))

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self.library, name)(*arguments)
        if code:
            raise RuntimeError("{0}: error {1}".format(name, code))

    def used(self) -> int:
        """Bytes of its memory that are taken, by whomever."""
        return self._memory()[2]

    def free(self) -> int:
        """Bytes of its memory that nobody has."""
        return self._memory()[1]

    def _memory(self) -> tuple[int, int, int]:
        """(total, free, used), as nvmlMemory_t has them."""
        memory = (ctypes.c_ulonglong * 3)()
        self._call("nvmlDeviceGetMemoryInfo", self.handle, memory)
        return memory[0], memory[1], memory[2]

    def busy(self) -> int:
        """Per cent of the last sample's time, up to a second, in which a kernel ran on it."""
        rates = (ctypes.c_uint * 2)()
        self._call("nvmlDeviceGetUtilizationRates", self.handle, rates)
        return int(rates[0])


class Sampler:
    """Asks how busy cards are, four times a second, while its `with` block runs."""

    def __init__(self, cards: list[Card]) -> None:
        self.samples: list[list[int]] = [[] for _turn in cards]
        self._cards = cards
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def _ask(self) -> None:
        while not self._over.is_set():
            for number, card in enumerate(self._cards):
                self.samples[number].append(card.busy())
            time.sleep(0.25)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join(10)
