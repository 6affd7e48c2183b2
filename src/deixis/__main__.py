"""The command, as ``deixis`` or ``python -m deixis``."""

import sys


def main() -> None:
    """Run the command; Ctrl-C is no failure, however early it comes."""
    try:
        from deixis.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("deixis: stopped\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
