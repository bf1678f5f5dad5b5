"""The command ``torch-ap``, as ``python -m torch_ap``."""

import sys

from torch_ap.cli.main import main

sys.exit(main())
