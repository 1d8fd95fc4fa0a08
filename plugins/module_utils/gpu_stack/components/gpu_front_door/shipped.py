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
        "aa244f65539f1c73bed3528f0be4d4279f625fab1aad31ea28b91c8339877d2a",
    ),
    "/usr/local/lib/gpu-front-door/renewal/certificates.py": (
        0o644,
        "02094b9c40602d22487d3b292ce3a6a9182bc522216a9090a14682d7629e250b",
    ),
    "/usr/local/lib/gpu-front-door/renewal/files.py": (
        0o644,
        "ef33903e3bdb875e72511006561effea427ed25b95090486837e3dde5021aeab",
    ),
    "/usr/local/lib/gpu-front-door/renewal/nginx.py": (
        0o644,
        "704e5b9b43c558baadfbaac7e7042b15caeac7097b40ef611cd2ab519e4d8a4e",
    ),
    "/usr/local/lib/gpu-front-door/renewal/noted.py": (
        0o644,
        "2ba61a57bc5a8df6ebe84466d1fc905508de6df9b65d18eef7d7dac01c1cd406",
    ),
    "/usr/local/lib/gpu-front-door/renewal/paths.py": (
        0o644,
        "f40be3b27b85466611930786eb5aafd529291e68b8682d5ce2eb4e433b84972f",
    ),
    "/usr/local/lib/gpu-front-door/renewal/program.py": (
        0o644,
        "89184689ff566511f6df40c4728a5c6b9d5f062b13c586307c1b5387d3c57410",
    ),
    "/usr/local/lib/gpu-front-door/renewal/programs.py": (
        0o644,
        "89f06800d6b966f67d13ba3081ad16899f040c33e56129d143fcdcf6ab69d38b",
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
