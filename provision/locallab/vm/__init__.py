"""Lab hosts as virtual machines: what a container can't show of a driver's life.

A real kernel, a real boot loader, a real reboot, Secure Boot, a power cut that loses what was not
synced. qemu runs them as the user, under emulation where hardware acceleration is missing.
"""

from __future__ import annotations

from provision.locallab.vm.guest import ADDRESS, Guest, Virtual, end_orphans, guests

__all__ = ["ADDRESS", "Guest", "Virtual", "end_orphans", "guests"]
