"""Private mechanisms, one file each: what is computed from the data, and with how much noise it is released.

Everything a mechanism returns is a function of noisy statistics and of what is public (positions in unit "value",
shape, bounds, rank, budget); solving, decoding and shrinking these statistics is post-processing and costs nothing.
"""
