"""Evidence of a host: one signed file that says what it was on a date, for people elsewhere.

A report stays in its project, is written over by the next one, and can be edited. Evidence has the
lock, the proof, the verdict and every GPU's identity in one file, whose signature anybody with the
signer's public key can check, offline and without the project.
"""

from __future__ import annotations

from provision.evidence.collect import collect
from provision.evidence.compare import compare
from provision.evidence.document import FORMAT, Evidence, dump, file_name, parse
from provision.evidence.signing import NAMESPACE, sign, verify
from provision.evidence.words import heading, lines
from provision.signing import Signer, signature_of

__all__ = [
    "FORMAT",
    "NAMESPACE",
    "Evidence",
    "Signer",
    "collect",
    "compare",
    "dump",
    "file_name",
    "heading",
    "lines",
    "parse",
    "sign",
    "signature_of",
    "verify",
]
