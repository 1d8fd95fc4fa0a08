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
        "ee580552da8751ba59c36e50225b647a910e658ba79081a08907ca4564f04b08",
    ),
    "/usr/local/lib/gpu-workspace/program/command_line.py": (
        0o644,
        "55436bcc92fb6661b25fca3807bfbac6fc5ee6831405b04e7fa4eaedbd9388b8",
    ),
    "/usr/local/lib/gpu-workspace/program/compose.py": (
        0o644,
        "f7b9ec962d608c51be48219489791204afd64f0e4cc5a5653a2fe4f4a83b55ab",
    ),
    "/usr/local/lib/gpu-workspace/program/containers.py": (
        0o644,
        "fcb0c7d62f5142ac803d92359984fea6b955d8ac9f8fbddf0a298b789bf1b192",
    ),
    "/usr/local/lib/gpu-workspace/program/docker.py": (
        0o644,
        "c9415931ef23b5fdd9b3f7847f397f65c6785c7cc8d054811ccc6e0bb016232d",
    ),
    "/usr/local/lib/gpu-workspace/program/docker_words.py": (
        0o644,
        "df30a231ef8cfb8152f11a3cf4bf28d8e3557dd9d08fb2019f7cdb84a0f9a974",
    ),
    "/usr/local/lib/gpu-workspace/program/files.py": (
        0o644,
        "f3bd489ecd2d5e5de123b71c38c31f82477c4a7c343043b05bed4a58573b1aa9",
    ),
    "/usr/local/lib/gpu-workspace/program/handed_gpus.py": (
        0o644,
        "e7e87fa8cd47daa0407cf68dfe72e6ae62f8ae4a155becb80de13d0500865be8",
    ),
    "/usr/local/lib/gpu-workspace/program/listing.py": (
        0o644,
        "3bb946d5f303377756625f8782903b22fdcf6c9c961f4304f96530b776b8c03d",
    ),
    "/usr/local/lib/gpu-workspace/program/people_list.py": (
        0o644,
        "450dd9226a13657cc89d176e49ad3ab3826812e5ec15119c7938f8d44264b49a",
    ),
    "/usr/local/lib/gpu-workspace/program/places.py": (
        0o644,
        "122b48e42adeb255b67369679fa220a169a5db9848e45c445486508e42ad7f92",
    ),
    "/usr/local/lib/gpu-workspace/program/programs.py": (
        0o644,
        "d17901207c103f6d33fe3567d37bace7f4df478029b6ce63cd8f9347570677f1",
    ),
    "/usr/local/lib/gpu-workspace/program/relay.py": (
        0o644,
        "1f351c4548aef13cc21b5396d61cd51505e195afc7b430c72b425af44816de0a",
    ),
    "/usr/local/lib/gpu-workspace/program/settings.py": (
        0o644,
        "0ebd752e6aa7888b9394a138fa3aa0c6f7e1dde40c6a8cf0ff14553122100150",
    ),
    "/usr/local/lib/gpu-workspace/program/traits.py": (
        0o644,
        "1f76aca06d59ad1344175e1f983099851d4f93e5680a037eb4378699f27481ef",
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
