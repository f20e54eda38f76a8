"""What the papers claim of their algorithms, and what is true. The reasons are in docs/published.md.

"Refuted" here rests on the starting factors being known, as everything drawn for the start is in this program: it is
no noise. With a secret start nothing is proven either, and no finite epsilon is known.
"""

from __future__ import annotations

from tensorveil.privacy import Guarantee, NonPrivate, Part, Pure, Unit

PAGE = "docs/published.md"
SOURCE = "Wei, Li, Mao and Wang, Applying Differential Privacy to Tensor Completion"
NOISE = (
    "Noise: floating-point numbers from numpy's generator, which whoever knows the seed can draw again and whose low "
    "bits leak; the secure source is not used here, on purpose."
)


def input_claim(epsilon: float, bounds: tuple[float, float] | None, core: bool) -> Guarantee:
    """Say what holds for Algorithm 1; ``bounds`` is None where they were read off the data."""
    if bounds is None:
        truth = (
            "True: with the range read off the data, a neighbour that moves the largest or smallest value changes the "
            "scale of all noise; the ratio of two Laplace densities of unequal scale is unbounded, so no finite "
            "epsilon holds."
        )
    else:
        truth = (
            "True: epsilon-differential privacy for single values within the declared bounds, in exact arithmetic; "
            "all that follows the noise is post-processing. Not for this noise: it is drawn in floating point from a "
            "seeded generator."
        )
    return Guarantee(
        unit=Unit.value(),
        epsilon=epsilon,
        delta=0.0,
        composition=(
            Part(
                name="values",
                statistic="every observed value",
                event=NonPrivate() if bounds is None else Pure(epsilon),
            ),
        ),
        released=_list_released(core),
        status="refuted" if bounds is None else "claimed",
        proof=f"{PAGE}#input-perturbation",
        secure_noise=False,
        bounds=bounds,
        mechanism=f"input perturbation ({SOURCE}, Algorithm 1)",
        notes=("Claimed: epsilon-differential privacy (Theorem 1).", truth, NOISE),
    )


def gradient_claim(epsilon: float, core: bool, spread: bool = False) -> Guarantee:
    """Say what holds for Algorithm 2; with ``spread`` all factors and the core are noisy."""
    if spread:
        return _refute(
            epsilon=epsilon,
            core=core,
            mechanism=f"gradient perturbation of all factors ({SOURCE}, Algorithm 2, general form)",
            proof=f"{PAGE}#gradient-perturbation",
            composition=(
                Part(name="all parts", statistic="clipped gradients, noise at every step", event=NonPrivate()),
            ),
            claim="Claimed: epsilon-differential privacy, whatever the number of passes (Theorem 2).",
            truth=(
                "True: one visit of an entry costs epsilon, in equal parts, in exact arithmetic; a fit visits it once "
                "per pass, and passes compose, which the proof does not count. So passes times epsilon holds, and "
                "epsilon itself does not."
            ),
        )
    return _refute(
        epsilon=epsilon,
        core=core,
        mechanism=f"gradient perturbation ({SOURCE}, Algorithm 2)",
        proof=f"{PAGE}#gradient-perturbation",
        composition=_one_noisy_factor("clipped gradients of one factor, noise at every step", core),
        claim="Claimed: epsilon-differential privacy, whatever the number of passes (Theorem 2).",
        truth=(
            "True: no finite epsilon is known. The other factors and the core are moved by unperturbed gradients and "
            "released: the very first update is a noiseless function of a value, so for a known start the claim "
            "fails. The proof argues about a stationary point, not about what is released, and ignores that passes "
            "compose."
        ),
    )


def output_claim(epsilon: float, core: bool, spread: bool = False) -> Guarantee:
    """Say what holds for Algorithm 3; with ``spread`` all factors and the core are noisy."""
    if spread:
        return _refute(
            epsilon=epsilon,
            core=core,
            mechanism=f"output perturbation of all factors ({SOURCE}, Algorithm 3, budget divided)",
            proof=f"{PAGE}#output-perturbation",
            composition=(Part(name="all parts", statistic="rows and core, noise once", event=NonPrivate()),),
            claim="Claimed: epsilon-differential privacy with sensitivity 2 tau L eta (Theorem 3).",
            truth=(
                "True: no finite epsilon is known for a fit of several passes. Every part has noise now, but its "
                "sensitivity is that of convex, Lipschitz and smooth losses; this loss is neither convex nor "
                "Lipschitz, and where gradients are longer than L, outputs differ by more. Noise per row is not "
                "calibrated to the whole factor."
            ),
        )
    return _refute(
        epsilon=epsilon,
        core=core,
        mechanism=f"output perturbation ({SOURCE}, Algorithm 3)",
        proof=f"{PAGE}#output-perturbation",
        composition=_one_noisy_factor("rows of one factor, noise once", core),
        claim="Claimed: epsilon-differential privacy with sensitivity 2 tau L eta (Theorem 3).",
        truth=(
            "True: no finite epsilon is known. The other factors and the core are released without noise, and give a "
            "hidden value away. The sensitivity is that of convex, Lipschitz and smooth losses; this loss is neither "
            "convex nor Lipschitz. Noise per row is not calibrated to the whole factor."
        ),
    )


GUO = "Guo, A Matrix Completion Algorithm Based on Differential Privacy"


def recipe_claim(epsilon: float) -> Guarantee:
    """Say what holds for the printed recipe of noise on every observed value."""
    return _refute(
        epsilon=epsilon,
        core=False,
        mechanism=f"input perturbation ({GUO}, section 3)",
        proof=f"{PAGE}#matrix-perturbation",
        composition=(
            Part(name="values", statistic="every observed value, noise uniform times exponential", event=NonPrivate()),
        ),
        claim="Claimed: epsilon-differential privacy by Laplace noise of scale sensitivity / epsilon (eq. 9 to 15).",
        truth=(
            "True: no finite epsilon holds. The noise as printed, beta (rand - 1/2) log(1/rand) with two independent "
            "draws, is not Laplace noise: its density is E1(2|x|/beta)/beta, infinite at 0, so a perturbed value that "
            "falls on a candidate value speaks for it without bound; far from there the loss approaches twice "
            "epsilon. Its variance is a twelfth of Laplace noise's, which is why the printed errors look small."
        ),
    )


def _refute(
    *, epsilon: float, core: bool, mechanism: str, proof: str, composition: tuple[Part, ...], claim: str, truth: str
) -> Guarantee:
    return Guarantee(
        unit=Unit.value(),
        epsilon=epsilon,
        delta=0.0,
        composition=composition,
        released=_list_released(core),
        status="refuted",
        proof=proof,
        secure_noise=False,
        bounds=None,
        mechanism=mechanism,
        notes=(claim, truth, NOISE),
    )


def _one_noisy_factor(noisy: str, core: bool) -> tuple[Part, ...]:
    rest = "the other factors and the core" if core else "the other factors"
    return (
        Part(name="noisy factor", statistic=noisy, event=NonPrivate()),
        Part(name=rest, statistic="no noise of their own", event=NonPrivate()),
    )


def _list_released(core: bool) -> tuple[str, ...]:
    return ("factors", "core") if core else ("factors",)


def explain(guarantee: Guarantee) -> str:
    """Return the guarantee's sentence, the paper's claim and what is true, one per line."""
    return "\n".join((guarantee.sentence(), *guarantee.notes))
