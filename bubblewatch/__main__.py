"""`python -m bubblewatch` is the `bubblewatch` command."""

from bubblewatch.cli import main

if __name__ == "__main__":
    main()
