"""Generates Ansible projects that turn bare hosts into proven GPU machines."""

__version__ = "0.1.0"
