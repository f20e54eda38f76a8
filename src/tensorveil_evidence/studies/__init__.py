"""Every published figure and table by one command, with proven methods on the same axes: one file each in papers/.

Noise in studies is seeded, so that they can be repeated: what is fitted here is not private, and says so.
"""
