from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(params=["cp", "tucker"])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param
