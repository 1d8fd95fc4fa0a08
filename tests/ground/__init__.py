"""The proving ground: what NVIDIA's and Canonical's servers have, made here and served over TLS.

    from tests.ground import serve

    with serve(tmp_path) as site:              # the first time takes minutes, then a second
        site.cuda_repository()                 # the dict for cuda_repository, as a lock has it
        site.cuda_url                          # .../compute/cuda/repos/ubuntu2004/x86_64
        site.ca                                # the CA bundle, to be copied to the host
        site.web.sent, site.web.bytes_sent     # bytes by path
        site.web.vanish(after=10_000_000)      # end mid-download; site.web.back()
        site.web.login_wall("/path/x.tgz")     # HTML in its place, status 200
        site.spoil("expired")                  # or wrong-key, expired-key, unsigned, damaged, none

Hosts with Ubuntu's identity: locallab.up(..., platform="ubuntu2004"). Nothing here is in the
product; roles see URLs and keys as options.
"""

from tests.ground.site import Site, serve

__all__ = ["Site", "serve"]
