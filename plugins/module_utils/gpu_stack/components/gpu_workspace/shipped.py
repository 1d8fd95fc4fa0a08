"""What the role gpu_workspace installs as it is. Rendered by `provision roles sync`; edit the
files themselves.
"""

# The folder from which the program takes the package `program`.
LIBRARY = "/usr/local/lib/gpu-workspace"
# {path: (mode, SHA-256)}; each is root's.
FILES = {
    "/usr/local/lib/gpu-workspace/program/__init__.py": (
        0o644,
        "f0700a9621fffff976fb82c66457b72486eb8d53930b8f002b39509acdf2a715",
    ),
    "/usr/local/lib/gpu-workspace/program/command.py": (
        0o644,
        "a3a2a9135f0bdd45f100598852db6ae83486ce509ae6ef14222a6b9f766791c8",
    ),
    "/usr/local/lib/gpu-workspace/program/command_line.py": (
        0o644,
        "787eebfc528b361fd9517cd39bae339195ef91955f5b20aad530b57af708ea1e",
    ),
    "/usr/local/lib/gpu-workspace/program/compose.py": (
        0o644,
        "58dba55d112818689f2ccc3f28561fd6116707dc3c60f0c773ea80f6abd64e9b",
    ),
    "/usr/local/lib/gpu-workspace/program/containers.py": (
        0o644,
        "6a75b2e203ffb65789a3928981e883b43065f4791ca3acdeaa8688e926a4018d",
    ),
    "/usr/local/lib/gpu-workspace/program/docker.py": (
        0o644,
        "a862e5bf9acc272305f2a2d6fb4014d5d7c381fe0e54c3368ea38906eb5148a8",
    ),
    "/usr/local/lib/gpu-workspace/program/docker_words.py": (
        0o644,
        "2b5b38a0073dabdd9b9218c36dfe40dcbc5160e0d49d663524fbd8e25f57cb4c",
    ),
    "/usr/local/lib/gpu-workspace/program/files.py": (
        0o644,
        "f3bd489ecd2d5e5de123b71c38c31f82477c4a7c343043b05bed4a58573b1aa9",
    ),
    "/usr/local/lib/gpu-workspace/program/handed_gpus.py": (
        0o644,
        "fa708dc6234952be0b98bb548ef96cd2321e464df4c06e681a4326b89e5de3bf",
    ),
    "/usr/local/lib/gpu-workspace/program/listing.py": (
        0o644,
        "7bd6f29669e8d477244f1e5ab6fcd528123850a969d3c32be98d32889acdbf36",
    ),
    "/usr/local/lib/gpu-workspace/program/people_list.py": (
        0o644,
        "bc485338085bca7c8e078731ec68991ec670e03f1b3544874b9e0459f5cbc74b",
    ),
    "/usr/local/lib/gpu-workspace/program/places.py": (
        0o644,
        "12ed06170e1f611de02a654e17845b1e8e794636e587a7be71054f660286b823",
    ),
    "/usr/local/lib/gpu-workspace/program/programs.py": (
        0o644,
        "b388907e1c268188eb677784a0e507f2dfd0fc576d05a33a5570c69dac340133",
    ),
    "/usr/local/lib/gpu-workspace/program/relay.py": (
        0o644,
        "fb33a8966c7eab06c363d5171bbe252bed1cf598a821a4c6509bf19ba5588aeb",
    ),
    "/usr/local/lib/gpu-workspace/program/settings.py": (
        0o644,
        "e2cd994063ab8ab6cc851a2a400f45455cf4edb45e42df90c752e90fb684538e",
    ),
    "/usr/local/lib/gpu-workspace/program/traits.py": (
        0o644,
        "5c8823afa1ac663b76ec77f26516f2bf2f35262033acdc355ad568aa4f19f5ca",
    ),
    "/usr/local/sbin/gpu-workspace": (
        0o755,
        "f50cbcda713da041a03d661ba889c4fd6bca32f885d35b61187c4019c9007f14",
    ),
    "/etc/systemd/system/gpu-workspace-port@.service": (
        0o644,
        "3bf83b26f2ce4da4b66b58883d6cdcad2fda851e5ec5f7fa9c7c729aa65bd0e3",
    ),
    "/etc/systemd/system/gpu-workspace-port@.socket": (
        0o644,
        "e143b3d481d935de11fb72f9a6e34141334d91e8601119f9a0245d6074c48a6e",
    ),
    "/etc/systemd/system/gpu-workspace@.service": (
        0o644,
        "2f1d62b1215ca4f1f229db243ca9286b85bfa08ca0f57f9ceb3c3d25606aaf10",
    ),
}
# SHA-256 of the Containerfile.
RECIPE = "74c81a01d07c0e92dc35f53c914394ee11a2bf09ca808dd8ad23a35986948768"
