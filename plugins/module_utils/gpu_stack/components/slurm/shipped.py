"""What the role slurm installs as it is. Rendered by `provision roles sync`; edit the
files themselves.
"""

# The folder from which the program takes the package `program`.
LIBRARY = "/usr/local/lib/gpu-slurm"
# {path: (mode, SHA-256)}; each is root's.
FILES = {
    "/usr/local/lib/gpu-slurm/program/__init__.py": (
        0o644,
        "0f5079f3410a70d17ae202f811e898703ef6721dca5b579a67ae98a2c06be7d5",
    ),
    "/usr/local/lib/gpu-slurm/program/command_line.py": (
        0o644,
        "378c215d00d245219d1d2a44d1f5459f4fd5c44094cdd0c2809bf5e65132724d",
    ),
    "/usr/local/lib/gpu-slurm/program/gpus.py": (
        0o644,
        "9e14209180774452c67376670f154ae43450f31ddbe1d97a7dc642401698e2e9",
    ),
    "/usr/local/lib/gpu-slurm/program/health.py": (
        0o644,
        "3845e57d21705e7216a2a43b087afa1d8f4dba281ec20a6a677de8ff7c62212b",
    ),
    "/usr/local/lib/gpu-slurm/program/job.py": (
        0o644,
        "e1fafaf3bbc2831fe2822303265c1cb91514a24ecf96cfec01c6af68d1cd5956",
    ),
    "/usr/local/lib/gpu-slurm/program/node.py": (
        0o644,
        "bd52df5a54e35a70bc248e82f41516e066b731b9d9eddf7bb2818fa399a29e1d",
    ),
    "/usr/local/lib/gpu-slurm/program/programs.py": (
        0o644,
        "d831a2e0c68a191531c1070ddb1e43ee9836ec12c67e0a6fbeecf28ef1b10ef3",
    ),
    "/usr/local/lib/gpu-slurm/program/words.py": (
        0o644,
        "22d79c32d4539803d672116e31c7a73f126cdf6b60ba5369dc3f4ce0e587a5f1",
    ),
    "/usr/local/sbin/gpu-slurm-epilog": (
        0o755,
        "4be6196711684d16a1d911cb97a33c3dfadae78ce948beef5bbbe1e1850c7d86",
    ),
    "/usr/local/sbin/gpu-slurm-health": (
        0o755,
        "8e05aa6b464e7e6d3f381dbb75a0ce5ca12714103b9b2232d9e0a22ed0bcbbfa",
    ),
    "/usr/local/sbin/gpu-slurm-prolog": (
        0o755,
        "868c1f25ce19e6151499ae12699bff407ad70da53d2d12e267db56031b07e80e",
    ),
}
