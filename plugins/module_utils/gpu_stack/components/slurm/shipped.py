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
        "92f3d49e2be43f4a361bd4b0075b934e2a3a71bef7a1712f00c61e891a8e20dd",
    ),
    "/usr/local/lib/gpu-slurm/program/gpus.py": (
        0o644,
        "83ba945cf8c449b26fdc165f788ba39868d13274836ecd1916cf4f3d3d2e221e",
    ),
    "/usr/local/lib/gpu-slurm/program/health.py": (
        0o644,
        "7aa4aaf22f4ff21f4adef0bd7d19a1448621cab1adc0b9a953ae995fc8d3cbb9",
    ),
    "/usr/local/lib/gpu-slurm/program/job.py": (
        0o644,
        "396519bc3a2a8acc5c3afe4b733f6012786760d45f28ccc853195dd96944e8f8",
    ),
    "/usr/local/lib/gpu-slurm/program/jobs_devices.py": (
        0o644,
        "700db4322b4a15fb56d3e0d1b41d6a706eeaf59736320825c5534dfe5cc72f38",
    ),
    "/usr/local/lib/gpu-slurm/program/node.py": (
        0o644,
        "35d02d865ed35fff4004b725ba7482a4f66f952c841dc670ccd7f963a07656b8",
    ),
    "/usr/local/lib/gpu-slurm/program/programs.py": (
        0o644,
        "8b8ff0d1b7b4f9b299efa4c9fedba8bd5ce967f2da68e34fe8bf25ce48a72df4",
    ),
    "/usr/local/lib/gpu-slurm/program/words.py": (
        0o644,
        "079bee045b0e6c4b50fa80f8a2eb702b6478f60bd816db3ed4901af9dc2e77d3",
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
