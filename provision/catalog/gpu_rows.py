"""The rows of the catalog that an acceptance judges GPUs by."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from provision.catalog.rows import Row

Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(gt=0)]


def product(name: str) -> str:
    """A name of NVML's as all drivers say it; hosts have the same in acceptance/figures.py."""
    words = name.split()
    return " ".join(words[1:] if words[:1] == ["NVIDIA"] else words)


class GpuFigureRow(Row):
    """What the GPUs of one product name are, as published; None: no source says it.

    Where one name is several cards, rates and power are of the least of them.
    """

    name: str
    """As nvmlDeviceGetName returns it; `aliases` are what other drivers said."""
    aliases: list[str] = Field(default_factory=list)
    pcie_generation: Annotated[int, Field(ge=1, le=6)] | None = None
    pcie_width: Literal[1, 2, 4, 8, 16] | None = None
    """Lanes of the card; its slot may have fewer."""
    fp32_tflops: Rate | None = None
    """Peak FP32 without tensor cores, in 10^12 operations a second at the boost clock."""
    fp16_tensor_tflops: Rate | None = None
    """Peak FP16 of dense matrices, accumulated in FP32, in 10^12 operations a second."""
    memory_gb_per_s: Rate | None = None
    """Peak bandwidth of the GPU's memory, in 10^9 bytes a second."""
    memory_mib: Count | None = None
    """Nominal, in MiB; NVML reports up to 7 % less, which ECC and the driver take."""
    ecc: bool | None = None
    """Whether its memory can have ECC."""
    row_remapping: bool | None = None
    nvlink_links: Annotated[int, Field(ge=0)] | None = None
    """Links that its board wires; None on a card, where they need a bridge."""
    mig: bool | None = None
    power_limit_w: Rate | None = None
    """The default limit, in watts."""

    @property
    def products(self) -> list[str]:
        """Its names as `product` says them."""
        return [product(name) for name in (self.name, *self.aliases)]


class XidVerdict(BaseModel):
    """What an Xid says about the card, and what is to be done about it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    severity: Literal["failed", "degraded", "user"]
    action: Literal["nothing", "watch", "reset", "reboot", "reseat", "service"]


class XidSays(XidVerdict):
    """The verdict where the driver's message has these words."""

    words: str


class XidRepeats(XidVerdict):
    """The verdict where an Xid that programs cause comes again and again on one part of a card."""

    where: Literal["card", "TPC"]
    """The part: the card, or one of its TPCs, which the driver's message names."""
    times: Annotated[int, Field(ge=2)]
    """From how many incidents on; an incident may be many messages."""


class XidRow(Row, XidVerdict):
    """An Xid error: NVIDIA's name for it, and its verdict where no words of `says` are heard."""

    number: int
    name: str
    note: str = ""
    says: list[XidSays] = []
    repeats: XidRepeats | None = None
