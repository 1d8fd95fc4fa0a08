"""The proving ground: what NVIDIA's and Canonical's servers have, made here and served over TLS.

    from tests.ground import serve

    lab = locallab.up("x", locallab.Shape("ubuntu2004", driver_version="470.256.02"), state_dir=...)
    with serve(tmp_path, releases=("11.2", "11.8")) as site:
        site.ca                     # the CA's bundle, to be copied to a host (*_ca_bundle)
        site.cuda_repository()      # {url, suite, key, fingerprints}: CUDA and drivers 470, 535
        site.local_installer()      # {url, sha256, key, fingerprints, directory} of 11.2.2
        site.runfile("470")         # {url, sha256}; "535" is the next branch
        site.ubuntu()               # Canonical's archive, with the -server packages
        site.cudnn()                # {url, sha256, version, cuda} of the lab's tarball
        site.path(url)              # the path that the next ones take
        site.web.sent, site.web.bytes_sent, site.web.asked      # bytes, requests
        site.web.vanish(after=10_000_000); site.web.back()      # gone in the middle
        site.web.login_wall(path)                               # HTML in a file's place
        site.spoil("expired")       # expired-key, sha1-key, wrong-key, unsigned, damaged, none

Everything is built from Debian's packages (debian.txt pins their SHA-256) on first use, which takes
minutes, and kept in ~/.cache/provision/lab/ground under a key of its recipe; from then on
`serve` takes a second or two. The signing keys are made there too: they are not NVIDIA's, so a lock
or an option names their fingerprints. Nothing here is in the product; roles see URLs and keys.
"""

from tests.ground.site import Site, serve

__all__ = ["Site", "serve"]
