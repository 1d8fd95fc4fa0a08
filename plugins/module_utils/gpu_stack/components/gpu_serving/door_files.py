"""What the front door's nginx reads of the served models: who has which token, and the ways.

Both are included by the door's site, which names no model: a model comes, changes and goes without
the door. The one with tokens is root's alone; nginx's workers never open it.
"""

from __future__ import annotations

import re

from . import places

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any

# Its value says whether a request has the model's token. A regular expression, for nginx compares
# plain words without regard to case.
BEARER = """\
map $http_authorization ${variable} {{
    default 0;
    "~^[Bb]earer {token}$" 1;
}}
"""
PATH = """\
location = /serving/{name} {{
    return 404;
}}
location ^~ /serving/{name}/ {{
    if (${variable} = 0) {{
        add_header WWW-Authenticate Bearer always;
        return 401;
    }}
    return 404;
}}
location ^~ /serving/{name}/v1/ {{
    if (${variable} = 0) {{
        add_header WWW-Authenticate Bearer always;
        return 401;
    }}
    # The model does not get the token.
    proxy_set_header Authorization "";
    proxy_set_header Host $host;
    proxy_set_header Connection "";
    proxy_connect_timeout 5s;
    proxy_read_timeout 300s;
    proxy_pass http://{address}:{port}/v1/;
}}
"""
# Who may write there may put a link to what nginx can read: none is followed. The name of what was
# asked for is a variable as well, and has to be none of `variable`'s.
FILES = """\
location ~ "^/serving/{name}/files/(?<gpu_served_file>[A-Za-z0-9._-]+\\.tflite)$" {{
    if (${variable} = 0) {{
        add_header WWW-Authenticate Bearer always;
        return 401;
    }}
    limit_except GET {{
        deny all;
    }}
    disable_symlinks on from={files};
    default_type application/octet-stream;
    alias {files}/$gpu_served_file;
}}
"""


def variable(name: str) -> str:
    """nginx's variable of a model: a name has no underscore, so no two have the same."""
    return "gpu_serving_" + name.replace("-", "_")


def texts(records: dict[str, dict[str, Any]], tokens_of: dict[str, str]) -> dict[str, str]:
    """{path: text} of both files; `records`: serving.json of each model."""
    models: dict[str, dict[str, Any]] = {}
    for name, record in records.items():
        entry = (record.get("settings") or {}).get("entry") or {}
        address = (record.get("addresses") or {}).get(record.get("slot"))
        if address:
            models[name] = {"address": address, "files": entry.get("files") or ""}
    token_of = {name: tokens_of.get(name) or "" for name in models}
    return {places.DOOR_TOKENS: tokens(token_of), places.DOOR_PATHS: paths(models)}


def tokens(tokens_of: dict[str, str]) -> str:
    """The text of the file with tokens, {name: token}."""
    return places.SHIPPED_BY + "".join(
        BEARER.format(variable=variable(name), token=re.sub(r"([.+])", r"\\\1", tokens_of[name]))
        for name in sorted(tokens_of)
    )


def paths(models: dict[str, dict[str, Any]]) -> str:
    """The text of the file with the ways to models, {name: {address, files}}."""
    text = places.SHIPPED_BY
    for name in sorted(models):
        words = {"name": name, "variable": variable(name)}
        location = PATH.format(address=models[name]["address"], port=places.REST, **words)
        if models[name]["files"]:
            # Of two that fit nginx takes the longer one's `^~` before any regular expression.
            location = location.replace(
                f"location ^~ /serving/{name}/ {{", f"location /serving/{name}/ {{"
            )
            location += FILES.format(files=models[name]["files"], **words)
        text += location
    return text
