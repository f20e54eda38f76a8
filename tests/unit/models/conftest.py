from __future__ import annotations

import pytest


@pytest.fixture(params=["cp", "tucker"])
def kind(request):
    return request.param
