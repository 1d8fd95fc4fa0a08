"""The memory and the work of one GPU by the driver's NVML, which sees what TensorFlow does not say.

NVML's names are those of nvml.h: https://docs.nvidia.com/deploy/nvml-api/
"""

from __future__ import annotations

import contextlib
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
    """Asks how busy cards are while its `with` block runs: four times a second, or more seldom.

    samples: of each card, (seconds since it began, per cent).
    """

    OFTEN = 0.25
    # Samples of one card, whatever the time: they are thinned to a line of a page afterwards.
    MOST = 240

    def __init__(self, cards: list[Card], seconds: float = 0) -> None:
        """`seconds`: how long it will take."""
        self.samples: list[list[tuple[float, int]]] = [[] for _turn in cards]
        self._cards = cards
        self._pause = max(self.OFTEN, seconds / self.MOST)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def _ask(self) -> None:
        began = time.perf_counter()
        # A card that does not answer ends it: what was sampled stays.
        with contextlib.suppress(RuntimeError):
            while not self._over.is_set():
                for number, card in enumerate(self._cards):
                    percent = card.busy()
                    moment = round(time.perf_counter() - began, 2)
                    self.samples[number].append((moment, percent))
                self._over.wait(self._pause)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join(10)


def share(samples: list[tuple[float, int]]) -> float | None:
    """In how many of a card's samples it worked; None without any."""
    # The first second's are of before, in part.
    later = [percent for _moment, percent in samples[4:]]
    return sum(map(bool, later)) / len(later) if later else None
