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
        "7f6bc942c28775822b81e89aae2f40e65560ebc13f1d4be98e024661a4e5a4cb",
    ),
    "/usr/local/lib/gpu-front-door/renewal/files.py": (
        0o644,
        "aa856a80e6158582e193240d593a8126a0bd1ed469b2bbc06113978785d54d2c",
    ),
    "/usr/local/lib/gpu-front-door/renewal/lock.py": (
        0o644,
        "9a9b0f153d9f68e3a78eb680fac950289cfad4155c58af1aea420b2a8bf5681d",
    ),
    "/usr/local/lib/gpu-front-door/renewal/nginx.py": (
        0o644,
        "45c30ea387c9fecb63abdd1046676c0066dd58df44c5e1922751b7ba00d9c367",
    ),
    "/usr/local/lib/gpu-front-door/renewal/noted.py": (
        0o644,
        "47040b82f8982875aca1a59788254ad08f356d0716d46611fcf2433a85f8b732",
    ),
    "/usr/local/lib/gpu-front-door/renewal/paths.py": (
        0o644,
        "90452936f25250860d7aa82cebac20785fb26f4d16dd6e21664870c1f6da1c65",
    ),
    "/usr/local/lib/gpu-front-door/renewal/program.py": (
        0o644,
        "fb1bc96770415cac2f1f41dc0e55cd360fdb66a2b81092d076148ee8421eb49b",
    ),
    "/usr/local/lib/gpu-front-door/renewal/programs.py": (
        0o644,
        "5a40e9a3e02a501f6894d33abce6bb50b944f72087f2eaaf15479cca18f371b6",
    ),
    "/usr/local/lib/gpu-front-door/renewal/state.py": (
        0o644,
        "6e37379c69d9f05e9db9df3a66bd762915b08e989b520bb8eae8fe676fcb7476",
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
