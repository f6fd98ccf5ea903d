"""The dashboard at `/ui`: the files of a page that reads its data from the paths below `/admin`.

Browsers run the JavaScript below `static` as it is written here: nothing is built.
"""

from typing import Final

PATH: Final = "/ui"
