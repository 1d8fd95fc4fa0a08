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
        "b54bd50221c872909fa4b35daee935c929b2cd8b2afe038ca383178bbdda86f6",
    ),
    "/usr/local/lib/gpu-workspace/program/command_line.py": (
        0o644,
        "a601f03db36db93deb4fa3fd1eeb0938cab891bb60bb91caac0ea494e8f6cc16",
    ),
    "/usr/local/lib/gpu-workspace/program/compose.py": (
        0o644,
        "ebf53c624deeab34af62ed612c001fccfb5e960f2d35679dfaeaa284f35d858f",
    ),
    "/usr/local/lib/gpu-workspace/program/containers.py": (
        0o644,
        "ca76250c7dd0a5deadf2f80b2da007c82131e139b2085f6063bea1a1d7c7d174",
    ),
    "/usr/local/lib/gpu-workspace/program/docker.py": (
        0o644,
        "e08d7fd0f0199b41a82a27adcaaec7ef9bd0b833f7deedfcfdd6e678a47dd18f",
    ),
    "/usr/local/lib/gpu-workspace/program/docker_words.py": (
        0o644,
        "06e795db016549794c2f0604a610fd6fa27b021edcaf5dc7f55fd8e01d996bd7",
    ),
    "/usr/local/lib/gpu-workspace/program/files.py": (
        0o644,
        "5daba48421941880507709bdc0b8f7568d36329e5291e3fc8fb39601110a5053",
    ),
    "/usr/local/lib/gpu-workspace/program/handed_gpus.py": (
        0o644,
        "20c27cfd14434677f2758c247a8336422cce359e317af5e6bad8d59a2d95f775",
    ),
    "/usr/local/lib/gpu-workspace/program/listing.py": (
        0o644,
        "67331cc8583be9e5de81d1892d3db3f179c08c9abc21bcbca61a268b4b719e5b",
    ),
    "/usr/local/lib/gpu-workspace/program/people_list.py": (
        0o644,
        "e157269b722a578f44d895a5297fce06361d04809bf4e0541af1cc02068ff50a",
    ),
    "/usr/local/lib/gpu-workspace/program/places.py": (
        0o644,
        "5c475a47c644cd8522a992ac6d19b26bc8cfb586dd166dba7fd206092198d1e7",
    ),
    "/usr/local/lib/gpu-workspace/program/programs.py": (
        0o644,
        "ed52bb3b5b5b6b731bff82bf3ef89321b5a18806838336438c3844b0f8f0f239",
    ),
    "/usr/local/lib/gpu-workspace/program/relay.py": (
        0o644,
        "41a3e84dfbb30ff5b42deedaccd1d0609667b99d132fdbc6fe6e6506030d6eb4",
    ),
    "/usr/local/lib/gpu-workspace/program/settings.py": (
        0o644,
        "7a25094336dfc310150fd6339dfb8676336022620e6e777b5b88d65f22903c96",
    ),
    "/usr/local/lib/gpu-workspace/program/traits.py": (
        0o644,
        "b109a76182f47085573edf1ac4a3185e56c31f8eb4c598782adeb0a521222fc2",
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
