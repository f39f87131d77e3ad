"""The command: python -m nullcuda run -- COMMAND."""

import sys

from nullcuda import command

sys.exit(command.main(sys.argv[1:]))
