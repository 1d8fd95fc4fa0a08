"""What the role gpu_front_door installs as it is. Rendered by `provision roles sync`; edit the
files themselves.
"""

# The folder from which the program takes the package `renewal`.
LIBRARY = "/usr/local/lib/gpu-front-door"
# {path: (mode, SHA-256)}; each is root's.
FILES = {
    "/usr/local/lib/gpu-front-door/renewal/__init__.py": (
        0o644,
        "546074643744bf66b2e39e9cc0ae0e85775b2c03f2c7253f5736ed3af136009e",
    ),
    "/usr/local/lib/gpu-front-door/renewal/authority.py": (
        0o644,
        "301d7e9904b4e7340a8d89a744c11e757d04c4cfc586c0ca36d5da4333b17fc8",
    ),
    "/usr/local/lib/gpu-front-door/renewal/certificates.py": (
        0o644,
        "8acae2dcc0f846194d5a18e641358ccfeb4c3f0d9a6d5abf03e4431d6d9deb26",
    ),
    "/usr/local/lib/gpu-front-door/renewal/files.py": (
        0o644,
        "aa856a80e6158582e193240d593a8126a0bd1ed469b2bbc06113978785d54d2c",
    ),
    "/usr/local/lib/gpu-front-door/renewal/nginx.py": (
        0o644,
        "113ba39d31998b9c230c0b43315a7524d871af910b9cc70dc72d84050305b118",
    ),
    "/usr/local/lib/gpu-front-door/renewal/noted.py": (
        0o644,
        "155343b137564861b20df9d623fb7a939f888e453555a151e5d9e681f7565ae4",
    ),
    "/usr/local/lib/gpu-front-door/renewal/paths.py": (
        0o644,
        "b020e7c1cc529c33f7726b69cc6be09bb0c80bf49f776b573f2b1cf1d7e43832",
    ),
    "/usr/local/lib/gpu-front-door/renewal/program.py": (
        0o644,
        "a90c58b191ba735f64e4b7901aac802fa3139992d811fd4014cefb87250daba3",
    ),
    "/usr/local/lib/gpu-front-door/renewal/programs.py": (
        0o644,
        "de44b258d4a204b23bc4fc2cf15eb84fadaa3fc6ca90f5dfe5616ea8b4c84538",
    ),
    "/usr/local/sbin/gpu-front-door": (
        0o755,
        "35f355446b58ea918a06c69d482053e1854332204d953df689784e4ee5a54198",
    ),
    "/etc/systemd/system/gpu-front-door.service": (
        0o644,
        "9c7904d2a26ad1e2e15ec8a16c97cff74e5c1f15bbb6f6f43fe83864e67b1df5",
    ),
    "/etc/systemd/system/gpu-front-door.timer": (
        0o644,
        "6440f38a16b45b21335db3d16ee1f840f923544373c2c9f35f09ba96061ef12f",
    ),
}
