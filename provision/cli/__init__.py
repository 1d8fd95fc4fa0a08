"""The command line: the only place that prints, prompts and exits."""

from provision.cli.program import app, main

__all__ = ["app", "main"]
