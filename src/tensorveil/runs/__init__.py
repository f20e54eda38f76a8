"""Whole jobs: a frozen request in, a frozen result out. The command line calls them, and so can anything else.

>>> import tensorveil as tv
>>> from pathlib import Path
>>> from tempfile import TemporaryDirectory
>>> from tensorveil.runs.private import PrivateRun, release_privately
>>> from tensorveil.runs.reading import Reading
>>> with TemporaryDirectory() as place:
...     tv.synthetic_cp((30, 20, 10), 2, random_state=0).train.write(Path(place, "data.npz"))
...     run = PrivateRun(
...         reading=Reading(file=f"{place}/data.npz"),
...         estimator=tv.PrivateCP(2, epsilon=5.0, delta=0.0, unit="value", bounds=(-1, 2)),
...         output=Path(place, "release"),
...     )
...     release_privately(run).files
('MODEL_CARD.md', 'guarantee.json', 'model.npz', 'report.html')
"""
