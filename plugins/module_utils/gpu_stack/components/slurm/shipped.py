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
        "857429c0d95a8bbfe12807d52219b5cc96286e09588bbc4adea6ebfe07faa2f8",
    ),
    "/usr/local/lib/gpu-slurm/program/gpus.py": (
        0o644,
        "54b85ccf7597546528ac52bbd561e836e3b884711222b6d41e78ad8d3adf0b9e",
    ),
    "/usr/local/lib/gpu-slurm/program/health.py": (
        0o644,
        "a20f4a8985c243da9b4846f1171b1878189fbf942ddd4e60919da453f1638157",
    ),
    "/usr/local/lib/gpu-slurm/program/job.py": (
        0o644,
        "dd2978c54d339444319ffce7dc8431842e78ce353fcda2049f2109d5803103bb",
    ),
    "/usr/local/lib/gpu-slurm/program/node.py": (
        0o644,
        "1484c117208ae9bd361ee9716417fab8776c921a3d9689f99bd71f9c4137e36f",
    ),
    "/usr/local/lib/gpu-slurm/program/programs.py": (
        0o644,
        "e5da892e3eb2db8491030501e718e2a3b4403d46a393aa643be8ec58e3c621fe",
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
