"""The program /usr/local/sbin/gpu-workspace, which systemd's units and people call on a host.

What a person gets stands in /etc/gpu-workspace/NAME/workspace.json, and systemd's unit
gpu-workspace@NAME runs this program, which makes docker's command of it. The token lies beside it,
is mounted into the container and read there from its file: in no command line, no environment and
no answer of docker's. A password for SSH is a hash in a file of root's, and comes only from who
wished for one. Nobody's home is ever removed from here.

A change of one person gives that one a new revision, which the container carries as a label: what
runs and what is wished are told apart by it, and no other container is touched.

These modules lie on the host as they are here, in a folder of their own: they import each other and
the standard library, of Python 3.7.
"""
