"""Try to refute a privacy guarantee: by the outputs of a mechanism, by one run, by what factors give away.

    claim -> neighbours -> draws -> scores -> events -> confirmation -> verdict

A verdict is "violated" with a witness, or "no violation found" with the power it had; never "proved". Everything here
reads data without protection: what it finds is for the owner of the data and the author of the mechanism.
"""

from tensorveil.audit.blackbox import audit
from tensorveil.audit.claim import Claim
from tensorveil.audit.verdict import Verdict, Witness

__all__ = ["Claim", "Verdict", "Witness", "audit"]
