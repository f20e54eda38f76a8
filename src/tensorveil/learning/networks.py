"""Networks by name and sizes, so that all parties of a run can make the same one: multilayer, MobileNet-like, BiLSTM.

They are small enough for two cores. The architectures are those of the papers: inverted residuals with depthwise
convolutions (Sandler et al. 2018), a bidirectional LSTM over word indices, fully connected layers with dropout (Yuan et
al., section 5.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from tensorveil.errors import InputError

__all__ = ["Network", "count_parameters"]


@dataclass(frozen=True, kw_only=True)
class Network:
    """The description of a network, from which anybody can make the same one: a kind and a few public sizes.

    Parameters
    ----------
    kind
        "mlp" (inputs, classes, hidden, dropout), "mobilenet" (channels, classes, width, tanh) or "bilstm" (words,
        classes, embedding, hidden, layers, dropout).
    sizes
        The numbers that this kind needs.

    >>> network = Network(kind="mlp", sizes={"inputs": 4, "classes": 2, "hidden": [3]})
    >>> sum(p.numel() for p in network.make(0).parameters())
    23
    """

    kind: str
    sizes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"kind must be one of {', '.join(KINDS)}; got {self.kind!r}.")
        object.__setattr__(self, "sizes", dict(self.sizes))

    def make(self, seed: int) -> nn.Module:
        """Make the torch network with the starting weights of a public seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            try:
                return KINDS[self.kind](**self.sizes)
            except TypeError:
                raise InputError(
                    f"sizes do not fit a network of kind {self.kind!r}. See the parameters of Network."
                ) from None

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"kind": self.kind, "sizes": dict(self.sizes)}

    @classmethod
    def from_json(cls, content: Any) -> Network:
        """Read what `to_json` wrote."""
        if not isinstance(content, dict) or set(content) != {"kind", "sizes"} or not isinstance(content["sizes"], dict):
            raise InputError("the network must have the fields kind and sizes. Was it written by Network.to_json?")
        return cls(kind=content["kind"], sizes=content["sizes"])


class _Inverted(nn.Module):
    """An inverted residual: expand, convolve every channel by itself, project, add where the shape allows it."""

    def __init__(self, inside: int, outside: int, stride: int, activation: Callable[[], nn.Module]) -> None:
        super().__init__()
        wide = 2 * inside
        self.body = nn.Sequential(
            nn.Conv2d(inside, wide, 1, bias=False),
            nn.GroupNorm(1, wide),
            activation(),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False),
            nn.GroupNorm(1, wide),
            activation(),
            nn.Conv2d(wide, outside, 1, bias=False),
            nn.GroupNorm(1, outside),
        )
        self.residual = stride == 1 and inside == outside

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.body(x)
        return x + out if self.residual else out


class MobileNet(nn.Module):
    """A small network after MobileNetV2; ``features`` returns the input of the last layer, in (-1, 1) with tanh.

    Group normalisation replaces batch normalisation, whose statistics mix records.
    """

    def __init__(self, channels: int, classes: int, width: int = 12, tanh: bool = False) -> None:
        super().__init__()
        self.channels = channels
        activation: Callable[[], nn.Module] = nn.Tanh if tanh else nn.ReLU6
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 3, 2, 1, bias=False),
            nn.GroupNorm(1, width),
            activation(),
            _Inverted(width, width, 1, activation),
            _Inverted(width, 2 * width, 2, activation),
            _Inverted(2 * width, 2 * width, 1, activation),
            nn.Conv2d(2 * width, 6 * width, 1, bias=False),
            nn.GroupNorm(1, 6 * width),
            activation(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.last = nn.Linear(24 * width, classes)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Return the input of the last layer."""
        images = x.reshape(len(x), self.channels, *x.shape[-2:])
        out: torch.Tensor = self.body(images)
        return out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.last(self.features(x))
        return out


class BiLSTM(nn.Module):
    """Word vectors, an LSTM in both directions, the mean over the words that are not padding, one layer.

    Numbers that are no words of the vocabulary count as padding.
    """

    def __init__(
        self, words: int, classes: int, embedding: int = 16, hidden: int = 24, layers: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, embedding, padding_idx=0)
        self.lstm = nn.LSTM(
            embedding, hidden, layers, batch_first=True, bidirectional=True, dropout=dropout if layers > 1 else 0.0
        )
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Linear(2 * hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        known = (x >= 0) & (x < self.embedding.num_embeddings)  # false for NaN
        words = torch.where(known, x, torch.zeros_like(x)).long()
        there = (words > 0).float().unsqueeze(-1)
        seen, _ = self.lstm(self.embedding(words))
        mean = (seen * there).sum(dim=1) / there.sum(dim=1).clamp(min=1.0)
        out: torch.Tensor = self.last(self.dropout(mean))
        return out


def _make_mlp(inputs: int, classes: int, hidden: Any = (), dropout: float = 0.0) -> nn.Module:
    sizes = [inputs, *hidden]
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], classes))


KINDS: dict[str, Callable[..., nn.Module]] = {"mlp": _make_mlp, "mobilenet": MobileNet, "bilstm": BiLSTM}


def count_parameters(network: nn.Module) -> int:
    """Return the number of parameters of a network."""
    return sum(p.numel() for p in network.parameters())
