"""What events cost: epsilon at a given delta and delta at a given epsilon, always rounded to the private side.

Pure events add up; Gaussian ones compose exactly as mu-GDP; zCDP adds up in rho. Pure and Gaussian events together
have an exact sum over their privacy losses. If that sum has too many terms, and for Poisson sampling, the privacy loss
distributions of dp-accounting are used; for the former there is a native bound as well.
Proofs: docs/explanation/accounting.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from importlib.util import find_spec

from tensorveil.errors import InputError
from tensorveil.privacy.events import Event
from tensorveil.privacy.exact import at_least, at_most, exactly, nonnegative, probability, root_at_least
from tensorveil.privacy.gdp import gdp_delta, gdp_epsilon, mu_of_pure
from tensorveil.privacy.profile import Profile, profile_of, worst_cases
from tensorveil.privacy.responses import mixture_delta, mixture_epsilon, response_terms
from tensorveil.privacy.zcdp import zcdp_delta, zcdp_epsilon

__all__ = ["delta_for", "epsilon_for", "mu_of", "rho_of"]

METHODS = ("best", "native")
WORTH_IT = 0.01


def epsilon_for(event: Event, delta: float, *, method: str = "best") -> float:
    """Return the epsilon that an event costs at this delta, rounded up; infinite if none is finite.

    Parameters
    ----------
    event
        What happened.
    delta
        At least 0 and below 1. Few pure events cost the same at any delta; many together cost less.
    method
        "best" uses dp-accounting, if it is installed, for Gaussian events together with very many pure ones; "native"
        never does. Poisson sampling always needs it.

    Examples
    --------
    >>> from tensorveil.privacy import Pure, Gaussian, Repeated
    >>> epsilon_for(Repeated(Pure(0.25), 4), 0.0)
    1.0
    >>> round(epsilon_for(Repeated(Gaussian(1 / 5), 100), 1e-6), 5)
    10.99715
    """
    delta = probability("delta", delta)
    _check_method(method)
    return max(_epsilon(profile_of(case), delta, method) for case in worst_cases(event))


def delta_for(event: Event, epsilon: float, *, method: str = "best") -> float:
    """Return the delta that an event costs at this epsilon, rounded up; 1 means no protection.

    Examples
    --------
    >>> from tensorveil.privacy import Pure
    >>> delta_for(Pure(1.0), 1.0)
    0.0
    """
    epsilon = nonnegative("epsilon", epsilon)
    _check_method(method)
    return max(_delta(profile_of(case), epsilon, method) for case in worst_cases(event))


def _check_method(method: str) -> None:
    if method not in METHODS:
        raise InputError(f"method must be 'best' or 'native'; got {method!r}. Try method='best'.")


def _epsilon(profile: Profile, delta: float, method: str) -> float:
    if not profile.private:
        return math.inf
    # Events that are known by (epsilon, delta) alone take their delta first; the others get what is left.
    left = exactly(delta) - profile.delta
    if left < 0:
        return math.inf
    spare = at_most(left)
    if profile.sampled:
        return _sampled_epsilon(profile, spare)
    native = _native_epsilon(profile, spare)
    if method == "best" and _needs_library(profile) and find_spec("dp_accounting"):
        from tensorveil.privacy.loss import loss_epsilon

        return min(native, at_least(profile.epsilon + _exact(loss_epsilon(profile, spare))))
    return native


def _delta(profile: Profile, epsilon: float, method: str) -> float:
    if not profile.private:
        return 1.0
    if profile.sampled:
        return _sampled_delta(profile, epsilon)
    native = _native_delta(profile, epsilon)
    if method == "best" and _needs_library(profile) and find_spec("dp_accounting"):
        from tensorveil.privacy.loss import loss_delta

        left = at_most(exactly(epsilon) - profile.epsilon)
        return min(native, _sum_of_deltas(profile, loss_delta(profile, left))) if left >= 0 else native
    return native


def _needs_library(profile: Profile) -> bool:
    """Tell whether pure and Gaussian events come together with too many losses for the exact sum."""
    return profile.rho == 0 and profile.mu_squared > 0 and bool(profile.pure) and response_terms(profile.pure) is None


def _exact(number: float) -> Fraction:
    # There is no infinite Fraction; this number stands for infinity and is converted back to it.
    return exactly(number) if math.isfinite(number) else Fraction(2) ** 2000


def _sum_of_deltas(profile: Profile, delta: float) -> float:
    return min(1.0, at_least(profile.delta + exactly(delta)))


def _native_epsilon(profile: Profile, delta: float) -> float:
    """Return the best of three valid bounds for the pure part: added to epsilon, converted to mu or rho, or summed."""
    simple = _smooth_epsilon(profile, delta, pure=False)
    total = at_least(profile.pure_epsilon + profile.epsilon + _exact(simple))
    if not profile.pure or delta == 0:
        return total
    bounds = [_smooth_epsilon(profile, delta, pure=True)]
    if profile.rho == 0 and (terms := response_terms(profile.pure)):
        most = at_least(profile.pure_epsilon + _exact(simple))
        bounds.append(mixture_epsilon(mu_of(profile, pure=False), terms, delta, most))
    best = at_least(profile.epsilon + _exact(min(bounds)))
    # Pure events are expected to add up; a tiny gain from delta is not worth numbers that are not round.
    if not profile.smooth and best > (1 - WORTH_IT) * total:
        return total
    return min(best, total)


def _native_delta(profile: Profile, epsilon: float) -> float:
    bounds = [1.0]
    left = exactly(epsilon) - profile.pure_epsilon - profile.epsilon
    own = at_most(exactly(epsilon) - profile.epsilon)  # for all events but those known by (epsilon, delta) alone
    if left >= 0:
        bounds.append(_smooth_delta(profile, at_most(left), pure=False))
    elif not profile.smooth:
        bounds.append(_response_delta(at_least(profile.pure_epsilon + profile.epsilon), epsilon))
    if profile.pure and own >= 0:
        bounds.append(_smooth_delta(profile, own, pure=True))
        if profile.rho == 0 and (terms := response_terms(profile.pure)):
            bounds.append(mixture_delta(mu_of(profile, pure=False), terms, own))
    return _sum_of_deltas(profile, min(bounds))


def _response_delta(total: float, epsilon: float) -> float:
    """Return delta of total-DP at a smaller epsilon: (e^total - e^epsilon) / (1 + e^total), randomised response."""
    return min(1.0, -math.expm1(epsilon - total) / (1 + math.exp(-total)) * (1 + 1e-15) + 1e-15)


def _smooth_epsilon(profile: Profile, delta: float, *, pure: bool) -> float:
    if profile.rho:
        return zcdp_epsilon(rho_of(profile, pure=pure), delta)
    return gdp_epsilon(mu_of(profile, pure=pure), delta)


def _smooth_delta(profile: Profile, epsilon: float, *, pure: bool) -> float:
    if profile.rho:
        return zcdp_delta(rho_of(profile, pure=pure), epsilon)
    return gdp_delta(mu_of(profile, pure=pure), epsilon)


def mu_of(profile: Profile, *, pure: bool) -> float:
    """Return mu of the Gaussian parts, with the pure ones converted to mu or left out."""
    squares = (exactly(mu_of_pure(epsilon)) ** 2 * count for epsilon, count in profile.pure.items())
    return root_at_least(profile.mu_squared + (sum(squares, Fraction(0)) if pure else 0))


def rho_of(profile: Profile, *, pure: bool) -> float:
    """Return rho of zCDP and Gaussian parts (mu-GDP is mu^2/2-zCDP), with the pure ones (epsilon^2/2) or without."""
    squares = (exactly(epsilon) ** 2 / 2 * count for epsilon, count in profile.pure.items())
    return at_least(profile.rho + profile.mu_squared / 2 + (sum(squares, Fraction(0)) if pure else 0))


def _sampled_epsilon(profile: Profile, delta: float) -> float:
    """Use privacy loss distributions; zCDP parts, which they cannot express, get half of delta for themselves."""
    from tensorveil.privacy.loss import loss_epsilon

    share = delta / 2 if profile.rho else delta
    own = zcdp_epsilon(at_least(profile.rho), share)
    total = profile.epsilon + _exact(loss_epsilon(profile, share)) + _exact(own)
    return at_least(total)


def _sampled_delta(profile: Profile, epsilon: float) -> float:
    from tensorveil.privacy.loss import loss_delta

    left = at_most(exactly(epsilon) - profile.epsilon)
    if left < 0:
        return 1.0
    share = left / 2 if profile.rho else left
    total = exactly(loss_delta(profile, share)) + exactly(zcdp_delta(at_least(profile.rho), left - share))
    return _sum_of_deltas(profile, at_least(total))
