"""What stays on a host with a front door: systemd's timer and certbot's hook renew with it.

This folder is copied to /usr/local/lib/gpu-front-door as it is. Its modules import one another and
the standard library, of Python 3.7, and nothing else.
"""
