"""A page in the browser for private completions: one folder, one run at a time, served to this machine alone.

`server` listens on loopback, `guard` lets in who knows the address, `pages` answers, `places` names files, `asked`
turns what was typed into requests of `tensorveil.runs`, and `worker` makes a run in a process of its own.
"""
