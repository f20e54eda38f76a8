"""Where the parts of a store are worked on: one after the other here, or side by side on a Dask or Spark cluster.

    part names + public state as bytes -> task (opens parts, checks them) -> integers, which add up in any order

An engine hands out names and bytes, and takes back integers. It sees no noise, draws nothing, and knows no model; what
a task computes is a function of the part and the public state alone, so that computing it twice does no harm.
"""

from __future__ import annotations

from tensorveil.engines.engine import Engine, find_engine
from tensorveil.engines.loop import Loop

__all__ = ["Engine", "Loop", "find_engine"]
