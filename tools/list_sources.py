"""Print the C files of the given folders, one a line, sorted; a folder that is not there has none.

Meson reads this when it configures, and the Makefile configures again whenever the set of files changes.
"""

import pathlib
import sys

for folder in sys.argv[1:]:
    for path in sorted(pathlib.Path(folder).glob("*.c")):
        print(path.as_posix())
