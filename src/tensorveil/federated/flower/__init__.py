"""Flower carries the messages: SuperLink and SuperNodes are processes of their own, and our parties are their workers.

By design a SuperNode runs the code that a server submits. A client that trusts nobody cannot allow that, so both are
started in "process" isolation, in which they run nothing: our own processes, with the code that is installed here,
fetch the messages from them and answer. What is submitted is an empty app, which is never looked at.
"""
