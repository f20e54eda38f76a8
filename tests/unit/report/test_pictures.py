from __future__ import annotations

import sys

import numpy as np
import pytest

from tensorveil.errors import InputError, MissingDependencyError
from tensorveil.report.pictures import Panel, save_true_against_predicted

TRUE = np.linspace(-1.0, 1.0, 50)


@pytest.mark.parametrize("predictions", [[TRUE], [np.zeros(50), TRUE + 0.1], [np.zeros(50)]])
def test_a_picture_is_drawn_for_any_number_of_panels(tmp_path, predictions):
    pytest.importorskip("matplotlib")
    panels = [Panel(name="m", predicted=p, rmse=float(np.sqrt(np.mean((p - TRUE) ** 2)))) for p in predictions]
    save_true_against_predicted(tmp_path / "p.png", TRUE, panels, title="t")
    assert (tmp_path / "p.png").stat().st_size > 5000


def test_constant_data_still_have_axes(tmp_path):
    pytest.importorskip("matplotlib")
    panel = Panel(name="m", predicted=np.ones(5), rmse=0.0)
    save_true_against_predicted(tmp_path / "p.svg", np.ones(5), [panel], title="t")
    assert (tmp_path / "p.svg").exists()


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="at least one"):
        save_true_against_predicted(tmp_path / "p.png", TRUE, [], title="t")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match="pip install"):
        save_true_against_predicted(tmp_path / "p.png", TRUE, [Panel(name="m", predicted=TRUE, rmse=0.0)], title="t")
