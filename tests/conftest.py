"""What holds for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Tests never assert times: on a loaded machine a slow example is not a wrong one.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")
