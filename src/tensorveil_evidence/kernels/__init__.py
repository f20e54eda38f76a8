"""The compiled descent of the published algorithms: arrays in, arrays out."""
