"""YAML by libyaml, where PyYAML was built with it: a tenth of the time, and the same bytes."""

from __future__ import annotations

try:
    from yaml import CSafeDumper as Dumper
    from yaml import CSafeLoader as Loader
except ImportError:
    from yaml import SafeDumper as Dumper  # type: ignore[assignment]
    from yaml import SafeLoader as Loader  # type: ignore[assignment]

__all__ = ["Dumper", "Loader"]
