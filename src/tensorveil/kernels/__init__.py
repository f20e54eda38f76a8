"""Compiled kernels: arrays in, arrays out.

Nothing is imported here, so that ``import tensorveil`` stays free of the compiler; import the module you need.
"""
