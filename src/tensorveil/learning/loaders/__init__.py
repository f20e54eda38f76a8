"""Labelled data sets in their official formats, read from the data folder (`TENSORVEIL_DATA`); digits needs none."""

from tensorveil.learning.loaders.catalogue import Parts, load_samples, samples_home, samples_present

__all__ = ["Parts", "load_samples", "samples_home", "samples_present"]
