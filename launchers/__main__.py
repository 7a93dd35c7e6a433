"""`python -m launchers` is `headtohead`."""

from launchers.cli import main

main()
