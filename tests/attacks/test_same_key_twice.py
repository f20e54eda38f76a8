"""One client's key stands in an agreement twice, once in capitals: its noise would be counted twice."""

from pathlib import Path

import pytest

from tensorveil.errors import InputError
from tensorveil.federated.agreement import Agreement
from tensorveil.federated.trust import Trust
from tests.unit.federated.federated_cases import agreed


def test_a_key_has_one_spelling(tmp_path: Path) -> None:
    agreement, _, _ = agreed(tmp_path, Trust(kind="secure", clients=3))
    content = agreement.to_json()
    first, second, _ = content["clients"]
    with pytest.raises(InputError, match="two are the same"):
        Agreement.from_json(content | {"clients": [first, second, first.upper()]})
    with pytest.raises(InputError, match="two are the same"):
        Agreement.from_json(content | {"clients": [first, second, content["server"].upper()]})
    capitals = Agreement.from_json(content | {"clients": [key.upper() for key in content["clients"]]})
    assert capitals == agreement
    assert capitals.digest == agreement.digest
