"""Write the page about clients to the file that is named."""

import sys
from pathlib import Path

from dragoman.lab.guides.page import page

Path(sys.argv[1]).write_text(page())
