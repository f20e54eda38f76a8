"""Attacks on what is printed, one file each, written as an attacker would: they all succeeded once."""
