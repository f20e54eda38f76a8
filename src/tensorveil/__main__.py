"""`python -m tensorveil`: the same command, for when its script is not on the path."""

from tensorveil.cli.main import main

if __name__ == "__main__":
    main()
