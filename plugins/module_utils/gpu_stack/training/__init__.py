"""Training across hosts: what is looked at before it, how it is started, read and stopped."""
